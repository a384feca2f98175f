"""Streams: files, globs and pipes as blocks of rows.

svmlight, CSV, TSV, JSON lines, Parquet, Arrow, Feather and npz; plain or compressed with gzip, bz2, xz or zstd.
"""

from bomkl._support.stream_options import StreamOptions
from bomkl.streams.errors import BadLineError, StreamError
from bomkl.streams.formats.registry import FORMATS, Format, register_format
from bomkl.streams.parts import Block
from bomkl.streams.schema import Column, Schema
from bomkl.streams.stream import Stream, open_stream

__all__ = [
    "FORMATS",
    "BadLineError",
    "Block",
    "Column",
    "Format",
    "Schema",
    "Stream",
    "StreamError",
    "StreamOptions",
    "open_stream",
    "register_format",
]

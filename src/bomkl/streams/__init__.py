"""Streams: files, globs and pipes as blocks of rows.

svmlight, CSV, TSV, JSON lines, Parquet, Arrow, Feather and npz; plain or compressed with gzip, bz2 or zstd.
"""

from bomkl.streams.errors import BadLineError, StreamError
from bomkl.streams.options import FORMATS
from bomkl.streams.schema import Column, Schema
from bomkl.streams.stream import Block, Stream, open_stream

__all__ = ["FORMATS", "BadLineError", "Block", "Column", "Schema", "Stream", "StreamError", "open_stream"]

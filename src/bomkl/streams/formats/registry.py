"""Formats: how each is told from the others, and which reader reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from bomkl._support.stream_options import StreamOptions
from bomkl._support.validation import check_choice
from bomkl.streams.formats.arrow import read_arrow, read_parquet
from bomkl.streams.formats.delimited import read_delimited
from bomkl.streams.formats.jsonlines import read_jsonl
from bomkl.streams.formats.npz import read_npz
from bomkl.streams.formats.svmlight import read_svmlight
from bomkl.streams.parts import Part
from bomkl.streams.reading import Reading
from bomkl.streams.sources import MAGIC_NUMBERS

_PAIR = re.compile(rb"(?:qid|\d+):(?:[-+.\d][-+.\deE]*|[-+]?(?:nan|inf))", re.IGNORECASE)
_DATE = re.compile(rb"\d+[-/.]\d+[-/.]\d")
Reader = Callable[[BinaryIO, Reading], Iterator[Part]]


@dataclass(frozen=True)
class Format:
    """A file format.

    Parameters
    ----------
    read : callable
        Takes an open file and a `Reading`, and yields parts: a `Table` where columns have names, else a `Matrix`.
    extensions : tuple of str, default=()
        Ends of file names, such as ``".csv"``.
    magic : tuple of bytes, default=()
        What files of a binary format begin with.
    """

    read: Reader
    extensions: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()


FORMATS: dict[str, Format] = {}


def register_format(name: str, format: Format) -> None:
    """Make a format known to `open_stream` and to every command.

    Parameters
    ----------
    name : str
        Its name.
    format : Format
        How to recognise and how to read it.
    """
    FORMATS[name] = format
    MAGIC_NUMBERS.update(dict.fromkeys(format.magic, name))


register_format("svmlight", Format(read_svmlight, (".svm", ".libsvm", ".svmlight")))
register_format("csv", Format(read_delimited, (".csv",)))
register_format("tsv", Format(read_delimited, (".tsv",)))
register_format("jsonl", Format(read_jsonl, (".jsonl", ".ndjson")))
register_format("parquet", Format(read_parquet, (".parquet",), (b"PAR1",)))
register_format("arrow", Format(read_arrow, (".arrow", ".feather"), (b"ARROW1", b"\xff\xff\xff\xff")))
register_format("npz", Format(read_npz, (".npz",), (b"PK\x03\x04",)))


def checked_options(**settings: Any) -> StreamOptions:
    """Make options of settings, and refuse a format that is not known."""
    options = StreamOptions(**settings)
    if options.format is not None:
        check_choice("open_stream", "format", options.format, tuple(FORMATS))
    return options


def format_of(path: str, head: bytes) -> str:
    """Tell the format of a file by its name, or failing that by its first bytes.

    Examples
    --------
    >>> format_of("rows.csv.gz", b""), format_of("a9a.t", b"-1 3:1 11:1"), format_of("-", b'{"x": 1}')
    ('csv', 'svmlight', 'jsonl')
    """
    name = re.sub(r"\.(gz|bz2|xz|zst|zstd)$", "", path.lower())
    extension = os.path.splitext(name)[1]
    for known, format in FORMATS.items():
        if extension in format.extensions:
            return known
    for magic, known in MAGIC_NUMBERS.items():
        if head.startswith(magic):
            return known
    if re.match(rb"\s*(\{|\[\s*\{)", head):  # an array of objects is refused there, with advice
        return "jsonl"
    lines = [line for line in (each.split(b"#")[0] for each in head.splitlines()[:10]) if line.strip()]
    if lines:
        cut = not head.endswith(b"\n")
        first, *others = (_is_svmlight(line, cut and line is lines[-1]) for line in lines)
        if first or (any(others) and not re.search(rb"[,;\t]", lines[0])):
            return "svmlight"
    return "tsv" if lines and b"\t" in lines[0] and b"," not in lines[0] else "csv"


def _is_svmlight(line: bytes, cut: bool) -> bool:
    """Tell whether a line is a label, which may be left out, and pairs; a date and a time of day are not.

    The last pair of a line that was cut off may be anything.
    """
    label, *pairs = line.split()
    if cut and pairs and not _PAIR.fullmatch(pairs[-1]):
        del pairs[-1]
    if not _PAIR.fullmatch(label) and (not pairs or b"," in label or _DATE.match(label)):
        return False
    return all(map(_PAIR.fullmatch, pairs))

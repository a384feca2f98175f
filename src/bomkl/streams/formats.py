"""Formats: how each is told from the others, and which reader reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from bomkl.streams.arrow import read_arrow, read_parquet
from bomkl.streams.delimited import read_delimited
from bomkl.streams.jsonlines import read_jsonl
from bomkl.streams.npz import read_npz
from bomkl.streams.parts import Part
from bomkl.streams.reading import Reading
from bomkl.streams.sources import BINARY_FORMATS
from bomkl.streams.svmlight import read_svmlight

READERS: dict[str, Callable[[BinaryIO, Reading], Iterator[Part]]] = {
    "svmlight": read_svmlight,
    "csv": read_delimited,
    "tsv": read_delimited,
    "jsonl": read_jsonl,
    "arrow": read_arrow,
    "parquet": read_parquet,
    "npz": read_npz,
}
_EXTENSIONS = {
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npz": "npz",
}


def format_of(path: str, head: bytes) -> str:
    """Tell the format of a file by its name, or failing that by its first bytes.

    Examples
    --------
    >>> format_of("rows.csv.gz", b""), format_of("a9a.t", b"-1 3:1 11:1"), format_of("-", b'{"x": 1}')
    ('csv', 'svmlight', 'jsonl')
    """
    name = re.sub(r"\.(gz|bz2|xz|zst|zstd)$", "", path.lower())
    known = _EXTENSIONS.get(os.path.splitext(name)[1])
    if known is not None:
        return known
    for magic, format in BINARY_FORMATS.items():
        if head.startswith(magic):
            return format
    if head.lstrip().startswith(b"{"):
        return "jsonl"
    lines = head.splitlines()[:10]
    if any(re.search(rb"(^|\s)(qid|\d+):[-+.\d]", line.split(b"#")[0]) for line in lines):
        return "svmlight"
    return "tsv" if lines and b"\t" in lines[0] and b"," not in lines[0] else "csv"

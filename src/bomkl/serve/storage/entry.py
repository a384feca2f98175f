"""An entry of the log, its place, and the checksums by which damage is noticed."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any

_LINK_BYTES, _ROW_BYTES = 16, 8
ROOT = bytes(_LINK_BYTES)


@dataclass(frozen=True)
class Place:
    """A place in the log: just after an entry."""

    seq: int = 0  # number of the entry
    rows: int = 0  # rows in the log up to there
    digest: bytes = ROOT  # checksum of the entry, and through it of all entries before


@dataclass(frozen=True)
class Entry:
    """Rows that came in one request."""

    seq: int
    last_row: int
    rows: list[list[Any]]
    labels: list[Any]
    digest: bytes = ROOT


def link(before: bytes, seq: Any, last_row: Any, at: Any, body: Any) -> bytes:
    """Checksum of an entry and of all before it; b"" if the values are not of the types of an entry."""
    try:
        return hashlib.blake2b(before + struct.pack("<qqd", seq, last_row, at) + body, digest_size=_LINK_BYTES).digest()
    except (struct.error, TypeError):
        return b""


def row_checksum(*values: Any) -> bytes:
    """Checksum of a row of a table.

    Examples
    --------
    >>> row_checksum("columns", "{}").hex()
    'b73cadbd472cf571'
    """
    return hashlib.blake2b(json.dumps(values, default=repr).encode(), digest_size=_ROW_BYTES).digest()


def parse_body(body: bytes, before: int, last_row: int) -> tuple[list[list[Any]], list[Any]]:
    """Read the rows and labels of an entry; `before` rows are in the log before it.

    Examples
    --------
    >>> parse_body(b'[[[1.5], [2.5]], ["a"]]', 7, 9)
    Traceback (most recent call last):
    ...
    ValueError: it has 2 rows and 1 labels, but its place in the log is from row 8 to row 9
    """
    content = json.loads(body)
    if type(content) is not list or [type(part) for part in content] != [list, list]:
        raise ValueError("it is not a list of rows and a list of labels")
    rows, labels = content
    if not 0 < len(rows) == len(labels) == last_row - before:
        raise ValueError(
            f"it has {len(rows)} rows and {len(labels)} labels, but its place in the log is from row {before + 1} to "
            f"row {last_row}"
        )
    if not all(type(row) is list and len(row) == len(rows[0]) for row in rows):
        raise ValueError("its rows have different lengths")
    return rows, labels


def byte_place(path: str, needle: Any) -> str:
    """Tell where bytes are in a log or in its write-ahead log; "" if they are in neither."""
    for name in (f"{path}-wal", path):
        if type(needle) is bytes and needle and os.path.exists(name) and os.path.getsize(name):
            with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if (at := content.rfind(needle)) >= 0:
                    return f" ({os.path.basename(name)}, byte {at})"
    return ""

"""The results file: one JSON object a line, appended whole or not at all, never rewritten.

A process that is killed can leave at most one incomplete line, the last. Reading skips such a line and reports it; the
next append starts on a fresh line, so nothing that was written is ever overwritten.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bomkl._support.files import try_lock
from bomkl_lab.experiments.protocol import Cell

Row = dict[str, Any]

# What a rerun of the same cell must reproduce; times, memory and machine are free to differ.
REPRODUCIBLE_FIELDS = (
    "cell",
    "status",
    "error",
    "rows",
    "columns",
    "mistakes",
    "support",
    "support_per_kernel",
    "weights",
)


class ResultsBusyError(RuntimeError):
    """Another process is appending to the same results file."""


@dataclass(frozen=True)
class Results:
    """Rows of a results file, and what was wrong with it.

    Attributes
    ----------
    rows : dict
        The last row of each cell, by the cell's key.
    problems : list of str
        Lines that could not be used, with their numbers.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def finished(self) -> list[Row]:
        """Return the rows that are not failures."""
        return [row for row in self.rows.values() if row["status"] == "ok"]


def read_results(path: Path) -> Results:
    """Read a results file (plain or .gz); lines that are torn or foreign are reported, not fatal.

    Parameters
    ----------
    path : Path
        The file; one that does not exist holds no rows.

    Returns
    -------
    Results
        Rows by cell, and the problems found.
    """
    results = Results()
    if not path.exists():
        return results
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            key = Cell.from_dict(row["cell"]).key()
            if row["status"] not in ("ok", "failed"):
                raise ValueError(f"status {row['status']!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            torn = number == len(lines)
            what = (
                "incomplete, as a killed run leaves it" if torn else f"not a result ({type(error).__name__}: {error})"
            )
            results.problems.append(f"{path}, line {number}: {what}; it is skipped and its cell counts as missing.")
            continue
        results.rows[key] = row
    return results


class Appender:
    """Appends rows to a results file, one write and one fsync each; make it with `open_for_append`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row. It is on disk when this returns."""
        line = json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n"
        self._write(line.encode())

    def _write(self, data: bytes) -> None:
        written = os.write(self._descriptor, data)
        while written < len(data):  # a full disk raises here, and leaves a torn line that reading will report
            written += os.write(self._descriptor, data[written:])
        os.fsync(self._descriptor)


@contextmanager
def open_for_append(path: Path) -> Iterator[Appender]:
    """Open a results file for this process alone, on a fresh line.

    Parameters
    ----------
    path : Path
        The file; it and its folder are made if missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if try_lock(descriptor) is False:
            raise ResultsBusyError(f"{path} is in use by another run; give this one its own --out folder.")
        appender = Appender(descriptor)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            appender._write(b"\n")
        yield appender
    finally:
        os.close(descriptor)


def reproducible_part(row: Mapping[str, Any]) -> Row:
    """Return the fields of a row that any rerun of its cell must give again."""
    return {name: row[name] for name in REPRODUCIBLE_FIELDS if name in row}

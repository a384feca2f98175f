"""Fingerprints of the rows a run has learned from, which tell whether it meets the same rows when it is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from bomkl._support.checksums import checksum
from bomkl.streams import Block

_FIRST_ROWS = 32  # how many rows of a run have a mark of their own


class Fingerprint:
    """Checksums of the columns, labels and weights of rows; how the rows are split into blocks changes nothing.

    `sums`: what `to_dict` gave; None: of no rows.
    """

    def __init__(self, sums: Mapping[str, int] | None = None) -> None:
        self._sums = dict(sums or {})

    def add(self, block: Block) -> None:
        for name, values in _series(block):
            if name.startswith("column ") and name not in self._sums:  # a column begins with its first value
                first = next((row for row, cell in enumerate(values) if not _is_missing(cell)), len(values))
                if first == len(values):
                    continue
                values = values[first:]
            self._sums[name] = checksum(values, self._sums.get(name, 0))

    def to_dict(self) -> dict[str, int]:
        return dict(self._sums)


class FirstRows:
    """Checksums of the first rows of a run, one for each row; cells without a value do not count.

    `marks`: what `to_list` gave.
    """

    def __init__(self, marks: Iterable[int] = ()) -> None:
        self._marks = list(marks)

    def add(self, block: Block, row: int) -> None:
        """Take in rows, if they are among the first.

        `row`: how many rows the run had before them.
        """
        if row == 0:
            self._marks = []
        if row == len(self._marks):  # otherwise some rows before them are not known
            self._marks += _row_marks(block, _FIRST_ROWS - row)

    def has_none_of(self, block: Block) -> bool:
        """Tell whether no row that a block begins with is among the first rows, as far as these are known."""
        return bool(self._marks) and set(self._marks).isdisjoint(_row_marks(block, _FIRST_ROWS))

    def to_list(self) -> list[int]:
        return self._marks


def _row_marks(block: Block, most: int) -> list[int]:
    marks = []
    for i in range(min(most, block.n_rows)):
        mark = 0
        for name, values in _series(block.between(i, i + 1)):
            if not (name.startswith("column ") and _is_missing(values[0])):
                mark = checksum(values, crc32(name.encode("utf-8", "surrogatepass"), mark))
        marks.append(mark)
    return marks


def _is_missing(cell: Any) -> bool:
    return cell is None or bool(cell != cell)  # NaN and NaT differ from themselves


def _series(block: Block) -> Iterator[tuple[str, Any]]:
    X: Any = block.X
    if isinstance(X, dict):
        yield from ((f"column {name}", cells) for name, cells in X.items())
    elif bool(sparse.issparse(X)):
        yield from (("data", X.data), ("indices", X.indices.astype(np.int64)), ("lengths", np.diff(X.indptr)))
    else:
        yield "X", X
    if block.y is not None:
        yield "y", block.y
    if block.weight is not None:
        yield "weight", block.weight

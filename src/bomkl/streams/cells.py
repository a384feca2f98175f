"""Cells of files: which of them hold no value, and the numbers of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.streams.errors import KeptRows
from bomkl.tables.cells import number

MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
Cells = list[Any] | NDArray[Any]
Lines = Sequence[int] | NDArray[np.int64]


def is_missing(cell: Any) -> bool:
    """Tell whether a cell of a table holds no value.

    Examples
    --------
    >>> is_missing("NA"), is_missing(None), is_missing(float("nan")), is_missing("0")
    (True, True, True, False)
    """
    return cell is None or cell != cell or (isinstance(cell, str) and cell.strip() in MISSING)


def to_number(cell: Any) -> float:
    """Read the number of a cell; NaN if the cell is missing, ValueError if it is no number."""
    if is_missing(cell):
        return float("nan")
    try:
        return number(cell)
    except OverflowError:
        return float("inf")


def plain_numbers(cells: Cells) -> NDArray[np.float64] | None:
    """Numbers of many cells at once, or None if some of them need a closer look."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "O":
        cells = cells.tolist()
    try:
        if isinstance(cells, list) and "_" in "".join(cells):
            return None
    except TypeError:  # not all of them strings
        if any(isinstance(cell, str) for cell in cells):
            return None
    try:
        return np.array(cells, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None


def read_numbers(cells: Cells, column: str | None, reason: str, rows: KeptRows) -> NDArray[np.float64]:
    """Read the number of each cell, NaN where it is missing; what is no number is refused, and NaN as well."""
    numbers = plain_numbers(cells)
    if numbers is not None:
        return numbers
    y = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            y[row] = to_number(cell)
        except (ValueError, TypeError):
            rows.refuse(row, reason, column, cells)
    return y

"""Cells of files, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.streams.errors import KeptRows
from bomkl.tables.numbers import number, plain_numbers

Cells = list[Any] | NDArray[Any]
Lines = Sequence[int] | NDArray[np.int64]


def to_number(cell: Any) -> float:
    """Read the number of a cell; NaN if the cell is missing, ValueError if it is no number."""
    try:
        return number(cell)
    except OverflowError:
        return float("inf")


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

"""Rows of a table as models take them: their numbers, and their cells for models that hash them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import Cells

Float = NDArray[np.float64]
Hashable = tuple[int, Any]  # what the cells of a column are, as the core knows it, and the cells
_NUMBERS: dict[Any, int] = {"category": 1, "number": 2, "boolean": 2, "date": 3}


@dataclass(frozen=True)
class EncodedRows:
    numbers: Float  # (n_rows, n_features_out_): the rows as `TableEncoder` encodes them
    cells: list[Hashable]  # the cells of each column that has a part in them, from `hashable`

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def __getitem__(self, rows: slice) -> EncodedRows:
        cells = [(kind, None if values is None else values[rows]) for kind, values in self.cells]
        return EncodedRows(self.numbers[rows], cells)

    def first_gap(self, learned: NDArray[np.bool_]) -> int | None:
        """Find the first row to learn from that misses a number; None where there is none."""
        gaps = np.zeros(len(learned), dtype=bool)
        for _, values in self.cells:
            texts = isinstance(values, list)  # of a column that had no value when the model began
            gaps |= values is None or ([each is None for each in values] if texts else np.isnan(values))
        found = np.flatnonzero(gaps & learned)
        return int(found[0]) if len(found) else None


def hashable(cells: Cells | None) -> Hashable:
    """Give parsed cells as the core hashes them: texts, numbers or days; None for a column without a value yet."""
    return (0, None) if cells is None else (_NUMBERS[cells.kind], cells.values)


def with_cells(rows: Float) -> EncodedRows:
    """Give rows of numbers that are all there with their cells."""
    return EncodedRows(rows, [(2, column) for column in np.ascontiguousarray(rows.T)])


def numbers_of(rows: Any) -> Any:
    """Give the numbers of rows of a table; rows of a matrix stay what they are."""
    return rows.numbers if isinstance(rows, EncodedRows) else rows

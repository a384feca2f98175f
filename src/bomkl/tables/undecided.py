"""A column of gaps, whose kind only its first value will tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import is_gap, kind_of_cells
from bomkl.tables.columns import Change, Column
from bomkl.tables.frames import Cells
from bomkl.tables.targets import Targets
from bomkl.tables.values import Float, Values


@dataclass(frozen=True)
class Undecided:
    """A column that had no value yet and no kind: rows before its first value have zeros in its place.

    Parameters
    ----------
    name : str or int
        Its name.
    at, width : int
        Its first column of numbers, and how many it has.
    n_targets, max_values : int
        For the column that it becomes.
    """

    name: Any
    at: int
    width: int
    n_targets: int
    max_values: int

    def feature_names(self) -> list[str]:
        """Name its columns of numbers."""
        return [f"{self.name}_{at}" for at in range(self.width)]

    def decided(self, kind: Any) -> Column:
        """Make a column of a kind in this place."""
        values = Values(self.n_targets, kind == "category", self.max_values)
        return Column(self.name, kind, self.at, self.width, values)

    def encode(
        self, cells: Cells, learned: NDArray[np.bool_], targets: Targets, out: Float
    ) -> tuple[Column | Undecided, Change | None]:
        """Write a block to `out` (its columns only); give the column that it becomes, and what the block does to it."""
        first = next((row for row in np.flatnonzero(learned).tolist() if not is_gap(cells.values[row])), len(learned))
        self._encode_apart(cells, first, targets, out)
        if first == len(learned):
            return self, None
        rest = cells.after(first) if first else cells
        column = self.decided(cells.kind or kind_of_cells(rest.values, self.name))
        change = column.encode(rest, learned[first:], targets.of(slice(first, None)), out[first:])
        if first:
            change.codes = np.concatenate([np.full(first, -1), change.codes])
            change.tally.claims = [(row + first, code) for row, code in change.tally.claims]
        return column, change

    def _encode_apart(self, cells: Cells, end: int, targets: Targets, out: Float) -> None:
        """Encode rows that are not learned and come before the first learned value, as if each were that value."""
        rows = [row for row in range(end) if not is_gap(cells.values[row])]
        if not rows:
            return
        if isinstance(cells.values, list):
            part = Cells([cells.values[row] for row in rows], cells.kind)
        else:
            part = Cells(cells.values[rows], cells.kind)
        encoded = np.zeros((len(rows), self.width))
        column = self.decided(cells.kind or kind_of_cells(part.values, self.name))
        column.encode(part, np.zeros(len(rows), dtype=bool), targets.of(rows), encoded)
        out[rows] = encoded

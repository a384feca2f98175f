"""A column of a table without columns of numbers that are in use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import Kind, is_gap
from bomkl.tables.columns.column import Change, Column
from bomkl.tables.columns.targets import Targets
from bomkl.tables.frames import Cells
from bomkl.tables.notices import Notices
from bomkl.tables.parsing import first_value, kind_of_first, parsed
from bomkl.tables.values import Float, Values


@dataclass(frozen=True)
class Undecided:
    """A column that had no value yet and no kind, or one that waits for columns of numbers.

    In an encoder that does not grow, it has columns of numbers that are enough for any kind; rows before its first
    value have zeros there. In one that grows it has none, and waits for them from its first value on.

    Parameters
    ----------
    name : str or int
        Its name.
    at, width : int
        Its first column of numbers, and how many it has.
    n_targets, max_values : int
        For the column that it becomes.
    kind : {"number", "boolean", "category", "date"} or None, default=None
        What it holds, of a column that waits; None before its first value.
    birth : int, default=0
        Rows learned before its first value.
    """

    name: Any
    at: int
    width: int
    n_targets: int
    max_values: int
    kind: Kind | None = None
    birth: int = 0

    def feature_names(self) -> list[str]:
        """Name its columns of numbers."""
        return [f"{self.name}_{at}" for at in range(self.width)]

    def decided(self, kind: Any, start: float = 0.0) -> Column:
        """Make a column of a kind in this place."""
        values = Values(self.n_targets, kind == "category", self.max_values)
        return Column(self.name, kind, self.at, self.width, values, start=start)

    def begun(self, cells: Cells, rows: NDArray[np.intp], n_rows: int, declared: Kind | None) -> Undecided:
        """Give what a column that waits is after rows to learn from: it begins with its first value."""
        if self.kind is not None or (first := first_value(cells, rows)) is None:
            return self
        birth = n_rows + int(np.searchsorted(rows, first))
        return replace(self, kind=declared or kind_of_first(self.name, cells, first), birth=birth)

    def encode(
        self, cells: Cells, learned: NDArray[np.bool_], targets: Targets, out: Float, notices: Notices
    ) -> tuple[Column | Undecided, Change | None]:
        """Write a block to `out` (its columns only); give the column that it becomes, and what the block does to it."""
        first = first_value(cells, np.flatnonzero(learned))
        first = len(learned) if first is None else first
        self._encode_apart(cells, first, targets, out, notices)
        if first == len(learned):
            return self, None
        rest = cells.after(first) if first else cells
        column = self.decided(kind_of_first(self.name, rest, 0))
        typed = parsed(self.name, column.kind, rest, notices)
        change = column.encode(typed, learned[first:], targets.of(slice(first, None)), out[first:])
        if first:
            change.codes = np.concatenate([np.full(first, -1), change.codes])
            change.tally.claims = [(row + first, code) for row, code in change.tally.claims]
        return column, change

    def _encode_apart(self, cells: Cells, end: int, targets: Targets, out: Float, notices: Notices) -> None:
        """Encode rows that are not learned and come before the first learned value, as if each were that value."""
        rows = [row for row in range(end) if not is_gap(cells.values[row])]
        if not rows:
            return
        if isinstance(cells.values, list):
            part = Cells([cells.values[row] for row in rows], cells.kind)
        else:
            part = Cells(cells.values[rows], cells.kind)
        encoded = np.zeros((len(rows), self.width))
        column = self.decided(kind_of_first(self.name, part, 0))
        typed = parsed(self.name, column.kind, part, notices)
        column.encode(typed, np.zeros(len(rows), dtype=bool), targets.of(rows), encoded)
        out[rows] = encoded

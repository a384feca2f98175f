"""The first rows of an encoder that grows: columns that come later are taken in by learning from these rows anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import LARGEST
from bomkl.tables.cells import KINDS, Cells
from bomkl.tables.errors import TableError
from bomkl.tables.frames import Table, cells_of, stacked

Float = NDArray[np.float64]
FIRST_STAGE = 8  # rows after which columns are taken in first; then after twice as many, and so on
OLDEST = 0.75  # share of the rows before which a column must have begun to be taken in: later ones say too little


def next_stage(rows: int, most: int) -> int:
    """Row count at which columns that have begun are taken in next, where `most` rows are kept.

    Examples
    --------
    >>> [next_stage(rows, 100) for rows in (0, 8, 63, 64, 99, 100)]
    [8, 16, 64, 100, 100, 200]
    """
    stage = FIRST_STAGE
    while stage <= rows:
        stage *= 2
    return min(stage, most) if rows < most else 2 * most


@dataclass(frozen=True)
class Room:
    """How an encoder takes columns that it has not met."""

    rows: int = 0  # rows to learn from that may still bring the first value of a column
    new: bool = False  # whether columns may have names that it has not met
    weight: Float | None = None  # weights of the rows, which are kept with them


@dataclass(frozen=True)
class EarlyRows:
    """Rows as what their columns hold, with targets and weights, in the parts that they came in."""

    tables: tuple[Table, ...] = ()  # the rows
    y: tuple[NDArray[Any], ...] = ()  # their targets, as the learner takes them, and their weights
    weight: tuple[Float, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.y))

    def plus(self, table: Table, y: Any, weight: Float) -> Self:
        """Give these rows and more."""
        if not table.n_rows:
            return self
        return type(self)((*self.tables, table), (*self.y, np.array(y)), (*self.weight, np.array(weight)))

    def cells(self, name: Any) -> Cells:
        return stacked([Table({name: cells_of(each, name)}, each.n_rows) for each in self.tables]).columns[name]

    def arrays(self) -> tuple[Table, NDArray[Any], Float]:
        """Give the table, the targets and the weights; there must be rows."""
        return stacked(self.tables), np.concatenate(self.y), np.concatenate(self.weight)

    def state(self) -> dict[str, Any] | None:
        """Everything it is, as plain values and arrays; None without rows."""
        if not self.tables:
            return None
        table, y, weight = self.arrays()
        return {
            "columns": [
                {"name": name, "kind": cells.kind, **_cells_state(cells)} for name, cells in table.columns.items()
            ],
            "y": y,
            "weight": weight,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any] | None, rows: int) -> Self:
        if state is None:
            return cls()
        y, weight = np.array(state["y"]), np.array(state["weight"], dtype=np.float64)
        if y.shape != (rows,) or y.dtype.kind not in "if" or weight.shape != (rows,) or not (weight > 0).all():
            raise TableError("the first rows of an encoder do not fit together")
        if not np.isfinite(y).all() or not np.isfinite(weight).all():
            raise TableError("the targets of the first rows of an encoder must be finite")
        columns = {each["name"]: _cells_from_state(each, rows) for each in state["columns"]}
        return cls((Table(columns, rows, True),), (y,), (weight,))


def _cells_state(cells: Cells) -> dict[str, Any]:
    if cells.kind in (None, "category"):
        return {"values": list(cells.values), "missing": None}
    missing = np.isnan(cells.values)
    return {"values": np.where(missing, 0.0, cells.values), "missing": missing}


def _cells_from_state(state: dict[str, Any], rows: int) -> Cells:
    kind, values = state["kind"], state["values"]
    if kind not in (None, *KINDS) or len(values) != rows:
        raise TableError("a column of the first rows of an encoder does not fit")
    if kind in (None, "category"):
        cells: Sequence[Any] = list(values)
        types = (str, float, bool) if kind is None else str
        if not all(each is None or isinstance(each, types) for each in cells):
            raise TableError("categories of the first rows of an encoder must be texts")
        if not all(abs(each) <= LARGEST for each in cells if isinstance(each, float)):
            raise TableError("numbers of the first rows of an encoder are out of range")
        return Cells(cells, kind)
    numbers, missing = np.array(values, dtype=np.float64), np.array(state["missing"], dtype=bool)
    if numbers.shape != missing.shape or not (np.abs(numbers) <= LARGEST).all():
        raise TableError("numbers of the first rows of an encoder are out of range")
    return Cells(np.where(missing, np.nan, numbers), kind)

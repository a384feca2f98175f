"""All that an encoder has learned, and what it makes of a block of rows.

Nothing is changed in place: learning from a block makes another `Learned`, so that readers and errors see the one of
before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import Kind, is_gap
from bomkl.tables.columns import MOST_DAYS, Change, Column, column_width, first_kind
from bomkl.tables.errors import TableError
from bomkl.tables.filling import WIDEST, Filling, Layout
from bomkl.tables.frames import Cells, Table
from bomkl.tables.one_hot import Claim, OneHot, places_for
from bomkl.tables.targets import TARGETS, ReadTargets, TargetSums
from bomkl.tables.undecided import Undecided
from bomkl.tables.values import GAP, Float, Values

STATE_VERSION = 3  # 1 filled gaps from other columns only, 2 counted days from 1970; no release wrote them


@dataclass(frozen=True)
class Update:
    """What learning from a block changes; worked out only where it is learned from."""

    before: Learned
    columns: list[Column | Undecided]
    changes: list[Change | None]
    claims: list[Claim]
    filling: Filling
    labels: list[Any]
    targets_seen: TargetSums
    n_rows: int

    def learned(self) -> Learned:
        """Give what is known after the block."""
        places: list[dict[int, int]] = [{} for _ in self.columns]
        for claim in self.claims:
            places[claim.column][claim.code] = claim.place
        return Learned(
            [
                column.after(change, given) if isinstance(column, Column) and change is not None else column
                for column, change, given in zip(self.columns, self.changes, places, strict=True)
            ],
            replace(self.before.one_hot, used=self.before.one_hot.used + len(self.claims)),
            self.filling,
            self.before.labels + self.labels,
            self.targets_seen,
            self.before.n_rows + self.n_rows,
        )


@dataclass(frozen=True)
class Learned:
    """What an encoder knows.

    Parameters
    ----------
    columns : list of Column or Undecided
        Columns of the table.
    one_hot : OneHot
        Columns of zeros and ones.
    filling : Filling
        How gaps are filled.
    labels : list
        Labels in the order in which they came.
    targets_seen : TargetSums
        Sums over all targets.
    n_rows : int
        Rows learned.
    """

    columns: list[Column | Undecided]
    one_hot: OneHot
    filling: Filling
    labels: list[Any]
    targets_seen: TargetSums
    n_rows: int

    @classmethod
    def begin(cls, table: Table, types: dict[Any, Kind], target: str | None, one_hot: int, max_values: int) -> Self:
        """Lay the columns out by the first row of a table, without learning from it."""
        if not table.n_rows:
            raise TableError("The first table must have a row.")
        if unknown := [name for name in types if name not in table.columns]:
            raise TableError(f"The column {unknown[0]!r} has a type but is not in the table: {list(table.columns)}.")
        if not table.columns:
            raise TableError("A table must have at least one column.")
        columns: list[Column | Undecided] = []
        at, kinds, plain = 0, [], True
        for name, cells in table.columns.items():
            kind = first_kind(name, cells, types.get(name))
            undecided = Undecided(name, at, column_width(kind, TARGETS[target]), TARGETS[target], max_values)
            columns.append(undecided.decided(kind) if kind else undecided)
            at += undecided.width
            kinds.append(kind)
            plain = plain and kind in ("number", "boolean") and not is_gap(cells.values[0])
        places = 0 if plain else min(places_for(kinds), one_hot)  # plain numbers stay what they are
        nothing = np.zeros(TARGETS[target])
        return cls(columns, OneHot(at, places), Filling(), [], TargetSums(0, 0.0, nothing, nothing), 0)

    @property
    def width(self) -> int:
        """Columns of numbers."""
        return self.one_hot.at + self.one_hot.size

    def features(self) -> list[tuple[Any, str]]:
        """Column of the table and name of each column of numbers."""
        own = [(column.name, name) for column in self.columns for name in column.feature_names()]
        return own + self.one_hot.names(self.columns)

    def encode(self, table: Table, learned: NDArray[np.bool_], read: ReadTargets) -> tuple[Float, Update]:
        """Encode rows, each as of just before it is learned from, and tell what learning from some of them changes."""
        out = np.zeros((table.n_rows, self.width))
        targets, targets_seen = self.targets_seen.over(read.places, read.amounts, learned)
        columns: list[Column | Undecided] = []
        changes: list[Change | None] = []
        for before, cells in zip(self.columns, self.cells(table), strict=True):
            part = out[:, before.at : before.at + before.width]
            column: Column | Undecided = before
            if isinstance(before, Undecided):
                column, change = before.encode(cells, learned, targets, part)
            else:
                change = before.encode(cells, learned, targets, part)
            columns.append(column)
            changes.append(change)
        claims = self.one_hot.write(out, columns, changes)
        filling = self._fill(out, columns, changes, claims, learned)
        n_rows = int(learned.sum())
        return out, Update(self, columns, changes, claims, filling, read.new_labels, targets_seen, n_rows)

    def cells(self, table: Table) -> list[Cells]:
        """Cells of each column, in the order of the first table."""
        names = [column.name for column in self.columns]
        known = set(names)
        if unknown := [name for name in table.columns if name not in known]:
            raise TableError(f"The column {unknown[0]!r} was not there before. The columns are {names}.")
        if not table.sparse and (absent := [name for name in names if name not in table.columns]):
            raise TableError(f"The column {absent[0]!r} is missing. The columns are {names}.")
        gaps = Cells([None] * table.n_rows)
        return [table.columns.get(name, gaps) for name in names]

    def _fill(
        self,
        out: Float,
        columns: list[Column | Undecided],
        changes: list[Change | None],
        claims: list[Claim],
        learned: NDArray[np.bool_],
    ) -> Filling:
        """Fill gaps; not those of a single column, nor of very many."""
        d = self.one_hot.at
        if not 1 < d <= WIDEST:
            return self.filling
        hidden = np.zeros((len(out), len(columns)), dtype=bool)
        owner = np.full(out.shape[1], -1)
        for at, (column, change) in enumerate(zip(columns, changes, strict=True)):
            if isinstance(column, Column) and change is not None:
                hidden[:, at] = change.codes == GAP
                owner[column.at : column.at + column.used] = at
                owner[[d + place for code, place in column.values.places.items() if code != GAP]] = at
        for claim in claims:
            if claim.code != GAP:
                owner[d + claim.place] = claim.column
        first = np.array([column.at if column.width else -1 for column in columns])
        return self.filling.fill(out, hidden, Layout(owner, first, d), learned)

    def state(self) -> dict[str, Any]:
        """Everything it is, as plain values and arrays."""
        return {
            "version": STATE_VERSION,
            "columns": [
                {
                    "name": column.name,
                    "kind": getattr(column, "kind", None),
                    "width": column.width,
                    "total": getattr(column, "total", 0.0),
                    "count": getattr(column, "count", 0.0),
                    "origin": getattr(column, "origin", None),
                    "values": column.values.state() if isinstance(column, Column) else None,
                }
                for column in self.columns
            ],
            "one_hot": self.one_hot.size,
            "one_hot_used": self.one_hot.used,
            "filling": self.filling.state(),
            "labels": list(self.labels),
            "targets_seen": vars(self.targets_seen).copy(),
            "n_rows": self.n_rows,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], target: str | None, max_values: int) -> Self:
        """Go on where a state was taken."""
        if state["version"] != STATE_VERSION:
            raise TableError(f"an encoder of version {state['version']}, but this bomkl reads {STATE_VERSION}")
        n_targets, places, used = TARGETS[target], int(state["one_hot"]), int(state["one_hot_used"])
        columns: list[Column | Undecided] = []
        at = 0
        for each in state["columns"]:
            kind, width = each["kind"], int(each["width"])
            if width not in (column_width(kind, n_targets), column_width(None, n_targets)):
                raise TableError(f"a column of width {width} cannot be a {kind}")
            undecided = Undecided(each["name"], at, width, n_targets, max_values)
            if kind is None:
                columns.append(undecided)
            else:
                column = undecided.decided(kind)
                values = Values.from_state(each["values"], n_targets, column.values.named, max_values, places)
                total, count = float(each["total"]), float(each["count"])
                origin = None if each["origin"] is None else float(each["origin"])
                if origin is not None and (kind != "date" or not abs(origin) < MOST_DAYS):
                    raise TableError(f"{origin} cannot be the first date of a {kind}")
                columns.append(replace(column, values=values, total=total, count=count, origin=origin))
            at += width
        seen = state["targets_seen"]
        sums, squares = (np.array(seen[name], dtype=np.float64) for name in ("sums", "squares"))
        if sums.shape != (n_targets,) or squares.shape != (n_targets,) or not 0 <= used <= places:
            raise TableError("the sums of the targets do not fit")
        return cls(
            columns,
            OneHot(at, places, used),
            Filling.from_state(state["filling"], len(columns), at, at + places),
            list(state["labels"]),
            TargetSums(int(seen["rows"]), float(seen["shift"]), sums, squares),
            int(state["n_rows"]),
        )

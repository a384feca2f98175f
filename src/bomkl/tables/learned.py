"""All that an encoder has learned, and what it makes of a block of rows.

Nothing is changed in place: learning from a block makes another `Learned`, so that readers and errors see the one of
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import LARGEST, MOST_NEW_COLUMNS
from bomkl._support.validation import nearest
from bomkl.tables.cells import Cells, Kind
from bomkl.tables.column import Change, Column, Mask
from bomkl.tables.early import FIRST_STAGE, OLDEST, EarlyRows, Room
from bomkl.tables.encoded import Hashable, hashable
from bomkl.tables.errors import TableError
from bomkl.tables.frames import Table, cells_of
from bomkl.tables.missing.filling import WIDEST_FILLED, Filling, Layout
from bomkl.tables.notices import Notices
from bomkl.tables.numbers import is_gap
from bomkl.tables.one_hot import Claim, OneHot, places_for
from bomkl.tables.targets import TARGETS, TargetSums
from bomkl.tables.values import GAP, Float

STATE_VERSION = 5  # 4 had fewer last rows, 3 no columns that wait and no first rows; of 1 and 2 no release wrote any
_NO_ROOM = "it has no value in the first rows, and the model has no room for more columns now"
_NEW = "it was not there before"
_NUMBERS = ("number", "boolean")


class Update(NamedTuple):
    """What is known after a block, what of it could not be used, and the cells of the columns that are laid out."""

    learned: Learned
    notices: Notices
    cells: list[Hashable]

    def columns_of_features(self) -> list[Any]:
        """Tell from which column of the table each column of numbers comes after the block; None of one not in use."""
        return [column for column, _ in self.learned.features()]


@dataclass(frozen=True)
class Learned:
    """What an encoder knows."""

    # Columns of the table in the order of their numbers, which follows from the values alone; those that wait come last
    columns: list[Column]
    one_hot: OneHot  # columns of zeros and ones
    names: tuple[Any, ...]  # names of the columns in the order in which they were met
    targets: TargetSums  # sums over all targets
    early: EarlyRows | None  # the rows learned, of an encoder that grows; None where it no longer does
    filling: Filling = field(default_factory=Filling)  # how gaps are filled
    n_rows: int = 0  # rows learned

    @classmethod
    def begin(
        cls,
        table: Table,
        types: dict[Any, Kind],
        target: str | None,
        one_hot: int,
        max_values: int,
        grows: bool = False,
    ) -> Self:
        """Lay the columns out by the first row of a table, without learning from it.

        A gap says nothing of what its column holds, even in a table with types: files, services and frames must lay
        out the same rows alike. The column waits in an encoder that grows; in others it has room for any kind.
        """
        if not table.n_rows:
            raise TableError("The first table must have a row.")
        if not table.columns:
            raise TableError("A table must have at least one column.")
        if not (grows and table.sparse) and (unknown := [name for name in types if name not in table.columns]):
            raise TableError(f"The column {unknown[0]!r} has a type but is not in the table.")
        columns: list[Column] = []
        plain = True
        for name in table.first_names:
            cells = table.columns[name]
            missing = is_gap(cells.values[0])
            kind = types.get(name) or (None if missing else cells.kind_of(name, 0))
            if grows and table.sparse and kind is None:
                continue  # blocks of rows and single rows must meet the same columns
            column = Column.new(name, kind, TARGETS[target], max_values, waits=grows and kind is None)
            columns.append(column.turning(types.get(name), cells, 0) if grows and kind else column)
            plain = plain and (column.waits or (kind in _NUMBERS and not missing))
        plain = plain and not all(column.waits for column in columns)  # plain numbers stay what they are
        early, names = EarlyRows() if grows else None, tuple(column.name for column in columns)
        return cls._laid_out(columns, 0 if plain else one_hot, names, TargetSums.none(target), early)

    @classmethod
    def _laid_out(
        cls, columns: Sequence[Column], one_hot: int, names: tuple[Any, ...], targets: TargetSums, early: Any
    ) -> Self:
        """Give what has learned nothing yet, with columns in this order and as many of zeros and ones as are useful."""
        placed, at = [], 0
        for column in sorted(columns, key=lambda column: column.waits):
            placed.append(replace(column, at=at))
            at += column.width
        useful = places_for([column.kind for column in columns if not column.waits])
        size = min(max(useful, 1), one_hot)  # one at least, so that rows are never empty
        return cls(placed, OneHot(at, size), names, targets, early)

    def with_room(self, one_hot: int, widest: int) -> Learned:
        """Give what has learned nothing yet, with room for the columns that have begun early enough.

        Columns hold what their values so far tell.

        `one_hot`: most columns of zeros and ones.
        """
        assert self.early is not None
        table = self.early.arrays()[0]
        width = one_hot + sum(column.used for column in self.columns if column.in_use)
        columns: list[Column] = []
        for column in sorted(self.columns, key=_turn):
            if column.in_use:
                column = column.anew(cells_of(table, column.name), column.start)
            elif self._may_take_in(column) and width + column.used <= widest:
                cells = table.columns[column.name]
                column = column.anew(cells, _first_number(cells))
                width += column.width
            columns.append(column)
        return self._laid_out(columns, one_hot, self.names, TargetSums.none(self.targets.target), EarlyRows())

    def _may_take_in(self, column: Column) -> bool:
        """Whether a column waits that has begun early enough."""
        return column.waits and column.kind is not None and column.birth <= OLDEST * self.n_rows

    @property
    def waits(self) -> bool:
        """Whether columns have begun that it could take in, or hold something else than the first value told."""
        assert self.early is not None
        return any(map(self._may_take_in, self.columns)) or any(
            not column.is_told_by(self.early.cells(column.name)) for column in self.columns if column.in_use
        )

    @property
    def is_plain(self) -> bool:
        """Whether rows of numbers stay what they are."""
        return not self.one_hot.size and all(
            each.in_use and each.kind in _NUMBERS and not each.codes for each in self.columns
        )

    @property
    def width(self) -> int:
        return self.one_hot.at + self.one_hot.size

    def features(self) -> list[tuple[Any, str]]:
        """Column of the table and name of each column of numbers."""
        own = [(column.name, name) for column in self.columns for name in column.feature_names()]
        return own + self.one_hot.names(self.columns)

    def encode(
        self,
        table: Table,
        learned: Mask | None = None,
        y: Any = None,
        room: Room | None = None,
        types: dict[Any, Kind] | None = None,
        max_values: int = 1,
    ) -> tuple[Float, Update]:
        """Encode rows, each as of just before it is learned from, and tell what learning from some of them changes."""
        learned = np.zeros(table.n_rows, dtype=bool) if learned is None else learned
        room = room or Room()
        if (plain := self._encode_plain(table, learned, y, room)) is not None:
            return plain
        out = np.zeros((table.n_rows, self.width))
        targets, targets_after = self.targets.over(y, learned)
        notices, rows = Notices(), np.flatnonzero(learned)
        # what does not fit a column in these rows makes it one of categories at their end
        first = self.early is not None and self.n_rows + len(rows) <= FIRST_STAGE
        changes = [
            column.encode(
                cells,
                learned,
                targets,
                out[:, column.at : column.at + column.width],
                Notices() if first and column.turns else notices,
            )
            for column, cells in self._cells(table, rows, room, types or {}, max_values, notices)
        ]
        claims = self.one_hot.write(out, changes)
        filling = self._fill(out, changes, claims, learned)
        hashed = [hashable(change.cells) for change in changes if not change.after.waits]
        if not len(rows):
            return out, Update(self, notices, hashed)
        columns = [change.after for change in changes]
        for claim in claims:
            columns[claim.column] = columns[claim.column].with_place(claim.code, claim.place)
        after = Learned(
            columns,
            replace(self.one_hot, used=self.one_hot.used + len(claims)),
            (*self.names, *(each.name for each in columns[len(self.columns) :])),
            targets_after,
            self._early(table, changes, rows, y, room),
            filling,
            self.n_rows + len(rows),
        )
        return out, Update(after, notices, hashed)

    def _encode_plain(self, table: Table, learned: Mask, y: Any, room: Room) -> tuple[Float, Update] | None:
        """Encode rows of numbers without gaps, all columns at once: the same bits. None where there is more to do."""
        n_rows = int(np.count_nonzero(learned))
        if n_rows and (self.filling.rows or (self.early is not None and room.rows)):
            return None
        if (out := self.plain_rows(table)) is None:
            return None
        cells = [hashable(Cells(out[:, column.at], column.kind)) for column in self.columns]
        if not n_rows:
            return out, Update(self, Notices(), cells)
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        sums = np.empty((len(out) + 1, self.width))
        sums[0] = [column.total for column in self.columns]
        sums[1:] = out if n_rows == len(out) else np.where(learned[:, None], out, 0.0)
        totals = np.cumsum(sums, axis=0)[-1].tolist()
        columns = [
            replace(column, total=total, count=column.count + n_rows)
            for column, total in zip(self.columns, totals, strict=True)
        ]
        _, targets = self.targets.over(y, learned)
        return out, Update(
            replace(self, columns=columns, targets=targets, n_rows=self.n_rows + n_rows), Notices(), cells
        )

    def plain_rows(self, table: Table) -> Float | None:
        """Give rows of numbers without gaps, which stay what they are; None where there is more to do."""
        if not self.is_plain or len(table.columns) != len(self.columns):
            return None
        out = np.empty((table.n_rows, self.width))
        for column in self.columns:
            cells = table.columns.get(column.name)
            if cells is None or cells.kind not in _NUMBERS:
                return None
            out[:, column.at] = cells.values
        return np.clip(out, -LARGEST, LARGEST) if np.isfinite(out).all() else None

    def _early(
        self, table: Table, changes: list[Change], rows: NDArray[np.intp], y: Any, room: Room
    ) -> EarlyRows | None:
        """Give the first rows, with those to learn from now while there is room."""
        if self.early is None or room.weight is None:
            return self.early
        rows = rows[: room.rows]
        typed = {
            change.after.name: cells_of(table, change.after.name).either() if change.after.turns else change.cells
            for change in changes
            if change.cells is not None
        }
        return self.early.plus(Table(typed, len(room.weight), True)[rows], np.asarray(y)[rows], room.weight[rows])

    def _cells(
        self,
        table: Table,
        rows: NDArray[np.intp],
        room: Room,
        types: dict[Any, Kind],
        max_values: int,
        notices: Notices,
    ) -> list[tuple[Column, Cells]]:
        """Columns with their cells, those that this table brings included; what cannot be used is noted."""
        known = {column.name for column in self.columns}
        new = [name for name in table.columns if name not in known]
        if not table.sparse:
            for column in self.columns:
                if column.name not in table.columns:
                    notices.absent(column.name, table.n_rows, nearest(str(column.name), map(str, new)))

        def waiting(column: Column, cells: Cells) -> Column:
            """Let a column that waits begin in rows for which there is room; values in other rows are lost."""
            if self.early is not None:
                column = column.begun(cells, rows[: room.rows], self.n_rows, types.get(column.name))
                if room.rows >= len(rows):
                    return column
            end = int(rows[room.rows - 1]) + 1 if 0 < room.rows <= len(rows) else 0
            notices.unused(column.name, cells.after(end).count(), _NO_ROOM)
            return column

        found: list[tuple[Column, Cells]] = []
        for column in self.columns:
            cells = cells_of(table, column.name)
            found.append((waiting(column, cells) if column.waits else column, cells))
        left = MOST_NEW_COLUMNS - sum(not column.in_use for column in self.columns)
        begun: list[tuple[Column, Cells]] = []
        for name in new:
            cells = table.columns[name]
            if room.new and self.early is not None and left > 0:
                column = waiting(Column.new(name, None, len(self.targets.sums), max_values, waits=True), cells)
                if column.kind is not None:
                    left -= 1
                    begun.append((column, cells))
            else:
                notices.unused(name, cells.count(), _NEW)
        # in the order in which single rows would bring them
        found += sorted(begun, key=lambda each: _turn(each[0]))
        return found

    def _fill(self, out: Float, changes: list[Change], claims: list[Claim], learned: Mask) -> Filling:
        """Fill gaps; not those of a single column, nor of very many."""
        d = self.one_hot.at
        if not 1 < d <= WIDEST_FILLED:
            return self.filling
        laid_out = [change for change in changes if not change.after.waits]  # which come first
        hidden = np.zeros((len(out), len(laid_out)), dtype=bool)
        for at, change in enumerate(laid_out):
            hidden[:, at] = change.codes == GAP
        layout = _layout([change.after for change in laid_out], d, out.shape[1])
        for claim in claims:
            if claim.code != GAP:
                layout.owner[d + claim.place] = claim.column
        return self.filling.fill(out, hidden, layout, learned)

    def state(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "columns": [column.state() for column in self.columns],
            "one_hot": self.one_hot.size,
            "one_hot_used": self.one_hot.used,
            "filling": self.filling.state(),
            "labels": list(self.targets.labels),
            "targets_seen": self.targets.state(),
            "n_rows": self.n_rows,
            "grows": self.early is not None,
            "early": None if self.early is None else self.early.state(),
            "names": list(self.names),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], target: str | None, max_values: int) -> Self:
        if state["version"] not in (3, 4, STATE_VERSION):
            raise TableError(f"an encoder of version {state['version']}, but this bomkl reads 3 to {STATE_VERSION}")
        places, used = int(state["one_hot"]), int(state["one_hot_used"])
        columns: list[Column] = []
        at = 0
        for each in state["columns"]:
            columns.append(Column.from_state(each, at, TARGETS[target], max_values, places))
            at += columns[-1].width
        if not 0 <= used <= places:
            raise TableError("the columns of zeros and ones in use do not fit")
        own = [column.name for column in columns]
        names = tuple(state.get("names", own))
        if len(names) != len(own) or set(names) != set(own):
            raise TableError("the names of the columns do not fit the columns")
        return cls(
            columns,
            OneHot(at, places, used),
            names,
            TargetSums.from_state(state["targets_seen"], target, list(state["labels"])),
            EarlyRows.from_state(state["early"], int(state["n_rows"])) if state.get("grows") else None,
            Filling.from_state(state["filling"], _layout(columns, at, at + places)),
            int(state["n_rows"]),
        )


def _layout(columns: Sequence[Column], d: int, width: int) -> Layout:
    """Tell whose parts the columns of numbers are."""
    columns, owner = [column for column in columns if not column.waits], np.full(width, -1)
    for at, column in enumerate(columns):
        if column.in_use:
            owner[column.at : column.at + column.used] = at
            owner[[d + place for code, place in column.values.places.items() if code != GAP]] = at
    return Layout(owner, np.array([column.at if column.width else -1 for column in columns]), d)


def _turn(column: Column) -> tuple[Any, ...]:
    """Where a column comes among all: those in use stay in their order, others follow by their first values."""
    return (1, column.birth, str(column.name)) if column.waits else (0,)


def _first_number(cells: Cells) -> float:
    """Return what a missing value is filled with before the first value of a column."""
    row = cells.first_value()
    first = None if row is None else cells.values[row]
    return float(first) if cells.kind != "date" and isinstance(first, float) else 0.0

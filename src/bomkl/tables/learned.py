"""All that an encoder has learned, and what it makes of a block of rows.

Nothing is changed in place: learning from a block makes another `Learned`, so that readers and errors see the one of
before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import LARGEST, MOST_NEW_COLUMNS
from bomkl._support.validation import nearest
from bomkl.tables.cells import KINDS, Kind, is_gap
from bomkl.tables.columns.column import MOST_DAYS, Change, Column, column_width
from bomkl.tables.columns.one_hot import Claim, OneHot, places_for
from bomkl.tables.columns.targets import TARGETS, ReadTargets, TargetSums
from bomkl.tables.columns.undecided import Undecided
from bomkl.tables.early import OLDEST, EarlyRows, Room
from bomkl.tables.encoded import Hashable, hashable
from bomkl.tables.errors import TableError
from bomkl.tables.frames import Cells, Table, cells_of
from bomkl.tables.missing.filling import WIDEST_FILLED, Filling, Layout
from bomkl.tables.notices import Notices
from bomkl.tables.parsing import first_value, kind_of_first, parsed
from bomkl.tables.values import GAP, Float, Values

STATE_VERSION = 4  # 3 had no columns that wait and no first rows; of 1 and 2 no release wrote any
_NO_ROOM = "it has no value in the first rows, and the model has no room for more columns now"
_NEW = "it was not there before"


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
    early: EarlyRows | None
    notices: Notices
    cells: list[Hashable]  # of the columns that are laid out

    def columns_of_features(self) -> list[Any]:
        """Tell from which column of the table each column of numbers comes after the block; None of one not in use."""
        found = [name for name, _ in self.before.features()]
        for claim in self.claims:
            found[self.before.one_hot.at + claim.place] = self.columns[claim.column].name
        return found

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
            self.early,
            (*self.before.names, *(each.name for each in self.columns[len(self.before.columns) :])),
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
    early : EarlyRows or None, default=None
        The rows learned, of an encoder that grows; None where it no longer does.
    names : tuple, default=()
        Names of the columns in the order in which they were met. `columns` are in the order of their numbers, which
        follows from the values alone.
    """

    columns: list[Column | Undecided]
    one_hot: OneHot
    filling: Filling
    labels: list[Any]
    targets_seen: TargetSums
    n_rows: int
    early: EarlyRows | None = None
    names: tuple[Any, ...] = ()

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
        n_targets = TARGETS[target]
        columns: list[Column | Undecided] = []
        at, plain = 0, True
        for name in table.first_names:
            cells = table.columns[name]
            missing = is_gap(cells.values[0])
            kind = types.get(name) or (None if missing else kind_of_first(name, cells, 0))
            if grows and table.sparse and kind is None:
                continue  # blocks of rows and single rows must meet the same columns
            width = 0 if grows and kind is None else column_width(kind, n_targets)
            undecided = Undecided(name, at, width, n_targets, max_values)
            columns.append(undecided.decided(kind) if kind else undecided)
            at += width
            plain = plain and ((grows and kind is None) or (kind in ("number", "boolean") and not missing))
        places = 0 if plain and at else _places(columns, one_hot)  # plain numbers stay what they are
        nothing = np.zeros(n_targets)
        early, sums = EarlyRows() if grows else None, TargetSums(0, 0.0, nothing, nothing)
        names = [column.name for column in columns]
        columns.sort(key=lambda column: not is_laid_out(column))
        return cls(columns, OneHot(at, places), Filling(), [], sums, 0, early, tuple(names))

    def with_room(self, one_hot: int, widest: int) -> Learned:
        """Give what has learned nothing yet, with room for the columns that have begun early enough.

        Parameters
        ----------
        one_hot : int
            Most columns of zeros and ones.
        widest : int
            Most columns of numbers.
        """
        assert self.early is not None
        table = self.early.arrays()[0]
        n_targets = len(self.targets_seen.sums)
        width = one_hot + sum(column_width(each.kind, n_targets) for each in self.columns if isinstance(each, Column))
        columns: list[Column | Undecided] = []
        waiting: list[Column | Undecided] = []
        at = 0
        for column in sorted(self.columns, key=_turn):
            own = column_width(column.kind, n_targets)
            fresh = Undecided(column.name, at, own, n_targets, _limit(column))
            if isinstance(column, Column):
                columns.append(fresh.decided(column.kind, column.start))
            elif column.kind and column.birth <= OLDEST * self.n_rows and width + own <= widest:
                columns.append(fresh.decided(column.kind, _first_number(table.columns[column.name])))
                width += own
            else:
                waiting.append(column)
                continue
            at += own
        nothing = np.zeros(n_targets)
        sums, one_hot = TargetSums(0, 0.0, nothing, nothing), _places(columns, one_hot)
        return Learned([*columns, *waiting], OneHot(at, one_hot), Filling(), [], sums, 0, EarlyRows(), self.names)

    @property
    def waits(self) -> bool:
        """Whether columns have begun that it could take in."""
        latest = OLDEST * self.n_rows
        return any(isinstance(each, Undecided) and each.kind and each.birth <= latest for each in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether rows of numbers stay what they are."""
        numbers = all(isinstance(each, Column) and each.kind in ("number", "boolean") for each in self.columns)
        return numbers and not self.one_hot.size

    @property
    def width(self) -> int:
        """Columns of numbers."""
        return self.one_hot.at + self.one_hot.size

    def features(self) -> list[tuple[Any, str]]:
        """Column of the table and name of each column of numbers."""
        own = [(column.name, name) for column in self.columns for name in column.feature_names()]
        return own + self.one_hot.names(self.columns)

    def encode(
        self,
        table: Table,
        learned: NDArray[np.bool_],
        read: ReadTargets,
        y: Any = None,
        room: Room | None = None,
        types: dict[Any, Kind] | None = None,
        max_values: int = 1,
    ) -> tuple[Float, Update]:
        """Encode rows, each as of just before it is learned from, and tell what learning from some of them changes."""
        if (plain := self._encode_plain(table, learned, read, room or Room())) is not None:
            return plain
        out = np.zeros((table.n_rows, self.width))
        targets, targets_seen = self.targets_seen.over(read.places, read.amounts, learned)
        notices, rows = Notices(), np.flatnonzero(learned)
        columns: list[Column | Undecided] = []
        changes: list[Change | None] = []
        typed: dict[Any, Cells] = {}
        hashed: list[Hashable] = []
        for before, cells in self._cells(table, rows, room or Room(), types or {}, max_values, notices):
            part = out[:, before.at : before.at + before.width]
            column: Column | Undecided = before
            change = None
            if isinstance(before, Column):
                typed[before.name] = parsed(before.name, before.kind, cells, notices, before.values)
                change = before.encode(typed[before.name], learned, targets, part)
                hashed.append(hashable(typed[before.name]))
            elif before.width:
                column, change = before.encode(cells, learned, targets, part, notices)
                hashed.append(_newly_hashable(column, cells, rows))
            elif before.kind is not None:
                typed[before.name] = parsed(before.name, before.kind, cells, notices)
            columns.append(column)
            changes.append(change)
        claims = self.one_hot.write(out, columns, changes)
        filling = self._fill(out, columns, changes, claims, learned)
        early = self._early(typed, rows, y, room)
        return out, Update(
            self, columns, changes, claims, filling, read.new_labels, targets_seen, len(rows), early, notices, hashed
        )

    def _encode_plain(
        self, table: Table, learned: NDArray[np.bool_], read: ReadTargets, room: Room
    ) -> tuple[Float, Update] | None:
        """Encode rows of numbers without gaps, all columns at once: the same bits. None where there is more to do."""
        if self.filling.rows or (self.early is not None and room.rows):
            return None
        if (out := self.plain_rows(table)) is None:
            return None
        known, n_rows = [each for each in self.columns if isinstance(each, Column)], int(np.count_nonzero(learned))
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        sums = np.empty((len(out) + 1, self.width))
        sums[0] = [column.total for column in known]
        sums[1:] = out if n_rows == len(out) else np.where(learned[:, None], out, 0.0)
        totals = np.cumsum(sums, axis=0)[-1].tolist()
        columns = [each.with_sums(total, each.count + n_rows) for each, total in zip(known, totals, strict=True)]
        cells = [hashable(Cells(out[:, column.at], column.kind)) for column in known]
        _, seen = self.targets_seen.over(read.places, read.amounts, learned)
        nothing = [None] * len(columns)
        return out, Update(
            self, [*columns], [*nothing], [], self.filling, read.new_labels, seen, n_rows, self.early, Notices(), cells
        )

    def plain_rows(self, table: Table) -> Float | None:
        """Give rows of numbers without gaps, which stay what they are; None where there is more to do."""
        if not self.is_plain or len(table.columns) != len(self.columns):
            return None
        out = np.empty((table.n_rows, self.width))
        for column in self.columns:
            cells = table.columns.get(column.name)
            if cells is None or cells.kind not in ("number", "boolean"):
                return None
            out[:, column.at] = cells.values
        return np.clip(out, -LARGEST, LARGEST) if np.isfinite(out).all() else None

    def _early(self, typed: dict[Any, Cells], rows: NDArray[np.intp], y: Any, room: Room | None) -> EarlyRows | None:
        """Give the first rows, with those to learn from now while there is room."""
        if self.early is None or room is None or room.weight is None:
            return self.early
        rows = rows[: room.rows]
        weight = room.weight[rows]
        return self.early.plus(Table(typed, len(room.weight), True)[rows], np.asarray(y)[rows], weight)

    def cells(self, table: Table) -> list[Cells]:
        """Cells of each column, in the order of the first table."""
        return [cells_of(table, column.name) for column in self.columns]

    def _cells(
        self,
        table: Table,
        rows: NDArray[np.intp],
        room: Room,
        types: dict[Any, Kind],
        max_values: int,
        notices: Notices,
    ) -> list[tuple[Column | Undecided, Cells]]:
        """Columns with their cells, those that this table brings included; what cannot be used is noted."""
        known = {column.name for column in self.columns}
        new = [name for name in table.columns if name not in known]
        if not table.sparse:
            absent = [column.name for column in self.columns if column.name not in table.columns]
            for name in absent:
                notices.absent(name, table.n_rows, nearest(str(name), map(str, new)))
        found: list[tuple[Column | Undecided, Cells]] = []
        for column, cells in zip(self.columns, self.cells(table), strict=True):
            if isinstance(column, Undecided) and not column.width:
                column = self._waiting(column, cells, rows, room, types, notices)
            found.append((column, cells))
        waiting = sum(isinstance(column, Undecided) for column in self.columns)
        n_targets = len(self.targets_seen.sums)
        for name in new:
            cells = table.columns[name]
            if room.new and self.early is not None and waiting < MOST_NEW_COLUMNS:
                fresh = Undecided(name, self.one_hot.at, 0, n_targets, max_values)
                column = self._waiting(fresh, cells, rows, room, types, notices)
                if column.kind is not None:
                    waiting += 1
                    found.append((column, cells))
            else:
                notices.unused(name, _count(cells), _NEW)
        return found

    def _waiting(
        self,
        column: Undecided,
        cells: Cells,
        rows: NDArray[np.intp],
        room: Room,
        types: dict[Any, Kind],
        notices: Notices,
    ) -> Undecided:
        """Let a column that waits begin in rows for which there is room; values in other rows are lost."""
        if self.early is not None:
            column = column.begun(cells, rows[: room.rows], self.n_rows, types.get(column.name))
            if room.rows >= len(rows):
                return column
        end = int(rows[room.rows - 1]) + 1 if 0 < room.rows <= len(rows) else 0
        notices.unused(column.name, _count(cells.after(end)), _NO_ROOM)
        return column

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
        if not 1 < d <= WIDEST_FILLED:
            return self.filling
        laid_out = [at for at, column in enumerate(columns) if is_laid_out(column)]
        hidden = np.zeros((len(out), len(laid_out)), dtype=bool)
        owner = np.full(out.shape[1], -1)
        for at, (column, change) in enumerate((columns[each], changes[each]) for each in laid_out):
            if isinstance(column, Column) and change is not None:
                hidden[:, at] = change.codes == GAP
                owner[column.at : column.at + column.used] = at
                owner[[d + place for code, place in column.values.places.items() if code != GAP]] = at
        for claim in claims:
            if claim.code != GAP:
                owner[d + claim.place] = laid_out.index(claim.column)
        first = np.array([columns[each].at if columns[each].width else -1 for each in laid_out])
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
                    "start": getattr(column, "start", 0.0),
                    "birth": getattr(column, "birth", 0),
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
            "grows": self.early is not None,
            "early": None if self.early is None else self.early.state(),
            "names": list(self.names),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], target: str | None, max_values: int) -> Self:
        """Go on where a state was taken."""
        if state["version"] not in (3, STATE_VERSION):
            raise TableError(f"an encoder of version {state['version']}, but this bomkl reads 3 and {STATE_VERSION}")
        n_targets, places, used = TARGETS[target], int(state["one_hot"]), int(state["one_hot_used"])
        columns: list[Column | Undecided] = []
        at = 0
        for each in state["columns"]:
            kind, width = each["kind"], int(each["width"])
            if width not in (0, column_width(kind, n_targets), column_width(None, n_targets)):
                raise TableError(f"a column of width {width} cannot be a {kind}")
            undecided = Undecided(each["name"], at, width, n_targets, max_values)
            if each["values"] is None:
                if kind is not None and (width or kind not in KINDS):
                    raise TableError(f"a column that waits cannot have the width {width}")
                columns.append(replace(undecided, kind=kind, birth=int(each.get("birth", 0))))
            else:
                column = undecided.decided(kind, float(each.get("start", 0.0)))
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
        early = EarlyRows.from_state(state["early"], int(state["n_rows"])) if state.get("grows") else None
        return cls(
            columns,
            OneHot(at, places, used),
            Filling.from_state(state["filling"], sum(map(is_laid_out, columns)), at, at + places),
            list(state["labels"]),
            TargetSums(int(seen["rows"]), float(seen["shift"]), sums, squares),
            int(state["n_rows"]),
            early,
            _names(state, columns),
        )


def _names(state: dict[str, Any], columns: list[Column | Undecided]) -> tuple[Any, ...]:
    own = [column.name for column in columns]
    names = tuple(state.get("names", own))
    if len(names) != len(own) or set(names) != set(own):
        raise TableError("the names of the columns do not fit the columns")
    return names


def _turn(column: Column | Undecided) -> tuple[Any, ...]:
    """Where a column comes among all: those in use stay in their order, others follow by their first values."""
    return (1, column.birth, str(column.name)) if isinstance(column, Undecided) else (0,)


def is_laid_out(column: Column | Undecided) -> bool:
    """Tell whether a column has a part in the rows of numbers."""
    return isinstance(column, Column) or column.width > 0


def _places(columns: list[Column | Undecided], one_hot: int) -> int:
    """Columns of zeros and ones for these columns: one at least, so that rows are never empty."""
    kinds = [column.kind for column in columns if is_laid_out(column)]
    return min(max(places_for(kinds), 1), one_hot)


def _limit(column: Column | Undecided) -> int:
    """Give the most categories that are told apart."""
    return column.values.limit if isinstance(column, Column) else column.max_values


def _newly_hashable(column: Column | Undecided, cells: Cells, rows: NDArray[np.intp]) -> Hashable:
    """Give the cells of a column that may have shown its first value in one of some rows."""
    first = first_value(cells, rows)
    if not isinstance(column, Column) or first is None:
        return hashable(None)
    return hashable(parsed(column.name, column.kind, cells, Notices()), first)


def _first_number(cells: Cells) -> float:
    """Give what stands in for gaps before the first value of a column."""
    row = first_value(cells)
    return float(cells.values[row]) if cells.kind in ("number", "boolean") and row is not None else 0.0


def _count(cells: Cells) -> int:
    return sum(not is_gap(cell) for cell in cells.values)

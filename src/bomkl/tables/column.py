"""One column of a table as columns of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import KINDS, Cells, Kind, text_or_number
from bomkl.tables.errors import TableError
from bomkl.tables.notices import Notices
from bomkl.tables.numbers import is_gap
from bomkl.tables.targets import Targets
from bomkl.tables.values import GAP, UNKNOWN, Entries, Float, Values

DATE_PARTS = ("trend", "hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos")
YEAR = 365.25  # days
MOST_DAYS = 1e9  # from 1970; microseconds since then would not fit into 64 bits
GAP_ROWS = 8  # rows with a gap before it may have a column of its own
GAP_ERRORS = 3.0  # standard errors by which their mean target must differ
SMOOTHING = 10.0  # rows that the mean of all targets counts for in the mean of a category

Mask = NDArray[np.bool_]


class Change(NamedTuple):
    """What a block does to a column."""

    codes: NDArray[np.int64]  # (n_rows,): the value of each row that may have a column of its own; -1 for none
    claims: list[tuple[int, int]]  # rows at which a value has become worth a column of its own, and its code
    after: Column  # the column after the block
    cells: Cells | None  # the cells as what the column holds; None where it has shown no value yet


@dataclass(frozen=True)
class Column:
    """State of one column.

    A column that has shown no value yet has no kind. In an encoder that does not grow, it has columns of numbers that
    are enough for any kind, and zeros in the rows before its first value. In one that grows it waits: it has no columns
    of numbers until some time after its first value.
    """

    name: Any  # its name
    at: int  # its first column of numbers
    width: int  # how many it has
    values: Values  # its gaps and categories
    kind: Kind | None = None  # "number", "boolean", "category", "date": what it holds; None before its first value
    total: float = 0.0  # sum and count of its numbers: their mean fills missing values
    count: float = 0.0
    origin: float | None = None  # the first date learned from, in days since 1970; None before there is one
    start: float = 0.0  # what missing values are filled with before the first number
    waits: bool = False  # whether it waits for columns of numbers
    birth: int = 0  # rows learned before its first value, of a column that waits
    turns: bool = False  # whether its values decide, in the first rows of an encoder that grows, what it holds
    codes: bool = False  # whether its numbers came as texts of whole ones, which may be codes: they are hashed, too

    @property
    def in_use(self) -> bool:
        """Whether it has shown what it holds, and has columns of numbers."""
        return self.kind is not None and not self.waits

    @property
    def used(self) -> int:
        """Columns of numbers that it needs; the others are zeros."""
        return column_width(self.kind, self.values.n_targets)

    @classmethod
    def new(
        cls, name: Any, kind: Kind | None, n_targets: int, limit: int, waits: bool = False, start: float = 0.0
    ) -> Column:
        """Make a column that has learned nothing yet, with room for at most so many categories."""
        width = 0 if waits else column_width(kind, n_targets)
        return cls(name, 0, width, Values(n_targets, kind == "category", limit), kind, start=start, waits=waits)

    def anew(self, cells: Cells, start: float) -> Column:
        """Give a column in use that has learned nothing yet, of the kind that the cells so far tell."""
        kind = self.kind_by(cells)
        new = self.new(self.name, kind, self.values.n_targets, self.values.limit, start=start)
        return replace(new, turns=self.turns, codes=self.codes and kind == "number" and cells.are_mostly_whole())

    def is_told_by(self, cells: Cells) -> bool:
        """Tell whether it holds what the cells so far tell."""
        new = self.anew(cells, self.start)
        return (new.kind, new.codes) == (self.kind, self.codes)

    def kind_by(self, cells: Cells) -> Kind | None:
        """Tell what it holds by the cells so far."""
        if not self.turns or not cells.count():
            return self.kind
        return "number" if cells.hold_numbers() else "category"

    def decided(self, kind: Kind) -> Column:
        """Give the column that one without a kind becomes, in its place."""
        return replace(self, kind=kind, values=replace(self.values, named=kind == "category"))

    def with_place(self, code: int, place: int) -> Column:
        return replace(self, values=replace(self.values, places=self.values.places | {code: place}))

    def begun(self, cells: Cells, rows: NDArray[np.intp], n_rows: int, declared: Kind | None) -> Column:
        """Give what a column that waits is after rows to learn from: it begins with its first value."""
        if self.kind is not None or (first := cells.first_value(rows)) is None:
            return self
        birth = n_rows + int(np.searchsorted(rows, first))
        kind = declared or cells.kind_of(self.name, first)
        return replace(self, kind=kind, birth=birth).turning(declared, cells, first)

    def turning(self, declared: Kind | None, cells: Cells, first: int) -> Column:
        """Let the values decide what it holds, unless the user or the table says so; `first` is the first of them."""
        turns = declared is None and self.kind in ("number", "category") and cells.kind != "category"
        codes = turns and isinstance(cells.values[first], str) and cells[[first]].either().are_mostly_whole()
        return replace(self, turns=turns, codes=codes)

    def encode(self, cells: Cells, learned: Mask, targets: Targets, out: Float, notices: Notices) -> Change:
        """Write a block to `out` (its columns only), and tell what learning from it changes."""
        if self.kind is None and not self.waits:
            return self._encode_first(cells, learned, targets, out, notices)
        typed = None if self.kind is None else self.parsed(cells, notices)
        if self.waits or typed is None:
            return Change(np.full(len(learned), UNKNOWN), [], self, typed)
        encode = self._encode_categories if self.kind == "category" else self._encode_numbers
        return encode(typed, learned, targets, out)

    def parsed(self, cells: Cells, notices: Notices) -> Cells:
        assert self.kind is not None
        read = text_or_number if self.turns else None
        return cells.parsed(self.name, self.kind, notices, self.values.known, read)

    def _encode_first(self, cells: Cells, learned: Mask, targets: Targets, out: Float, notices: Notices) -> Change:
        """Encode rows among which may be the first value."""
        first = cells.first_value(np.flatnonzero(learned))
        end = len(learned) if first is None else first
        apart = [row for row in range(end) if not is_gap(cells.values[row])]
        if apart:  # rows that are not learned from, and come before: as if each were the first
            part, encoded = cells[apart], np.zeros((len(apart), self.width))
            column = self.decided(part.kind_of(self.name, 0))
            column.encode(part, np.zeros(len(apart), dtype=bool), targets.of(apart), encoded, notices)
            out[apart] = encoded
        nothing = np.full(end, UNKNOWN)
        if first is None:
            return Change(nothing, [], self, None)
        column = self.decided(cells.kind_of(self.name, first))
        rest = slice(first, None)
        change = column.encode(cells.after(first), learned[rest], targets.of(rest), out[rest], notices)
        claims = [(row + first, code) for row, code in change.claims]
        assert change.cells is not None
        return Change(np.concatenate([nothing, change.codes]), claims, change.after, change.cells.after_gaps(first))

    def _encode_numbers(self, cells: Cells, learned: Mask, targets: Targets, out: Float) -> Change:
        numbers: Float = cells.values
        gaps = np.isnan(numbers)
        present = learned & ~gaps
        origin = None
        if self.kind == "date":
            out[:, 1:7] = _date_cycles(numbers)
            numbers, origin = _date_trend(numbers, self.origin, present)
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        totals = np.cumsum(np.concatenate([[self.total], np.where(present, numbers, 0.0)]))
        out[:, 0] = numbers
        codes, claims, touched = np.where(gaps, GAP, UNKNOWN), [], Entries()
        if gaps.any():
            counts = np.cumsum(np.concatenate([[self.count], present.astype(np.float64)]))[:-1]
            means = np.where(counts > 0, totals[:-1] / np.maximum(counts, 1.0), self.start)
            out[:, 0] = np.where(gaps, means, numbers)
            rows = np.flatnonzero(gaps)
            few = targets.of(rows)
            before, touched = self.values.tally_gaps(learned[rows], few.places, few.amounts)
            claims = _gap_claims(rows, before, learned, targets)
        if not learned.any():
            return Change(codes, claims, self, cells)
        count = self.count + float(np.count_nonzero(present))
        values = self.values.after(touched, {})
        after = replace(self, values=values, total=float(totals[-1]), count=count, origin=origin)
        return Change(codes, claims, after, cells)

    def _encode_categories(self, cells: Cells, learned: Mask, targets: Targets, out: Float) -> Change:
        chosen = learned.tolist()
        codes, new = self.values.codes(cells.values, chosen)
        before, touched, claims = self.values.tally(codes, chosen, targets.places, targets.amounts)
        seen, sums = before[:, :1], before[:, 1:]
        out[:, : self.values.n_targets] = (sums + SMOOTHING * targets.means) / (seen + SMOOTHING)
        numbers = np.array(codes, dtype=np.int64)
        rows = np.flatnonzero(numbers == GAP)
        claims += _gap_claims(rows, before[rows], learned, targets)
        after = replace(self, values=self.values.after(touched, new)) if learned.any() else self
        return Change(numbers, claims, after, cells)

    def feature_names(self) -> list[str]:
        n = self.values.n_targets
        means = ("target",) if n == 1 else tuple(f"target{at}" for at in range(n))
        parts = {None: (), "date": DATE_PARTS, "category": means}.get(self.kind, ("",))
        names = [f"{self.name}_{part}" if part else str(self.name) for part in parts]
        return [*names, *(f"{self.name}_{at}" for at in range(len(names), self.width))][: self.width]

    def state(self) -> dict[str, Any]:
        names = ("name", "kind", "width", "total", "count", "origin", "start", "birth", "turns", "codes")
        values = self.values.state() if self.in_use else None
        return {name: getattr(self, name) for name in names} | {"values": values}

    @classmethod
    def from_state(cls, state: dict[str, Any], at: int, n_targets: int, limit: int, places: int) -> Column:
        """Go on where `state` was taken, in a table with so many columns of zeros and ones."""
        kind, width, in_use = state["kind"], int(state["width"]), state["values"] is not None
        turns = {name: bool(state.get(name, False)) for name in ("turns", "codes")}  # not in files of version 0.2.0
        if width not in (0, column_width(kind, n_targets), column_width(None, n_targets)):
            raise TableError(f"a column of width {width} cannot be a {kind}")
        if not in_use and kind is not None and (width or kind not in KINDS):
            raise TableError(f"a column that waits cannot have the width {width}")
        values = Values(n_targets, kind == "category", limit)
        if not in_use:
            birth = int(state.get("birth", 0))
            return cls(state["name"], at, width, values, kind, waits=width == 0, birth=birth, **turns)
        values = Values.from_state(state["values"], n_targets, kind == "category", limit, places)
        origin = None if state["origin"] is None else float(state["origin"])
        if origin is not None and (kind != "date" or not abs(origin) < MOST_DAYS):
            raise TableError(f"{origin} cannot be the first date of a {kind}")
        total, count, start = (float(state.get(name, 0.0)) for name in ("total", "count", "start"))
        return cls(state["name"], at, width, values, kind, total, count, origin, start, **turns)


def column_width(kind: Kind | None, n_targets: int) -> int:
    """Columns of numbers that a column needs; those of a column that has not shown what it holds are enough for any."""
    widths = {"number": 1, "boolean": 1, "date": len(DATE_PARTS), "category": n_targets}
    return widths[kind] if kind else max(widths.values())


def _gap_claims(
    rows: NDArray[np.intp], before: Float, learned: NDArray[np.bool_], targets: Targets
) -> list[tuple[int, int]]:
    """Tell at which row a gap is worth a column of its own.

    That is when rows with the gap have had other targets than chance explains, looked at when 8, 16, 32, ... of them
    have come: columns for gaps that tell nothing make it harder to see which rows are close. Without targets, any gap
    is worth one.
    """
    claims = []
    counts = before[:, 0].astype(np.int64)
    looked_at = learned[rows] & (counts >= GAP_ROWS) & (counts & (counts - 1) == 0)
    for row, (count, *sums) in zip(rows[looked_at].tolist(), before[looked_at].tolist(), strict=True):
        apart = [abs(each / count - mean) for each, mean in zip(sums, targets.means[row].tolist(), strict=True)]
        limits = (GAP_ERRORS / math.sqrt(count)) * targets.deviations[row]
        if not sums or (np.array(apart) > limits).any():
            claims.append((row, GAP))
    return claims


def _date_trend(days: Float, origin: float | None, present: NDArray[np.bool_]) -> tuple[Float, float | None]:
    """Years since the first date learned from, and that date; a date before there is one counts as the first."""
    began = 0
    if origin is None:
        if not present.any():
            return np.where(np.isnan(days), np.nan, 0.0), None
        began = int(present.argmax())
        origin = float(days[began])
    years = (days - origin) / YEAR
    years[:began][~np.isnan(days[:began])] = 0.0
    return years, origin


def _date_cycles(days: Float) -> Float:
    """Points on circles for the hour, the weekday and the day of the year; a gap is at the centre.

    The C library's sine, cell by cell: NumPy's may depend on the place of a number in its array.
    """
    gaps = np.isnan(days)
    safe = np.where(gaps, 0.0, days)
    whole = np.floor(safe)
    dates = whole.astype(np.int64).astype("datetime64[D]")
    of_year = (dates - dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
    out = np.zeros((len(days), 6))
    for at, share in enumerate((safe - whole, (whole + 3) % 7 / 7, of_year / YEAR)):
        angles = (2 * math.pi * share).tolist()
        out[:, 2 * at] = [math.sin(angle) for angle in angles]
        out[:, 2 * at + 1] = [math.cos(angle) for angle in angles]
    out[gaps] = 0.0
    return out

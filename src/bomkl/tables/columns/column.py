"""One column of a table as columns of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import Kind
from bomkl.tables.columns.targets import Targets
from bomkl.tables.frames import Cells
from bomkl.tables.notices import Notices
from bomkl.tables.parsing import parsed
from bomkl.tables.values import GAP, Float, Tally, Values

DATE_PARTS = ("trend", "hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos")
YEAR = 365.25  # days
MOST_DAYS = 1e9  # from 1970; microseconds since then would not fit into 64 bits
GAP_ROWS = 8  # rows with a gap before it may have a column of its own
GAP_ERRORS = 3.0  # standard errors by which their mean target must differ
SMOOTHING = 10.0  # rows that the mean of all targets counts for in the mean of a category


@dataclass
class Change:
    """What a block does to a column.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,)
        The value of each row that may have a column of its own; -1 for none.
    tally : Tally
        Their counts.
    totals : tuple of float
        Sum and count of the numbers after the block.
    origin : float or None
        The first date learned from, after the block.
    """

    codes: NDArray[np.int64]
    tally: Tally
    totals: tuple[float, float]
    origin: float | None = None


@dataclass(frozen=True)
class Column:
    """State of one column.

    Parameters
    ----------
    name : str or int
        Its name.
    kind : {"number", "boolean", "category", "date"}
        What it holds.
    at : int
        Its first column of numbers.
    width : int
        How many it has.
    values : Values
        Its gaps and categories.
    total, count : float
        Sum and count of its numbers: their mean stands in for a gap.
    origin : float or None, default=None
        The first date learned from, in days since 1970; None before there is one.
    start : float, default=0.0
        What stands in for gaps before the first number.
    """

    name: Any
    kind: Kind
    at: int
    width: int
    values: Values
    total: float = 0.0
    count: float = 0.0
    origin: float | None = None
    start: float = 0.0

    @property
    def used(self) -> int:
        """Columns of numbers that it needs; the others are zeros."""
        return column_width(self.kind, self.values.n_targets)

    def encode(self, cells: Cells, learned: NDArray[np.bool_], targets: Targets, out: Float) -> Change:
        """Write a block, as `parsed` gives it, to `out` (its columns only), and tell what learning from it changes."""
        if self.kind == "category":
            return self._encode_categories(cells, learned, targets, out)
        numbers: Float = cells.values
        gaps = np.isnan(numbers)
        present = learned & ~gaps
        origin = None
        if self.kind == "date":
            out[:, 1:7] = _cycles(numbers)
            numbers, origin = _years(numbers, self.origin, present)
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        totals = np.cumsum(np.concatenate([[self.total], np.where(present, numbers, 0.0)]))
        out[:, 0] = numbers
        if not gaps.any():
            sums = float(totals[-1]), self.count + float(np.count_nonzero(learned))
            return Change(np.full(len(numbers), -1), self.values.tally_gaps(gaps[:0], (), ()), sums, origin)
        counts = np.cumsum(np.concatenate([[self.count], present.astype(np.float64)]))
        means = np.where(counts[:-1] > 0, totals[:-1] / np.maximum(counts[:-1], 1.0), self.start)
        out[:, 0] = np.where(gaps, means, numbers)
        rows = np.flatnonzero(gaps)
        few = targets.of(rows)
        tally = self.values.tally_gaps(learned[rows], few.places, few.amounts)
        tally.claims = _gap_claims(rows, tally.before, learned, targets)
        return Change(np.where(gaps, GAP, -1), tally, (float(totals[-1]), float(counts[-1])), origin)

    def _encode_categories(self, cells: Cells, learned: NDArray[np.bool_], targets: Targets, out: Float) -> Change:
        chosen = learned.tolist()
        codes, new = self.values.codes(cells.values, chosen)
        tally = self.values.tally(codes, new, chosen, targets.places, targets.amounts)
        n_targets = self.values.n_targets
        seen, sums = tally.before[:, :1], tally.before[:, 1:]
        out[:, :n_targets] = (sums + SMOOTHING * targets.means) / (seen + SMOOTHING)
        numbers = np.array(codes, dtype=np.int64)
        rows = np.flatnonzero(numbers == GAP)
        tally.claims += _gap_claims(rows, tally.before[rows], learned, targets)
        return Change(numbers, tally, (0.0, 0.0))

    def codes(self, cells: Cells, learned: Sequence[bool]) -> tuple[list[int], dict[str, int]]:
        """Codes of cells that hold categories, and the new ones among those of learned rows."""
        return self.values.codes(parsed(self.name, "category", cells, Notices(), self.values).values, learned)

    def after(self, change: Change, places: dict[int, int]) -> Column:
        """Take over what a block does, and the columns of zeros and ones that it gives to values."""
        total, count = change.totals
        values = self.values.after(change.tally, places)
        return replace(self, values=values, total=total, count=count, origin=change.origin)

    def with_sums(self, total: float, count: float) -> Column:
        """Take over the sum and count of its numbers after a block without a gap; `replace` would take longer."""
        return Column(self.name, self.kind, self.at, self.width, self.values, total, count, self.origin, self.start)

    def feature_names(self) -> list[str]:
        """Name its columns of numbers."""
        if self.kind == "date":
            parts: Sequence[str] = DATE_PARTS
        elif self.kind == "category":
            n = self.values.n_targets
            parts = ["target"] if n == 1 else [f"target{at}" for at in range(n)]
        else:
            parts = [""]
        names = [f"{self.name}_{part}" if part else str(self.name) for part in parts]
        return names + [f"{self.name}_{at}" for at in range(len(names), self.width)]


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


def _years(days: Float, origin: float | None, present: NDArray[np.bool_]) -> tuple[Float, float | None]:
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


def _cycles(days: Float) -> Float:
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

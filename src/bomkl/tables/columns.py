"""One column of a table as columns of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.tables import cells as cell_types
from bomkl.tables.cells import LARGEST, Kind, kind_of_cells
from bomkl.tables.errors import cell_error
from bomkl.tables.frames import Cells
from bomkl.tables.targets import Targets
from bomkl.tables.values import GAP, Float, Tally, Values

DATE_PARTS = ("trend", "hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos")
YEAR = 365.25  # days
MOST_DAYS = 1e9  # from 1970; microseconds since then would not fit into 64 bits
GAP_ROWS = 8  # rows with a gap before it may have a column of its own
GAP_ERRORS = 3.0  # standard errors by which their mean target must differ
SMOOTHING = 10.0  # rows that the mean of all targets counts for in the mean of a category
_RULES: dict[str, str] = {
    "number": "hold finite numbers",
    "boolean": "hold True or False",
    "date": "hold dates such as 2024-02-29 or 2024-02-29T12:00:00",
    "category": "hold texts, numbers, truth values or dates",
}


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
    """

    name: Any
    kind: Kind
    at: int
    width: int
    values: Values
    total: float = 0.0
    count: float = 0.0
    origin: float | None = None

    @property
    def used(self) -> int:
        """Columns of numbers that it needs; the others are zeros."""
        return column_width(self.kind, self.values.n_targets)

    def encode(self, cells: Cells, learned: NDArray[np.bool_], targets: Targets, out: Float) -> Change:
        """Write a block to `out` (its columns only), and tell what learning from it changes."""
        if self.kind == "category":
            return self._encode_categories(cells, learned, targets, out)
        numbers = _numbers(self.name, self.kind, cells)
        gaps = np.isnan(numbers)
        present = learned & ~gaps
        origin = None
        if self.kind == "date":
            out[:, 1:7] = _cycles(numbers)
            numbers, origin = _years(numbers, self.origin, present)
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        totals = np.cumsum(np.concatenate([[self.total], np.where(present, numbers, 0.0)]))
        counts = np.cumsum(np.concatenate([[self.count], present.astype(np.float64)]))
        filled = numbers
        if gaps.any():
            filled = np.where(gaps, totals[:-1] / np.maximum(counts[:-1], 1.0), numbers)
        out[:, 0] = filled
        rows = np.flatnonzero(gaps)
        few = targets.of(rows)
        tally = self.values.tally_gaps(learned[rows], few.places, few.amounts)
        tally.claims = _gap_claims(rows, tally.before, learned, targets)
        return Change(np.where(gaps, GAP, -1), tally, (float(totals[-1]), float(counts[-1])), origin)

    def _encode_categories(self, cells: Cells, learned: NDArray[np.bool_], targets: Targets, out: Float) -> Change:
        chosen = learned.tolist()
        codes, new = self.codes(cells, chosen)
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
        return self.values.codes(_categories(self.name, cells, self.values), learned)

    def after(self, change: Change, places: dict[int, int]) -> Column:
        """Take over what a block does, and the columns of zeros and ones that it gives to values."""
        total, count = change.totals
        values = self.values.after(change.tally, places)
        return replace(self, values=values, total=total, count=count, origin=change.origin)

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


def first_kind(name: Any, cells: Cells, declared: Kind | None) -> Kind | None:
    """Tell what a column holds, or None where its first row does not show it.

    A gap says nothing, even in a table with types: files, services and frames must lay out the same rows alike.
    """
    if declared is not None:
        return declared
    if not len(cells.values) or cell_types.is_gap(cells.values[0]):
        return None
    return cells.kind or kind_of_cells(cells.values, name)


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


def _numbers(name: Any, kind: Kind, cells: Cells) -> Float:
    """Numbers, truth values or days of cells, gaps as NaN."""
    if cells.kind == kind or (kind == "number" and cells.kind == "boolean"):
        numbers: Float = cells.values
    else:
        convert: Callable[[Any], float] = {
            "number": cell_types.number,
            "boolean": cell_types.boolean,
            "date": cell_types.days,
        }[kind]
        numbers = np.empty(len(cells.values))
        for row, cell in enumerate(cells.objects(), cells.first_row):
            try:
                numbers[row - cells.first_row] = convert(cell)
            except (ValueError, OverflowError):
                advice = f" Declare other types with types={{{name!r}: 'category'}}." if isinstance(cell, str) else ""
                raise cell_error(name, _RULES[kind], row, cell, advice) from None
    wrong = np.flatnonzero(np.isinf(numbers))
    if len(wrong):
        raise cell_error(name, _RULES[kind], cells.first_row + int(wrong[0]), float(numbers[wrong[0]]))
    return np.clip(numbers, -LARGEST, LARGEST)


def _categories(name: Any, cells: Cells, values: Values) -> list[str | None]:
    texts: list[str | None] = []
    known, recent, met = values.index, values.recent_index, dict[str, str | None]()
    for row, cell in enumerate(cells.objects() if cells.kind else cells.values, cells.first_row):
        if type(cell) is str:
            if cell in known or cell in recent:
                texts.append(cell)
            else:
                if cell not in met:
                    met[cell] = cell_types.category(cell)
                texts.append(met[cell])
        elif cell is None or (type(cell) is float and cell != cell):
            texts.append(None)
        else:
            try:
                texts.append(cell_types.category(cell))
            except ValueError:
                raise cell_error(name, _RULES["category"], row, cell) from None
    return texts


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

"""What a report needs of the rows themselves: where a model is wrong, missing values, new values, odd labels.

All of it is counted along the stream in bounded memory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bomkl.tables.frames import is_table, read_table
from bomkl.tables.numbers import is_gap

Float = NDArray[np.float64]
MOST_COLUMNS = 100  # of which groups are counted
MOST_VALUES = 200  # of a column
ODD_ROWS = 10
_PARTS = 5  # into which numbers are cut, at quantiles of the first rows
_FEWEST = 30  # rows of a group
NEW_AFTER = 500  # rows before which everything is new
_CHECKSUMS = 2**18  # that tell values seen before from new ones; a new one may share that of another
_LONGEST = 60  # letters of a cell that are shown
_ERRORS_AT_CHANCE = 0.01  # groups that chance alone would show, on average, in a whole report


@dataclass
class _Column:
    """Counts of one column: rows, errors and squared errors by value or part."""

    counts: dict[Any, list[float]] = field(default_factory=dict)
    cuts: Float | None = None
    rows: int = 0
    missing: int = 0
    new: int = 0
    seen: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))  # by checksums of values


@dataclass(frozen=True)
class Group:
    """Rows with more errors than chance explains."""

    column: str
    value: str
    rows: int
    error: float
    surprise: float  # standard errors above the mean of all rows


class RowWatch:
    """Watches rows, predictions and errors; give its `note` to `ProgressiveValidation` as ``watch``."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.columns: dict[Any, _Column] = {}
        self.rows, self.errors, self.squares = 0, 0.0, 0.0
        self.odd: list[tuple[float, int, Any, Any, str]] = []  # surprise, row, label, prediction, cells
        self.labels: Counter[Any] = Counter()

    def note(self, X: Any, y: NDArray[Any], margins: Float, errors: Float) -> None:
        cells = _cells(X)
        for name in list(cells)[:MOST_COLUMNS]:
            if name in self.columns or len(self.columns) < MOST_COLUMNS:
                self._count(self.columns.setdefault(name, _Column()), cells[name], errors)
        self._note_odd(cells, y, margins, errors)
        self.rows += len(y)
        self.errors += float(errors.sum())
        self.squares += float((errors**2).sum())

    def _count(self, column: _Column, values: Any, errors: Float) -> None:
        numbers = isinstance(values, np.ndarray) and values.dtype.kind in "fiub"
        column.rows += len(errors)
        if numbers:
            values = values.astype(np.float64)
            gaps = np.isnan(values)
            if column.cuts is None:
                known = values[~gaps]
                quantiles = np.quantile(known, np.linspace(0, 1, _PARTS + 1)[1:-1]) if len(known) else np.empty(0)
                column.cuts = np.unique(quantiles)
            places = np.where(gaps, 0, 1 + np.searchsorted(column.cuts, values, side="right"))
            column.missing += int(gaps.sum())
            self._add(column, list(range(-1, len(column.cuts) + 1)), places, errors)
            return
        codes: dict[Any, int] = {}
        inverse = np.array([codes.setdefault(value, len(codes)) for value in map(_key, values)], dtype=np.intp)
        if None in codes:
            column.missing += int((inverse == codes[None]).sum())
        if not len(column.seen):
            column.seen = np.zeros(_CHECKSUMS, dtype=bool)
        sums = [crc32(value.encode("utf-8", "surrogatepass")) % _CHECKSUMS for value in codes if value is not None]
        if self.rows >= NEW_AFTER:
            column.new += int((~column.seen[sums]).sum())
        column.seen[sums] = True
        self._add(column, list(codes), inverse, errors)

    def _add(self, column: _Column, keys: list[Any], inverse: NDArray[np.intp], errors: Float) -> None:
        rows, sums = np.bincount(inverse, minlength=len(keys)), np.bincount(inverse, errors, len(keys))
        for key, count, total in zip(keys, rows.tolist(), sums.tolist(), strict=True):
            if count and (key in column.counts or len(column.counts) < MOST_VALUES):
                known = column.counts.setdefault(key, [0.0, 0.0])
                known[0] += count
                known[1] += total

    def _note_odd(self, cells: dict[Any, Any], y: NDArray[Any], margins: Float, errors: Float) -> None:
        """Keep the rows that contradict the model most."""
        if not is_classifier(self.estimator):
            surprise = np.asarray(errors, dtype=np.float64)
            predicted: NDArray[Any] = margins
        else:
            classes = np.asarray(self.estimator.classes_)
            scores = margins
            if margins.ndim == 1:
                scores = np.column_stack([np.zeros(len(y)), margins])[:, : len(classes)]
            best = scores.argmax(axis=1)
            own = scores[np.arange(len(y)), np.searchsorted(classes, y).clip(0, scores.shape[1] - 1)]
            surprise = np.where(errors > 0, scores[np.arange(len(y)), best] - own, 0.0)
            predicted = classes[best]
        least = self.odd[-1][0] if len(self.odd) == ODD_ROWS else 0.0
        for at in np.flatnonzero(surprise > least):
            if self.rows + at < NEW_AFTER:
                continue
            shown = ", ".join(f"{name}={_text(values[at])}" for name, values in list(cells.items())[:6])
            label, guess = (value.item() if hasattr(value, "item") else value for value in (y[at], predicted[at]))
            self.odd.append((float(surprise[at]), self.rows + int(at), label, guess, shown))
        self.odd = sorted(self.odd, key=lambda each: -each[0])[:ODD_ROWS]

    def groups(self, most: int = 8) -> list[Group]:
        """Give the groups with more errors than chance explains, even though so many were looked at."""
        if self.rows < 2 * _FEWEST:
            return []
        mean = self.errors / self.rows
        deviation = float(np.sqrt(max(self.squares / self.rows - mean**2, 0.0)))
        tried = [
            (name, column, key, rows, errors)
            for name, column in self.columns.items()
            for key, (rows, errors) in column.counts.items()
            if rows >= _FEWEST
        ]
        limit = NormalDist().inv_cdf(1 - _ERRORS_AT_CHANCE / max(len(tried), 1))
        found = []
        for name, column, key, rows, errors in tried:
            surprise = (errors / rows - mean) * np.sqrt(rows) / max(deviation, 1e-300)
            if surprise > limit and deviation > 0:
                found.append(Group(str(name), _part(column, key), int(rows), errors / rows, float(surprise)))
        return sorted(found, key=lambda each: -each.surprise)[:most]


def _cells(X: Any) -> dict[Any, Any]:
    """Columns of some rows; of very many columns none."""
    if is_table(X):
        return {name: cells.values for name, cells in read_table(X).columns.items()}
    if X.shape[1] > MOST_COLUMNS:
        return {}
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return {f"column {at}": dense[:, at] for at in range(dense.shape[1])}


def _key(value: Any) -> Any:
    """Give a value as it is counted: strings as they are, None where it is missing."""
    return None if is_gap(value) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    text = "missing" if is_gap(value) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _part(column: _Column, key: Any) -> str:
    """Say what a value or a part of the numbers is."""
    if key is None or key == -1:
        return "missing"
    if column.cuts is None or isinstance(key, str):
        return _text(key)
    cuts = column.cuts
    if not len(cuts):
        return "any value"
    if key == 0:
        return f"below {cuts[0]:.4g}"
    return f"{cuts[-1]:.4g} or more" if key == len(cuts) else f"{cuts[key - 1]:.4g} to {cuts[key]:.4g}"

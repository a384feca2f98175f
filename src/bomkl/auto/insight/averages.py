"""Averages of what windows measured, each column with its error; windows that came later count more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.swapping import MOST_CLASSES
from bomkl.auto.limits import FRACTIONS, SUMS
from bomkl.auto.saved import Saved, State

MOST_KEPT = 512  # columns
_FEW = 12  # windows below which their differences say little about the error of the mean


def _empty() -> Float:
    return np.empty((2, 0))


@dataclass(frozen=True)
class Averages:
    """Averages of the rise of the loss, of the error, and of the parts of the first that classes have.

    Examples
    --------
    >>> def window(rise, weight):
    ...     return np.array([0]), np.array([weight]), np.array([[rise], [0.5]]), np.zeros((2, 1)), np.zeros((2, 1))
    >>> Averages().plus(*window(1.0, 1.0)).plus(*window(4.0, 2.0)).mean
    array([[3. ],
           [0.5]])
    """

    columns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    count: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    weight: Float = field(default_factory=lambda: np.empty(0))  # of all measurements
    squares: Float = field(default_factory=lambda: np.empty(0))  # sum of the squared shares of all measurements
    mean: Float = field(default_factory=_empty)
    spread: Float = field(default_factory=_empty)  # mean squared difference of measurements from their mean
    within: Float = field(default_factory=_empty)  # mean of the squared errors that each measurement had by itself
    expected: Float = field(default_factory=_empty)  # rise if the probabilities were right

    def plus(self, columns: NDArray[Any], weight: Float, means: Float, within: Float, expected: Float) -> Averages:
        """Averages with one more window."""
        known = self._of_rows(len(means))._with(columns)
        at = np.searchsorted(known.columns, columns)
        count, total, squares = known.count.copy(), known.weight.copy(), known.squares.copy()
        mean, spread, inner, model = (each.copy() for each in (known.mean, known.spread, known.within, known.expected))
        count[at] += 1
        total[at] += weight
        pace = weight / total[at]
        step = means - mean[:, at]
        mean[:, at] += pace * step
        spread[:, at] = (1 - pace) * (spread[:, at] + pace * step**2)
        inner[:, at] += pace * (within - inner[:, at])
        model[:, at] += pace * (expected - model[:, at])
        squares[at] = (1 - pace) ** 2 * squares[at] + pace**2
        return Averages(known.columns, count, total, squares, mean, spread, inner, model)

    def _of_rows(self, n: int) -> Averages:
        """Make room for classes none of whose rows was measured; of too many, none is measured by itself."""

        def fitted(values: Float) -> Float:
            return np.concatenate([values[:n], np.zeros((max(n - len(values), 0), values.shape[1]))])

        if len(self.mean) == n:
            return self
        mean, spread, within, expected = map(fitted, (self.mean, self.spread, self.within, self.expected))
        return replace(self, mean=mean, spread=spread, within=within, expected=expected)

    def _with(self, columns: NDArray[Any]) -> Averages:
        """Make room for columns; of too many, those that promise least are left out."""
        new = np.setdiff1d(columns, self.columns)
        if not len(new):
            return self
        keep = np.arange(len(self.columns))
        if (excess := len(keep) + len(new) - MOST_KEPT) > 0:
            # columns of this window stay: they are about to be measured once more
            hope = np.where(np.isin(self.columns, columns), np.inf, self._upper())
            keep = np.sort(np.argsort(-hope, kind="stable")[: len(keep) - excess])
        order = np.argsort(np.concatenate([self.columns[keep], new]), kind="stable")

        def grown(values: Any) -> Any:
            fresh = np.zeros((*values.shape[:-1], len(new)), dtype=values.dtype)
            return np.concatenate([values[..., keep], fresh], axis=-1)[..., order]

        all_columns = np.concatenate([self.columns[keep], new.astype(np.int64)])[order]
        values = (self.count, self.weight, self.squares, self.mean, self.spread, self.within, self.expected)
        return Averages(all_columns, *map(grown, values))

    def deviations(self) -> Float:
        """Give the standard error of each mean."""
        share = np.minimum(self.squares, 1 - 1e-9)
        between = self.spread * share / (1 - share)
        alone = self.within * self.squares
        return np.sqrt(np.where(self.count < _FEW, np.maximum(np.where(self.count > 1, between, 0.0), alone), between))

    def estimates(self) -> tuple[Float, Float]:
        """Estimate how much shuffling each column adds to loss and error, and how far off that may be.

        If the probabilities were right, they would rise as much as the model expects. If a column is noise, they do
        not rise. Before labels tell, the rise is taken to be half of what the model expects, and off by as much. The
        more rows were measured, the more their mean counts: both are normal, and this is the posterior.
        """
        error, half = self.deviations(), self.expected / 2
        both = half**2 + error**2
        trust = np.where(both > 0, half**2 / np.where(both > 0, both, 1.0), 1.0)
        return trust * self.mean + (1 - trust) * half, np.sqrt(trust) * error

    def _upper(self) -> Float:
        mean, error = self.estimates()
        return np.asarray(mean[0] + 2 * error[0])

    def upper(self, n: int) -> Float:
        """How much each of n columns may well matter; NaN where it was not measured."""
        out = np.full(n, np.nan)
        out[self.columns] = self._upper()
        return out

    def upper_of(self, columns: NDArray[Any]) -> Float:
        """Likewise of some columns that are known."""
        return np.asarray(self._upper()[np.searchsorted(self.columns, columns)])

    def of(self, n: int) -> tuple[Float, Float]:
        """Estimates of n columns and how far off they may be; 0 and NaN where one was not measured."""
        rows = len(self.mean)
        means, deviations = np.zeros((rows, n)), np.full((rows, n), np.nan)
        means[:, self.columns], deviations[:, self.columns] = self.estimates()
        return means, deviations

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, saved: Saved, names: int) -> Self:
        """Go on where `to_state` was called, with so many columns."""
        columns = saved.array("columns", (None,), np.int64, 0, names - 1)
        n = len(columns)
        if n > MOST_KEPT or (np.diff(columns) <= 0).any():
            raise saved.wrong("columns", f"at most {MOST_KEPT} in order", n)
        mean = saved.array("mean", (None, n))
        rows = len(mean)
        if not 2 <= rows <= 2 + MOST_CLASSES:
            raise saved.wrong("mean", f"those of loss, error and at most {MOST_CLASSES} classes", rows)
        found = cls(
            columns,
            saved.array("count", (n,), np.int64, 1),
            saved.array("weight", (n,), np.float64, *SUMS),
            saved.array("squares", (n,), np.float64, *FRACTIONS),
            mean,
            saved.array("spread", (rows, n), np.float64, *SUMS),
            saved.array("within", (rows, n), np.float64, *SUMS),
            saved.array("expected", (rows, n), np.float64, -SUMS.high, SUMS.high),
        )
        saved.end()
        return found

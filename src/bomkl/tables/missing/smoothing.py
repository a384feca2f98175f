"""Normal scores of the last rows, and what rows like a given one differ by from their linear predictions.

Under a Gaussian copula (Zhao and Udell, 2020) columns are normally distributed once each is ranked, so that skewed
columns and outliers do not spoil the linear prediction. What it leaves over, a kernel smoother takes from rows alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bomkl._core import BLOCK, exp_many, matmul, normal_scores
from bomkl._support.scores import rank_scores
from bomkl._support.tiles import packed
from bomkl.tables.missing.conditional import residuals

Float = NDArray[np.float64]
Single = NDArray[np.float32]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
_WIDTH = 0.8  # of the kernel, in deviations of a score
_UNKNOWN = np.float32(2.0)  # squared distance of independent scores, counted once for every pair of rows
_DOUBT = 0.5  # weight of a row that says the linear prediction is right
_TOGETHER = 128  # cells worked on in one step; the result does not depend on it
_LARGEST = 4.0  # deviations of a score that count as left over
_LEAST = 1e-6  # deviations of scores below it count as none


@dataclass(frozen=True)
class Scale:
    """Normal scores of columns, with mean 0 and deviation 1 among the rows they are taken from."""

    sorted_columns: Float  # (d, n)
    table: Float
    mean: Float
    deviation: Float

    @classmethod
    def of(cls, rows: Float) -> Self:
        n, d = rows.shape
        plain = cls(np.ascontiguousarray(np.sort(rows, axis=0).T), rank_scores(n), np.zeros(d), np.ones(d))
        scores = plain(rows)
        deviation = scores.std(axis=0)
        return cls(plain.sorted_columns, plain.table, scores.mean(axis=0), np.where(deviation < _LEAST, 1.0, deviation))

    def __call__(self, rows: Float) -> Float:
        out = np.empty(rows.shape, dtype=np.float32)
        normal_scores(np.ascontiguousarray(rows), self.sorted_columns, self.table, self.mean, self.deviation, out)
        return out.astype(np.float64)

    def values(self, scores: Float, column: Places) -> Float:
        """Values that have some scores in some columns."""
        n = self.sorted_columns.shape[1]
        rank = np.clip(ndtr(scores * self.deviation[column] + self.mean[column]) * (n + 1) - 1, 0.0, n - 1.0)
        low = np.floor(rank).astype(np.intp)
        below, above = self.sorted_columns[column, low], self.sorted_columns[column, np.minimum(low + 1, n - 1)]
        found: Float = below + (rank - low) * (above - below)
        return found


@dataclass(frozen=True)
class Smoother:
    """Rows of scores, and what linear predictions of them left over."""

    squares: Single  # tiles: their part in squared distances
    shared: Single  # tiles: their part in counts of shared columns
    present: Single  # (d, n): zeros and ones; columns that are constant count as gaps
    scores: Single  # (d, n): 0 at gaps, as the next
    left: Single  # (d, n): what was left over; n is rounded up to whole tiles by rows of gaps
    varying: int  # columns that are not constant

    @classmethod
    def of(cls, scores: Float, present: Mask, precision: Float, owner: Places) -> Self:
        """Take rows where gaps are filled; `owner`: which columns are parts of one cell."""
        varies = scores.max(axis=0) > scores.min(axis=0)
        alone = np.bincount(owner + 1)[owner + 1] == 1  # only for these, the other columns hide the whole cell
        present = present & varies
        known = np.where(present, scores, 0.0)
        left = np.where(present & alone, np.clip(residuals(precision, scores, owner), -_LARGEST, _LARGEST), 0.0)
        return cls(
            squares=packed(np.hstack([present, known, known * known]).T),
            shared=packed(present.T),
            present=_whole_tiles(present),
            scores=_whole_tiles(known),
            left=_whole_tiles(left),
            varying=max(int(varies.sum()), 1),
        )

    def __call__(self, scores: Float, present: Mask, at: Places, column: Places) -> Float:
        """Say what to add to the linear predictions of cells at (at, column) of rows, whose own values are not used."""
        parts = [self._some(scores, present, at[some], column[some]) for some in _steps(len(at))]
        return np.concatenate([np.empty(0), *parts])

    def _some(self, scores: Float, present: Mask, at: Places, column: Places) -> Float:
        rows, which = np.unique(at, return_inverse=True)
        here = present[rows]
        known = np.where(here, scores[rows], 0.0)
        distance = _product(np.hstack([known * known, -2.0 * known, here]), self.squares)[which]
        count = _product(here, self.shared)[which]
        own = here[which, column]
        if own.any():
            mine = known[which, column].astype(np.float32)[:, None]
            both = self.present[column] * own[:, None]
            distance -= both * (mine - self.scores[column]) ** 2
            count -= both
        distance += _UNKNOWN
        distance /= count + np.float32(1.0)
        distance -= distance.min(axis=1, keepdims=True)
        distance *= np.float32(-self.varying / (2 * _WIDTH**2))
        exp_many(distance.reshape(-1))  # in place; it takes whole tiles only
        total = np.einsum("ij,ij->i", distance, self.left[column], dtype=np.float64)
        weight = np.einsum("ij,ij->i", distance, self.present[column], dtype=np.float64)
        found: Float = total / (weight + _DOUBT)
        return found


def _whole_tiles(rows: NDArray[Any]) -> Single:
    return np.ascontiguousarray(np.pad(rows, ((0, -len(rows) % BLOCK), (0, 0))).T, dtype=np.float32)


def _product(factors: NDArray[Any], tiles: Single) -> Single:
    """Multiply with tiles; a row has the same bits among any others."""
    out = np.empty((len(factors), tiles.shape[0] * tiles.shape[2]), dtype=np.float32)
    matmul(factors.astype(np.float32), tiles, out)
    return out


def _steps(n: int) -> Iterator[slice]:
    return (slice(begin, begin + _TOGETHER) for begin in range(0, n, _TOGETHER))

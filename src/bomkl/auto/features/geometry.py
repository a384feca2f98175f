"""Views of the columns: the same rows on several scales, all taken from the kept rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bomkl._core import BLOCK, ColumnViews, normal_scores
from bomkl._support.scores import rank_scores
from bomkl._support.tiles import packed
from bomkl.auto.features.coding import Coding
from bomkl.auto.limits import DEVIATIONS, SUMS
from bomkl.auto.saved import Saved, State

Float = NDArray[np.float64]
Single = NDArray[np.float32]
Views = dict[str, NDArray[Any]]  # of single precision, but for the codes

VIEWS = ("standard", "normal", "common", "leading", "relevant standard", "relevant normal")  # in the order of the core
CLIP = 8.0  # standardised values beyond it tell an outlier, and how far out it is does not matter
FAR = 1000.0  # common-scale values beyond it are as far as single precision can tell apart
_SCALINGS = (  # as files have them
    "mean",
    "deviation",
    "middle",
    "common",
    "sorted_columns",
    "score_table",
    "normal_mean",
    "normal_deviation",
    "axes",
)
_LEADING = 8  # principal components of the view "leading"
_FLOOR = 0.5  # least deviation of a column of two values, in their distance, where relevance scales the columns
ROOT_HALF = 0.5**0.5  # brings squares of normal scores to deviation 1
_CONSTANT = 1e-9  # a deviation below this share of the mean is rounding
_ROUNDING = 1e30  # in common scales: only the rounding of a huge constant column is so far from its mean


def varying_columns(rows: NDArray[Any]) -> int:
    """Count the columns that are not constant, at least 1: no average may depend on the others.

    Examples
    --------
    >>> varying_columns(np.array([[1, 2, 0], [1, 3, 1]]))
    2
    """
    return max(int((rows.max(axis=0) > rows.min(axis=0)).sum()), 1)


def view_width(name: str, columns: int) -> int:
    """Columns of a view of rows that have some number of columns."""
    return min(_LEADING, columns) if name == "leading" else columns


def bases_of(names: set[str]) -> set[str]:
    """Name the views that others derive from."""
    derived = {"leading": "common", "squares": "normal"}
    return {name.removeprefix("relevant ") for name in names} | {derived[name] for name in names if name in derived}


def two_valued_scale(rows: Float) -> Float:
    """Factors that bring columns of two values from deviation 1 to what they would have at a deviation of at least 0.5.

    The rarer one of two values is, the farther apart standardising moves them: without a floor, rare flags decide which
    rows are close. Other columns have factor 1.

    Examples
    --------
    >>> two_valued_scale(np.array([[0, 1.0], [0, 2.0], [0, 3.0], [8, 4.0]]))
    array([0.8660254, 1.       ])
    """
    low, high = rows.min(axis=0), rows.max(axis=0)
    deviation = rows.std(axis=0)  # zero where squares of the differences are too small for a number
    two = ((rows == low) | (rows == high)).all(axis=0) & (high > low) & (deviation > 0)
    with np.errstate(over="ignore"):
        share = deviation / np.where(two, high - low, 1.0)
    return np.where(two, np.minimum(1.0, share / _FLOOR), 1.0)


@dataclass
class Geometry:
    """Column scalings.

    "standard": mean 0 and deviation 1, clipped; "common": median 0, one scale for all columns; "normal": through their
    empirical distribution to normal scores; "leading": first principal components of "common"; "relevant ...":
    standard or normal columns multiplied by their relevance, columns of two values with a floor under their deviation;
    "squares": of "normal", with mean 0 and deviation 1.
    """

    mean: Float
    deviation: Float
    middle: Float
    common: float
    sorted_columns: Float
    score_table: Float
    normal_mean: Float
    normal_deviation: Float
    axes: Single
    relevance: dict[str, Float] = field(default_factory=dict)
    coding: Coding | None = None  # where there are trees
    _core: tuple[Any, ColumnViews] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, kept: Float) -> Self:
        """Take all scalings from some rows."""
        n = len(kept)
        mean, deviation = kept.mean(axis=0), kept.std(axis=0)
        constant = deviation <= _CONSTANT * np.abs(mean)
        common = float(np.sqrt(np.sum(np.where(constant, 0.0, deviation) ** 2) / varying_columns(kept))) or 1.0
        centred = (kept - mean) / common
        centred[:, np.abs(centred).max(axis=0) > _ROUNDING] = 0.0  # whose squares are too much for eigenvectors
        sorted_columns = np.ascontiguousarray(np.sort(kept, axis=0).T)
        table = rank_scores(n)
        scores = np.empty(kept.shape, dtype=np.float32)
        zero, one = np.zeros(kept.shape[1]), np.ones(kept.shape[1])
        normal_scores(kept, sorted_columns, table, zero, one, scores)
        spread = scores.std(axis=0, dtype=np.float64)
        return cls(
            mean=mean,
            deviation=np.where(constant, 1.0, deviation),
            # Single precision keeps the digits of distances where most rows are, which outliers pull the mean from
            middle=sorted_columns[:, n // 2].copy(),
            common=common,
            sorted_columns=sorted_columns,
            score_table=table,
            normal_mean=scores.mean(axis=0, dtype=np.float64),
            normal_deviation=np.where(spread < 1e-6, 1.0, spread),
            axes=packed(_principal_axes(centred)),
        )

    def views(self, X: Float, names: Iterable[str]) -> Views:
        """Rows in the views asked for, and in those they derive from."""
        names = set(names)
        bases = bases_of(names)
        views: Views = {
            name: np.empty((len(X), view_width(name, X.shape[1])), dtype=np.float32)
            for name in VIEWS
            if name in names | bases
        }
        self.core().make(X, [views.get(name) for name in VIEWS])
        if "squares" in names:
            views["squares"] = (views["normal"] * views["normal"] - self.square_means()) * np.float32(ROOT_HALF)
        if "codes" in names:
            assert self.coding is not None
            views["codes"] = self.coding(X)
        return views

    def core(self) -> ColumnViews:
        """Return the views as the core makes them."""
        made_for = self.relevance, self.coding
        if self._core is None or any(one is not other for one, other in zip(self._core[0], made_for, strict=True)):
            one = np.ones(len(self.mean))
            arrays = self._scalings() | {"clip": CLIP, "far": FAR, "leading": view_width("leading", len(self.mean))}
            for name in ("standard", "normal"):
                arrays[f"relevance_{name}"] = self.relevance.get(name, one).astype(np.float32)
            if self.coding is not None:
                arrays |= self.coding.to_state()
            self._core = made_for, ColumnViews.of(arrays)
        return self._core[1]

    def __getstate__(self) -> State:
        return vars(self) | {"_core": None}  # the core does not know pickles

    def _scalings(self) -> State:
        return {name: getattr(self, name) for name in _SCALINGS}

    def square_means(self) -> Single:
        """Means of squared normal scores among the kept rows: 1, and 0 for constant columns."""
        return (self.sorted_columns[:, 0] < self.sorted_columns[:, -1]).astype(np.float32)

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return self._scalings() | {
            "relevance_standard": self.relevance["standard"],
            "relevance_normal": self.relevance["normal"],
            "coding": None if self.coding is None else self.coding.to_state(),
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called."""
        each = (columns,)
        sorted_columns = saved.array("sorted_columns", (columns, None))
        if not sorted_columns.shape[1]:
            raise saved.wrong("sorted_columns", "of one row or more", sorted_columns.shape)
        if (np.diff(sorted_columns, axis=1) < 0).any():
            raise saved.wrong("sorted_columns", "in order", "values out of order")
        geometry = cls(
            mean=saved.array("mean", each),
            deviation=saved.array("deviation", each, np.float64, *DEVIATIONS),
            middle=saved.array("middle", each),
            common=saved.number("common", *DEVIATIONS),
            sorted_columns=sorted_columns,
            score_table=saved.array("score_table", (2 * sorted_columns.shape[1] + 1,)),
            normal_mean=saved.array("normal_mean", each),
            normal_deviation=saved.array("normal_deviation", each, np.float64, *DEVIATIONS),
            axes=saved.array("axes", (1, columns, BLOCK), np.float32),
            relevance={
                name: saved.array(f"relevance_{name}", each, np.float64, *SUMS) for name in ("standard", "normal")
            },
        )
        coding = saved.optional_part("coding")
        geometry.coding = None if coding is None else Coding.from_state(coding, columns)
        saved.end()
        return geometry


def _principal_axes(centred: Float) -> Float:
    """Directions of largest variance, as columns; by way of the smaller of the two inner-product matrices."""
    n, d = centred.shape
    count = min(_LEADING, d)
    if d <= n:
        return _largest_eigenpairs(centred.T @ centred, count)[1]
    found = min(count, n)
    values, vectors = _largest_eigenpairs(centred @ centred.T, found)
    real = values > 1e-12 * max(values[0], 1e-300)
    axes = np.zeros((d, count))
    axes[:, :found][:, real] = centred.T @ vectors[:, real] / np.sqrt(values[real])
    return axes


def _largest_eigenpairs(symmetric: Float, count: int) -> tuple[Float, Float]:
    """Return the largest eigenvalues, from the largest down, and their vectors as columns."""
    n = len(symmetric)
    values, vectors = eigh(symmetric, subset_by_index=(n - count, n - 1))
    if len(values) < count:  # LAPACK may lose some of many equal eigenvalues when it looks for a few of them
        values, vectors = eigh(symmetric)
    return values[::-1][:count], vectors[:, ::-1][:, :count]

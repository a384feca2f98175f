"""Kernel matrices of rows against stored rows, as operators."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.kernels import Kernel
from bomkl.onnx.graph import Graph, Result

# Where the engine takes exp(x) as zero: a vanishing kernel must vanish in both, for its sign is a vote.
_VANISHES_BELOW = {np.dtype(np.float32): -124 * math.log(2), np.dtype(np.float64): -1020 * math.log(2)}
_COLUMNS_AT_A_TIME = 8
_FARTHEST = 512.0  # widths of a kernel from the centre: by products, squared distances keep 1e-10 of a squared width
_ROUNDING = 1e-14  # of the sum of many products, relative to the size of the products


class StoredRows:
    """Everything that kernels need of rows and stored rows, computed at most once."""

    def __init__(self, graph: Graph, rows: Result, stored: NDArray[Any]) -> None:
        self._graph, self._rows, self._stored = graph, rows, stored
        self._exact = stored.astype(np.float64)
        self._squared_distances: dict[bytes, Result] = {}  # by the rows that are too far out for products

    def kernel(self, kernel: Kernel, used: NDArray[np.intp]) -> Result:
        """Kernel values of every row with those of the stored rows that are in use."""
        values: Result = kernel.operators(_UsedRows(self, used))
        return values

    @cached_property
    def inner(self) -> Result:
        return self._rows @ self._graph.add("Transpose", self._stored)

    def squared_distance(self, width: float) -> Result:
        """Squared distances for a kernel of some width.

        Products of rows give the distances, as the engine computes them, but lose digits: of a stored row at r from the
        centre, 1e-16 r^2. Distances to the few rows that are too far out for the kernel are sums over the columns.
        """
        far = np.linalg.norm(self._centred, axis=1) > _FARTHEST * width
        key = far.tobytes()
        if key not in self._squared_distances:
            self._squared_distances[key] = self._distances_with(far)
        return self._squared_distances[key]

    def _distances_with(self, far: NDArray[np.bool_]) -> Result:
        if not far.any():
            return self._by_products(self._centred)
        by_columns = self._sums_over_columns(self._exact[far], "Mul")
        if far.all():
            return by_columns
        both = self._by_products(self._centred[~far]).add("Concat", by_columns, axis=1)
        return both.columns(np.argsort(np.argsort(far, kind="stable"), kind="stable"))

    def _by_products(self, centred: NDArray[np.float64]) -> Result:
        """Squared distances as sums of products.

        What is left below rounding is no distance; the engine sums such feature by feature and gets next to zero.
        """
        rows = self._centred_rows
        lengths = (rows * rows).sum(axis=1) + (centred**2).sum(axis=1)
        distance = rows @ (-2 * centred.T) + lengths
        return (distance < lengths * _ROUNDING).where(0.0, distance)

    @cached_property
    def _centre(self) -> NDArray[np.float64]:
        """Where most stored rows are: so distances lose the fewest digits.

        The centre has few digits, so that whole numbers and short fractions stay exact: then rows at the same distance
        get the same kernel value here, too, and opposite terms cancel as they do in the engine.
        """
        if not len(self._exact):
            return np.zeros(self._exact.shape[1])
        low, middle, high = np.quantile(self._exact, [0.25, 0.5, 0.75], axis=0, method="lower")
        return _with_few_digits(middle, high - low)

    @cached_property
    def _centred(self) -> NDArray[np.float64]:
        return self._exact - self._centre

    @cached_property
    def _centred_rows(self) -> Result:
        return self._rows + -self._centre

    @cached_property
    def cosine(self) -> Result:
        """Cosines of the angles, zero where a row is zero."""
        # A row is zero, and so are all its products, or its length is far above the smallest number.
        length = (self._rows * self._rows).sum(axis=1).add("Sqrt").at_least(1e-300)
        stored_length = np.maximum(np.sqrt((self._exact**2).sum(axis=1)), 1e-300)
        return self.inner / length / stored_length

    @cached_property
    def taxicab(self) -> Result:
        """Sums of absolute differences."""
        return self._sums_over_columns(self._exact, "Abs")

    def _sums_over_columns(self, stored: NDArray[np.float64], operator: str) -> Result:
        """Add up absolute ("Abs") or squared ("Mul") differences, a few columns at a time to bound the memory."""
        total = None
        for begin in range(0, stored.shape[1], _COLUMNS_AT_A_TIME):
            places = np.arange(begin, min(begin + _COLUMNS_AT_A_TIME, stored.shape[1]))
            difference = self._rows.columns(places).unsqueeze() - stored[:, places]
            sizes = difference.add("Abs") if operator == "Abs" else difference * difference
            part = sizes.sum(axis=2, keepdims=0)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _columns(self, matrix: Result, used: NDArray[np.intp]) -> Result:
        return matrix if len(used) == len(self._stored) else matrix.columns(used)

    def exp(self, distance: Result, factor: float) -> Result:
        """Exponentials that vanish where those of the engine do."""
        exponent = distance * factor
        return (exponent < _VANISHES_BELOW[self._stored.dtype]).where(0.0, exponent.add("Exp"))


def _with_few_digits(centre: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to a multiple of a power of two that is no larger than the spread."""
    varies = spread > 0
    step = np.exp2(np.floor(np.log2(np.maximum(np.where(varies, spread, 1.0), 1e-300))))
    rounded: NDArray[np.float64] = np.where(varies, np.round(centre / step) * step, centre)
    return rounded


class _UsedRows:
    """What a kernel is written in: relations to the stored rows it uses."""

    def __init__(self, rows: StoredRows, used: NDArray[np.intp]) -> None:
        self._all, self._used = rows, used

    def __getattr__(self, name: str) -> Result:
        return self._all._columns(getattr(self._all, name), self._used)

    def squared_distance(self, width: float) -> Result:
        """Squared distances to the last digit that a kernel of some width can tell apart."""
        return self._all._columns(self._all.squared_distance(width), self._used)

    def exp(self, distance: Result, factor: float) -> Result:
        return self._all.exp(distance, factor)

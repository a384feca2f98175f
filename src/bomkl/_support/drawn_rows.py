"""Rows of a table in another order, taken a block at a time: no copy of all of them is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import WIDEST

_CELLS_AT_ONCE = 2**18  # cells of a block: 2 MiB of numbers; the result does not depend on it

Order = NDArray[np.signedinteger[Any]]


def drawn_order(seed: int, weights: NDArray[np.float64]) -> Order:
    """Draw an order of the rows; those of weight zero are left out, as if they had never been there.

    Numbers of rows are short where they can be: the order is held as long as `fit` learns.

    Examples
    --------
    >>> sorted(drawn_order(0, np.array([1.0, 0.0, 2.0])).tolist())
    [0, 2]
    """
    rows: Order = np.flatnonzero(weights > 0).astype(np.int32 if len(weights) <= 2**31 else np.int64)
    np.random.default_rng([seed, len(rows)]).shuffle(rows)
    return rows


class Drawn:
    """Rows of a matrix or table in a given order, or some of them.

    Examples
    --------
    >>> rows = Drawn(np.array([[10.0], [11.0], [12.0]]), np.array([2, 0, 1]))
    >>> rows[0:2].tolist(), rows.shape
    ([[12.0], [10.0]], (3, 1))
    """

    def __init__(self, X: Any, order: Order) -> None:
        self.X: Any = X.X if isinstance(X, Drawn) else X
        self.order: Order = X.order[order] if isinstance(X, Drawn) else order
        self.shape = (len(self.order), X.shape[1])

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    @property
    def rows_at_once(self) -> int:
        wide = hasattr(self.X, "nnz") and self.X.shape[1] > WIDEST
        stored: int = self.X.nnz if wide else self.X.shape[0] * self.X.shape[1]
        return max(_CELLS_AT_ONCE * int(self.X.shape[0]) // max(stored, 1), 1)

    def __getitem__(self, part: Any) -> Any:
        """Take a part of the rows, by a slice or by their places in the order."""
        return self.X[self.order[part].astype(np.int64)]


def rows_at_once(X: Any) -> int | None:
    """Rows to learn from in one step; None for all.

    Examples
    --------
    >>> rows_at_once(np.zeros((4, 2)))
    """
    return X.rows_at_once if isinstance(X, Drawn) else None


def row_numbers(X: Any, rows: slice) -> Any:
    """Numbers of some rows in the table that the user passed, for messages.

    Examples
    --------
    >>> row_numbers(np.zeros((4, 2)), slice(2, 4)), row_numbers(Drawn(np.zeros((2, 1)), np.array([1, 0])), slice(0, 1))
    (range(2, 4), array([1]))
    """
    return X.order[rows] if isinstance(X, Drawn) else range(rows.start, rows.stop)

"""Rows as learners take them, and scores as they give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._core import NotFiniteError
from bomkl.auto.constants import LARGEST
from bomkl.auto.geometry import Float
from bomkl.auto.saved import Limits

WEIGHTS = Limits(1e-150, 1000.0)  # single precision could not hold what larger ones leave of a variance


def dense_rows(X: Any, begin: int, end: int) -> Float:
    """Rows of a matrix or CSR matrix as a contiguous array of finite squares."""
    rows: Any = X[begin:end]
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    return np.clip(np.ascontiguousarray(rows, dtype=np.float64), -LARGEST, LARGEST)


def rows_for(device: object | None, X: Any, begin: int, end: int) -> Any:
    """Rows as they are learned from: those that a device has already stay there."""
    return X[begin:end] if device is not None and hasattr(X, "tensor") else dense_rows(X, begin, end)


def on_processor(rows: Any) -> Float:
    """Rows of `rows_for` as an array."""
    return rows if isinstance(rows, np.ndarray) else dense_rows(rows, 0, len(rows))


def counted(weight: Float) -> Float:
    """Weights as rows count: a positive one within limits, so that no sum or quotient of weights is zero or infinite.

    Examples
    --------
    >>> counted(np.array([0.0, 5e-324, 2.0, 1e300]))
    array([0.e+000, 1.e-150, 2.e+000, 1.e+003])
    """
    return np.where(weight > 0, WEIGHTS.clip(weight), 0.0)


def checked(scores: Float) -> Float:
    """Scores, after making sure that each is a number."""
    if not np.isfinite(scores).all():
        raise NotFiniteError(
            "A score is not finite: what was learned no longer fits into floating-point numbers. "
            "Scale the columns and targets, or begin anew."
        )
    return scores

"""Rows as learners take them, and scores as they give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._core import NotFiniteError, all_finite
from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import CELLS, ROW_WEIGHTS


def matrix_rows(X: Any, begin: int, end: int) -> Float:
    """Rows of a matrix or CSR matrix as a contiguous array; the core clips them itself."""
    rows: Any = X[begin:end]
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def dense_rows(X: Any, begin: int, end: int) -> Float:
    """Rows of a matrix or CSR matrix as a contiguous array of finite squares."""
    rows: Float = CELLS.clip(matrix_rows(X, begin, end))
    return rows


def rows_for(device: object | None, X: Any, begin: int, end: int) -> Any:
    """Rows as they are learned from: those that a device has already stay there."""
    if device is None:
        return matrix_rows(X, begin, end)
    return X[begin:end] if hasattr(X, "tensor") else dense_rows(X, begin, end)


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
    return np.where(weight > 0, ROW_WEIGHTS.clip(weight), 0.0)


def checked(scores: Float) -> Float:
    """Scores, after making sure that each is a number."""
    if not all_finite(scores.reshape(-1)):
        raise NotFiniteError(
            "A score is not finite: what was learned no longer fits into floating-point numbers. "
            "Scale the columns and targets, or begin anew."
        )
    return scores


def scores_of_one(row: Float) -> float | Float:
    """Scores of one row, (outputs,), as callers of `learn_one` get them."""
    return float(row[0]) if len(row) == 1 else row


def array_bytes(value: Any) -> int:
    """Memory of all arrays that something holds, in bytes."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, int | float | str):
        return 0
    if isinstance(value, list | tuple):
        return sum(array_bytes(each) for each in value)
    parts = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return sum(array_bytes(each) for each in list(parts.values()))

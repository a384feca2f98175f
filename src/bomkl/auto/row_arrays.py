"""Rows as learners take them, and scores as they give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._core import NotFiniteError
from bomkl.auto.constants import LARGEST
from bomkl.auto.geometry import Float


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


def checked(scores: Float) -> Float:
    """Scores, after making sure that each is a number."""
    if not np.isfinite(scores).all():
        raise NotFiniteError(
            "A score is not finite: what was learned no longer fits into floating-point numbers. "
            "Scale the columns and targets, or begin anew."
        )
    return scores

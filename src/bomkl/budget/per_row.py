"""Numbers that come with each row: its weight and its selection delta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._support.validation import check_all_finite, is_finite_number, parameter_error, weights_as_numbers

Float = NDArray[np.float64]

LARGEST_WEIGHT = 1e6  # with larger weights steps could leave the range of single precision


def checked_weights(owner: str, n: int, sample_weight: Any) -> Float:
    """Check the weights of n rows; all of them may be zero, as they may in a block of one row."""
    if sample_weight is None:
        return np.ones(n)
    weights: Float = weights_as_numbers(owner, sample_weight)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise parameter_error(owner, "sample_weight", f"of shape {(n,)}", weights.shape)
    check_all_finite("sample_weight", weights)
    if (weights < 0).any():
        raise parameter_error(owner, "sample_weight", "not negative", float(weights.min()))
    if (weights > LARGEST_WEIGHT).any():
        raise parameter_error(owner, "sample_weight", f"at most {LARGEST_WEIGHT:g}", float(weights.max()))
    return weights


def selection_deltas(
    owner: str, delta: float | Callable[[int], float] | None, seen: int, weights: Float | None, n: int
) -> Float | None:
    """Return the selection delta of each of n rows, before which `seen` were learned from."""
    if delta is None:
        return None
    if not callable(delta):
        return np.full(n, float(delta))
    # rows of weight zero are not learned and take no round: they see that of the next row
    learned = np.ones(n, dtype=np.int64) if weights is None else (weights > 0).astype(np.int64)
    rounds = seen + 1 + np.cumsum(learned) - learned
    values = [delta(int(t)) for t in rounds]
    for t, value in zip(rounds, values, strict=True):
        if not (is_finite_number(value) and 0 < value < 1):
            raise ValueError(
                f"The 'selection_delta' parameter of {owner} must return a number in (0, 1). "
                f"Got {value!r} for round {t} instead."
            )
    return np.array(values, dtype=np.float64)

"""Rows of the stream that trees are grown from: every row so far is among them with the same probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._core import Sample
from bomkl.auto.features.coding import Codes, Float
from bomkl.auto.limits import SUMS
from bomkl.auto.saved import Saved, State


def sample_state(rows: tuple[Codes, Float, Float]) -> State:
    """Coded rows, class numbers or targets, and weights, as arrays that are nobody else's."""
    codes, y, weight = rows
    return {"codes": codes.copy(), "y": y.copy(), "weight": weight.copy()}


def sample_from_state(
    saved: Saved, size: int, seed: int, seen: int, columns: int, limits: tuple[float, float]
) -> Sample:
    """Go on where `sample_state` was called; class numbers or targets are within limits."""
    n, (low, high) = min(size, seen), limits
    codes: Any = saved.array("codes", (n, columns), np.uint8)
    y, weight = saved.array("y", (n,), low=low, high=high), saved.array("weight", (n,), np.float64, *SUMS)
    saved.end()
    return Sample.of(size, seed, codes, y, weight)

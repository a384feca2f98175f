"""Codes of the columns, one byte a value: what trees are grown from and walked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import code_rows
from bomkl.auto.saved import Saved, State

Float = NDArray[np.float64]
Codes = NDArray[np.uint8]

_MOST_CUTS = 255


@dataclass
class Coding:
    """Cuts of the columns; the code of a value is how many cuts of its column lie below it.

    Those of column j are ``cuts[starts[j] : starts[j + 1]]``, ascending.
    """

    cuts: Float
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, sorted_columns: Float) -> Self:
        """Cut between the values of each column, or, where they are many, between quantiles."""
        parts = [_cuts(values) for values in sorted_columns]
        starts = np.cumsum([0, *(len(each) for each in parts)], dtype=np.int64)
        return cls(np.concatenate([np.empty(0), *parts]), starts)

    def __call__(self, X: Float) -> Codes:
        """Code rows."""
        out = np.empty(X.shape, dtype=np.uint8)
        code_rows(X, self.cuts, self.starts, out)
        return out

    def to_state(self) -> State:
        """Everything it is, as arrays."""
        return {"cuts": self.cuts, "starts": self.starts}

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called."""
        cuts = saved.array("cuts", (None,))
        starts = saved.array("starts", (columns + 1,), np.int64, 0, len(cuts))
        counts = np.diff(starts)
        if starts[0] != 0 or starts[-1] != len(cuts) or ((counts < 0) | (counts > _MOST_CUTS)).any():
            raise saved.wrong("starts", f"where the cuts of each column begin, at most {_MOST_CUTS} a column", starts)
        within = np.ones(len(cuts), dtype=bool)
        within[starts[:-1][counts > 0]] = False
        if (np.diff(cuts, prepend=0.0)[within] <= 0).any():
            raise saved.wrong("cuts", "in order", "values out of order")
        saved.end()
        return cls(cuts, starts)


def _cuts(values: Float) -> Float:
    """Cut between different neighbours of sorted values.

    Examples
    --------
    >>> _cuts(np.array([1.0, 1.0, 2.0, 4.0]))
    array([1.5, 3. ])
    """
    low, high = values[:-1], values[1:]
    if np.count_nonzero(high > low) > _MOST_CUTS:
        places = np.arange(1, _MOST_CUTS + 1) * len(values) // (_MOST_CUTS + 1)
        low, high = values[places - 1], values[places]
    different = high > low
    low, high = low[different], high[different]
    middle = low + (high - low) / 2
    return np.unique(np.where(middle < high, middle, low))

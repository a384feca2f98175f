"""A bounded sample of the stream that trees are grown from: every row so far is in it with the same probability."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import sample_places
from bomkl.auto.coding import Codes, Float
from bomkl.auto.constants import CHUNK
from bomkl.auto.saved import Saved, State


@dataclass
class Sample:
    """Coded rows with their class numbers or targets, and weights; which ones is a function of their row numbers.

    Rows wait until the row count is a multiple of `CHUNK`, so that forks share the arrays.
    """

    size: int
    seed: int
    codes: Codes
    y: Float
    weight: Float
    waiting: list[tuple[NDArray[np.int64], Codes, Float, Float]] = field(default_factory=list)  # places and rows

    def add(self, codes: Codes, y: Float, weight: Float, seen: int) -> None:
        """Take up rows, before which `seen` rows came; they must not go beyond a multiple of `CHUNK`."""
        places = np.empty(len(y), dtype=np.int64)
        sample_places(self.seed, seen, self.size, places)
        chosen = places >= 0
        self.waiting.append((places[chosen], codes[chosen], y[chosen], weight[chosen]))
        if (seen + len(y)) % CHUNK == 0:
            self.codes, self.y, self.weight = self.rows()
            self.waiting = []

    def rows(self) -> tuple[Codes, Float, Float]:
        """Coded rows, class numbers or targets, and weights."""
        if not self.waiting:
            return self.codes, self.y, self.weight
        places, *new = (np.concatenate(each) for each in zip(*self.waiting, strict=True))
        longer = max(int(places.max(initial=-1)) + 1 - len(self.y), 0)
        out: list[NDArray[Any]] = []
        before: tuple[NDArray[Any], ...] = (self.codes, self.y, self.weight)
        for old, fresh in zip(before, new, strict=True):
            array = np.concatenate([old, np.zeros((longer, *old.shape[1:]), old.dtype)])
            array[places] = fresh  # of several rows for one place the last stays
            out.append(array)
        return out[0], out[1], out[2]

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        return replace(self, waiting=list(self.waiting))

    def to_state(self) -> State:
        """Everything it is that the settings do not tell, as arrays."""
        return sample_state(*self.rows())

    @classmethod
    def from_state(cls, saved: Saved, size: int, seed: int, seen: int, columns: int, low: float, high: float) -> Self:
        """Go on where `to_state` was called; class numbers or targets are from `low` to `high`."""
        n = min(size, seen)
        codes = saved.array("codes", (n, columns), np.uint8)
        y, weight = saved.array("y", (n,), low=low, high=high), saved.array("weight", (n,), low=0.0)
        saved.end()
        return cls(size, seed, codes, y, weight)


def sample_state(codes: Codes, y: Float, weight: Float) -> State:
    """Rows of a sample, as arrays that are nobody else's."""
    return {"codes": codes.copy(), "y": y.copy(), "weight": weight.copy()}

"""Rows that are held until something is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import CELLS, SUMS
from bomkl.auto.saved import Saved, State


@dataclass(frozen=True)
class HeldRows:
    """Rows with their class numbers or targets, and weights, in the parts that they came in.

    More rows make another one: forks share what is there.

    Examples
    --------
    >>> held = HeldRows().plus(np.zeros((2, 3)), np.ones(2), np.ones(2)).plus(np.ones((1, 3)), np.ones(1), np.ones(1))
    >>> len(held), held.arrays()[0].shape
    (3, (3, 3))
    """

    X: tuple[Float, ...] = ()
    y: tuple[Float, ...] = ()
    weight: tuple[Float, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.y))

    def plus(self, X: Float, y: Float, weight: Float) -> Self:
        """Return these rows and some more, whose labels and weights are copied."""
        return type(self)((*self.X, X), (*self.y, y.copy()), (*self.weight, weight.copy()))

    def arrays(self) -> tuple[Float, Float, Float]:
        """Return the rows, their class numbers or targets, and their weights; there must be some."""
        return np.vstack(self.X), np.concatenate(self.y), np.concatenate(self.weight)

    def to_state(self) -> State | None:
        """Return them as arrays; None where there are none."""
        return dict(zip(("X", "y", "weight"), self.arrays(), strict=True)) if self.X else None

    @classmethod
    def from_state(cls, saved: Saved | None, n: int | None, columns: int, low: float, high: float) -> Self:
        """Go on where `to_state` was called, with n rows; class numbers or targets are from `low` to `high`."""
        if saved is None:
            return cls()
        X = saved.array("X", (n, columns), np.float64, *CELLS)
        y, weight = saved.array("y", (len(X),), low=low, high=high), saved.array("weight", (len(X),), np.float64, *SUMS)
        saved.end()
        return cls((X,), (y,), (weight,))

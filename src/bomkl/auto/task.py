"""What is learned: two classes, several classes, or numbers under one of two losses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.saved import Saved, State

Float = NDArray[np.float64]

_FARTHEST_TARGET = 1e6  # scaled targets beyond it are taken as this
HUBER = 1.0  # where Huber's loss turns linear, in units of the scaled target; the core has the same


class Task(IntEnum):
    """Numbers as the core knows them."""

    BINARY = 0
    MULTICLASS = 1
    SQUARED = 2
    HUBER = 3

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return self >= Task.SQUARED

    def targets(self, y: Float, n_classes: int, centre: float, spread: float) -> Float:
        """Class numbers or targets as components learn from them, (n, outputs).

        Examples
        --------
        >>> Task.MULTICLASS.targets(np.array([2.0]), 3, 0.0, 1.0)
        array([[0., 0., 1.]])
        """
        if self.is_regression:
            with np.errstate(over="ignore"):
                return np.clip((y - centre) / spread, -_FARTHEST_TARGET, _FARTHEST_TARGET)[:, None]
        if self is Task.BINARY:
            return y[:, None].copy()
        return np.eye(n_classes)[y.astype(np.intp)]


def new_class_log_odds(seen: NDArray[np.intp] | int) -> Float:
    """Log odds that the next row is of a class never seen, after so many rows.

    Examples
    --------
    >>> float(new_class_log_odds(0)) == float(np.log(0.5))
    True
    """
    return np.asarray(np.log(0.5 / (np.asarray(seen) + 1)))


@dataclass(frozen=True)
class LearnerSettings:
    """What a learner is told before its first row."""

    budget: int
    seed: int
    regression: bool
    huber: bool
    forget: float = 1.0
    trees: bool = True
    squares: bool = False  # whether one component has the squares of the columns: there must be few

    @property
    def has_trees(self) -> bool:
        """Whether there are tree experts: they do not forget."""
        return self.trees and self.forget == 1.0

    def task(self, n_classes: int) -> Task:
        """Tell what is learned while so many classes are known."""
        if self.regression:
            return Task.HUBER if self.huber else Task.SQUARED
        return Task.BINARY if n_classes == 2 else Task.MULTICLASS

    def to_state(self) -> State:
        """All settings by name."""
        return {
            "budget": self.budget,
            "seed": self.seed,
            "regression": self.regression,
            "huber": self.huber,
            "forget": self.forget,
            "trees": self.trees,
            "squares": self.squares,
        }

    @classmethod
    def from_state(cls, saved: Saved) -> Self:
        """Take settings as `to_state` gave them."""
        settings = cls(
            saved.integer("budget", 1, 2**31 - 1),
            saved.integer("seed"),
            saved.flag("regression"),
            saved.flag("huber"),
            saved.number("forget", 0.5, 1.0),
            saved.flag("trees"),
            saved.flag("squares", missing=False),
        )
        saved.end()
        return settings

"""What is learned: two classes, several classes, or numbers under one of two losses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.limits import FORGETTING, SCALED_TARGETS
from bomkl.auto.saved import Saved, State

Float = NDArray[np.float64]

MEMORY = 2**28  # bytes that a model may take where nobody says how many
LARGEST_LOSS = 15.0  # log loss of a row, at most
LARGEST_SQUARE = 1e290  # of an error; the sum of as many as there can be is a number
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
                scaled: Float = SCALED_TARGETS.clip((y - centre) / spread)
                return scaled[:, None]
        if self is Task.BINARY:
            return y[:, None].copy()
        targets = np.zeros((len(y), n_classes))
        targets[np.arange(len(y)), y.astype(np.intp)] = 1.0
        return targets

    def losses(self, scores: Float, y: Float) -> Float:
        """Loss of each row's scores: the squared error, or the log loss, up to `LARGEST_LOSS`.

        Examples
        --------
        >>> Task.BINARY.losses(np.array([[0.0], [30.0]]), np.array([1.0, 0.0])).round(2)
        array([ 0.69, 15.  ])
        """
        if self.is_regression:
            with np.errstate(over="ignore"):
                return np.minimum((scores[:, 0] - y) ** 2, LARGEST_SQUARE)
        if self is Task.MULTICLASS:
            chosen = scores[np.arange(len(y)), y.astype(np.intp)]
            return np.minimum(-chosen, LARGEST_LOSS)
        return np.minimum(np.logaddexp(0.0, np.where(y > 0.5, -scores[:, 0], scores[:, 0])), LARGEST_LOSS)


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
    """Settings of a learner, which are known before its first row."""

    budget: int
    seed: int
    regression: bool
    huber: bool
    forget: float = 1.0
    trees: bool = True  # whether the pool has trees
    squares: bool = False  # whether one component has the squares of the columns: there must be few
    memory: int = MEMORY  # bytes that everything learned may take
    growing_trees: bool = True  # whether more trees may come as the stream grows

    @property
    def has_trees(self) -> bool:
        """Whether there are tree experts: they do not forget."""
        return self.trees and self.forget == 1.0

    @property
    def grows_trees(self) -> bool:
        """Whether trees may come as the stream grows."""
        return self.growing_trees and self.forget == 1.0

    def task(self, n_classes: int) -> Task:
        """Tell what is learned while so many classes are known."""
        if self.regression:
            return Task.HUBER if self.huber else Task.SQUARED
        return Task.BINARY if n_classes == 2 else Task.MULTICLASS

    def to_state(self) -> State:
        """All settings by name."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, saved: Saved) -> Self:
        """Take settings as `to_state` gave them."""
        trees = saved.flag("trees")
        settings = cls(
            saved.integer("budget", 1, 2**31 - 1),
            saved.integer("seed"),
            saved.flag("regression"),
            saved.flag("huber"),
            saved.number("forget", *FORGETTING),
            trees,
            saved.flag("squares", missing=False),
            saved.integer("memory", 1) if saved.has("memory") else MEMORY,  # since version 0.3.0
            saved.flag("growing_trees", missing=trees),
        )
        saved.end()
        return settings

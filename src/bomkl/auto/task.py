"""What is learned: two classes, several classes, or numbers under one of two losses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from bomkl.auto.saved import Saved, State

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


@dataclass(frozen=True)
class LearnerSettings:
    """What a learner is told before its first row."""

    budget: int
    seed: int
    regression: bool
    huber: bool
    forget: float = 1.0

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
        )
        saved.end()
        return settings

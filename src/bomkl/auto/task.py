"""What is learned: two classes, several classes, or numbers under one of two losses."""

from __future__ import annotations

from enum import IntEnum

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

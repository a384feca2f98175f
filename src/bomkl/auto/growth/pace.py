"""When something is tried, judged and grown anew: functions of row counts, so that calls may be cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Self

from bomkl.auto.saved import Saved, State

BLOCK = 32  # rows that the core learns from at a time, by their numbers
NEVER = 2**62
_PHASES = ("off", "warming", "trial", "on")


def up(rows: int) -> int:
    """Round up to whole blocks.

    Examples
    --------
    >>> up(33)
    64
    """
    return -(-rows // BLOCK) * BLOCK


def pays(gains: Sequence[float], least: float) -> bool:
    """Tell whether something brings a share of the loss, beyond chance.

    `gains` are sums, over rows, of weights, of gains, of squared gains and of losses without it.

    Examples
    --------
    >>> pays([100, 10, 2, 50], 0.01), pays([100, 10, 400, 50], 0.01)
    (True, False)
    """
    weight, gain, squares, loss = gains
    if weight <= 0:
        return False
    mean = gain / weight
    error = sqrt(max(squares / weight - mean * mean, 0.0) / weight)
    return mean > max(2 * error, least * loss / weight)


@dataclass(frozen=True)
class Pace:
    """Row counts of one choice for all streams."""

    coded: int = 2048  # first rows, by which columns are coded and targets scaled
    first: int = 20_480  # rows before the first trial
    judge: int = 8_192  # rows of a trial
    window: int = 6_144  # last ones of them, which decide
    at_once: int = 4096  # rows between looks at the size of the sample
    lead: int = 16  # what is made from n rows is made during the next n / lead rows
    again: int = 3  # times the rows after which what lost is tried again
    full: int = 65_536  # rows from which on trees that won their trial are grown at full size
    anew: float = 1.6  # times the rows after which trees are grown anew

    def grow_next(self, begun: int) -> int:
        """Row count at which trees are grown anew after those that were begun at one."""
        return up(int(self.anew * begun))

    def made_by(self, begun: int) -> int:
        """Row count at which something that was begun takes part."""
        return begun + up(begun // self.lead)


@dataclass(frozen=True)
class Switch:
    """Whether an ingredient takes part, and the row count at which that changes or is judged next."""

    least: float  # gain, as a share of the loss, that it must bring
    due: int
    phase: str = "off"

    def warming(self, until: int) -> Self:
        """Begin to make it; it takes part from a row count on."""
        return replace(self, phase="warming", due=until)

    def on_trial(self, seen: int, pace: Pace) -> Self:
        """Let it take part for the first time."""
        return replace(self, phase="trial", due=seen + pace.judge)

    def judged(self, seen: int, gains: Sequence[float], pace: Pace) -> Self:
        """Keep it or drop it, by what `pays` looks at."""
        return replace(self, phase="on", due=up(2 * seen)) if pays(gains, self.least) else self.dropped(seen, pace)

    def dropped(self, seen: int, pace: Pace) -> Self:
        """Go on without it, and try it again later."""
        return replace(self, phase="off", due=up(pace.again * seen))

    @property
    def is_in(self) -> bool:
        """Whether it takes part."""
        return self.phase in ("trial", "on")

    def next_event(self, seen: int, pace: Pace) -> int:
        """Row count of the next change, or at which the losses that will decide begin to be added up."""
        window = self.due - pace.window
        return window if self.is_in and window > seen else self.due

    def to_state(self) -> State:
        """Everything it is that is learned."""
        return {"phase": self.phase, "due": self.due}

    def restored(self, saved: Saved, seen: int) -> Self:
        """Go on where `to_state` was called."""
        phase, due = saved.text("phase", _PHASES), saved.integer("due", seen + 1)
        saved.end()
        return replace(self, phase=phase, due=due)


# What the memory of a learner is, at most, beside its sample: see `pool_bytes`.
_OF_BUDGET_SQUARED = {"rows": 16, "rounds": 32}
_OF_BUDGET, _OF_CELL, _FIXED = 10_000, 100, 4_000_000
_NETWORK_UNIT, _COLUMN = 12 * 128, 4096
_OF_ROW = 52  # bytes of a row of the sample and of one from which trees are grown, beside its columns and outputs
LEAST_ROWS = 1000  # of a sample that is worth having


def pool_bytes(budget: int, columns: int, update: str) -> int:
    """Memory of all that is there beside the sample and what is made from it, at most.

    Examples
    --------
    >>> pool_bytes(1000, 20, "rows") < 2**25
    True
    """
    fixed = budget * (_OF_BUDGET_SQUARED[update] * budget + _OF_BUDGET + _OF_CELL * columns) + _FIXED
    return fixed + columns * (_NETWORK_UNIT + _COLUMN)


def rows_within(memory: int, pool: int, columns: int, outputs: int) -> int:
    """Rows of the sample for which there is room, with the trees that are grown from them; 0 if it is not worth having.

    Examples
    --------
    >>> rows_within(2**28, pool_bytes(1000, 20, "rows"), 20, 1) > 1_000_000
    True
    """
    rows = int((memory - pool) / (1.125 * (3 * columns + _OF_ROW + 24 * outputs)))  # it may be that much too large
    return rows if rows >= LEAST_ROWS else 0

"""How everything here is measured: one thread, things to compare taken in turn, fits that say how time grows.

Seconds are those that the processor spent, which are those of the clock on the wall if nobody else uses the core, and
not far from them if somebody does. Only what runs on several threads is timed by the wall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Work = Callable[[], Any]
Clock = Callable[[], float]


def one_thread() -> None:
    """Keep BLAS to one thread from here on. It must be loaded already, which importing bomkl sees to."""
    threadpool_limits(1)


def timed(work: Work, clock: Clock = process_time) -> tuple[float, Any]:
    """Seconds that a piece of work takes, and what it returns."""
    start = clock()
    result = work()
    return clock() - start, result


def in_turn(*works: Work, seconds: float = 0.3, rounds: int = 3, clock: Clock = process_time) -> list[list[float]]:
    """Time several pieces of work, one after another in each round.

    What disturbs the machine for a while then disturbs all of them, and ratios of their times stay what they are.

    Parameters
    ----------
    *works : callable
        What to time. Each runs once before, untimed.
    seconds : float
        How long to go on.
    rounds : int
        How many rounds to take at least.
    clock : callable
        What tells the time.

    Returns
    -------
    list of list of float
        The times of each piece of work, by round.
    """
    for work in works:
        work()
    times: list[list[float]] = [[] for _ in works]
    end = perf_counter() + seconds
    while len(times[0]) < rounds or perf_counter() < end:
        for work, taken in zip(works, times, strict=True):
            taken.append(timed(work, clock)[0])
    return times


def best_in_turn(*works: Work, seconds: float = 0.3, rounds: int = 3, clock: Clock = process_time) -> list[float]:
    """Shortest time of each piece of work: the one least disturbed by others on the machine. See `in_turn`."""
    return [min(taken) for taken in in_turn(*works, seconds=seconds, rounds=rounds, clock=clock)]


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Power p of the least-squares fit y = c x^p.

    Examples
    --------
    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])

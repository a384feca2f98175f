"""Work that threads share out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Mapper(Protocol):
    """`map`, or that of a thread pool."""

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        """Apply a function to items."""


def in_order(run: Mapper, function: Callable[[int], Any], costs: list[float]) -> list[Any]:
    """Results for 0, 1, ..., the costly ones begun first so that two threads end together."""
    order = sorted(range(len(costs)), key=lambda i: -costs[i])
    results = dict(zip(order, run(function, order), strict=True))
    return [results[i] for i in range(len(costs))]


def threads_of(run: Mapper) -> int:
    """Tell how many threads a `map` has, which the core uses, too."""
    return getattr(run, "threads", 1)


def pipelined(
    run: Mapper, first: Callable[[slice], T], second: Callable[[slice, T], Any], n: int, at_once: int
) -> None:
    """Call `second(rows, first(rows))` for n rows in order.

    Where `run` has threads, `first` is some rows ahead: it must not need anything that `second` changes.

    Examples
    --------
    >>> pipelined(map, lambda rows: rows.stop, print, 3, 2)
    slice(0, 3, None) 3
    """
    if threads_of(run) == 1:
        at_once = n
    parts = [slice(begin, min(begin + at_once, n)) for begin in range(0, n, at_once)]
    if len(parts) < 2:
        for part in parts:
            second(part, first(part))
        return
    with ThreadPoolExecutor(1) as ahead:
        found = ahead.submit(first, parts[0])
        for part, following in pairwise(parts):
            of_part, found = found.result(), ahead.submit(first, following)
            second(part, of_part)
        second(parts[-1], found.result())


def shared_by(pool: Executor, threads: int) -> Mapper:
    """Return a `map` whose items the threads of a pool take themselves.

    A thread that hands out one item after the other is busy in Python all the time, and the interpreter lets no other
    thread go on for 5 ms.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(shared_by(pool, 2)(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    def run(function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        waiting = deque(enumerate(items))
        results: list[Any] = [None] * len(waiting)

        def work() -> None:
            try:
                while waiting:
                    try:
                        place, item = waiting.popleft()
                    except IndexError:  # another thread has taken the last one
                        return
                    results[place] = function(item)
            except BaseException:
                waiting.clear()  # nobody needs the others
                raise

        try:
            for each in [pool.submit(work) for _ in range(min(threads, len(results)))]:
                each.result()
        finally:
            waiting.clear()
        return iter(results)

    run.threads = threads  # type: ignore[attr-defined]
    return run

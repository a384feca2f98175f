"""Any engine that can call functions on partitions, and learning with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bomkl.partitions.job import Job
from bomkl.partitions.pieces import Gains, Piece, Summary, named
from bomkl.partitions.rows import Rows, drawn_rows, summary

_IDLE_ATTEMPTS = 2  # in a row in which workers died and nothing was done; Dask lets four die for each

Call = tuple[Callable[..., Any], list[int], tuple[Any, ...]]  # a function, the partitions it needs, other arguments


class Runner(ABC):
    """An engine: it calls functions of `bomkl.partitions.rows` on partitions, wherever they are."""

    @abstractmethod
    def attempt(self, calls: dict[int, Call]) -> Iterator[tuple[int, Any]]:
        """Yield results as they are ready, by number; those whose workers die are left out."""

    @abstractmethod
    def gains(self, job: Job, pieces: list[Piece]) -> Iterable[Gains]:
        """`piece_sums` of all pieces, added up in any way."""

    def place(self, partition: int) -> str | None:
        """Say where a partition is, for messages."""
        return None

    def summaries(self, count: int, regression: bool, done: Callable[[int], Any]) -> list[Summary]:
        """`summary` of each partition."""
        found: dict[int, Summary] = {}
        for i, each in self.results([(_summary, [i], (i, regression)) for i in range(count)]):
            found[i] = each
            done(1)
        return [found[i] for i in range(count)]

    def head(self, pieces: list[Piece]) -> list[Rows]:
        """`drawn_rows` of each piece, in order."""
        found = dict(self.results([(_drawn_rows, [piece.partition], (piece,)) for piece in pieces]))
        return [found[i] for i in range(len(pieces))]

    def results(self, calls: list[Call]) -> Iterator[tuple[int, Any]]:
        """Results of calls as they are ready; those whose workers died begin again."""
        left, idle = dict(enumerate(calls)), 0
        while left:
            before = len(left)
            for i, result in self.attempt(dict(left)):
                del left[i]
                yield i, result
            idle = 0 if len(left) < before else idle + 1
            if idle == _IDLE_ATTEMPTS:
                _, (partition, *_), _ = next(iter(left.values()))
                with named(partition, self.place(partition)):
                    raise ValueError(
                        "workers died again and again while they worked on it, most likely because memory ran out. Use "
                        "smaller partitions, fewer workers, or workers with more memory."
                    )


def _summary(table: tuple[Any, ...], number: int, regression: bool) -> Summary:
    with named(number):
        return summary(*table, regression=regression)


def _drawn_rows(table: tuple[Any, ...], piece: Piece) -> Rows:
    return drawn_rows(piece, *table)


def learn_partitions(job: Job, runner: Runner, save: Callable[[], None], progress: Callable[[int], None]) -> None:
    """Learn from all rows that are left; `save` is called after the head and after each round."""
    if pieces := job.head_pieces():
        job.learn_head(runner.head(pieces))
        progress(sum(piece.end - piece.begin for piece in pieces))
        save()
    while pieces := job.next_round():
        for gains in runner.gains(job, pieces):
            job.add(gains)
            progress(gains.rows)
        job.end_round()
        save()

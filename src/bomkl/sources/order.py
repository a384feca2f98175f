"""The order in which records of several partitions were used, so that a run that was killed repeats it.

Which partition has records at which moment is chance. So the order is written down before records are used, and after a
kill those since the last model file come in the same order again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Mapping
from itertools import groupby

from bomkl.sources.base import Positions, Record, Source


class OrderLog:
    """A file beside a model file: one line of JSON a batch, ``[[partition, position behind its last record], ...]``."""

    def __init__(self, path: str) -> None:
        self.path = path

    def runs_after(self, positions: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return the runs of records that were used after some positions; a line that was cut short is none."""
        try:
            with open(self.path, "rb") as file:
                lines = [line for line in file if line.endswith(b"\n")]
        except FileNotFoundError:
            return []
        runs = [(str(partition), int(end)) for line in lines for partition, end in json.loads(line)]
        return [(partition, end) for partition, end in runs if end > positions.get(partition, 0)]

    def add(self, records: list[Record]) -> None:
        """Write down the order of records that are going to be used."""
        runs = [
            (partition, list(run)[-1].position + 1) for partition, run in groupby(records, lambda each: each.partition)
        ]
        with open(self.path, "ab") as file:
            file.write(json.dumps(runs, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        """Forget the order: the model file holds the positions."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Ordered:
    """Records of a source, first in the order of a run that was killed, then as they come.

    `source`: has not been read yet. `log`: the order; None: it is not kept. `positions`: where to begin.
    """

    def __init__(self, source: Source, log: OrderLog | None, positions: Mapping[str, int]) -> None:
        self._source, self._log = source, log
        source.seek(positions)
        self._runs = deque(() if log is None else log.runs_after(positions))
        self._early: dict[str, deque[Record]] = {}  # records that came before it was their turn
        # Behind the last record that was returned; where reading began counts too, else start=latest would skip
        # what comes before the next run
        self.positions: Positions = source.positions() | dict(positions)

    @property
    def at_hand(self) -> bool:
        """Whether records have been read from the source and not been returned."""
        return any(self._early.values())

    def poll(self, most: int, seconds: float) -> list[Record]:
        """Return the next records, after their order has been written down."""
        repeated = bool(self._runs)
        if repeated:
            records = self._repeated(most, seconds)
        elif self.at_hand:
            records = [each for waiting in self._early.values() for each in waiting]
            self._early.clear()
        else:
            records = self._source.poll(most, seconds)
        if self._log is not None and records and not repeated and len(self._source.positions()) > 1:
            self._log.add(records)
        for each in records:
            self.positions[each.partition] = each.position + 1
        return records

    def saved(self) -> None:
        """Note that the positions are on the disk, so that the order up to them may be forgotten."""
        if self._log is not None and not self._runs:
            self._log.clear()

    def _repeated(self, most: int, seconds: float) -> list[Record]:
        """Return records of the run at hand; others wait until it is their turn."""
        partition, end = self._runs[0]
        waiting = self._early.setdefault(partition, deque())
        if not waiting:
            for each in self._source.poll(most, seconds):
                self._early.setdefault(each.partition, deque()).append(each)
        found: list[Record] = []
        while waiting and waiting[0].position < end and len(found) < most:
            found.append(waiting.popleft())
        if (waiting and waiting[0].position >= end) or (found and found[-1].position + 1 == end):
            self._runs.popleft()
        return found

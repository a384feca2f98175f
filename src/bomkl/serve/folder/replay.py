"""Replay: the model once more from the log alone, and every snapshot compared with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bomkl import modelfile
from bomkl.serve.errors import LogError
from bomkl.serve.folder.snapshots import Snapshot, Snapshots
from bomkl.serve.folder.start import base, stored_columns
from bomkl.serve.model.learner import Learner
from bomkl.serve.storage.log import Log

_FIRST_REPORT = 64


@dataclass(frozen=True)
class Report:
    """Figures after some rows of the log."""

    rows: int  # rows learned, those before the log begins included
    error: float  # mean error of all rows, of the last 1,000, and of the baseline
    window_error: float
    baseline_error: float


@dataclass(frozen=True)
class Verdict:
    """How a snapshot compares with the log."""

    snapshot: Snapshot
    problem: str | None  # what is wrong with it; None if it is, bit for bit, the model that the log gives


class Replay(contextlib.AbstractContextManager["Replay"]):
    """Learns the log of a folder from its beginning; works beside a running service."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with contextlib.ExitStack() as undo:
            self._log = undo.enter_context(Log(folder, read_only=True))
            self.snapshots = Snapshots(folder).list()
            self.learner: Learner = base(folder, self._log)
            undo.pop_all()
        self.rows = self._log.end.rows - self.learner.rows

    def __exit__(self, *error: object) -> None:
        self._log.close()

    def run(self, learned: Callable[[int], Any] = lambda rows: None) -> Iterator[Report | Verdict]:
        """Learn entry by entry; `learned` is told how many rows each had."""
        learner, columns, reported = self.learner, stored_columns(self._log), 0
        last = self._log.end.seq
        waiting = [each for each in self.snapshots if learner.seq <= each.seq <= last]
        while waiting and waiting[0].seq == learner.seq:
            yield Verdict(waiting[0], self._compare(waiting.pop(0)))
        for entry in self._log.entries(learner.place):
            if entry.seq > last:
                break
            if columns is None:  # they are written with the first row
                raise LogError(f"{self._log.path}: is damaged: its columns are missing.")
            learner.learn([entry], columns)
            learned(len(entry.labels))
            if learner.monitor.rows >= max(2 * reported, _FIRST_REPORT):
                reported = learner.monitor.rows
                yield self._report()
            if waiting and waiting[0].seq == learner.seq:
                yield Verdict(waiting[0], self._compare(waiting.pop(0)))
        if learner.monitor.rows > reported:
            yield self._report()

    def save(self, path: str) -> None:
        modelfile.save(self.learner.estimator, path)

    def _report(self) -> Report:
        monitor = self.learner.monitor
        return Report(monitor.rows, monitor.error, monitor.window_error, monitor.baseline_error)

    def _compare(self, snapshot: Snapshot) -> str | None:
        try:
            read = Snapshots(self.folder).read(snapshot, self._log)
        except (modelfile.ModelFileError, LogError, OSError) as error:
            return str(error)
        if not hasattr(self.learner.estimator, "score_and_learn"):
            return None if read.monitor.rows == 0 else "it has rows that the log has not"
        one, other = (modelfile.to_bytes(modelfile.Model(each.estimator)) for each in (read, self.learner))
        if one != other:
            return "its model differs from that of the log"
        return None if read.monitor.figures() == self.learner.monitor.figures() else "its figures differ from the log's"

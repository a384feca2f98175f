"""The service without HTTP: rows go through a log thread, then through the one thread that changes the model.

::

    event loop --submit--> log thread: check, append, one commit for all that wait --> model thread: learn
         ^                                                                                 |
         +------------------------------- replies, whole models ---------------------------+

The model thread first learns what the log has and the model has not; until then, every request is refused.

A row is answered after it is in the log and has been learned. The event loop predicts with the last whole model, which
the model thread replaces after each micro-batch.
"""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bomkl._support.progress import progress_bar
from bomkl.serve.errors import LogError, RefusedError
from bomkl.serve.folder.snapshots import Snapshots
from bomkl.serve.folder.start import catch_up, takes_tables
from bomkl.serve.model.learner import BULK_BATCH, MICRO_BATCH, Learner
from bomkl.serve.reports import report
from bomkl.serve.requests.grouping import Waiting
from bomkl.serve.requests.ledger import Ledger
from bomkl.serve.requests.predictor import Predictor
from bomkl.serve.requests.work import Work
from bomkl.serve.storage.entry import Entry
from bomkl.serve.storage.log import Known, Log
from bomkl.tables.notices import TableWarning

_TICK = 0.5  # seconds between looks at rows that wait too long for their label
_SECONDS_BETWEEN_SNAPSHOTS = 10.0
_PREDICTING_SECONDS = 0.2  # after a prediction: more may come, so rows wait for others and are learned in small groups


@dataclass(frozen=True)
class ServiceSettings:
    """How the service runs; none of it changes what the model learns."""

    snapshot_every: int = 10_000  # rows between snapshots; there are at least ten seconds between two of them
    keep_log: int | None = None  # rows the log keeps; None keeps all
    label_timeout: float = 86_400.0  # seconds after which a row without a label is forgotten
    most_waiting: int = 100_000  # rows that may wait for their label
    most_queued: int = 50_000  # rows that may wait to be learned or predicted


class Service:
    """Learns and predicts for many clients at once.

    `learner`: the model. When the service starts, it first learns the rows of the log that it has not learned yet.
    """

    def __init__(self, folder: str, log: Log, learner: Learner, settings: ServiceSettings) -> None:
        self.folder, self.settings = folder, settings
        self.started = time.monotonic()
        self.snapshots = Snapshots(folder)
        self.ledger = Ledger(log, settings.most_waiting, takes_tables(learner.estimator))
        self.failed: BaseException | None = None
        self.ready = False  # whether the model has learned all of the log
        self.on_failure: Callable[[], None] = lambda: None  # called in the event loop
        self.snapshot_failure: str | None = None
        self._log, self._learner = log, learner
        self._predictor = Predictor(lambda: self._learner.view, lambda: self.ledger.columns)
        self._to_log = Waiting()
        self._to_learn: deque[Work] = deque()
        self._to_read: deque[tuple[Callable[[Learner], Any], asyncio.Future[Any]]] = deque()
        self._unstored: dict[int, Work] = {}  # entries with a key whose reply is not in the log yet
        self._replies: dict[int, Any] = {}
        self._replayed_from = learner.rows
        self.queued = 0  # rows on their way
        self._learning = 0  # requests in the log that the model has not learned yet
        self._unsettled: set[asyncio.Future[Any]] = set()
        self._predicted = -math.inf  # when predictions were asked for last
        self._stopping = False
        self._log_done = False
        self._lock = threading.Lock()
        self._log_wakes, self._model_wakes = threading.Condition(self._lock), threading.Condition(self._lock)
        self._snapshot_thread: threading.Thread | None = None
        self._snapshot_rows = max((each.rows for each in self.snapshots.list()), default=0)
        self._snapshot_time = 0.0
        self._prune_through = self.snapshots.prune(settings.keep_log)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._log_thread, self._model_thread = (
            threading.Thread(target=self._guarded, args=(run,), name=name)
            for run, name in ((self._write_log, "bomkl-log"), (self._run_model, "bomkl-model"))
        )

    # ------------------------------------------------------------ for the event loop

    def start(self) -> None:
        """Start the threads; called in the event loop. Requests are refused until the log has been replayed."""
        self._loop = asyncio.get_running_loop()
        # of cells that count as missing; for good, since only one thread at a time can turn warnings off and on
        warnings.simplefilter("ignore", TableWarning)
        self._model_thread.start()

    async def stop(self) -> None:
        """Finish everything that was taken on, write a snapshot and end the threads."""
        with self._lock:
            self._stopping = True
            self._log_wakes.notify_all()
            self._model_wakes.notify_all()
        await asyncio.to_thread(self._model_thread.join)
        if self._log_thread.ident is not None:  # it was started
            await asyncio.to_thread(self._log_thread.join)

    async def submit(self, work: Work) -> Any:
        """Carry out a request; raises `RefusedError` if it cannot be."""
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        work.waiters.append(future)
        with self._lock:
            self._accept(work)
            self._unsettled.add(future)
            if self._to_log.add(work):
                self._log_wakes.notify()
        try:
            return await future
        finally:
            with self._lock:
                self.queued -= work.size
                self._unsettled.discard(future)

    async def predict(self, work: Work) -> dict[str, Any]:
        """Predict rows; those with ids are in the log first, where they wait for their labels."""
        self._predictor.check(work)
        self._predicted = time.monotonic()
        if work.ids is not None:
            await self.submit(work)
            return await self._predictor.predict(work)
        with self._lock:
            self._accept(work)
        try:
            return await self._predictor.predict(work)
        finally:
            with self._lock:
                self.queued -= work.size

    def _accept(self, work: Work) -> None:
        self._refuse_if_down()
        if self.queued and self.queued + work.size > self.settings.most_queued:
            raise RefusedError(429, f"{self.queued} rows are waiting already. Try again later.", retry_after=1)
        self.queued += work.size

    async def read(self, function: Callable[[Learner], Any]) -> Any:
        """Run a function that reads the model, between two micro-batches."""
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._lock:
            self._refuse_if_down()
            self._to_read.append((function, future))
            self._unsettled.add(future)
            self._model_wakes.notify()
        try:
            return await future
        finally:
            with self._lock:
                self._unsettled.discard(future)

    def down(self) -> RefusedError | None:
        """Tell why requests are refused; None if they are not."""
        if self.failed is not None:
            return RefusedError(503, f"The service has failed and must be restarted: {self.failed!r}", retry_after=5)
        if self._stopping:
            return RefusedError(503, "The service is stopping.", retry_after=5)
        if not self.ready:
            done, rows = self._learner.rows - self._replayed_from, self._log.end.rows - self._replayed_from
            message = f"The log is being replayed: {done} of {rows} rows so far. Try again later."
            return RefusedError(503, message, retry_after=1, replayed=done, rows=rows)
        return None

    def _refuse_if_down(self) -> None:
        if (refusal := self.down()) is not None:
            raise refusal

    def _settle(self, outcomes: list[tuple[list[asyncio.Future[Any]], Any]]) -> None:
        """Hand replies, or errors, to the event loop."""
        assert self._loop is not None
        if outcomes:
            self._loop.call_soon_threadsafe(_set_results, outcomes)

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            try:
                self.fail(error)
                if not isinstance(error, LogError):  # its message is what the process ends with
                    print(f"bomkl: {threading.current_thread().name} failed: {error!r}", file=sys.stderr)
            except MemoryError:  # even for that; the requests that wait must not do so for ever
                os._exit(1)

    def fail(self, error: BaseException) -> None:
        """Acknowledge nothing any more; the log is what a restart goes on from."""
        with self._lock:
            self.failed = error
            waiters = list(self._unsettled)
            self._log_wakes.notify_all()
            self._model_wakes.notify_all()
        self._settle([(waiters, RefusedError(503, "The service has failed and must be restarted."))])
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.on_failure)

    # ------------------------------------------------------------ the log thread

    def _write_log(self) -> None:
        looked = 0.0
        while True:
            with self._lock:
                batch = self._next_group()
                replies = dict(self._replies)
                done = self._stopping and not batch
            clean_up = time.monotonic() - looked > _TICK
            if batch or replies or clean_up:
                self._transact(batch, replies, clean_up)
                looked = time.monotonic() if clean_up else looked
            if done or self.failed:
                break
        with self._lock:
            self._log_done = True
            self._model_wakes.notify_all()

    def _next_group(self) -> list[Work]:
        """Wait for requests to write, for as long as it takes until the log wants to be looked at."""
        end = time.monotonic() + _TICK
        while not (self._stopping or self.failed):
            due = self._to_log.due_in(self._learning > 0, self._is_predicting()) if self._to_log else None
            left = end - time.monotonic()
            if due == 0.0:
                break
            if left <= 0 or (self._replies and not self._to_log):
                return []
            self._log_wakes.wait(left if due is None else min(due, left))
        return self._to_log.take()

    def _transact(self, batch: list[Work], replies: dict[int, Any], clean_up: bool) -> None:
        """Write to the log what waits for it, all in one commit."""
        outcomes: list[tuple[list[asyncio.Future[Any]], Any]] = []
        stored: list[Work] = []
        try:
            self.ledger.begin()
            for work in batch:
                try:
                    known = self.ledger.store(work)
                except RefusedError as error:
                    outcomes.append((work.waiters, error))
                    continue
                if known is None:
                    stored.append(work)
                    if work.entry is not None and work.keys:
                        with self._lock:
                            self._unstored[work.entry.seq] = work
                elif (reply := self._answer_to(known, work)) is not _LATER:
                    outcomes.append((work.waiters, reply))
            for seq, reply in replies.items():
                self._log.set_reply(seq, reply)
            if clean_up:
                self._clean_up()
            self.ledger.commit()
        except sqlite3.Error as error:
            self._undo(stored)
            refused = disk_error(error)
            self._settle([([w for work in batch for w in work.waiters], refused)])
            if not batch:
                time.sleep(_TICK)
            return
        with self._lock:
            for seq in replies:
                del self._replies[seq], self._unstored[seq]
            learning = [work for work in stored if work.labels is not None]
            self._to_learn += learning
            self._learning += len(learning)
            self._model_wakes.notify()
        outcomes += [(work.waiters, None) for work in stored if work.labels is None]
        self._settle(outcomes)

    def _undo(self, stored: list[Work]) -> None:
        try:
            self.ledger.rollback()
        except sqlite3.Error as error:  # also reading fails; the next transaction will tell
            report("the log cannot be read", error)
        with self._lock:
            for work in stored:
                if work.entry is not None:
                    self._unstored.pop(work.entry.seq, None)

    def _clean_up(self) -> None:
        """Forget rows that waited too long, and entries of the log that are not kept."""
        self.ledger.expire(self.ledger.now() - self.settings.label_timeout)
        if self._prune_through and self._log.prune(self._prune_through):
            self._prune_through = 0

    def _answer_to(self, known: Known, work: Work) -> Any:
        """Return the reply to a request that came before; `_LATER` where the first one still waits for it."""
        if known.reply is not None:
            return known.reply
        with self._lock:
            if (reply := self._replies.get(known.seq)) is not None:
                return reply
            self._unstored[known.seq].waiters += work.waiters
        return _LATER

    # ------------------------------------------------------------ the model thread

    def catch_up(self) -> None:
        """Learn the rows of the log after the last snapshot, until there are no more or the service stops."""
        log, unanswered = self._log, self._log.unanswered(self._learner.seq)
        with progress_bar(log.end.rows - self._learner.rows, "learning the rows after the last snapshot", "row") as bar:
            for entries, predictions in catch_up(self._learner, log):
                with log.explained(f"entry {entries[-1].seq}: "):
                    log.begin()
                    for entry, made in zip(entries, predictions, strict=True):
                        bar.update(len(made))
                        if entry.seq in unanswered:
                            log.set_reply(entry.seq, learned(entry, made))
                    log.commit()
                if self._stopping:
                    return
        self.ready = True

    def _run_model(self) -> None:
        self.catch_up()
        if self.ready:
            self._log_thread.start()
        else:
            self._log_done = True
        while True:
            with self._lock:
                while not (self._to_learn or self._to_read or self._log_done or self.failed):
                    self._model_wakes.wait()
                if self.failed:
                    return
                ending = self._log_done and not (self._to_learn or self._to_read)
            if ending:
                break
            self._read_model()
            with self._lock:
                batch, rows = [], 0
                while self._to_learn and rows < MICRO_BATCH:
                    batch.append(self._to_learn.popleft())
                    rows += batch[-1].size
            if batch:
                self._learn(batch)
                self._snapshot_if_due()
        if self._snapshot_thread is not None:
            self._snapshot_thread.join()
        if self._replies:  # made after the log thread had ended, so this thread owns the log now
            self._transact([], dict(self._replies), False)
        if self._learner.rows > self._snapshot_rows:
            self._write_snapshot(self._learner)
        self._log.close()

    def _learn(self, batch: list[Work]) -> None:
        entries = [work.entry for work in batch if work.entry is not None]
        columns = batch[-1].columns
        assert columns is not None
        predictions = self._learner.learn(entries, columns, self._between_parts)
        outcomes = []
        with self._lock:
            for work, entry, made in zip(batch, entries, predictions, strict=True):
                reply = learned(entry, made)
                if entry.seq in self._unstored:
                    self._replies[entry.seq] = reply
                outcomes.append((list(work.waiters), reply))
            self._learning -= len(batch)
            if not self._learning:
                self._to_log.has_learned()
            if self._replies or self._to_log:
                self._log_wakes.notify()
        self._settle(outcomes)

    def _is_predicting(self) -> bool:
        return time.monotonic() - self._predicted < _PREDICTING_SECONDS

    def _between_parts(self) -> int:
        """Answer what waits, and tell how many rows to learn before looking again."""
        self._read_model()
        return MICRO_BATCH if self._is_predicting() else BULK_BATCH

    def _read_model(self) -> None:
        """Answer everything that only reads the model and waits now."""
        with self._lock:
            reads, self._to_read = list(self._to_read), deque()
        outcomes: list[tuple[list[asyncio.Future[Any]], Any]] = []
        for function, future in reads:
            try:
                outcomes.append(([future], function(self._learner)))
            except Exception as error:  # reading does no harm to the model
                outcomes.append(([future], error))
        self._settle(outcomes)

    def _snapshot_if_due(self) -> None:
        rows = self._learner.rows
        if rows - self._snapshot_rows < self.settings.snapshot_every:
            return
        if time.monotonic() - self._snapshot_time < _SECONDS_BETWEEN_SNAPSHOTS:
            return
        if self._snapshot_thread is not None and self._snapshot_thread.is_alive():
            return
        self._snapshot_rows, self._snapshot_time = rows, time.monotonic()
        copied = self._learner.copy()
        self._snapshot_thread = threading.Thread(target=self._write_snapshot, args=(copied,), name="bomkl-snapshot")
        self._snapshot_thread.start()

    def _write_snapshot(self, learner: Learner) -> None:
        try:
            if not self._replies_stored(learner.seq):
                return
            self.snapshots.write(learner)
            self._prune_through = self.snapshots.prune(self.settings.keep_log)
            self.snapshot_failure = None
        except (OSError, ValueError) as error:  # the log has everything; the next snapshot may succeed
            self.snapshot_failure = str(error)
            report("no snapshot could be written", error)

    def _replies_stored(self, seq: int) -> bool:
        """Wait until replies of entries up to a snapshot are in the log: a restart from it will not make them again."""
        while True:
            with self._lock:
                if not any(number <= seq for number in self._unstored):
                    return True
                if self._log_done or self.failed:
                    return False
                self._log_wakes.notify()
            time.sleep(0.01)


_LATER = object()


def learned(entry: Entry, predictions: list[Any]) -> dict[str, Any]:
    """Make the reply to a request that was learned."""
    return {"rows": entry.last_row, "predictions": predictions}


def disk_error(error: sqlite3.Error) -> RefusedError:
    """Tell what a failed write to the log means for the client."""
    report("the log cannot be written", error)
    return RefusedError(
        507, f"The log cannot be written ({error}). Nothing was learned; try again later.", retry_after=5
    )


def _set_results(outcomes: list[tuple[list[asyncio.Future[Any]], Any]]) -> None:
    for futures, outcome in outcomes:
        for future in futures:
            if future.done():  # the client went away
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

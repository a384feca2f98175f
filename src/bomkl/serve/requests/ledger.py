"""What requests write to the log: rows to learn from, rows that wait for their label, and the labels of those."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bomkl.serve.errors import RefusedError, field_of
from bomkl.serve.folder.start import Start, stored_columns
from bomkl.serve.model.columns import Columns, IgnoredColumns, without_place
from bomkl.serve.requests.work import Work
from bomkl.serve.storage.log import Known, Log


class Ledger:
    """Checks requests against the log and writes them to it, several in one transaction.

    `most_waiting`: rows that may wait for their label. `waiting` and `expired`: rows that wait for their label, and
    those that waited too long. `ignored`: columns that rows had and the service did not take in.
    """

    def __init__(self, log: Log, most_waiting: int, tables: bool) -> None:
        self.columns = stored_columns(log)
        self.waiting, self.expired = log.count_waiting(), int(log.fact("expired") or 0)
        self._log, self._start, self._tables, self._most_waiting = log, Start.of(log), tables, most_waiting
        self._before = self.columns, self.waiting, self.expired
        self.ignored, self._ignored = IgnoredColumns(), Counter[str]()  # the latter of this transaction
        self._began = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970 by the clock at the start: rows must not expire because someone sets it meanwhile."""
        return self._began + time.monotonic()

    def begin(self) -> None:
        self._before = self.columns, self.waiting, self.expired
        self._ignored.clear()
        self._log.begin()

    def commit(self) -> None:
        """Make sure that all of the transaction is on the disk."""
        if self.columns != self._before[0]:
            self._log.set_fact("columns", self.columns and self.columns.to_dict())
        self._log.commit()
        self.ignored.add(self._ignored)

    def rollback(self) -> None:
        self.columns, self.waiting, self.expired = self._before
        self._log.rollback()

    def fact(self, name: str) -> Any:
        return self._log.fact(name)

    def store(self, work: Work) -> Known | None:
        """Write one request to the log; returns what is known of it if it came before."""
        known = self._store(work)
        for name, value in work.facts.items():
            self._log.set_fact(name, value)
        return known

    def _store(self, work: Work) -> Known | None:
        if work.labels is None:
            self._store_waiting(work)
            return None
        for number, key in enumerate(work.keys):
            if (known := self._log.known(key)) is None:
                continue
            if known.fingerprint == work.fingerprint:
                return known
            if work.key is not None and number == 0:
                raise RefusedError(
                    422, f"Idempotency-Key {key[4:]!r} came before with another request.", "Idempotency-Key"
                )
            place = field_of(work.where[number - (work.key is not None)], "id")
            raise RefusedError(409, f"{place}: its label came before, with another value or request.", place)
        if work.ids is not None:
            cells, columns = self._rows_by_id(work.ids, work.where), self.columns
            assert columns is not None
        else:
            cells, columns = self._columns_for(work).cells(work.rows, work.where)
            self._ignored.update(without_place(work.rows, columns))
        labels, columns = columns.check_labels(work.labels, [field_of(place, "y") for place in work.where])
        entry = self._log.append(cells, labels, self.now())
        for key in work.keys:
            self._log.remember(key, entry.seq, work.fingerprint)
        if work.ids is not None:
            for identifier in work.ids:
                self._log.stop_waiting(identifier)
            self.waiting -= len(work.ids)
        self.columns = work.columns = columns
        work.entry = entry
        return None

    def expire(self, before: float) -> None:
        """Forget rows that began to wait for their label before a time."""
        self._count_expired(self._log.expire(before))

    def _count_expired(self, rows: int) -> None:
        if rows:
            self.expired += rows
            self.waiting -= rows
            self._log.set_fact("expired", self.expired)

    def _columns_for(self, work: Work) -> Columns:
        start = self._start
        return self.columns or Columns.of(work.rows[0], work.where[0], start.task, self._tables, start.new_columns)

    def _store_waiting(self, work: Work) -> None:
        assert work.ids is not None
        work.cells, work.columns = self._columns_for(work).cells(work.rows, work.where)
        self._ignored.update(without_place(work.rows, work.columns))
        new = 0
        for identifier, cells, place in zip(work.ids, work.cells, work.where, strict=True):
            old = self._log.waiting_row(identifier)
            if old is not None and old + [None] * (len(cells) - len(old)) != cells:
                place = field_of(place, "id")
                raise RefusedError(409, f"{place}: {identifier!r} names another row that waits for its label.", place)
            if old is None and self._log.known(f"label:{identifier}") is not None:
                place = field_of(place, "id")
                raise RefusedError(409, f"{place}: the label of {identifier!r} has come already.", place)
            new += old is None
        room = self._most_waiting - self.waiting - new
        if room < 0 and work.facts and work.size <= self._most_waiting:  # nobody can wait until there is room
            self._count_expired(self._log.forget_oldest(-room))
        elif room < 0:
            raise RefusedError(429, f"{self.waiting} rows wait for their label already.", retry_after=60)
        for identifier, cells in zip(work.ids, work.cells, strict=True):
            self._log.wait_for_label(identifier, cells, self.now())
        self.columns = work.columns
        self.waiting += new

    def _rows_by_id(self, ids: Sequence[str], where: Sequence[str]) -> list[list[Any]]:
        rows = []
        for identifier, place in zip(ids, where, strict=True):
            if (row := self._log.waiting_row(identifier)) is None:
                place = field_of(place, "id")
                reason = "it was never predicted with this id, or has expired"
                raise RefusedError(404, f"{place}: no row {identifier!r} waits for its label; {reason}.", place)
            rows.append(row)
        return rows

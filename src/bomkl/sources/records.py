"""Records of a broker as the lines of a pipe, so that whatever reads JSON lines reads them alike.

What has been read from the broker and not used yet is part of the state, as are the positions: a model file that holds
both with the model continues without a gap and without a repeat.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from time import monotonic
from typing import Any

from bomkl.sources.base import Record, SourceError, SourceUrl, lag, open_source
from bomkl.sources.dead_letters import DeadLetters
from bomkl.sources.joining import LABELS, Join, TwoTopics
from bomkl.sources.order import Ordered, OrderLog
from bomkl.sources.payloads import Row, decoder
from bomkl.streams.errors import BadLineError, BadLines
from bomkl.streams.live import LiveFile

BATCH = 4096  # records
_SECONDS = 0.2  # that a record may wait for others
_LAG_SECONDS = 2.0  # between two looks at how many records are left


class Records:
    """Records of a source, read as a file of JSON lines.

    `state`: what `state` gave; None: begin where the source begins. `order`: file for the order of records of several
    partitions; None: it is not kept. `waiting`: makes a context in which a signal may end the wait for records.
    """

    rewindable = False
    path = "-"

    def __init__(
        self,
        url: SourceUrl,
        state: Mapping[str, Any] | None = None,
        order: str | None = None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        state = state or {}
        self.name, self._waiting, self._key = url.shown, waiting, url.setting("key")
        self._decode = decoder(url)
        self.dead = DeadLetters(url)
        self.bad = _Refused(self)
        self.join: Join | None = None
        self._source = open_source(url)
        if (labels := url.setting("labels")) is not None:
            join = self.join = Join(_whole(url, "most_waiting", 100_000), state.get("join"))
            labelled = open_source(url.with_topic(labels))
            self._source = TwoTopics(self._source, labelled, lambda: join.is_full(BATCH))
        log = None if order is None else OrderLog(order)
        until = url.setting("until", "forever", ("forever", "end"))
        with waiting():  # for a broker that is not there yet
            self._ordered = Ordered(self._source, log, state.get("positions", {}))
            self._ends = self._source.ends() if until == "end" else None
        # Records whose lines were handed out and are not used yet; None for one that was refused
        self._unused: deque[Record | None] = deque()
        self._first_line = 1  # number of the first of those lines
        self._unused_before = [Record(part, at, line.encode(), key) for part, at, line, key in state.get("unused", ())]
        self._lag, self._lag_due = 0, 0.0
        self.on_rows: Callable[[list[Record], list[Row]], None] | None = None  # called with rows that wait for a label

    # ------------------------------------------------------------ lines

    @contextmanager
    def open(self) -> Iterator[tuple[LiveFile, bytes]]:
        """Open the lines; gives a file and, as a look ahead, how they begin."""
        yield _RecordFile(self._next_lines), b"{"

    def _next_lines(self) -> bytes:
        """Wait for records and return their rows as lines; none at the end."""
        lines, self._unused_before = self._unused_before, []
        while not lines:
            if self._ended():
                return b""
            with self._waiting():
                records = self._ordered.poll(BATCH, _SECONDS)
            lines = self._rows(records) if self.join is None else self._joined(records)
            self.dead.flush()
        self._unused.extend(lines)
        return b"".join(each.value + b"\n" for each in lines)

    def _ended(self) -> bool:
        """Whether all that was there at the start has been read; a group may have moved partitions elsewhere since."""
        if self._ends is None or self._ordered.at_hand:
            return False
        at = self._source.positions()
        return bool(at) and all(place >= self._ends.get(each, 0) for each, place in at.items())

    def _rows(self, records: list[Record]) -> list[Record]:
        """Return each row as a line of JSON, with the place of its record."""
        found = []
        for record in records:
            if self._decode is None:  # JSON already; a line end in it can only be white space
                if b"\n" in record.value or b"\r" in record.value:
                    record = record._replace(value=record.value.replace(b"\n", b" ").replace(b"\r", b" "))
                if record.value.isspace() or not record.value:
                    self.dead.add(record, "empty")
                else:
                    found.append(record)
                continue
            try:
                found += [record._replace(value=_line(row)) for row in self._decode(record.value)]
            except ValueError as error:
                self.dead.add(record, str(error))
        return found

    def _joined(self, records: list[Record]) -> list[Record]:
        """Return rows with labels that have come, in the order in which they were complete."""
        assert self.join is not None
        found, new = [], []
        for record in self._rows(records):
            try:
                row = json.loads(record.value)
                if not isinstance(row, dict):
                    raise ValueError("not a JSON object")
                key = record.key if self._key is None else str(row[self._key])
            except KeyError:
                self.dead.add(record, f"has no field {self._key!r}")
                continue
            except (ValueError, RecursionError) as error:
                self.dead.add(record, f"not JSON ({str(error)[:80]})")
                continue
            if record.partition.startswith(LABELS):
                complete = self.join.label(key, row)
            else:
                new.append((record, row))
                complete = self.join.row(key, row)
            if complete is not None:
                found.append(record._replace(value=_line(complete)))
        if new and self.on_rows is not None:
            self.on_rows([record for record, _ in new], [row for _, row in new])
        return found

    # ------------------------------------------------------------ what was used

    def refuse(self, line: int, reason: str) -> None:
        """Leave out a line that was handed out, by its number."""
        place = line - self._first_line
        if (record := self._unused[place]) is not None:
            self._unused[place] = None
            self.dead.add(record, reason)

    def used(self, rows: int) -> list[Record]:
        """Note that the next rows were used, and return their records; those that were refused in between are gone."""
        found: list[Record] = []
        while self._unused and (len(found) < rows or self._unused[0] is None):
            record = self._unused.popleft()
            self._first_line += 1
            if record is not None:
                found.append(record)
        self.dead.flush()
        return found

    def refuse_next(self, reason: str) -> None:
        """Leave out the next row that was not used yet: nothing can be learned from it."""
        self.used(0)
        self.refuse(self._first_line, reason)
        self.used(0)

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file: with them, nothing is used twice and nothing is lost."""
        unused = [each for each in self._unused if each is not None] + self._unused_before
        return {
            "positions": dict(self._ordered.positions),
            "unused": [[each.partition, each.position, each.value.decode("utf-8"), each.key] for each in unused],
            "join": None if self.join is None else self.join.state(),
        }

    def saved(self) -> None:
        """Note that `state` is on the disk."""
        self._ordered.saved()
        self._source.commit(self._ordered.positions)

    def lag(self) -> int:
        """Count the records that are there and not read yet; looked up now and then."""
        if monotonic() >= self._lag_due:
            with suppress(SourceError):  # a broker that is gone: what is known stands
                self._lag = lag(self._source, self._ordered.positions)
            self._lag_due = monotonic() + _LAG_SECONDS
        return self._lag

    def close(self) -> None:
        self.dead.close()
        self._source.close()


class _RecordFile(LiveFile):
    """Lines that come a batch at a time."""

    def __init__(self, next_lines: Callable[[], bytes]) -> None:
        super().__init__(lambda size: b"", 0.0)
        self._next_lines = next_lines

    def _next_burst(self) -> bool:
        data = self._next_lines()
        self._set_burst(data)
        return bool(data)


class _Refused(BadLines):
    """Lines that cannot be read go to the dead letters."""

    def __init__(self, records: Records) -> None:
        super().__init__(skip=True)
        self._records = records

    def report(self, bad: BadLineError) -> None:
        super().report(bad)
        self._records.refuse(bad.line, bad.reason if bad.column is None else f"column {bad.column}: {bad.reason}")


def _whole(url: SourceUrl, name: str, default: int) -> int:
    text = url.setting(name, str(default))
    if not text.isdecimal():
        raise SourceError(f"{url.shown}: {name!r} must be a whole number. Got {text!r} instead.")
    return int(text)


def _line(row: Row) -> bytes:
    return json.dumps(row, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")

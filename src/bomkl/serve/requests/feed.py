"""Rows of a broker, learned by the service: how far it has read is written to the log together with the rows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any

from pydantic_core import from_json

from bomkl.serve.errors import RefusedError
from bomkl.serve.formats.bodies import label_body, learn_body, predict_body
from bomkl.serve.requests.service import Service
from bomkl.serve.requests.work import Work
from bomkl.sources.base import Record, SourceError, SourceUrl, lag, open_source
from bomkl.sources.dead_letters import DeadLetters
from bomkl.sources.joining import LABELS, TwoTopics
from bomkl.sources.payloads import Row, decoder

_RECORDS = 1024  # at a time
_SECONDS = 0.2  # that a record may wait for others
_LOOK_SECONDS = 2.0  # between two looks at how many records are left
FACT = "sources"  # name of the fact with the positions in each source


class Feed:
    """Reads records and has a service learn from them.

    A record that comes with its label is learned as a request to learn would be. With ``labels=TOPIC`` in the URL, rows
    wait for their label in the service, as rows that were predicted with an id do. A record that the service refuses
    goes to the dead letters.

    `label`: name of the field with the label.
    """

    def __init__(self, url: SourceUrl, label: str) -> None:
        for name, instead in (("until", "bomkl train"), ("most_waiting", "--max-waiting")):
            if name in url.settings:
                raise SourceError(f"{url.shown}: {name!r} is not for a service. Use {instead} instead.")
        self._url, self._label, self._key = url, label, url.setting("key")
        self._decode = decoder(url)
        self._texts = url.setting("payload") == "csv"
        self._dead = DeadLetters(url)
        self._source = open_source(url)
        self._joins = (labels := url.setting("labels")) is not None
        if labels is not None:
            self._source = TwoTopics(self._source, open_source(url.with_topic(labels)))
        self._at: dict[str, int] = {}  # behind the last record that is in the log
        self._records, self._lag, self._look_due = 0, 0, 0.0

    def figures(self) -> dict[str, Any]:
        figures = {"records": self._records, "lag": self._lag, "dead_letters": self._dead.count}
        return {"url": self._url.shown, **figures}

    async def run(self, service: Service) -> None:
        """Read until the task is cancelled."""
        stored = service.ledger.fact(FACT) or {}
        if isinstance(self._source, TwoTopics):
            self._source.full = lambda: service.ledger.waiting + _RECORDS > service.settings.most_waiting
        try:
            await asyncio.to_thread(self._source.seek, stored.get(self._url.shown, {}))
            self._at = stored.get(self._url.shown, {})
            polling = asyncio.create_task(asyncio.to_thread(self._poll))
            while True:
                records = await polling
                polling = asyncio.create_task(asyncio.to_thread(self._poll))  # while these are learned
                await self._learn(service, [each for record in records for each in self._read(record)])
                self._records += len(records)
                self._dead.flush()
        finally:
            await asyncio.to_thread(self._close)

    def _poll(self) -> list[Record]:
        if monotonic() >= self._look_due:
            self._look_due = monotonic() + _LOOK_SECONDS
            with suppress(SourceError):  # a broker that is gone: what is known stands
                self._lag = lag(self._source, self._at)
            self._source.commit(self._at)
        return self._source.poll(_RECORDS, _SECONDS)

    def _close(self) -> None:
        self._dead.flush()
        self._dead.close()
        self._source.close()

    def _read(self, record: Record) -> Iterator[tuple[Record, list[Row]]]:
        """Give the rows of a record, unless it is damaged."""
        try:
            rows = [from_json(record.value)] if self._decode is None else self._decode(record.value)
            if not all(isinstance(row, dict) for row in rows):
                raise ValueError("not a JSON object")
            for name in self._needed(record):
                if any(name not in row for row in rows):
                    raise ValueError(f"has no field {name!r}")
        except ValueError as error:
            self._dead.add(record, str(error)[:200])
            return
        yield record, [{name: _cell(text) for name, text in row.items()} for row in rows] if self._texts else rows

    def _needed(self, record: Record) -> list[str]:
        label = [] if self._joins and not record.partition.startswith(LABELS) else [self._label]
        return [*label, self._key] if self._joins and self._key is not None else label

    async def _learn(self, service: Service, records: list[tuple[Record, list[Row]]]) -> None:
        """Learn from records; those that are refused are found by halving."""
        if not records:
            return
        at = self._at | {record.partition: record.position + 1 for record, _ in records}
        try:
            facts = {FACT: {**(service.ledger.fact(FACT) or {}), self._url.shown: at}}
            await _submit(service, lambda: replace(self._work(records), facts=facts))
            self._at = at
        except RefusedError as error:
            if len(records) == 1:
                self._dead.add(records[0][0], error.message)
                return
            middle = len(records) // 2
            await self._learn(service, records[:middle])
            await self._learn(service, records[middle:])

    def _work(self, records: list[tuple[Record, list[Row]]]) -> Work:
        """Make a request of records, which are all rows or all labels."""
        pairs = [(record, row) for record, rows in records for row in rows]
        own = {self._label, self._key} if self._joins else {self._label}
        rows = [{name: cell for name, cell in row.items() if name not in own} for _, row in pairs]
        if not self._joins:
            parsed = learn_body.of({"rows": rows, "y": [row[self._label] for _, row in pairs]})
            return Work(parsed.rows, parsed.where, parsed.labels)
        ids = [record.key if self._key is None else str(row[self._key]) for record, row in pairs]
        if not records[0][0].partition.startswith(LABELS):
            parsed = predict_body.of({"rows": rows, "ids": ids})
            return Work(parsed.rows, parsed.where, ids=parsed.ids)
        labels = [{"id": name, "y": row[self._label]} for name, (_, row) in zip(ids, pairs, strict=True)]
        parsed = label_body.of({"labels": labels})
        return Work([], parsed.where, parsed.labels, parsed.ids)


async def _submit(service: Service, work: Callable[[], Work]) -> None:
    """Carry out a request, again and again while the service is busy, starts, or has no room on the disk."""
    while True:
        try:
            await service.submit(work())
            return
        except RefusedError as error:
            if error.retry_after is None:
                raise
            await asyncio.sleep(error.retry_after)


def _cell(text: str) -> Any:
    """Read a cell of CSV: a number, a missing value or a string.

    Examples
    --------
    >>> [_cell(text) for text in ("1.5", "", "red", "nan")]
    [1.5, None, 'red', 'nan']
    """
    with suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    return text or None

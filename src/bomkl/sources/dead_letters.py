"""Records that nothing can be learned from: each is kept with the reason, and counted."""

from __future__ import annotations

import base64
import json
from typing import Any

from bomkl.sources.base import Record, Sink, SourceUrl, open_sink

_MOST_SHOWN = 3  # told one by one


class DeadLetters:
    """Where damaged records of a source go: a file of JSON lines, a topic, or nowhere; all are counted."""

    def __init__(self, url: SourceUrl) -> None:
        self.count, where = 0, url.setting("dead_letters")
        self._url, self._waiting = url, list[Record]()
        self._file: Any = None
        self._sink: Sink | None = None
        if where is not None and "://" in where:
            self._sink = open_sink(SourceUrl(where, url.tell))
        elif where is not None:
            self._file = open(where, "a", encoding="utf-8")  # noqa: SIM115

    def add(self, record: Record, reason: str) -> None:
        self.count += 1
        if self.count <= _MOST_SHOWN:
            self._url.tell(f"{self._url.shown}: record {record.partition}/{record.position} is left out: {reason}")
        letter = {
            "partition": record.partition,
            "position": record.position,
            "reason": reason,
            "key": record.key,
            "value": base64.b64encode(record.value).decode(),
        }
        self._waiting.append(record._replace(value=json.dumps(letter).encode()))

    def flush(self) -> None:
        """Write what has come since the last call."""
        waiting, self._waiting = self._waiting, []
        if self._file is not None:
            self._file.writelines(f"{each.value.decode()}\n" for each in waiting)
            self._file.flush()
        elif self._sink is not None and waiting:
            self._sink.send(waiting)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._sink is not None:
            self._sink.close()

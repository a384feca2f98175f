"""Predictions as records: each names the record it is for, so that after a restart none is published twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from bomkl.sources.base import Record, SourceError, SourceUrl, open_sink, open_source

_SECONDS = 0.5  # of silence after which no more of what was published before is to come


class Publisher:
    """What publishes predictions.

    `state`: what `state` gave; None for a new run. What was published after that by the run that was killed is read,
    and is not published again.
    """

    def __init__(self, url: SourceUrl, state: Mapping[str, Any] | None) -> None:
        self._sink, self._reader, self._saved = open_sink(url), open_source(url), state
        # How many predictions of a record are there: keys spread them over partitions, so a later one may be there and
        # an earlier one not
        self._published: Counter[tuple[str, int]] = Counter()
        if state is not None:
            self._published += Counter({(part, at): count for part, at, count in state["early"]})
            self._published += self._read(state["ends"])

    def _read(self, ends: Mapping[str, int]) -> Counter[tuple[str, int]]:
        self._reader.seek(ends)
        last, found = self._reader.ends(), Counter[tuple[str, int]]()
        while any(at < last.get(partition, 0) for partition, at in self._reader.positions().items()):
            for record in self._reader.poll(4096, _SECONDS):
                prediction = json.loads(record.value)
                found[prediction["partition"], prediction["position"]] += 1
        return found

    def publish(self, records: list[Record], predictions: list[Any], learned: Iterable[int]) -> None:
        """Publish the predictions of records, but for those that were published before.

        `learned` counts, for each, the rows that the model had learned from when it predicted.
        """
        new = []
        for record, prediction, rows in zip(records, predictions, learned, strict=False):
            place = record.partition, record.position
            if self._published[place]:
                self._published[place] -= 1
            else:
                told = {"partition": record.partition, "position": record.position, "key": record.key}
                told |= {"prediction": prediction, "learned": rows}
                new.append(record._replace(value=json.dumps(told).encode()))
        if new:
            self._sink.send(new)

    def state(self) -> dict[str, Any]:
        """Return where the topic ends now, and predictions there of records that are not used yet, for the next run.

        If the broker is gone, what was returned before: then the next run reads more predictions than it needs to.
        """
        try:
            early = [[*place, count] for place, count in self._published.items() if count]
            self._saved = {"ends": self._reader.ends(), "early": early}
        except SourceError:
            if self._saved is None:
                raise
        return dict(self._saved)

    def close(self) -> None:
        self._sink.close()
        self._reader.close()

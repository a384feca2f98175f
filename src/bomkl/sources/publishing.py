"""Predictions as records: each names the record it is for, so that after a restart none is published twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bomkl.sources.base import Positions, Record, SourceUrl, open_sink, open_source

_SECONDS = 0.5  # of silence after which no more of what was published before is to come


class Publisher:
    """What publishes predictions.

    Parameters
    ----------
    url : SourceUrl
        The topic or stream.
    ends : mapping or None
        Where it ended when the state of the run was saved; None for a new run. What was published after that by the
        run that was killed is read, and is not published again.
    """

    def __init__(self, url: SourceUrl, ends: Mapping[str, int] | None) -> None:
        self._sink, self._reader = open_sink(url), open_source(url)
        self._published: Positions = {} if ends is None else self._read(ends)

    def _read(self, ends: Mapping[str, int]) -> Positions:
        self._reader.seek(ends)
        last, found = self._reader.ends(), Positions()
        at = dict(ends)
        while any(at.get(partition, 0) < end for partition, end in last.items()):
            for record in self._reader.poll(4096, _SECONDS):
                at[record.partition] = record.position + 1
                prediction = json.loads(record.value)
                partition = prediction["partition"]
                found[partition] = max(found.get(partition, -1), prediction["position"])
        return found

    def publish(self, records: list[Record], predictions: list[Any], learned: Iterable[int]) -> None:
        """Publish the predictions of records, but for those that were published before.

        `learned` counts, for each, the rows that the model had learned from when it predicted.
        """
        new = []
        for record, prediction, rows in zip(records, predictions, learned, strict=False):
            if record.position > self._published.get(record.partition, -1):
                told = {"partition": record.partition, "position": record.position, "key": record.key}
                told |= {"prediction": prediction, "learned": rows}
                new.append(record._replace(value=json.dumps(told).encode()))
        if new:
            self._sink.send(new)

    def ends(self) -> Positions:
        """Return where the topic ends now, for `ends` of the next run."""
        return self._reader.ends()

    def close(self) -> None:
        """Leave the broker."""
        self._sink.close()
        self._reader.close()

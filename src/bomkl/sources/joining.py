"""Labels that come on a topic of their own, later than the rows: joined by a key, within bounds of memory.

A label is used when its row is there, in the order of the labels. Rows that wait for their label are part of the state
of a run, so what was read once is never read again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from bomkl.sources.base import Positions, Record, Source
from bomkl.sources.payloads import Row

LABELS = "labels/"  # before the names of their partitions


class TwoTopics:
    """Rows of one source and labels of another, as one source; rows first, so that a label seldom waits for its row.

    `full`: tells whether so many rows wait that labels should come first.
    """

    def __init__(self, rows: Source, labels: Source, full: Callable[[], bool] = lambda: False) -> None:
        self._rows, self._labels, self.full = rows, labels, full

    def seek(self, positions: Mapping[str, int]) -> None:
        mine, theirs = _parted(positions)
        self._rows.seek(mine)
        self._labels.seek(theirs)

    def poll(self, most: int, seconds: float) -> list[Record]:
        """Return rows that are there; labels when no more rows are, or too many wait."""
        found = self._labelled(most, 0.01) if self.full() else []
        found = found or self._rows.poll(most, 0.01) or self._labelled(most, 0.01)
        return found or self._rows.poll(most, seconds) or self._labelled(most, 0.01)

    def _labelled(self, most: int, seconds: float) -> list[Record]:
        return [each._replace(partition=LABELS + each.partition) for each in self._labels.poll(most, seconds)]

    def positions(self) -> Positions:
        return _joined(self._rows.positions(), self._labels.positions())

    def ends(self) -> Positions:
        return _joined(self._rows.ends(), self._labels.ends())

    def commit(self, positions: Mapping[str, int]) -> None:
        mine, theirs = _parted(positions)
        self._rows.commit(mine)
        self._labels.commit(theirs)

    def close(self) -> None:
        self._rows.close()
        self._labels.close()


def _joined(rows: Positions, labels: Positions) -> Positions:
    return rows | {LABELS + name: at for name, at in labels.items()}


def _parted(positions: Mapping[str, int]) -> tuple[Positions, Positions]:
    labels = {name.removeprefix(LABELS): at for name, at in positions.items() if name.startswith(LABELS)}
    return {name: at for name, at in positions.items() if not name.startswith(LABELS)}, labels


class Join:
    """Rows that wait for their label, and labels that wait for their row; the oldest go when there are too many.

    `most`: how many of each may wait. `state`: what `state` gave; None: nothing waits.
    """

    def __init__(self, most: int, state: Mapping[str, Any] | None = None) -> None:
        self._most = most
        self._rows: OrderedDict[str, Row] = OrderedDict((state or {}).get("rows", ()))
        self._labels: OrderedDict[str, Row] = OrderedDict((state or {}).get("labels", ()))
        self.unmatched_rows = int((state or {}).get("unmatched_rows", 0))
        self.unmatched_labels = int((state or {}).get("unmatched_labels", 0))

    def row(self, key: str, row: Row) -> Row | None:
        """Take a row; returns it with its label if that came before."""
        if key in self._labels:
            return row | self._labels.pop(key)
        self.unmatched_rows += key in self._rows  # its label can only be that of the new one
        self._rows.pop(key, None)
        self._rows[key] = row
        if len(self._rows) > self._most:
            self._rows.popitem(last=False)
            self.unmatched_rows += 1
        return None

    def label(self, key: str, label: Row) -> Row | None:
        """Take the fields that come later; returns them with those of the row if that is there."""
        if key in self._rows:
            return self._rows.pop(key) | label
        self._labels.pop(key, None)
        self._labels[key] = label
        if len(self._labels) > self._most:
            self._labels.popitem(last=False)
            self.unmatched_labels += 1
        return None

    @property
    def waiting(self) -> int:
        return len(self._rows)

    def is_full(self, more: int) -> bool:
        """Whether some more rows would drive others out."""
        return len(self._rows) + more > self._most

    def state(self) -> dict[str, Any]:
        return {
            "rows": [list(each) for each in self._rows.items()],
            "labels": [list(each) for each in self._labels.items()],
            "unmatched_rows": self.unmatched_rows,
            "unmatched_labels": self.unmatched_labels,
        }

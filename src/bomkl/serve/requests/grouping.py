"""Requests that wait for the log, and when to write them: a commit and a call of the model are shared by a group."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from bomkl.serve.model.learner import MICRO_BATCH
from bomkl.serve.requests.work import Work

_WAIT_WHILE_PREDICTING = 0.02  # seconds that rows wait for others: learning takes time from predictions
_LEAST_WAIT, _MOST_WAIT = 0.002, 0.02  # seconds that they wait otherwise, for clients that were answered just now
_MOST_ROWS = 4 * MICRO_BATCH  # of a group


class Waiting:
    """Requests in the order in which they came.

    Rows to learn from wait while the model learns, since they could not be learned before, and then a moment for those
    of clients that were answered just now: until as many have come as were in the last group or waited for its end, but
    no longer than that group took. So rows that come one by one are written and learned together, all in one group
    rather than in two that take turns, and waiting costs no more than another group would.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._works: deque[Work] = deque()
        self._clock, self._since, self._rows, self._urgent = clock, 0.0, 0, False
        self._expected = 1  # requests that the next group may have
        self._begun = self._free = 0.0  # when the last group was taken, and when it had been learned
        self._wait = _LEAST_WAIT

    def __bool__(self) -> bool:
        return bool(self._works)

    def add(self, work: Work) -> bool:
        """Take a request; tells whether what writes has to look again."""
        if not self._works:
            self._since = self._clock()
        self._works.append(work)
        self._rows += work.size
        self._urgent = self._urgent or work.labels is None  # someone waits for a prediction
        return len(self._works) in (1, self._expected) or self._urgent or self._rows >= MICRO_BATCH

    def due_in(self, learning: bool, predicting: bool) -> float | None:
        """Seconds until the requests are to be written; None as long as the model learns."""
        if self._urgent or self._rows >= MICRO_BATCH:
            return 0.0
        if learning:
            return None
        if predicting:
            return max(self._since + _WAIT_WHILE_PREDICTING - self._clock(), 0.0)
        if len(self._works) >= self._expected:
            return 0.0
        return max(max(self._since, self._free) + self._wait - self._clock(), 0.0)

    def has_learned(self) -> None:
        """Note that the model has learned all that was taken out, and that its clients are answered."""
        self._free = self._clock()
        self._wait = min(max(self._free - self._begun, _LEAST_WAIT), _MOST_WAIT)
        self._expected += len(self._works)

    def take(self) -> list[Work]:
        found: list[Work] = []
        rows = 0
        while self._works and rows < _MOST_ROWS:
            found.append(self._works.popleft())
            rows += found[-1].size
        self._rows -= rows
        self._expected = max(len(found), 1)
        self._begun = self._clock()
        self._urgent = any(work.labels is None for work in self._works)
        return found

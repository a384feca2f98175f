"""What a model remembers of its predictions along the stream, each made before its row was learned from.

Memory is bounded: errors are added up over spans of rows that double when there are too many, pairs of predictions and
targets are a sample, and of surprising rows a few are kept. Sums are taken over the same 128 rows however rows are
split into calls, so the split changes no bit.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import shallow_copy
from bomkl.auto.limits import CELLS, SUMS
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

CHUNK = 128  # rows whose sums are taken together
SPANS = 256  # most spans of the stream; an even number
BINS = 20  # of probabilities
PAIRS = 512  # predictions and targets in the sample
SURPRISES = 20  # rows
MOST_CLASSES = 200  # of a confusion matrix
_SURE = 200  # rows before which no prediction is a surprise
# Of a span: rows, error, loss, error of the commonest class or mean, error of the last label, square of the loss.
# The loss and the errors of these two are squares where targets are numbers.
_SUMS = 6
_HUGE = 1e60  # whose fourth power is a number


class History:
    """Predictions so far."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.rows = 0
        self.width = CHUNK  # rows of a span
        self.spans = np.zeros((0, _SUMS))
        self.pending = np.zeros((0, 5))  # target, prediction, probability, error, loss
        self.waiting: tuple[tuple[Float, Float, Task], ...] = ()  # targets and scores that come after these
        self.undigested = 0  # rows of both
        self.last: float | None = None  # target of the last row of the last chunk
        self.counts = np.zeros(0)  # rows of each class; of numbers their sum
        self.confusion = np.zeros((0, 0), dtype=np.int64)  # rows of each class, by prediction
        self.bins = np.zeros((BINS, 3))  # rows, sum of probabilities, rows that came true
        self.pairs = np.zeros((0, 3))  # hash of the row number, target, prediction
        self.surprises = np.zeros((0, 4))  # loss, row number, target, prediction

    def plus(self, y: Float, scores: Float, task: Task) -> History:
        """History with more rows."""
        after = self.fork()
        after.waiting = (*self.waiting, (y, scores, task))
        after.undigested = self.undigested + len(y)
        if after.undigested >= CHUNK:
            after._note_waiting()
            whole = len(after.pending) // CHUNK
            for chunk in after.pending[: whole * CHUNK].reshape(whole, CHUNK, 5):
                after._digest(chunk)
            after.pending = after.pending[whole * CHUNK :].copy()
            after.undigested = len(after.pending)
        return after

    def _note_waiting(self) -> None:
        parts = [self.pending]
        for (task, _), alike in groupby(self.waiting, key=lambda each: (each[2], each[1].shape[1])):
            y, scores, _ = zip(*alike, strict=True)
            parts.append(_facts(np.concatenate(y), np.concatenate(scores), task))
        self.pending, self.waiting = np.concatenate(parts), ()

    def settled(self) -> History:
        """History with all rows in its sums, to look at."""
        after = self.fork()
        after._note_waiting()
        if len(after.pending):
            after._digest(after.pending)
            after.pending, after.undigested = after.pending[:0], 0
        return after

    def curve(self) -> Float:
        """Spans of the stream, the last one joined to the one before if it is short."""
        spans = self.spans
        if len(spans) > 1 and spans[-1, 0] < self.width / 2:
            return np.concatenate([spans[:-2], [spans[-2] + spans[-1]]])
        return spans

    def fork(self) -> Self:
        """Return a copy that may go on while this one stays as it is."""
        return shallow_copy(self)  # no array is ever changed in place

    def _digest(self, chunk: Float) -> None:
        y, predicted, probability, error, loss = chunk.T
        if self.regression:
            mean = self.counts[0] / self.rows if self.rows else float(y[0])
            before = np.minimum(np.abs(np.diff(y, prepend=y[0] if self.last is None else self.last)), _HUGE)
            commonest = np.minimum(np.abs(y - mean), _HUGE)
            self.counts = (self.counts if len(self.counts) else np.zeros(1)) + y.sum()
            sums = [len(y), error.sum(), loss.sum(), (commonest**2).sum(), (before**2).sum(), (loss**2).sum()]
        else:
            best = float(self.counts.argmax()) if len(self.counts) else float(y[0])
            before = np.concatenate([[-1.0 if self.last is None else self.last], y[:-1]])
            sums = [len(y), error.sum(), loss.sum(), (y != best).sum(), (y != before).sum(), (loss**2).sum()]
            self._count(y.astype(np.intp), predicted.astype(np.intp))
            at = np.minimum((probability * BINS).astype(np.intp), BINS - 1)
            true = y == 1 if self._binary else y == predicted
            self.bins = self.bins + np.column_stack(
                [np.bincount(at, each, BINS) for each in (np.ones(len(y)), probability, true)]
            )
        self._note_rows(y, predicted, error if self.regression else np.where(error > 0, loss, 0.0))
        self.last = float(y[-1])
        self.rows += len(y)
        self._add(np.array(sums, dtype=np.float64))

    @property
    def _binary(self) -> bool:
        return len(self.counts) <= 2

    def _count(self, y: NDArray[np.intp], predicted: NDArray[np.intp]) -> None:
        n = max(len(self.counts), int(y.max()) + 1, int(predicted.max()) + 1)
        counts = np.zeros(n)
        counts[: len(self.counts)] = self.counts
        self.counts = counts + np.bincount(y, minlength=n)
        if n <= MOST_CLASSES:
            confusion = np.zeros((n, n), dtype=np.int64)
            known = len(self.confusion)
            confusion[:known, :known] = self.confusion
            np.add.at(confusion, (y, predicted), 1)
            self.confusion = confusion

    def _note_rows(self, y: Float, predicted: Float, surprise: Float) -> None:
        numbers = np.arange(self.rows, self.rows + len(y), dtype=np.uint64)
        drawn = np.column_stack([_hash(numbers), y, predicted])
        if len(self.pairs) == PAIRS:
            drawn = drawn[drawn[:, 0] < self.pairs[-1, 0]]
        if len(drawn):
            pairs = np.concatenate([self.pairs, drawn])
            self.pairs = pairs[np.argsort(pairs[:, 0], kind="stable")[:PAIRS]]
        least = self.surprises[-1, 0] if len(self.surprises) == SURPRISES else 0.0
        some = np.flatnonzero((surprise > least) & (numbers >= _SURE))
        if len(some):
            new = np.column_stack([surprise, numbers.astype(np.float64), y, predicted])[some]
            found = np.concatenate([self.surprises, new])
            self.surprises = found[np.argsort(-found[:, 0], kind="stable")[:SURPRISES]]

    def _add(self, sums: Float) -> None:
        spans = self.spans
        if len(spans) and spans[-1, 0] < self.width:
            self.spans = np.concatenate([spans[:-1], [spans[-1] + sums]])
            return
        if len(spans) == SPANS:
            spans, self.width = spans[0::2] + spans[1::2], 2 * self.width
        self.spans = np.concatenate([spans, [sums]])

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        after = self.fork()
        after._note_waiting()
        return {
            name: value for name, value in vars(after).items() if name not in ("regression", "waiting", "undigested")
        }

    @classmethod
    def from_state(cls, state: Any, regression: bool, classes: int) -> Self:
        """Go on where `to_state` was called; refuse what does not fit together."""
        saved, found = Saved(state, "history"), cls(regression)
        found.rows = saved.integer("rows")
        found.width = saved.integer("width", CHUNK)
        found.spans = saved.array("spans", (None, _SUMS), np.float64, *SUMS)
        if len(found.spans) > SPANS or int(found.spans[:, 0].sum()) != found.rows:
            raise saved.wrong("spans", f"at most {SPANS} of all rows", len(found.spans))
        found.pending = saved.array("pending", (None, 5))
        found.undigested = len(found.pending)
        n = 1 if regression else classes
        found.counts = saved.array("counts", (None,))
        found.confusion = saved.array("confusion", (None, None), np.int64, 0)
        known = len(found.counts)
        if known > n or len(found.pending) >= CHUNK or found.confusion.shape != (len(found.confusion),) * 2:
            raise saved.wrong("counts", f"those of {n} classes", known)
        sizes = np.abs(found.pending)
        if sizes.size and (sizes[:, 0].max() > CELLS.high or sizes[:, 2:].max() > _HUGE**2):
            raise saved.wrong("pending", "targets, predictions and their errors", float(sizes.max()))
        codes = found.pending[:, :2]
        if not regression and codes.size and (codes.min() < 0 or codes.max() >= classes):
            raise saved.wrong("pending", f"rows of {classes} classes", codes.max())
        found.last = None if saved.unread("last") is None else float(state["last"])
        found.bins = saved.array("bins", (BINS, 3), np.float64, *SUMS)
        found.pairs = saved.array("pairs", (None, 3))
        found.surprises = saved.array("surprises", (None, 4))
        if len(found.pairs) > PAIRS or len(found.surprises) > SURPRISES:
            raise saved.wrong("pairs", f"at most {PAIRS}", len(found.pairs))
        saved.end()
        return found


def _facts(y: Float, scores: Float, task: Task) -> Float:
    """Target, prediction, probability, error and loss of each row; of two classes the probability of the second."""
    if task.is_regression:
        size = np.minimum(np.abs(y - scores[:, 0]), _HUGE)
        return np.column_stack([y, scores[:, 0], np.zeros(len(y)), size, size**2])
    if task is Task.BINARY:
        margin = scores[:, 0]
        signed = np.where(y > 0.5, margin, -margin)
        loss, probability = np.logaddexp(0, -signed), np.exp(-np.logaddexp(0, -margin))
        return np.column_stack([y, margin > 0, probability, signed <= 0, loss])
    codes = y.astype(np.intp)
    total, best = np.logaddexp.reduce(scores, axis=1), scores.argmax(axis=1)
    rows = np.arange(len(y))
    probability = np.minimum(np.exp(scores[rows, best] - total), 1.0)
    return np.column_stack([y, best, probability, best != codes, total - scores[rows, codes]])


def _hash(numbers: NDArray[np.uint64]) -> Float:
    """Numbers from 0 to 1 that look random, one for each row number (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return np.asarray(z.astype(np.float64) / 2.0**64)

"""The layer that begins anew: after a sudden change, a new learner may take the place of the one within.

The experts of the learner within follow most changes. Where all is new at once, a learner that starts from nothing is
better. So one begins with the rows since a sudden change, learns beside the other, and takes its place once it has lost
clearly less; a challenger that falls far behind goes, as does one that has not won after some rows. Each that lost
makes the next one rarer, and it must win by more and sooner: it costs as much as the learner within. Predictions are
those of the learner within.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from bomkl.auto.drift.adaptive import PATIENCE
from bomkl.auto.drift.events import expert_names
from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.pace import pool_bytes
from bomkl.auto.learner import Layer, Learner, after_row, learner_from_state, learner_state, loadable, shallow_copy
from bomkl.auto.limits import SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import dense_rows
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.saved import Saved, State

WIN = 3.0  # nats by which a challenger must beat the learner within; as many more for each that lost before
_HOPELESS = 7.0  # nats behind, for classes: none as far behind won on any stream tried; errors of numbers vary too much
_HALVED = 3  # how often the rows that a challenger has for that, PATIENCE, are halved: after each that lost
REST = 1000  # rows without a challenger after the first that lost; twice as many after each further one
_AT_ONCE = 1024  # rows learned from at a time
_MOST_EVENTS = 256


@loadable
class ChallengedLearner(Layer):
    """A learner of rows that follows drift, and at times a challenger."""

    kind: ClassVar[str] = "challenged"
    inner: RowLearner

    def __init__(self, inner: RowLearner, columns: int) -> None:
        super().__init__(inner, columns)
        self.seen = 0
        self.challenger: RowLearner | None = None
        self.losses = np.zeros(2)  # of the learner within and of the challenger, since it began
        self.age = 0
        self.lost = 0  # challengers that did not win, less those that won, so that few begin where few win
        self.rests_until = 0  # row count before which none begins
        self.past: list[dict[str, Any]] = []  # changes that learners before the one within noticed

    def use(self, device: str) -> None:
        """Go on with a device."""
        for each in (self.inner, self.challenger):
            if each is not None:
                each.use(device)

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        if len(y) <= _AT_ONCE:
            return self._learn(X, y, weight, run)
        parts = [slice(begin, begin + _AT_ONCE) for begin in range(0, len(y), _AT_ONCE)]
        return np.vstack([self._learn(X[part], y[part], weight[part], run) for part in parts])

    def after_row(self, X: Float, y: Float) -> tuple[Self, Float] | None:
        """Return a copy that has learned from one row of weight 1, and its scores; None where more has to happen."""
        if self.challenger is not None:
            return None
        inner, scores = after_row(self.inner, X, y)
        after = shallow_copy(self)
        after.inner, after.seen = inner, self.seen + 1
        return None if after._next_change(1, 0) is not None else (after, scores)

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        for each in (self.inner, self.challenger):
            if each is not None:
                each.add_class()

    def events(self) -> list[dict[str, Any]]:
        """Return the changes that were noticed, as the core has them, with the row counts of the stream."""
        experts, before = self.inner.drift, self.seen - self.inner.seen
        own = [] if experts is None else experts.state()["events"]
        return [*self.past, *(each | {"row": each["row"] + before, "restarted": False} for each in own)]

    def _learn(self, X: Any, y: Float, weight: Float, run: Mapper) -> Float:
        """Score and learn rows; a challenger begins, wins or goes after the very row that decides it."""
        n = len(y)
        nothing = np.empty((0, self.columns)), np.empty(0), np.empty(0)
        last = nothing if self.inner.drift is None else self.inner.drift.last_rows()
        out, rival = self._both(X, y, weight, run)
        self.seen += n
        at = 0
        while at < n:
            if rival is None:
                change = self._next_change(n, at)
                if change is None:
                    break
                begin, age = change
                rival = np.empty_like(out)
                self.challenger = self._new_challenger()
                since = max(begin - age, 0)  # the change may have begun among the rows before these
                new = dense_rows(X, since, begin), y[since:begin], weight[since:begin]
                rows, labels, weights = (np.concatenate(each)[-age:] for each in zip(last, new, strict=True))
                self.challenger.score_and_learn(rows, labels, weights, run)
                if begin < n:
                    rival[begin:] = self.challenger.score_and_learn(X[begin:], y[begin:], weight[begin:], run)
                at = begin
                continue
            began = self.seen - n + at - self.age
            at, won = self._judge(out, rival, y, weight, at)
            if won is None:
                break
            if won:
                out[at:] = rival[at:]
                self._take_over(self.seen - n + at, began)
            self.lost = max(self.lost - 1, 0) if won else self.lost + 1
            self.rests_until = 0 if won else self.seen - n + at + REST * 2**self.lost
            self.challenger, rival = None, None
            self.losses, self.age = np.zeros(2), 0
        return out

    def _both(self, X: Any, y: Float, weight: Float, run: Mapper) -> tuple[Float, Float | None]:
        """Scores of the learner and of the challenger, which may learn at the same time."""
        if self.challenger is None:
            return self.inner.score_and_learn(X, y, weight, run), None
        out, rival = run(lambda each: each.score_and_learn(X, y, weight), (self.inner, self.challenger))
        return out, rival

    def _next_change(self, n: int, at: int) -> tuple[int, int] | None:
        """Return how many of the last n rows had been learned when a sudden change was noticed, and its age.

        None where there is none after row `at` of these.
        """
        experts = self.inner.drift
        if experts is None or not self._has_room:
            return None
        first = self.inner.seen - n  # below zero for a challenger that has taken over: it has not seen all of them
        found = experts.sudden_since(max(first + at, self.rests_until - (self.seen - self.inner.seen)))
        return (found[0][0] - first, found[0][1]) if found else None

    @property
    def _has_room(self) -> bool:
        """Whether the limit of memory has room for a challenger beside the learner within."""
        return self.settings.memory >= 2 * pool_bytes(self.settings.budget, self.columns, "rows")

    def _new_challenger(self) -> RowLearner:
        made = self.inner.like(self.settings, self.n_classes)
        made.follow_drift()
        return made

    def _take_over(self, row: int, began: int) -> None:
        """Put the challenger, which began after so many rows, in the place of the learner within."""
        past = [each for each in self.events() if each["row"] <= row][-_MOST_EVENTS:]
        for i, each in enumerate(past):
            if each["row"] == began:  # no expert of the other learner has taken over
                past[i] = each | {"restarted": True, "weights": np.zeros_like(each["weights"])}
        self.past = past
        assert self.challenger is not None
        self.inner = self.challenger

    def _judge(self, out: Float, rival: Float, y: Float, weight: Float, at: int) -> tuple[int, bool | None]:
        """Return the row after which the challenger has won or must go, and which of the two; None where neither."""
        count = np.minimum(weight[at:], 1.0)
        both = [count * self.task.losses(scores[at:], y[at:]) for scores in (out, rival)]
        sums = np.cumsum(np.vstack([self.losses, np.stack(both, axis=1)]), axis=0)[1:]
        ages = self.age + np.arange(1, len(sums) + 1)
        ahead = sums[:, 0] - sums[:, 1]
        hopeless = -np.inf if self.task.is_regression else -_HOPELESS
        if self.task.is_regression:  # in units of the squared error, half of which is a nat
            ahead = np.divide(ages * ahead, 2 * sums[:, 0], out=np.zeros_like(ahead), where=sums[:, 0] > 0)
        win, patience = WIN * (1 + self.lost), PATIENCE >> min(self.lost, _HALVED)
        decided = np.flatnonzero((ahead > win) | (ahead < hopeless) | (ages >= patience))
        if not len(decided):
            self.losses, self.age = sums[-1], int(ages[-1])
            return at + len(sums), None
        first = int(decided[0])
        return at + first + 1, bool(ahead[first] > win)

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "inner": learner_state(self.inner),
            "challenger": None if self.challenger is None else learner_state(self.challenger),
            "seen": self.seen,
            "losses": self.losses,
            "age": self.age,
            "lost": self.lost,
            "rests_until": self.rests_until,
            "past": self.past,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        learner = cls(_rows_learner(saved, "inner", learner_from_state(saved.part("inner"), columns)), columns)
        learner.seen = saved.integer("seen", learner.inner.seen)
        part = saved.optional_part("challenger")
        if part is not None:
            made = _rows_learner(saved, "challenger", learner_from_state(part, columns))
            if made.outputs != learner.outputs or made.settings != learner.settings:
                raise saved.wrong("challenger", "a learner of the same rows and settings", made.kind)
            learner.challenger = made
        learner.losses = saved.array("losses", (2,), np.float64, *SUMS)
        learner.age = saved.integer("age", 0, PATIENCE)
        learner.lost = saved.integer("lost", 0, 62)  # they double, so there cannot be more
        learner.rests_until = saved.integer("rests_until", 0)
        experts = len(expert_names(learner.task.is_regression))
        for event in saved.parts("past", _MOST_EVENTS):
            found: dict[str, Any] = {"row": event.integer("row", 0, learner.seen), "age": event.integer("age", 0)}
            found["sudden"], found["strength"] = event.flag("sudden"), event.number("strength")
            found["shifts"] = event.array("shifts", (columns,))
            found["weights"], found["restarted"] = event.array("weights", (experts,)), event.flag("restarted")
            event.end()
            learner.past.append(found)
        saved.end()
        return learner


def _rows_learner(saved: Saved, name: str, learner: Learner) -> RowLearner:
    if type(learner) is not RowLearner:
        raise saved.wrong(name, "a learner of rows", learner.kind)
    return learner

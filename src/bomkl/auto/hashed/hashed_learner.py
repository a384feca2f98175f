"""The layer that learns from the cells of tables: values, pairs of values, words and n-grams, all hashed.

The hashed models (`cpp/auto/hashed/hashed.hpp`) are combined among themselves into one score. It takes part in the last
combination, where the learner within the layer begins with nearly all of the weight. For two classes and for numbers it
may also be one more column of that learner: for the first rows a second learner with this column is on trial.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from bomkl.auto.constants import CHUNK
from bomkl.auto.features.geometry import Float
from bomkl.auto.hashed.hashed_scores import HashedScores
from bomkl.auto.learner import (
    ONE_ROW,
    Layer,
    Learner,
    after_row,
    learner_from_state,
    learner_state,
    loadable,
    shallow_copy,
)
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import checked
from bomkl.auto.saved import Saved, State
from bomkl.tables.encoded import EncodedRows

TRIAL = 768  # most rows of a trial
_FAR = 8.0  # scores beyond it say no more to the learner
_AT_ONCE = 4 * CHUNK


def trial_rows(budget: int) -> int:
    """Rows of a trial: over before the budget is full, when everything is rebuilt.

    Examples
    --------
    >>> trial_rows(1000), trial_rows(100), trial_rows(5000)
    (750, 75, 768)
    """
    return min(TRIAL, 3 * budget // 4)


@loadable
class HashedLearner(Layer):
    """Hashed models around a learner of encoded rows; rows are `EncodedRows`.

    Parameters
    ----------
    inner : Learner
        The learner of the rows' numbers.
    wider : Learner or None
        One of these numbers and one more column; None where there is no trial.
    hashed : HashedScores
        The models, which may have learned from cells already.
    """

    kind: ClassVar[str] = "hashed"

    def __init__(self, inner: Learner, wider: Learner | None, hashed: HashedScores) -> None:
        super().__init__(inner, hashed.core.columns)
        self.wider = wider
        self.takes_score = False  # whether the score is a column of `inner`
        self.hashed = hashed

    @property
    def seen(self) -> int:
        """Rows learned from."""
        return self.inner.seen

    def use(self, device: str) -> None:
        """Go on with a device."""
        for learner in self._learners():
            learner.use(device)

    def _learners(self) -> list[Learner]:
        return [self.inner] if self.wider is None else [self.inner, self.wider]

    # ------------------------------------------------------------ learning

    def score_and_learn(self, X: EncodedRows, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))
        begin = 0
        while begin < len(y):
            end = begin + min(self._rows_to_event(), len(y) - begin)
            out[begin:end] = self._learn(X[begin:end], y[begin:end], weight[begin:end], run)
            begin = end
        return checked(out)

    def after_row(self, X: EncodedRows, y: Float) -> tuple[Self, Float] | None:
        """Return a copy that has learned from one row of weight 1, and its scores; None where more has to happen."""
        if self.takes_score or self.wider is not None:
            return None
        after = shallow_copy(self)
        after.inner, said = after_row(self.inner, X.numbers, y)
        after.hashed = self.hashed.fork()
        joint = after.hashed.score_and_learn(X.cells, y, ONE_ROW, self.task)
        return after, checked(after.hashed.join_and_learn([said], joint, y, ONE_ROW, self.task))

    def scores(self, X: EncodedRows, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        out = np.empty((X.shape[0], self.outputs))
        for begin in range(0, X.shape[0], _AT_ONCE):
            rows = X[begin : begin + _AT_ONCE]
            if self.hashed.waits:
                out[begin : begin + _AT_ONCE] = self.inner.scores(rows.numbers, run)
                continue
            joint = self.hashed_scores(rows)
            said = [learner.scores(some, run) for learner, some in self.rows_of_learners(rows, joint)]
            out[begin : begin + _AT_ONCE] = self.hashed.joined(said, joint, self.task)
        return checked(out)

    def hashed_scores(self, rows: EncodedRows) -> Float:
        """Scores of the hashed models together, for scaled targets."""
        return self.hashed.scores(rows.cells, rows.shape[0], self.task)

    def score_one(self, x: Any) -> float | Float | None:
        """Say that `scores` has to be asked: single rows of tables are encoded."""
        return None

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        if self.wider is not None:
            self._end_trial(with_score=False)
        self.hashed.core.add_class()
        self.inner.add_class()

    def _rows_to_event(self) -> int:
        until_trial_ends = _AT_ONCE if self.wider is None else trial_rows(self.settings.budget) - self.seen
        return max(self.hashed.rows_to_event(min(_AT_ONCE, until_trial_ends)), 1)

    def _learn(self, X: EncodedRows, y: Float, weight: Float, run: Mapper) -> Float:
        """Score and learn rows up to the next event, then let it happen."""
        joint = self.hashed.score_and_learn(X.cells, y, weight, self.task)
        said = [some.score_and_learn(rows, y, weight, run) for some, rows in self.rows_of_learners(X, joint)]
        out = self.hashed.join_and_learn(said, joint, y, weight, self.task)
        if self.wider is not None and self.seen >= trial_rows(self.settings.budget):
            without, with_score = self.hashed.last.loss_sum[:2]
            self._end_trial(bool(with_score < without))
        return out

    def _end_trial(self, with_score: bool) -> None:
        """Go on with one of the two learners."""
        assert self.wider is not None
        if with_score:
            self.inner, self.settings, self.takes_score = self.wider, self.wider.settings, True
        self.wider = None
        self.hashed.last = self.hashed.last.without(np.array([0 if with_score else 1]))

    def rows_of_learners(self, X: EncodedRows, joint: Float) -> list[tuple[Learner, Float]]:
        """Learners with the numbers of rows as each takes them."""
        numbers = X.numbers
        if not self.takes_score and self.wider is None:
            return [(self.inner, numbers)]
        with_score = self.with_score(numbers, joint)
        if self.wider is None:
            return [(self.inner, with_score)]
        return [(self.inner, numbers), (self.wider, with_score)]

    def with_score(self, numbers: Float, joint: Float) -> Float:
        """Rows with the score as one more column; of several classes the log odds of the first two."""
        score = joint[:, 0] if joint.shape[1] == 1 else joint[:, 1] - joint[:, 0]
        return np.column_stack([numbers, np.clip(score, -_FAR, _FAR) * self.hashed.spread + self.hashed.centre])

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "inner": learner_state(self.inner),
            "wider": None if self.wider is None else learner_state(self.wider),
            "takes_score": self.takes_score,
            **self.hashed.to_state(),
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        takes_score, wider = saved.flag("takes_score"), saved.optional_part("wider")
        inner = learner_from_state(saved.part("inner"), columns + takes_score)
        second = None if wider is None else learner_from_state(wider, columns + 1)
        on_trial = second is not None
        hashed = HashedScores.from_state(saved, inner.settings, inner.outputs, 1 + on_trial)
        learner = cls(inner, second, hashed)
        learner.takes_score = takes_score
        same = all(each.seen == inner.seen and each.outputs == inner.outputs for each in learner._learners())
        too_late = takes_score or inner.outputs > 1 or inner.seen >= trial_rows(inner.settings.budget)
        if not same or hashed.seen > inner.seen or (on_trial and too_late):
            raise saved.wrong("inner", "learners of the same rows and settings", inner.seen)
        saved.end()
        return learner

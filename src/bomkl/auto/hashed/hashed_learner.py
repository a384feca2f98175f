"""The layer that learns from the cells of tables: values, pairs of values, words and n-grams, all hashed.

The hashed models (`cpp/auto/hashed/hashed.hpp`) are combined among themselves into one score. It takes part in the last
combination, where the learner within the layer begins with nearly all of the weight. For two classes and for numbers it
may also be one more column of that learner: for the first rows a second learner with this column is on trial.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from bomkl._core import HashedModel
from bomkl.auto.components.combination import Combination
from bomkl.auto.constants import CHUNK, FIRST_STAGE
from bomkl.auto.features.geometry import Float
from bomkl.auto.hashed.state import hashed_from_state, hashed_state
from bomkl.auto.learner import Layer, Learner, learner_from_state, learner_state, loadable
from bomkl.auto.limits import SIZES
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import checked
from bomkl.auto.rows.rebuild import target_scale
from bomkl.auto.saved import Saved, State
from bomkl.tables.encoded import EncodedRows

PARTS = ("values 10", "values 1", "pairs 1", "pairs 4", "words", "words 10")  # see kHashedWays in the core
BEGINNER = 0.03  # weight that the hashed models, and the learner on trial, begin with in the last combination
TRIAL = 768  # most rows of a trial
_LAST_STAGE = 1024  # rows after which the scale of the targets stays
_FARTHEST = 1e30  # scaled predictions beyond it are taken as this
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
    cells : int
        Columns of the table.
    """

    kind: ClassVar[str] = "hashed"

    def __init__(self, inner: Learner, wider: Learner | None, cells: int) -> None:
        super().__init__(inner, cells)
        self.wider = wider
        self.takes_score = False  # whether the score is a column of `inner`
        self.seen = 0
        self.core = HashedModel(cells, inner.outputs)
        self.among = Combination.of(len(PARTS))
        learners = 1 + (wider is not None)
        self.last = Combination.of(learners + 1)  # of the learners and the hashed models together
        prior = np.append(1 - learners * BEGINNER, np.full(learners, BEGINNER))
        self.last.stack_w, self.last.weights = np.broadcast_to(prior, self.last.stack_w.shape), prior
        self.first_y: list[float] = []
        self.centre, self.spread = 0.0, 1.0

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

    def scores(self, X: EncodedRows, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        out = np.empty((X.shape[0], self.outputs))
        for begin in range(0, X.shape[0], _AT_ONCE):
            rows = X[begin : begin + _AT_ONCE]
            if self._waits:
                out[begin : begin + _AT_ONCE] = self.inner.scores(rows.numbers, run)
                continue
            joint = self.hashed_scores(rows)
            each = [learner.scores(some, run) for learner, some in self.rows_of_learners(rows, joint)]
            scores = self.last.scores(self._together(each, joint), self.task)
            out[begin : begin + _AT_ONCE] = scores * self.spread + self.centre
        return checked(out)

    def hashed_scores(self, rows: EncodedRows) -> Float:
        """Scores of the hashed models together, for scaled targets."""
        return self.among.scores(self.core.scores(rows.cells, rows.shape[0]), self.task)

    def score_one(self, x: Any) -> float | Float | None:
        """Say that `scores` has to be asked: single rows of tables are encoded."""
        return None

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        if self.wider is not None:
            self._end_trial(with_score=False)
        self.core.add_class()
        self.inner.add_class()

    @property
    def _waits(self) -> bool:
        """Whether the hashed models wait for the scale of the targets."""
        return self.task.is_regression and self.seen < FIRST_STAGE

    def _rows_to_event(self) -> int:
        stage = FIRST_STAGE
        while stage <= self.seen:
            stage *= 2
        until = stage if self.task.is_regression and self.seen < _LAST_STAGE else self.seen + _AT_ONCE
        if self.wider is not None:
            until = min(until, trial_rows(self.settings.budget))
        return max(until - self.seen, 1)

    def _learn(self, X: EncodedRows, y: Float, weight: Float, run: Mapper) -> Float:
        """Score and learn rows up to the next event, then let it happen."""
        if self.task.is_regression and self.seen < _LAST_STAGE:
            self.first_y += y.tolist()
        n, task, waits = len(y), self.task, self._waits
        joint = np.zeros((n, self.outputs))
        targets = task.targets(y, self.n_classes, self.centre, self.spread)
        if not waits:
            parts = self.core.score_and_learn(X.cells, targets, weight, int(task))
            joint = self.among.score_and_learn(parts, targets, weight, task)
        each = [some.score_and_learn(rows, y, weight, run) for some, rows in self.rows_of_learners(X, joint)]
        out = each[0]
        if not waits:
            scores = self.last.score_and_learn(self._together(each, joint), targets, weight, task)
            out = scores * self.spread + self.centre
        to_event = self._rows_to_event()
        self.seen += n
        if n == to_event:
            self._at_event()
        return out

    def _at_event(self) -> None:
        if self.wider is not None and self.seen >= trial_rows(self.settings.budget):
            without, with_score = self.last.loss_sum[:2]
            self._end_trial(bool(with_score < without))
        power = self.seen & (self.seen - 1) == 0
        if self.task.is_regression and power and FIRST_STAGE <= self.seen <= _LAST_STAGE:
            self._rescale()

    def _end_trial(self, with_score: bool) -> None:
        """Go on with one of the two learners."""
        assert self.wider is not None
        if with_score:
            self.inner, self.settings, self.takes_score = self.wider, self.wider.settings, True
        self.wider = None
        self.last = self.last.without(np.array([0 if with_score else 1]))

    def _rescale(self) -> None:
        """Scale the targets anew, by all that came so far."""
        centre, spread = target_scale(np.array(self.first_y), self.settings.huber)
        self.core.rescale((self.centre - centre) / spread, self.spread / spread)
        self.centre, self.spread = centre, spread
        if self.seen == _LAST_STAGE:
            self.first_y = []

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
        return np.column_stack([numbers, np.clip(score, -_FAR, _FAR) * self.spread + self.centre])

    def _together(self, learners: list[Float], joint: Float) -> Float:
        with np.errstate(over="ignore"):
            scaled = [np.clip((each - self.centre) / self.spread, -_FARTHEST, _FARTHEST) for each in learners]
        return np.stack([*scaled, joint], axis=1)

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "inner": learner_state(self.inner),
            "wider": None if self.wider is None else learner_state(self.wider),
            "takes_score": self.takes_score,
            "seen": self.seen,
            "hashed": hashed_state(self.core),
            "among": self.among.to_state(),
            "last": self.last.to_state(),
            "first_y": np.array(self.first_y, dtype=np.float64),
            "centre": self.centre,
            "spread": self.spread,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        takes_score, wider = saved.flag("takes_score"), saved.optional_part("wider")
        inner = learner_from_state(saved.part("inner"), columns + takes_score)
        second = None if wider is None else learner_from_state(wider, columns + 1)
        core = hashed_from_state(saved.part("hashed"))
        learner = cls(inner, second, core.columns)
        learner.takes_score, learner.core, learner.seen = takes_score, core, saved.integer("seen")
        if core.outputs != inner.outputs:
            raise saved.wrong("hashed", f"models of {inner.outputs} outputs", core.outputs)
        on_trial = second is not None
        if any(each.seen != learner.seen or each.outputs != inner.outputs for each in learner._learners()) or (
            on_trial and (takes_score or inner.outputs > 1 or learner.seen >= trial_rows(inner.settings.budget))
        ):
            raise saved.wrong("inner", "learners of the same rows and settings", inner.seen)
        learner.among = Combination.from_state(saved.part("among"), len(PARTS))
        learner.last = Combination.from_state(saved.part("last"), 2 + on_trial)
        kept = learner.seen if inner.task.is_regression and learner.seen < _LAST_STAGE else 0
        learner.first_y = saved.array("first_y", (kept,)).tolist()
        learner.centre, learner.spread = saved.number("centre"), saved.number("spread", *SIZES)
        saved.end()
        return learner

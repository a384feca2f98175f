"""What hashed models say of the cells of rows, combined among themselves and then with what learners say."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bomkl._core import HashedModel
from bomkl.auto.components.combination import Combination
from bomkl.auto.constants import FIRST_STAGE
from bomkl.auto.features.geometry import Float
from bomkl.auto.hashed.state import hashed_from_state, hashed_state
from bomkl.auto.learner import forked
from bomkl.auto.limits import SIZES
from bomkl.auto.rows.rebuild import target_scale
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task
from bomkl.tables.encoded import Hashable

PARTS = ("values 10", "values 1", "pairs 1", "pairs 4", "words", "words 10")  # see kHashedWays in the core
BEGINNER = 0.03  # weight that the hashed models, and all learners but the first, begin with in the last combination
_LAST_STAGE = 1024  # rows after which the scale of the targets stays
_FARTHEST = 1e30  # scaled predictions beyond it are taken as this


class HashedScores:
    """Hashed models and their combinations.

    Parameters
    ----------
    settings : LearnerSettings
        Those of the learners.
    cells : int
        Cells of a row.
    outputs : int
        Scores a row.
    learners : int
        Learners that take part in the last combination.
    """

    def __init__(self, settings: LearnerSettings, cells: int, outputs: int, learners: int) -> None:
        self.settings = settings
        self.seen = 0
        self.core = HashedModel(cells, outputs)
        self.among = Combination.of(len(PARTS))
        self.last = Combination.of(learners + 1)  # of the learners and the hashed models together
        prior = np.append(1 - learners * BEGINNER, np.full(learners, BEGINNER))
        self.last.stack_w, self.last.weights = np.broadcast_to(prior, self.last.stack_w.shape), prior
        self.first_y: list[float] = []
        self.centre, self.spread = 0.0, 1.0

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = object.__new__(type(self))
        fork.__dict__ = {name: forked(value) for name, value in vars(self).items()}
        return fork

    @property
    def waits(self) -> bool:
        """Whether the models wait for the scale of the targets."""
        return self.settings.regression and self.seen < FIRST_STAGE

    def rows_to_event(self, most: int) -> int:
        """Rows until targets are scaled anew, or so many."""
        if not self.settings.regression or self.seen >= _LAST_STAGE:
            return most
        stage = FIRST_STAGE
        while stage <= self.seen:
            stage *= 2
        return min(most, stage - self.seen)

    # ------------------------------------------------------------ learning

    def score_and_learn(self, cells: list[Hashable], y: Float, weight: Float, task: Task) -> Float:
        """Score rows up to the next event by their cells, each just before the models learn from it."""
        if self.settings.regression and self.seen < _LAST_STAGE:
            self.first_y += y.tolist()
        if self.waits:
            return np.zeros((len(y), self.core.outputs))
        targets = self._targets(y, task)
        parts = self.core.score_and_learn(cells, targets, weight, int(task))
        return self.among.score_and_learn(parts, targets, weight, task)

    def join_and_learn(self, said: list[Float], joint: Float, y: Float, weight: Float, task: Task) -> Float:
        """Combine what learners said of these rows with the scores by cells, and learn the weights."""
        out = said[0]
        if not self.waits:
            scores = self.last.score_and_learn(self._together(said, joint), self._targets(y, task), weight, task)
            out = scores * self.spread + self.centre
        self.seen += len(y)
        power = self.seen & (self.seen - 1) == 0
        if self.settings.regression and power and FIRST_STAGE <= self.seen <= _LAST_STAGE:
            self._rescale()
        return out

    def scores(self, cells: list[Hashable], n: int, task: Task) -> Float:
        """Scores of n rows by their cells, for scaled targets."""
        return self.among.scores(self.core.scores(cells, n), task)

    def joined(self, said: list[Float], joint: Float, task: Task) -> Float:
        """Combine what learners say of rows with the scores by cells."""
        return self.last.scores(self._together(said, joint), task) * self.spread + self.centre

    def losses(self, scores: Float, y: Float, task: Task) -> Float:
        """Loss of each row's scores; of numbers the squared error in units of the scaled targets."""
        if not task.is_regression:
            return task.losses(scores, y)
        return task.losses(self._targets(scores[:, 0], task), self._targets(y, task)[:, 0])

    def _targets(self, y: Float, task: Task) -> Float:
        return task.targets(y, self.core.outputs, self.centre, self.spread)

    def _together(self, said: list[Float], joint: Float) -> Float:
        with np.errstate(over="ignore"):
            scaled = [np.clip((each - self.centre) / self.spread, -_FARTHEST, _FARTHEST) for each in said]
        return np.stack([*scaled, joint], axis=1)

    def _rescale(self) -> None:
        """Scale the targets anew, by all that came so far."""
        centre, spread = target_scale(np.array(self.first_y), self.settings.huber)
        self.core.rescale((self.centre - centre) / spread, self.spread / spread)
        self.centre, self.spread = centre, spread
        if self.seen == _LAST_STAGE:
            self.first_y = []

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "seen": self.seen,
            "hashed": hashed_state(self.core),
            "among": self.among.to_state(),
            "last": self.last.to_state(),
            "first_y": np.array(self.first_y, dtype=np.float64),
            "centre": self.centre,
            "spread": self.spread,
        }

    @classmethod
    def from_state(cls, saved: Saved, settings: LearnerSettings, outputs: int, learners: int) -> Self:
        """Go on where `to_state` was called, with so many outputs and learners; the caller ends reading."""
        core = hashed_from_state(saved.part("hashed"))
        if core.outputs != outputs:
            raise saved.wrong("hashed", f"models of {outputs} outputs", core.outputs)
        scores = cls(settings, core.columns, outputs, learners)
        scores.core, scores.seen = core, saved.integer("seen")
        scores.among = Combination.from_state(saved.part("among"), len(PARTS))
        scores.last = Combination.from_state(saved.part("last"), learners + 1)
        kept = scores.seen if settings.regression and scores.seen < _LAST_STAGE else 0
        first_y: Any = saved.array("first_y", (kept,))
        scores.first_y = first_y.tolist()
        scores.centre, scores.spread = saved.number("centre"), saved.number("spread", *SIZES)
        return scores

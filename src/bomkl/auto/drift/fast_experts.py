"""Experts of the last rows, for streams that change faster than a thousand rows.

Two small twins forget within about a hundred and within about thirty rows. Recent labels (of numbers, recent targets)
predict without using the row. One more combination joins them to the slower learners, together and each for itself.
It starts from what those say together, so that where nothing drifts the others cost next to nothing.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from bomkl.auto.components.combination import Combination
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import PoolLearner
from bomkl.auto.limits import CELLS, FLOATS, FRACTIONS, SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task

TWINS = ((0.99, 300), (0.97, 100))  # what is left of a row after the next, and the budget at most
DECAYS = (0.0, 0.95)  # what is left of a label after the next
_EARLIER_DECAYS = (0.5, 0.95)  # of models saved before these were kept with them
NUMBER_DECAYS = (0.0, 0.5, 0.95)
SLOW = 2  # slower learners that are joined each for itself
_PRIOR = 0.5  # labels' worth of the frequencies of all rows in those of the last ones
_HEAVIEST = 100.0  # mean weights that a row can have
FARTHEST = 6.0  # numbers farther from the slower learners' than so many units are taken as this


class FastExperts:
    """Twins that forget fast, recent labels or targets, and their combination with slower learners that are given.

    Numbers are combined relative to the base and in units of its errors, so that it does not matter where a series has
    gone. Where recent targets are far from the base, as after a jump, the unit is larger, so that nothing of what they
    say is cut off. With classes, the scores are log odds or log probabilities. Weights count relative to their mean so
    far: a few rows decide here, and none should by a common factor of all weights.
    """

    def __init__(self, inner: PoolLearner) -> None:
        settings, n_classes = inner.settings, inner.n_classes
        self.twins = [inner.like(_twin_settings(settings, twin), n_classes) for twin in range(len(TWINS))]
        self.decays = np.array(NUMBER_DECAYS if settings.regression else DECAYS)
        # Of the classes, weights of the last labels, and in the last line of all; of numbers, weights and their sums
        # with the targets.
        self.recent = np.zeros((len(self.decays), 2) if settings.regression else (len(self.decays) + 1, n_classes))
        self.combination = _first_alone(1 + SLOW + len(self.twins) + len(self.decays))
        self.weights = np.zeros(2)  # their sum and how many

    @property
    def task(self) -> Task:
        """What is learned now."""
        return self.twins[0].task

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = copy.copy(self)
        fork.twins = [twin.fork() for twin in self.twins]
        fork.recent, fork.weights = self.recent.copy(), self.weights.copy()
        fork.combination = self.combination.fork()
        return fork

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        for twin in self.twins:
            twin.add_class()
        self.recent = np.pad(self.recent, ((0, 0), (0, 1)))

    def score_and_learn(
        self, base: Float, slow: Float, unit: Float, X: Any, y: Float, weight: Float, run: Mapper
    ) -> Float:
        """Score rows, each just before it is learned from.

        `base` (n, outputs) are scores of the slower learners together, `slow` (n, 2, outputs) those of each, made in
        the same way. `unit` (n,) is the size of the errors of the base for numbers, before each row. y are class
        numbers or targets.
        """
        twins = [twin.score_and_learn(X, y, weight, run) for twin in self.twins]
        return self.combine_and_learn(base, slow, unit, twins, y, weight)

    def combine_and_learn(
        self, base: Float, slow: Float, unit: Float, twins: list[Float], y: Float, weight: Float
    ) -> Float:
        """Do all that `score_and_learn` does, after the twins have scored the rows."""
        known, relative = np.empty((len(y), *self.recent.shape)), np.empty(len(y))
        task, note = self.task, self._note_number if self.task.is_regression else self._note_label
        total, rows = self.weights.tolist()
        for t, (target, w) in enumerate(zip(y.tolist(), weight.tolist(), strict=True)):
            known[t] = self.recent
            total, rows = total + w, rows + 1
            relative[t] = min(w * (rows / total), _HEAVIEST)
            note(target, relative[t])
        self.weights = np.array([total, rows])
        recent = _recent_scores(known, base, task)
        unit = self._units(base, unit, recent)
        parts = self._parts(base, slow, unit, twins, recent)
        if self.task.is_regression:
            targets = _in_units(y[:, None] - base, unit[:, None])
            return base + unit[:, None] * self.combination.score_and_learn(parts, targets, relative, self.task)
        targets = self.task.targets(y, self.twins[0].n_classes, 0.0, 1.0)
        return self.combination.score_and_learn(parts, targets, relative, self.task)

    def scores(self, base: Float, slow: Float, unit: float, X: Any, run: Mapper) -> Float:
        """Scores of rows that all come next, by what is known now."""
        return self.combined(base, slow, unit, [twin.scores(X, run) for twin in self.twins])

    def combined(self, base: Float, slow: Float, unit: float, twins: list[Float]) -> Float:
        """Do all that `scores` does, after the twins have scored the rows."""
        recent = _recent_scores(np.broadcast_to(self.recent, (len(base), *self.recent.shape)), base, self.task)
        units = self._units(base, np.full(len(base), unit), recent)
        out = self.combination.scores(self._parts(base, slow, units, twins, recent), self.task)
        return base + units[:, None] * out if self.task.is_regression else out

    def recent_scores(self, base: Float) -> Float:
        """Say what recent labels or targets tell now, (decays, outputs); of numbers, the base before the first."""
        return np.asarray(_recent_scores(self.recent[None], base[None], self.task)[0])

    def _note_number(self, y: float, weight: float) -> None:
        """Take a target up."""
        self.recent = self.decays[:, None] * self.recent + (weight, weight * y)

    def _note_label(self, y: float, weight: float) -> None:
        """Take a label up."""
        self.recent[:-1] *= self.decays[:, None]
        self.recent[:, int(y)] += weight

    def _units(self, base: Float, unit: Float, recent: Float) -> Float:
        """Units of rows, at least such that recent targets are no farther than `FARTHEST`."""
        if not self.task.is_regression:
            return unit
        return np.asarray(np.maximum(unit, np.abs(recent - base[:, None]).max(axis=(1, 2)) / FARTHEST))

    def _parts(self, base: Float, slow: Float, unit: Float, twins: list[Float], recent: Float) -> Float:
        """Scores of all that is combined, (n, parts, outputs)."""
        parts = np.concatenate([base[:, None], slow, np.stack(twins, axis=1), recent], axis=1)
        if self.task.is_regression:
            parts = _in_units(parts - base[:, None], unit[:, None, None])
        return parts

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "twins": [twin.to_state() for twin in self.twins],
            "decays": self.decays,
            "recent": self.recent,
            "weights": self.weights,
            "combination": self.combination.to_state(),
        }

    @classmethod
    def from_state(cls, saved: Saved, inner: PoolLearner, seen: int, columns: int) -> Self:
        """Go on where `to_state` was called; refuse what does not fit together."""
        fast, settings, n_classes = cls(inner), inner.settings, inner.n_classes
        twins = [type(inner).from_state(part, columns) for part in saved.parts("twins", len(TWINS))]
        if [each.settings for each in twins] != [each.settings for each in fast.twins] or any(
            each.n_classes != n_classes or each.seen > seen for each in twins
        ):
            raise saved.wrong("twins", "learners that forget fast, of the same rows", len(twins))
        fast.twins = twins
        if saved.has("decays"):
            fast.decays = saved.array("decays", fast.decays.shape, np.float64, *FRACTIONS)
        elif not settings.regression:
            fast.decays = np.array(_EARLIER_DECAYS)
        fast.recent = saved.array("recent", fast.recent.shape, np.float64, *(FLOATS if settings.regression else SUMS))
        if settings.regression and fast.recent[:, 0].min() < 0:
            raise saved.wrong("recent", "weights from 0 on, and sums", float(fast.recent[:, 0].min()))
        fast.weights = saved.array("weights", (2,), np.float64, *SUMS)
        fast.combination = Combination.from_state(saved.part("combination"), len(fast.combination.weights))
        saved.end()
        return fast


def _recent_scores(recent: Float, base: Float, task: Task) -> Float:
    """Say what recent labels or targets tell before each row, (n, decays, outputs); of numbers, at first the base."""
    if task.is_regression:
        weights, sums = recent[..., 0], recent[..., 1]
        known = weights > 0
        means: Float = CELLS.clip(sums / np.where(known, weights, 1.0))
        return np.where(known, means, base)[..., None]
    always = recent[:, -1] + 1
    counts = recent[:, :-1] + (_PRIOR * always / always.sum(axis=1, keepdims=True))[:, None]
    if task is Task.BINARY:
        return np.asarray(np.log(counts[..., 1:] / counts[..., :1]))
    return np.asarray(np.log(counts / counts.sum(axis=2, keepdims=True)))


def _in_units(differences: Float, unit: Float) -> Float:
    with np.errstate(over="ignore"):  # after many rows without an error the unit is next to nothing
        return np.clip(differences / unit, -FARTHEST, FARTHEST)


def _twin_settings(settings: LearnerSettings, twin: int) -> LearnerSettings:
    forget, most = TWINS[twin]
    return replace(settings, budget=min(settings.budget, most), forget=forget, trees=False, growing_trees=False)


def _first_alone(parts: int) -> Combination:
    """Begin with the scores of the first part, unchanged."""
    combination = Combination.of(parts)
    combination.stack_w = np.tile(np.eye(parts)[0], (len(combination.stack_w), 1))
    combination.weights = np.eye(parts)[0]
    combination.log_final[:-1] = -1.0  # stacks do not see beyond log odds of 6, the mixture does
    return combination

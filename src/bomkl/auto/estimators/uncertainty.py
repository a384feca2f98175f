"""How far predictions of numbers are off: a scale for each row, and calibrated quantiles of errors in units of it.

Every error was made before its target was used. A small learner of the same kind as the one that predicts learns the
logarithm of their size from the rows. What is left is calibrated as in adaptive conformal inference (Gibbs and Candes,
2021): an interval reaches the quantile of the last errors, and the share of them that it should leave out moves up
after a hit and down after a miss, so that the coverage holds in the long run whatever the stream does.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, insort
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from bomkl._core import BLOCK
from bomkl.auto.drift.adaptive import FORGET
from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import RELATIVE_ERRORS, SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings
from bomkl.auto.wide.wide_learner import learner_type

LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99])  # coverages that are calibrated; others lie between
BUDGET = 100  # of the learner of the scale
WINDOW = {False: 4000, True: 1000}  # last errors whose quantiles are taken, without and with drift
MEMORY = {False: 2000, True: 200}  # rows that the level of the errors is an average of, likewise
PACE = {False: 0.001, True: 0.005}  # by which the share left out moves with every row, likewise
# Powers of the learned scale; 0 makes all intervals alike; the likeliest is taken. Of all intervals of one coverage,
# the narrowest leave out more of the rows with large errors: a power below 1 is best even if the scale is right.
TRUSTS = np.array([0.0, 0.2, 0.4, 0.6, 0.8])
_SMALLEST = 0.05  # errors below this share of the level count as this: the logarithm of less says nothing
_LARGEST = RELATIVE_ERRORS.high
_OUTLIER = 10.0  # an error beyond this many levels counts as this in averages
_LEAST = 1e-12  # an average of scaled errors below it counts as this
_LEVELS = LEVELS.tolist()
_BEYOND = 1.5  # an interval for which there are too few errors reaches so much farther than the largest


@dataclass
class _Averages:
    """Averages over the last rows, in numbers of Python: of so few, arrays would take ten times as long."""

    log_factors: list[float]
    scaled: list[float]
    rows: int
    window: int

    def best(self) -> int:
        """Trust under which a Laplace distribution of the errors is likeliest."""
        costs = [a + log(max(b, _LEAST)) for a, b in zip(self.log_factors, self.scaled, strict=True)]
        return costs.index(min(costs))

    def factor(self, factors: list[float]) -> float:
        """How much larger than the level an error should be, by the factors of all trusts."""
        best = self.best()
        return max(self.scaled[best], _LEAST) * factors[best]

    def add(self, error: float, logs: list[float], inverses: list[float]) -> None:
        """Average what tells the likelihood of each trust: logarithms and inverses of the factors of a row."""
        self.rows += 1
        pace = min(self.rows, self.window)
        for i, (each, inverse) in enumerate(zip(logs, inverses, strict=True)):
            self.log_factors[i] += (each - self.log_factors[i]) / pace
            self.scaled[i] += (error * inverse - self.scaled[i]) / pace


class ErrorModel:
    """Errors of a stream of predictions."""

    def __init__(self, settings: LearnerSettings, columns: int, drift: bool) -> None:
        small = replace(
            settings,
            budget=min(settings.budget, BUDGET),
            regression=True,
            trees=False,
            growing_trees=False,
            squares=False,
            huber=False,
            forget=FORGET if drift else 1.0,
        )
        self.scale = learner_type(columns)(small)
        self.window, self.memory, self.pace = WINDOW[drift], MEMORY[drift], PACE[drift]
        self.level = 0.0  # average size of the last errors
        self.seen = 0
        self.recent: list[float] = []  # errors in units of their scale, in the order of their coming
        self.ordered: list[float] = []  # the same, sorted
        self.inside = np.zeros(len(LEVELS), dtype=np.int64)  # targets that lay inside their intervals
        self.judged = 0  # out of so many
        self.left_out = 1 - LEVELS  # shares of the errors that intervals leave out now
        self.log_factors = np.zeros(len(TRUSTS))  # averages over the last rows, for each trust
        self.scaled = np.ones(len(TRUSTS))  # likewise, of errors in units of level and factor
        self.noted: list[tuple[Any, float]] = []  # rows and errors that wait to be learned from together

    def with_noted(self, row: Any, error: float) -> Self:
        """Return a copy that has put one row aside, which is quick."""
        after = copy.copy(self)
        after.noted = [*self.noted, (row, error)]
        return after

    @property
    def has_noted_many(self) -> bool:
        """Whether it is time to learn from the rows put aside."""
        return len(self.noted) >= BLOCK

    def settled(self) -> Self:
        """Return a model that has learned from all rows noted, and leave this one as it is."""
        if not self.noted:
            return self
        copied = copy.deepcopy(self)
        copied.learn_noted()
        return copied

    def learn_noted(self) -> None:
        """Learn from the rows put aside."""
        rows, errors = zip(*self.noted, strict=True) if self.noted else ((), ())
        self.noted = []
        if rows:
            together = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.array(rows)
            self.learn(together, np.array(errors), np.ones(len(rows)))

    def learn(self, X: Any, errors: Float, weight: Float, run: Mapper = map) -> Float:
        """Learn from the errors of rows that were predicted before they were learned from.

        Returns half the width, (n, levels), of the interval of each row just before it was learned from.
        """
        self.learn_noted()
        sizes = np.abs(errors).tolist()
        levels = [self._next_level(size) for size in sizes]
        relative = [min(size / level, _LARGEST) for size, level in zip(sizes, levels, strict=True)]
        logs = np.log(np.clip(relative, _SMALLEST, _LARGEST))
        scores = self.scale.score_and_learn(X, logs, weight, run)[:, 0]
        logs = np.multiply.outer(_clipped(scores), TRUSTS)
        averages = _Averages(self.log_factors.tolist(), self.scaled.tolist(), self.seen - len(sizes), self.window)
        reaches = np.zeros((len(sizes), len(LEVELS)))
        for t, (error, *of_trusts) in enumerate(
            zip(relative, logs.tolist(), np.exp(logs).tolist(), np.exp(-logs).tolist(), strict=True)
        ):
            factor = averages.factor(of_trusts[1])
            reach = levels[t] * factor
            reaches[t] = [reach * quantile for quantile in self._judge(min(error / factor, _LARGEST))]
            averages.add(min(error, _OUTLIER), of_trusts[0], of_trusts[2])
        self.log_factors, self.scaled = np.array(averages.log_factors), np.array(averages.scaled)
        return reaches

    def _next_level(self, size: float) -> float:
        """Level before this error, of the first the error itself; then it counts."""
        before = self.level if self.seen else size
        counted = min(size, _OUTLIER * before) if self.seen >= self.memory else size
        self.seen += 1
        self.level += (counted - self.level) / min(max(self.seen / 3, 1), self.memory)  # the first errors fade soonest
        return max(before, 5e-324)

    def _judge(self, error: float) -> list[float]:
        """Return the quantiles that intervals reach, then learn from one error."""
        shares = self.left_out.tolist()
        quantiles = [self._quantile(share) if self.ordered else 0.0 for share in shares]
        if self.ordered:
            self.judged += 1
            self.inside = self.inside + [error <= quantile for quantile in quantiles]
        for i, level in enumerate(_LEVELS):
            missed = bool(self.ordered) and error > quantiles[i]
            shares[i] += self.pace * ((1 - level) - missed)
        self.left_out = np.array(shares)
        if len(self.recent) == self.window:
            self.ordered.pop(bisect_left(self.ordered, self.recent.pop(0)))
        insort(self.ordered, error)
        self.recent.append(error)
        return quantiles

    def _quantile(self, left_out: float) -> float:
        n = len(self.ordered)
        place = ceil((n + 1) * (1 - left_out)) - 1
        return self.ordered[max(place, 0)] if place < n else _BEYOND * self.ordered[-1]

    def _factors(self, scores: Any) -> Any:
        """How much larger than the level errors are."""
        averages = _Averages(self.log_factors.tolist(), self.scaled.tolist(), self.seen, self.window)
        best = averages.best()
        return max(averages.scaled[best], _LEAST) * np.exp(TRUSTS[best] * _clipped(scores))

    def _scales(self, X: Any, run: Mapper) -> Float:
        return np.asarray(self.level * self._factors(self.scale.scores(X, run)[:, 0]))

    def deviations(self, X: Any, run: Mapper = map) -> Float:
        """Return the standard deviation of the error of each row."""
        squares = np.array(self.recent) ** 2
        return self._scales(X, run) * float(np.sqrt(squares.mean()))

    def reaches(self, X: Any, coverage: float, run: Mapper = map) -> Float:
        """Half the width of the interval of each row."""
        shift = float(np.interp(coverage, LEVELS, self.left_out - (1 - LEVELS)))
        return self._scales(X, run) * self._quantile(1 - coverage + shift)

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = copy.copy(self)
        fork.scale, fork.noted = self.scale.fork(), list(self.noted)
        fork.recent, fork.ordered, fork.left_out = list(self.recent), list(self.ordered), self.left_out.copy()
        fork.log_factors, fork.scaled = self.log_factors.copy(), self.scaled.copy()
        return fork

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        if self.noted:
            return self.settled().to_state()
        return {
            "scale": self.scale.to_state(),
            "level": self.level,
            "seen": self.seen,
            "recent": np.array(self.recent),
            "left_out": self.left_out,
            "inside": self.inside,
            "judged": self.judged,
            "log_factors": self.log_factors,
            "scaled": self.scaled,
        }

    @classmethod
    def from_state(cls, state: Any, settings: LearnerSettings, columns: int, drift: bool | None) -> Self:
        """Go on where `to_state` was called; refuse what does not fit together. Drift None: as it was then."""
        saved = Saved(state, "errors")
        scale = learner_type(columns).from_state(saved.part("scale"), columns)
        model = cls(settings, columns, scale.settings.forget < 1 if drift is None else drift)
        expected = model.scale.settings
        model.scale = scale
        model.seen = saved.integer("seen", 1)
        if model.scale.settings != expected or model.scale.seen != model.seen:
            raise saved.wrong("scale", "a learner of the same rows and settings", model.scale.seen)
        model.level = saved.number("level", *SUMS)
        model.recent = saved.array("recent", (min(model.seen, model.window),), np.float64, *RELATIVE_ERRORS).tolist()
        model.ordered = sorted(model.recent)
        model.left_out = saved.array("left_out", LEVELS.shape)
        if saved.has("judged"):  # since version 0.3.0
            model.judged = saved.integer("judged", 0, model.seen)
            model.inside = saved.array("inside", LEVELS.shape, np.int64, 0, model.judged)
        model.log_factors = saved.array("log_factors", TRUSTS.shape)
        model.scaled = saved.array("scaled", TRUSTS.shape, np.float64, *SUMS)
        saved.end()
        return model


def _clipped(scores: Any) -> Any:
    return np.clip(scores, log(_SMALLEST), log(_LARGEST))

"""Learning under drift: long memory, short memory, and a fresh start when an alarm rings.

One learner never forgets, its twin forgets within about a thousand rows, and Hedge with share decides between them row
by row. When the loss of the mixture rises well above what it was, a challenger starts from the last rows; if it wins,
it takes the place of both. Everything is checked at absolute multiples of 16 rows. What these learners say is the base
of `fast`, whose experts see no more than the last rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from bomkl._support.limits import WIDEST
from bomkl.auto.constants import CHUNK
from bomkl.auto.drift.fast_experts import SLOW, FastExperts
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import Layer, PoolLearner, loadable
from bomkl.auto.limits import LOG_WEIGHTS, SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import checked, dense_rows, scores_of_one
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task
from bomkl.auto.wide.sparse_rows import canonical_rows, rows_from_state, rows_to_state
from bomkl.auto.wide.wide_learner import learner_type

FORGET = 0.999  # per row, of the twin that forgets
SHARE = 0.01
STEP = 16  # rows between decisions
WINDOW = 100  # rows whose loss is held against all before them
ALARM = 4.0  # standard errors
CALM = 200  # rows before the window that an alarm needs
WARM = 48  # last rows a challenger starts from
WIN = 5.0  # nats by which a challenger must beat the mixture
PATIENCE = 2000  # rows it has for that
_FADE = 0.01  # part of the last error in the size of errors of numbers, at least
_YOUNG = 4  # after n rows that part is this, divided by itself plus n: the first errors are large and must not stay
_DEVIATION = 1.25  # of normal errors, in their mean absolute size
_CAPPED = 3.0  # largest loss of a row in the alarm
_LARGEST = 15.0  # largest loss of a row in the weights


@loadable
class AdaptiveLearner(Layer):
    """Several learners and their weights: a layer around one that has not seen any rows."""

    kind: ClassVar[str] = "adaptive"

    def __init__(self, inner: PoolLearner, columns: int) -> None:
        self.settings, self.columns = inner.settings, columns
        self.models = [inner, inner.like(replace(inner.settings, forget=FORGET), inner.n_classes)]
        self.log_weights = np.zeros(2)
        self.fast = FastExperts(inner)
        self.seen = 0
        self.restarts: list[int] = []
        self.alarms = 0
        self.last_X: list[Any] = []  # rows; of very wide ones sparse matrices
        self.last_y: list[float] = []
        self.last_weight: list[float] = []
        self.error_size = np.zeros(2)  # of the mixture, and of how many rows: the unit of the loss of numbers
        self.advantage, self.age = 0.0, 0
        self._calm()

    def _calm(self) -> None:
        self.recent: list[float] = []
        self.before = np.zeros(3)  # rows, sum and sum of squares of the losses that left the window

    def use(self, device: str) -> None:
        """Go on with a device."""
        for model in self.models:
            model.use(device)

    @property
    def inner(self) -> PoolLearner:  # type: ignore[override]
        """The learner that never forgets."""
        return self.models[0]

    @property
    def leader(self) -> PoolLearner:
        """The learner of largest weight."""
        base, *parts = self.fast.combination.influence()[: 1 + SLOW + len(self.fast.twins)]
        weights = base * self.weights()
        weights[:SLOW] += parts[:SLOW]
        weights = [*weights, *parts[SLOW:]]
        return [*self.models, *self.fast.twins][int(np.argmax(weights))]

    def weights(self) -> Float:
        """Weights of the models in the mixture, sum 1."""
        weights = np.exp(self.log_weights)
        return np.asarray(weights / weights.sum())

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        for model in self.models:
            model.add_class()
        self.fast.add_class()

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))
        begin = 0
        while begin < len(y):
            end = begin + min(self._span - self.seen % self._span, len(y) - begin)
            rows = (canonical_rows if self.columns > WIDEST else dense_rows)(X, begin, end)
            learned = self._rows(rows, y[begin:end], weight[begin:end], run)
            out[begin : begin + len(learned)] = learned
            begin += len(learned)
            if self.seen % STEP == 0 and (decided := self._decision()) is not None:
                decided()
        return out

    @property
    def _span(self) -> int:
        """Rows learned from at a time: decisions among them are rare, and forks of very wide learners are not cheap."""
        return STEP if self.columns > WIDEST else CHUNK

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        each = [model.scores(X, run) for model in self.models]
        parts = [weight * _means(scores, self.task) for weight, scores in zip(self.weights(), each, strict=True)]
        base = _scores(sum(parts[1:], parts[0]), self.task)
        return checked(self.fast.scores(base, np.stack(each[:SLOW], axis=1), self.unit(), X, run))

    def score_one(self, x: Any) -> float | Float | None:
        """Scores of one row as `learn_one` would give them; None where it cannot do it."""
        found = []
        for learner in (*self.models, *self.fast.twins):
            scores = learner.score_one(x)
            if scores is None:
                return None
            found.append(np.reshape(scores, (1, -1)))
        count = len(self.models)
        base = self._mixture(_means(np.vstack(found[:count]), self.task))[1]
        slow = np.stack(found[:SLOW], axis=1)
        out = self.fast.combined(base[None], slow, self.unit(), found[count:])[0]
        return scores_of_one(out) if np.isfinite(out).all() else None

    def _mixture(self, means: Float) -> tuple[Float, Float]:
        """Mean and score of one row, by the means (models, outputs) of the models."""
        mixture = (self.weights()[:, None] * means).sum(axis=0)
        return mixture, _scores(mixture[None], self.task)[0]

    def _rows(self, X: Any, y: Float, weight: Float, run: Mapper) -> Float:
        """Score rows and learn from them, up to the first at which something is to be decided."""
        n, before = len(y), self.models
        if n > STEP - self.seen % STEP:
            self.models = [model.fork() for model in before]
        scores = np.stack([model.score_and_learn(X, y, weight, run) for model in self.models], axis=1)
        base, unit = self._mix(scores, y, weight)
        if len(base) < n:  # what the forks have learned of the rows after that is given up
            n, self.models = len(base), before
            for model in before:
                model.score_and_learn(X[:n], y[:n], weight[:n], run)
        self.seen += n
        self._keep(X[:n], y[:n], weight[:n])
        slow = scores[:n, :SLOW]
        return checked(self.fast.score_and_learn(base, slow, unit, X[:n], y[:n], weight[:n], run))

    def _keep(self, X: Any, y: Float, weight: Float) -> None:
        """Keep the last rows, which a challenger would start from."""
        self.last_X = (self.last_X + list(X))[-WARM:]
        self.last_y = (self.last_y + y.tolist())[-WARM:]
        self.last_weight = (self.last_weight + weight.tolist())[-WARM:]

    def _mix(self, scores: Float, y: Float, weight: Float) -> tuple[Float, Float]:
        """Mix the scores (n, models, outputs) of each row, then learn the weights; returns scores and units.

        It ends after the first row at which something is to be decided.
        """
        task, mixtures, units = self.task, [], []
        means = _means(scores, task).tolist()
        for t, (target, w) in enumerate(zip(y.tolist(), weight.tolist(), strict=True)):
            weights = np.exp(self.log_weights).tolist()
            total = sum(weights[1:], weights[0])
            weights = [each / total for each in weights]
            mixture = [
                sum((p * q for p, q in zip(weights[1:], column[1:], strict=True)), weights[0] * column[0])
                for column in zip(*means[t], strict=True)
            ]
            mixtures.append(mixture)
            unit = self.unit()
            units.append(unit)
            losses = [_loss(each, target, task, unit) for each in means[t]]
            loss, least = _loss(mixture, target, task, unit), min(losses)
            factors = np.exp([-w * (each - least) for each in losses]).tolist()
            weights = [each * factor for each, factor in zip(weights, factors, strict=True)]
            total = sum(weights[1:], weights[0])
            self.log_weights = np.log([(1 - SHARE) * each / total + SHARE / len(weights) for each in weights])
            if task.is_regression:
                self._note_error(abs(mixture[0] - target))
            self._record(loss, losses)
            if (self.seen + t + 1) % STEP == 0 and self._decision() is not None:
                break
        return _scores(np.array(mixtures), task), np.array(units)

    def unit(self) -> float:
        """Size of the last errors of the mixture; 1 before the first, and for classes."""
        size = float(self.error_size[0])
        return _DEVIATION * size if size > 0 else 1.0

    def _note_error(self, error: float) -> None:
        size, rows = self.error_size
        self.error_size = np.array([size + max(_FADE, _YOUNG / (rows + _YOUNG)) * (error - size), rows + 1])

    def _record(self, loss: float, losses: list[float]) -> None:
        if len(self.models) == 3:
            self.advantage += loss - losses[2]
            self.age += 1
        self.recent.append(min(loss, _CAPPED))
        if len(self.recent) > WINDOW:
            old = self.recent.pop(0)
            self.before = self.before + np.array([1.0, old, old * old])

    def _decision(self) -> Callable[[], None] | None:
        """Tell what to do about a challenger, or for want of one; None where there is nothing to do."""
        if len(self.models) == 3:
            if self.advantage > WIN:
                return self._restart
            return self._dismiss if self.age >= PATIENCE else None
        if self.before[0] < CALM:
            return None
        n, total, squares = self.before
        mean = total / n
        error = math.sqrt(max(squares / n - mean**2, 1e-6) / WINDOW)
        return self._challenge if sum(self.recent) / len(self.recent) > mean + ALARM * error else None

    def _dismiss(self) -> None:
        self.models, self.log_weights = self.models[:2], self.log_weights[:2]
        self._calm()

    def _challenge(self) -> None:
        self.alarms += 1
        challenger = self.inner.like(self.settings, self.n_classes)
        challenger.score_and_learn(self._last_rows(), np.array(self.last_y), np.array(self.last_weight))
        self.models.append(challenger)
        self.log_weights = np.append(self.log_weights, self.log_weights.max() - 1)
        self.advantage, self.age = 0.0, 0

    def _last_rows(self) -> Any:
        return sp.vstack(self.last_X, format="csr") if self.columns > WIDEST else np.array(self.last_X)

    def _restart(self) -> None:
        winner = self.models[2]
        twin = copy.deepcopy(winner)
        twin.forget(FORGET)
        self.models = [winner, twin]
        self.log_weights = np.zeros(2)
        self.restarts.append(self.seen)
        self._calm()

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        last = None
        if self.last_X:
            rows = self._last_rows()
            X = rows_to_state(rows) if self.columns > WIDEST else rows
            last = {"X": X, "y": np.array(self.last_y), "weight": np.array(self.last_weight)}
        return {
            "settings": self.settings.to_state(),
            "models": [model.to_state() for model in self.models],
            "log_weights": self.log_weights,
            "fast": self.fast.to_state(),
            "seen": self.seen,
            "restarts": np.array(self.restarts, dtype=np.int64),
            "alarms": self.alarms,
            "last": last,
            "error_size": self.error_size,
            "advantage": self.advantage,
            "age": self.age,
            "recent": np.array(self.recent, dtype=np.float64),
            "before": self.before,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        kind = learner_type(columns)
        learner = cls(kind(LearnerSettings.from_state(saved.part("settings"))), columns)
        learner.seen = saved.integer("seen")
        learner.models = [kind.from_state(part, columns) for part in saved.parts("models", 3)]
        forgetting = [learner.settings, replace(learner.settings, forget=FORGET), learner.settings]
        if len(learner.models) < 2 or any(
            model.settings != settings or model.n_classes != learner.n_classes or model.seen > learner.seen
            for model, settings in zip(learner.models, forgetting, strict=False)
        ):
            raise saved.wrong("models", "two or three learners of the same settings", len(learner.models))
        learner.log_weights = saved.array("log_weights", (len(learner.models),), np.float64, *LOG_WEIGHTS)
        fast = saved.optional_part("fast")
        learner.fast = (
            FastExperts(learner.inner)  # version 0.1.0 had none
            if fast is None
            else FastExperts.from_state(fast, learner.inner, learner.seen, columns)
        )
        learner.restarts = saved.array("restarts", (None,), np.int64, 0, learner.seen).tolist()
        learner.alarms = saved.integer("alarms")
        last = saved.optional_part("last")
        n = min(learner.seen, WARM)
        if (last is not None) != (n > 0):
            raise saved.wrong("last", f"the last {n} rows", None)
        if last is not None:
            low, high = learner.inner.target_limits()
            learner.last_X = list(
                rows_from_state(last.part("X"), n, columns)
                if columns > WIDEST
                else dense_rows(last.array("X", (n, columns)), 0, n)  # up to version 0.2.0, some were not clipped
            )
            learner.last_y = last.array("y", (n,), low=low, high=high).tolist()
            learner.last_weight = last.array("weight", (n,), np.float64, *SUMS).tolist()
            last.end()
        if saved.has("error_size"):
            learner.error_size = saved.array("error_size", (2,), np.float64, *SUMS)
        else:  # earlier versions had the sum of all squared errors
            total, rows = saved.array("squared_error", (2,), np.float64, *SUMS)
            learner.error_size = np.array([math.sqrt(total / max(rows, 1.0)) / _DEVIATION, rows])
        learner.advantage, learner.age = saved.number("advantage"), saved.integer("age")
        recent = saved.array("recent", (None,))
        learner.recent = recent.tolist()
        learner.before = saved.array("before", (3,), np.float64, *SUMS)
        if len(recent) > WINDOW or (learner.before[0] > 0 and len(recent) < WINDOW):
            raise saved.wrong("recent", f"{WINDOW} losses, fewer only where none came before them", len(recent))
        saved.end()
        return learner


def _loss(mean: Sequence[float], y: float, task: Task, unit: float) -> float:
    """Loss of a predictive mean; that of numbers in units of their errors."""
    if task >= Task.SQUARED:
        error = (mean[0] - y) / unit
        return min(0.5 * error * error, _LARGEST)
    p = mean[int(y)] if task is Task.MULTICLASS else (mean[0] if y > 0.5 else 1 - mean[0])
    return min(-math.log(max(p, 1e-12)), _LARGEST)


def _means(scores: Float, task: Task) -> Float:
    """Predictive means of rows of scores."""
    if task is Task.BINARY:
        return np.asarray(1 / (1 + np.exp(-np.clip(scores, -15, 15))))
    return np.exp(scores) if task is Task.MULTICLASS else scores


def _scores(means: Float, task: Task) -> Float:
    """Scores of rows of predictive means."""
    if task is Task.BINARY:
        return np.log(means / (1 - means))
    return np.log(np.maximum(means, 1e-12)) if task is Task.MULTICLASS else means

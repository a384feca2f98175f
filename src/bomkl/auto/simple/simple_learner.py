"""The layer of simple models beside the kernels, for many classes and for embeddings.

Class means know a class after few rows of it, and take little time a class. Linear models of one common scale suit wide
dense rows. One more combination weighs them and the learner within the layer. What turns out not to matter rests: the
learner within the layer where there are many classes or columns, and the simple models elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import WIDEST
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.pool import PoolMember
from bomkl.auto.constants import CHUNK, FIRST_STAGE, KEEP_FROM, MANY_CLASSES, PRUNE_AT, ROWS_A_CLASS
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import Layer, Learner, PoolLearner, learner_from_state, learner_state, loadable
from bomkl.auto.limits import SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import checked, dense_rows, scores_of_one
from bomkl.auto.rows.explain import Explanation
from bomkl.auto.saved import Saved, State
from bomkl.auto.simple.class_means import ClassMeans
from bomkl.auto.simple.dense_linear import DenseLinear
from bomkl.auto.simple.explain import explain_simple
from bomkl.auto.task import LearnerSettings

BEGINNERS = 0.5  # weight that the simple models begin with together
REST_AT = 2  # budgets after which the learner within the layer rests if it does not matter
WIDE_FROM = 256  # columns from which on dense rows have linear models of one scale
WIDE_UP_TO = 2**14  # and up to which: dense rows of more are rare, and sparse ones must not become dense
MOST_WEIGHTS = 2**22  # of a linear model of one scale: columns times classes
_DENSE = 0.5  # share of the cells of dense rows that are not zero
_AT_ONCE = 4 * CHUNK

Model = ClassMeans | DenseLinear
_KINDS: tuple[type[Model], ...] = (ClassMeans, DenseLinear)


@loadable
class SimpleLearner(Layer):
    """Simple models around a learner of classes, which may have seen rows of two classes."""

    kind: ClassVar[str] = "simple"
    n_classes: int = 0

    def __init__(self, inner: Learner, columns: int) -> None:
        super().__init__(inner, columns)
        self.n_classes = inner.n_classes
        self.seen = inner.seen
        self.rests = False  # whether the learner within the layer does
        self.models: list[Model] = []
        self.combination: Combination | None = None  # of the learner, unless it rests, and the simple models
        self.first: list[tuple[float, float]] = []  # share of cells that are not zero, and root mean square of each row
        self.before = 0  # rows before the combination began
        self.known = np.full(self.n_classes, inner.seen > 0)  # classes of which a row was seen
        if self.n_classes > 2 and columns <= WIDEST:
            self._begin(ClassMeans.of(columns, self.n_classes))
            self._rest_beyond_most_classes()

    @property
    def leader(self) -> PoolLearner:
        """The learner that reports look into."""
        return self if self.models else self.inner.leader

    # ------------------------------------------------------------ learning

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers."""
        out = np.empty((len(y), self.outputs))
        begin = 0
        while begin < len(y):
            end = begin + min(self._rows_to_event(), len(y) - begin)
            rows = X if end - begin == len(y) else X[begin:end]
            out[begin:end] = self._learn(rows, y[begin:end], weight[begin:end], run)
            begin = end
        return checked(out)

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, or log probabilities of each class."""
        if not self.models:
            return self.inner.scores(X, run)
        out = np.empty((X.shape[0], self.outputs))
        for begin in range(0, X.shape[0], _AT_ONCE):
            rows = X[begin : begin + _AT_ONCE]
            inner = [] if self.rests else [self.inner.scores(rows, run)[:, None]]
            out[begin : begin + _AT_ONCE] = self._together(inner, dense_rows(rows, 0, rows.shape[0]))
        return checked(out)

    def score_one(self, x: Any) -> float | Float | None:
        """Scores of one row as if it were learned from; None where `scores` has to be asked."""
        if not self.models:
            return self.inner.score_one(x)
        scores = None if self.rests else self.inner.score_one(x)
        if scores is None and not self.rests:
            return None
        inner = [] if scores is None else [np.reshape(scores, (1, 1, -1))]
        row = x[None] if isinstance(x, np.ndarray) else x
        return scores_of_one(checked(self._together(inner, dense_rows(row, 0, 1)))[0])

    def _together(self, inner: list[Float], rows: Float) -> Float:
        assert self.combination is not None
        parts = [*inner, *(each.scores(rows) for each in self.models)]
        return self.combination.scores(np.concatenate(parts, axis=1), self.task)

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        self.n_classes += 1
        self.known = np.append(self.known, False)
        self._rest_beyond_most_classes()
        if not self.rests:
            self.inner.add_class()
        for each in self.models:
            each.add_class()
        if self.n_classes == 3 and self.columns <= WIDEST:
            self._begin(ClassMeans.of(self.columns, 3))
        if self.columns * self.n_classes > MOST_WEIGHTS and not self.rests:
            self._drop(DenseLinear)

    def _rest_beyond_most_classes(self) -> None:
        """Let the learner within the layer rest where its stored rows are too few for each class."""
        if self.models and self.n_classes > max(self.settings.budget // ROWS_A_CLASS, 2 * MANY_CLASSES):
            self._rest()

    def _rows_to_event(self) -> int:
        events = [self._begins_at, *(budgets * self.settings.budget for budgets in (REST_AT, PRUNE_AT))]
        return min([_AT_ONCE, *(event - self.seen for event in events if event > self.seen)])

    @property
    def _begins_at(self) -> int:
        """Row count at which linear models of wide rows begin; 0 where there are none."""
        return FIRST_STAGE if self.columns > WIDE_FROM else 0

    def _learn(self, X: Any, y: Float, weight: Float, run: Mapper) -> Float:
        """Score and learn rows up to the next event, then let it happen."""
        looks = self.seen < self._begins_at
        rows = dense_rows(X, 0, X.shape[0]) if self.models or looks else np.empty((0, 0))
        parts = [] if self.rests else [self.inner.score_and_learn(X, y, weight, run)[:, None]]
        out = parts[0][:, 0] if parts else np.empty(0)
        if self.combination is not None:
            task = self.task
            parts += [each.score_and_learn(rows, y, weight, task) for each in self.models]
            targets = task.targets(y, self.n_classes, 0.0, 1.0)
            judging = self._judging(y, weight)
            out = self.combination.score_and_learn(np.concatenate(parts, axis=1), targets, judging, task)
        self.seen += len(y)
        if looks:
            self.first += [_look(row) for row in rows]
            if self.seen == self._begins_at:
                self._begin_linear()
        if self.models and self.seen == REST_AT * self.settings.budget:
            self._rest_if_idle()
        if self.models and self.seen == PRUNE_AT * self.settings.budget:
            self._drop_idle()
        return out

    def _judging(self, y: Float, weight: Float) -> Float:
        """Weights by which rows judge the models: the first row of a class, which nobody can know, does not."""
        classes, first = np.unique(y.astype(np.intp), return_index=True)
        new = ~self.known[classes]
        if not new.any():
            return weight
        self.known, judging = self.known.copy(), weight.copy()
        self.known[classes], judging[first[new]] = True, 0.0
        return judging

    def _begin_linear(self) -> None:
        filled, sizes = np.array(self.first).T
        self.first = []
        if np.median(filled) >= _DENSE and self.columns * self.n_classes <= MOST_WEIGHTS:
            self._begin(DenseLinear.of(float(np.median(sizes)), self.columns, self.outputs))

    def _begin(self, model: Model) -> None:
        """Add a model; what the combination has learned from few rows begins anew."""
        self.models.append(model)
        own = sum(len(each.names) for each in self.models)
        prior = np.full(own, 1 / own) if self.rests else np.append(1 - BEGINNERS, np.full(own, BEGINNERS / own))
        self.combination = Combination.of(len(prior))
        self.combination.stack_w, self.combination.weights = (
            np.broadcast_to(prior, self.combination.stack_w.shape),
            prior,
        )
        self.before = self.seen

    def _rest(self) -> None:
        if not self.rests and self.combination is not None:
            self.combination = self.combination.without(np.array([0]))
            self.rests = True

    def _rest_if_idle(self) -> None:
        assert self.combination is not None
        wide = any(isinstance(each, DenseLinear) for each in self.models)
        costly = not self.rests and (self.n_classes > MANY_CLASSES or wide)
        if costly and self.combination.influence()[0] < KEEP_FROM:
            self._rest()

    def _drop_idle(self) -> None:
        """Go on without simple models that do not matter, unless there is nothing else."""
        assert self.combination is not None
        if not self.rests:
            parts = self.combination.influence()
            for each, (begin, end) in zip(list(self.models), self._places(), strict=True):
                if parts[begin:end].sum() < KEEP_FROM:
                    self._drop(type(each))

    def _places(self) -> list[tuple[int, int]]:
        """First and last part of each model in the combination."""
        ends = np.cumsum([0 if self.rests else 1, *(len(each.names) for each in self.models)]).tolist()
        return list(pairwise(ends))

    def _drop(self, kind: type[Model]) -> None:
        for each, (begin, end) in zip(self.models, self._places(), strict=True):
            if isinstance(each, kind) and self.combination is not None:
                left = len(self.models) > 1
                self.combination = self.combination.without(np.arange(begin, end)) if left else None
        self.models = [each for each in self.models if not isinstance(each, kind)]

    # ------------------------------------------------------------ insight

    @property
    def names(self) -> list[str]:
        """Names of all components: those of the learner within the layer, then the simple models."""
        return [*self.inner.leader.names, *(name for each in self.models for name in each.names)]

    def like(self, settings: LearnerSettings, n_classes: int) -> Self:
        """Return a learner of such rows, on the same device, that has not seen any."""
        return type(self)(self.inner.leader.like(settings, n_classes), self.columns)

    def forget(self, factor: float) -> None:
        """Let the learner within the layer forget; simple models do not."""
        self.inner.leader.forget(factor)

    def target_limits(self) -> tuple[float, float]:
        """Least and largest class number."""
        return 0.0, self.n_classes - 1.0

    def members(self) -> list[PoolMember]:
        """List the members of the pool, those that were dropped included."""
        own = [PoolMember(name) for each in self.models for name in each.names]
        return [*self.inner.leader.members(), *own]

    def stored_rows(self) -> Float:
        """Rows in memory."""
        return self.inner.leader.stored_rows()

    def split(self, values: Float) -> tuple[float, Float]:
        """Take the value of the learner within the layer, 0 while it rests, and those of the simple models apart."""
        return (0.0, values) if self.rests else (float(values[0]), values[1:])

    def kernel_weights(self) -> Float:
        """Part of each component in the combination; zero for those that were dropped."""
        assert self.combination is not None
        inner, own = self.split(self.combination.influence())
        return np.append(inner * self.inner.leader.kernel_weights(), own)

    def component_errors(self) -> Float:
        """Mean error of each component on the rows it has scored, each before learning from it; 0 before the first."""
        assert self.combination is not None
        _, own = self.split(self.combination.error_sum)
        return np.append(self.inner.leader.component_errors(), own / max(self.seen - self.before, 1))

    def n_support(self) -> NDArray[np.int64]:
        """Landmarks of each component."""
        own = len(self.names) - len(self.inner.leader.names)
        return np.append(self.inner.leader.n_support(), np.zeros(own, dtype=np.int64))

    def relevance_shares(self) -> Float | None:
        """Share of each column, as the learner within the layer and the simple models have it."""
        assert self.combination is not None
        inner = None if self.rests else self.inner.leader.relevance_shares()
        influence = self.combination.influence()
        shares, total = np.zeros(self.columns), 0.0
        if inner is not None:
            shares, total = influence[0] * inner, float(influence[0])
        for each, (begin, end) in zip(self.models, self._places(), strict=True):
            part = float(influence[begin:end].sum())
            shares, total = shares + part * each.column_shares(), total + part
        return np.asarray(shares / max(float(shares.sum()), 1e-300)) if shares.sum() > 0 else None

    def explain(self, x: Any, sign: float, columns: Sequence[Any], output: int | None = None) -> Explanation:
        """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest."""
        return explain_simple(self, x, sign, columns, output)

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "inner": learner_state(self.inner),
            "n_classes": self.n_classes,
            "seen": self.seen,
            "rests": self.rests,
            "models": [{"kind": each.kind, "model": each.to_state()} for each in self.models],
            "combination": None if self.combination is None else self.combination.to_state(),
            "first": np.array(self.first, dtype=np.float64).reshape(-1, 2),
            "before": self.before,
            "known": self.known,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        inner = learner_from_state(saved.part("inner"), columns)
        learner = cls(inner, columns)
        learner.n_classes = saved.integer("n_classes", 2, 2**31 - 1)
        learner.seen, learner.rests = saved.integer("seen"), saved.flag("rests")
        learner.before = saved.integer("before", 0, learner.seen)
        learner.known = saved.array("known", (learner.n_classes,), np.bool_)
        if not learner.rests and (inner.seen != learner.seen or inner.n_classes != learner.n_classes):
            raise saved.wrong("inner", "a learner of the same rows and classes", inner.seen)
        known = {each.kind: each for each in _KINDS}
        learner.models = []
        for part in saved.parts("models", len(_KINDS)):
            model = known.pop(part.text("kind", known))
            learner.models.append(model.from_state(part.part("model"), columns, learner.outputs))
            part.end()
        if learner.rests and not learner.models:
            raise saved.wrong("rests", "False without simple models", learner.rests)
        combination, count = saved.optional_part("combination"), sum(len(each.names) for each in learner.models)
        if (combination is not None) != bool(learner.models):
            raise saved.wrong("combination", "there where there are simple models", combination is not None)
        learner.combination = (
            None if combination is None else Combination.from_state(combination, count + (not learner.rests))
        )
        kept = learner.seen if learner.seen < learner._begins_at else 0
        first: Float = saved.array("first", (kept, 2), np.float64, *SUMS)
        learner.first = [(filled, size) for filled, size in first.tolist()]
        saved.end()
        return learner


def _look(row: Float) -> tuple[float, float]:
    """Share of the cells of a row that are not zero, and its root mean square, 1 where that is nothing."""
    largest = float(np.abs(row).max())
    size = largest * float(np.sqrt(((row / largest) ** 2).mean())) if largest > 1e-300 else 1.0
    return float((row != 0).mean()), size

"""The learner behind the estimators: rows in, scores made before each label out.

While no more than `budget` rows have come, all are kept, and at 8, 16, 32, ... rows and at the budget everything is
rebuilt from them. After that each component learns every row, and only the landmarks stay. Rebuilds, blocks and pruning
happen at absolute row counts, so that how a stream is cut into calls changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.combination import Combination
from bomkl.auto.component import Component
from bomkl.auto.features import Features, KernelFeatures, LinearFeatures
from bomkl.auto.fit import ridge_fit
from bomkl.auto.geometry import Float, Geometry, Single, varying_columns
from bomkl.auto.rebuild import one_blas_thread, probe_fit, target_scale
from bomkl.auto.settings import CHUNK, COMPONENTS, FIRST_STAGE, KEEP, KERNELS, PRUNE_AT
from bomkl.auto.task import Task

State = dict[str, Any]
LARGEST = 1e150  # larger numbers are taken as this: their squares still have a sum
_FARTHEST_TARGET = 1e6  # scaled targets beyond it are taken as this
_LEAST_DOUBT = 0.02


class Mapper(Protocol):
    """`map`, or that of a thread pool."""

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        """Apply a function to items."""


@dataclass(frozen=True)
class Settings:
    """What a stream is told before its first row."""

    budget: int
    seed: int
    regression: bool
    huber: bool
    forget: float = 1.0


def dense_rows(X: Any, begin: int, end: int) -> Float:
    """Rows of a matrix or CSR matrix as a contiguous array of finite squares."""
    rows: Any = X[begin:end]
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    return np.clip(np.ascontiguousarray(rows, dtype=np.float64), -LARGEST, LARGEST)


class Stream:
    """One learner of two or more classes, or of numbers."""

    def __init__(self, settings: Settings, n_classes: int = 2) -> None:
        self.settings = settings
        self.n_classes = n_classes
        self.seen = 0
        self.counts = np.zeros(n_classes)  # of the classes; of numbers the sum and how many
        self.kept_X: list[Float] = []
        self.kept_y: list[Float] = []
        self.kept_weight: list[Float] = []
        self.support: Float | None = None
        self.centre, self.spread = 0.0, 1.0
        self.geometry: Geometry | None = None
        self.features: list[Features] = []
        self.components: list[Component] = []
        self.alive = np.arange(len(COMPONENTS))
        self.combination = Combination.of(len(COMPONENTS))
        self.error_before = np.zeros(len(COMPONENTS))  # in units of the target, up to the last rebuild
        self.error_rows = np.zeros(len(COMPONENTS))

    # ------------------------------------------------------------ learning

    @property
    def task(self) -> Task:
        """What is learned now."""
        if self.settings.regression:
            return Task.HUBER if self.settings.huber else Task.SQUARED
        return Task.BINARY if self.n_classes == 2 else Task.MULTICLASS

    @property
    def outputs(self) -> int:
        """Scores a row."""
        return self.n_classes if self.task is Task.MULTICLASS else 1

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))
        begin = 0
        while begin < len(y):
            end = begin + min(self._rows_to_event(), CHUNK, len(y) - begin)
            rows = dense_rows(X, begin, end)
            out[begin:end] = self._chunk(rows, y[begin:end], weight[begin:end], run)
            begin = end
        return out

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        n = X.shape[0]
        out = np.empty((n, self.outputs))
        if self.geometry is None:
            out[:] = self._prior_score()
            return out
        means = [component.means() for component in self.components]
        for begin in range(0, n, CHUNK):
            rows = dense_rows(X, begin, min(begin + CHUNK, n))
            out[begin : begin + CHUNK] = self.combination.scores(self._component_scores(rows, means, run), self.task)
        return out * self.spread + self.centre

    def component_scores(self, X: Any) -> Float:
        """Scores of each living component, (n, components, outputs), of scaled targets."""
        return self._component_scores(dense_rows(X, 0, X.shape[0]), [c.means() for c in self.components], map)

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        log_odds = self.new_class_log_odds()
        for component in self.components:
            component.add_class(log_odds)
        self.n_classes += 1
        self.counts = np.append(self.counts, 0.0)

    def new_class_log_odds(self) -> float:
        """Log odds that the next row is of a class never seen."""
        return float(np.log(0.5 / (self.seen + 1)))

    # ------------------------------------------------------------ one chunk

    def _next_stage(self) -> int:
        stage = min(FIRST_STAGE, self.settings.budget)
        while stage <= self.seen and stage < self.settings.budget:
            stage = min(2 * stage, self.settings.budget)
        return stage

    def _rows_to_event(self) -> int:
        events = (self._next_stage(), PRUNE_AT * self.settings.budget)
        return min((event - self.seen for event in events if event > self.seen), default=CHUNK)

    def _chunk(self, X: Float, y: Float, weight: Float, run: Mapper) -> Float:
        if self.geometry is None:
            out = self._prior_scores(y)
        else:
            targets = self._targets(y)
            parts = self._learn_components(X, targets, weight, run)
            out = self.combination.score_and_learn(parts, targets, weight, self.task) * self.spread + self.centre
            self.error_rows[self.alive] += len(y)
        if self.kept_X or self.seen == 0:
            self.kept_X.append(X)
            self.kept_y.append(y.copy())
            self.kept_weight.append(weight.copy())
        stage = self._next_stage()
        self.seen += len(y)
        if self.seen == stage:
            with one_blas_thread():
                self._rebuild(run)
        if self.seen == PRUNE_AT * self.settings.budget:
            self._prune()
        return out

    def _targets(self, y: Float) -> Float:
        if self.task.is_regression:
            return np.clip((y - self.centre) / self.spread, -_FARTHEST_TARGET, _FARTHEST_TARGET)[:, None]
        if self.task is Task.BINARY:
            return y[:, None].copy()
        return np.eye(self.n_classes)[y.astype(np.intp)]

    def _prior_score(self) -> Float:
        if self.task.is_regression:
            return np.asarray(self.counts[:1] / max(self.counts[1], 1.0))
        if self.task is Task.BINARY:
            return np.asarray(np.log((self.counts[1:] + 0.5) / (self.counts[:1] + 0.5)))
        return np.asarray(np.log((self.counts + 0.5) / (self.counts.sum() + 0.5 * self.n_classes)))

    def _prior_scores(self, y: Float) -> Float:
        out = np.empty((len(y), self.outputs))
        for t, value in enumerate(y):
            out[t] = self._prior_score()
            if self.task.is_regression:
                self.counts += (value, 1)
            else:
                self.counts[int(value)] += 1
        return out

    def _views(self, X: Float) -> dict[str, Single]:
        assert self.geometry is not None
        return self.geometry.views(X, {name for each in self.features for name in each.geometries()})

    def _learn_components(self, X: Float, targets: Float, weight: Float, run: Mapper) -> Float:
        views = self._views(X)
        task, forget, seen = self.task, self.settings.forget, self.seen

        def learn(i: int) -> Float:
            return self.components[i].score_and_learn(self.features[i](views), targets, weight, task, forget, seen)

        return np.stack(_in_order(run, learn, self._costs()), axis=1)

    def _component_scores(self, X: Float, means: list[Float], run: Mapper) -> Float:
        views = self._views(X)

        def score(i: int) -> Float:
            return self.components[i].scores(self.features[i](views), means[i])

        return np.stack(_in_order(run, score, self._costs()), axis=1)

    def _costs(self) -> list[int]:
        return [component.rank for component in self.components]

    # ------------------------------------------------------------ rebuilding and pruning

    def _draw(self, weights: Float, count: int, purpose: int) -> NDArray[np.int64]:
        """Draw rows without replacement by exponential keys, from a generator of this row count and purpose alone."""
        u = np.random.default_rng([self.settings.seed, self.seen, purpose]).random(len(weights))
        return np.sort(np.argsort(-np.log(u) / weights, kind="stable")[:count])

    def _rebuild(self, run: Mapper) -> None:
        if self.geometry is not None:
            self.error_before[self.alive] += self.combination.error_sum * self.spread**2
            self.combination.error_sum[:] = 0
        X, y = np.vstack(self.kept_X), np.concatenate(self.kept_y)
        weight = np.concatenate(self.kept_weight)
        self.kept_X, self.kept_y, self.kept_weight = [X], [y], [weight]
        if self.task.is_regression:
            self.centre, self.spread = target_scale(y, self.settings.huber)
        targets = self._targets(y)
        geometry = Geometry.of(X)
        views = geometry.views(X, ("standard", "normal"))
        n = len(X)

        def probe(j: int) -> tuple[Float, Float]:
            rows = views[("standard", "normal")[j]]
            landmarks = self._draw(np.ones(n), max(self.settings.budget // 4, 1), 100 + j)
            return probe_fit(rows, landmarks, targets, weight, self.task)

        doubts, relevances = zip(*run(probe, (0, 1)), strict=True)
        doubt = doubts[0] + doubts[1] + _LEAST_DOUBT
        geometry.relevance = dict(zip(("standard", "normal"), relevances, strict=True))
        views = geometry.views(X, {choice.geometry for choice in KERNELS} | {"standard", "normal"})

        def build(i: int) -> tuple[Features, Component]:
            features: Features
            if i == len(KERNELS):
                features, ridge = LinearFeatures.of(X.shape[1]), max(1.0, varying_columns(X) / 2)
            else:
                choice = KERNELS[i]
                support = self._draw(doubt, max(int(choice.share * self.settings.budget), 1), i)
                rows, ridge = views[choice.geometry], choice.ridge
                features = KernelFeatures.of(choice.geometry, choice.kind, choice.width, rows, support)
            F = features(views)[:, : features.rank + 1].astype(np.float64)
            return features, Component.of(*ridge_fit(F, targets, weight, ridge, self.task), features.width)

        shares = [choice.share for choice in KERNELS] + [0.0]
        built = _in_order(run, build, shares)
        self.geometry = geometry
        self.features, self.components = [each[0] for each in built], [each[1] for each in built]
        if self.seen == self.settings.budget:
            self.support = X
            self.kept_X, self.kept_y, self.kept_weight = [], [], []
            self._forget_unused_rows()
            self.combination.loss_sum[:] = 0

    def _forget_unused_rows(self) -> None:
        assert self.support is not None
        kernels = [each for each in self.features if isinstance(each, KernelFeatures)]
        used = np.unique(np.concatenate([each.support for each in kernels]))
        self.support = self.support[used]
        for each in kernels:
            each.support = np.searchsorted(used, each.support)

    def _prune(self) -> None:
        """Keep the linear component and the kernels of least loss since the budget was full."""
        losers = np.argsort(self.combination.loss_sum[:-1], kind="stable")[KEEP:]
        self.error_before[self.alive] += self.combination.error_sum * self.spread**2
        self.combination.error_sum[:] = 0
        self.combination.drop(losers)
        kept = np.setdiff1d(np.arange(len(self.alive)), losers)
        self.alive = self.alive[kept]
        self.features = [self.features[i] for i in kept]
        self.components = [self.components[i] for i in kept]
        self._forget_unused_rows()

    # ------------------------------------------------------------ insight

    def stored_rows(self) -> Float:
        """Rows in memory: all while the budget lasts, then the landmarks."""
        if self.support is not None:
            return self.support
        return np.vstack(self.kept_X) if self.kept_X else np.empty((0, 0))

    def kernel_weights(self) -> Float:
        """Part of each component in the combination; zero for those that were dropped."""
        weights = np.zeros(len(COMPONENTS))
        weights[self.alive] = self.combination.influence()
        return weights

    def component_errors(self) -> Float:
        """Mean error of each component on the rows it has scored before learning them; 0 before the first."""
        total = self.error_before.copy()
        total[self.alive] += self.combination.error_sum * self.spread**2
        return total / np.maximum(self.error_rows, 1)

    def n_support(self) -> NDArray[np.int64]:
        """Landmarks of each component."""
        counts = np.zeros(len(COMPONENTS), dtype=np.int64)
        for i, features in zip(self.alive, self.features, strict=False):
            counts[i] = len(features.support) if isinstance(features, KernelFeatures) else 0
        return counts

    # ------------------------------------------------------------ state

    def state(self) -> State:
        """Everything it is, as plain values and arrays."""
        plain = {name: value for name, value in vars(self).items() if name not in _PARTS}
        return plain | {
            "settings": vars(self.settings).copy(),
            "geometry": None if self.geometry is None else vars(self.geometry).copy(),
            "combination": vars(self.combination).copy(),
            "features": [vars(each).copy() for each in self.features],
            "components": [vars(each).copy() for each in self.components],
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Go on where `state` was taken."""
        stream = cls(Settings(**state["settings"]), state["n_classes"])
        vars(stream).update({name: value for name, value in state.items() if name not in _PARTS})
        stream.geometry = None if state["geometry"] is None else Geometry(**state["geometry"])
        stream.combination = Combination(**state["combination"])
        stream.features = [
            (KernelFeatures if "whiten" in each else LinearFeatures)(**each) for each in state["features"]
        ]
        stream.components = [Component(**each) for each in state["components"]]
        return stream


_PARTS = frozenset({"settings", "geometry", "combination", "features", "components"})


def _in_order(run: Mapper, function: Callable[[int], Any], costs: list[Any]) -> list[Any]:
    """Results for 0, 1, ..., the costly ones begun first so that two threads end together."""
    order = sorted(range(len(costs)), key=lambda i: -costs[i])
    results = dict(zip(order, run(function, order), strict=True))
    return [results[i] for i in range(len(costs))]

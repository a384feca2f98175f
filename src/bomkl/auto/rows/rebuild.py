"""Rebuilding: everything that is taken from the kept rows, by functions of those rows alone."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.blas import one_blas_thread
from bomkl.auto.components.component import Component, NewtonComponent
from bomkl.auto.components.curved import CurvedComponent, bent, curve_of
from bomkl.auto.features.coding import Coding
from bomkl.auto.features.features import Features, LinearFeatures
from bomkl.auto.features.geometry import Float, Geometry, Single, Views, two_valued_scale, varying_columns
from bomkl.auto.features.pool_kernels import ADDITIVE, CURVED, KERNELS, KernelChoice, regression_names
from bomkl.auto.limits import SIZES
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.fit import Steps, T, finished, fitted_means
from bomkl.auto.rows.fitting import Fitting, HostFitting
from bomkl.auto.task import LearnerSettings, Task
from bomkl.auto.trees.regrowth import Growth
from bomkl.auto.trees.trees import TREES

_LEAST_RELEVANCE = 0.05
_LEAST_DOUBT = 0.02


class Rebuild:
    """The views of the columns and the components, fitted to the first rows of a stream.

    That is done all at once or in steps that may lie far apart; the result is the same.

    It is a function of the rows it is given, so a learner and its fork may share one: a step that one of them takes is
    a step for both. A step that fails leaves what was done before it.
    """

    def __init__(
        self,
        X: Float,
        targets: Float,
        weight: Float,
        settings: LearnerSettings,
        task: Task,
        fitting: Fitting,
        tree_seed: int | None = None,
        curved: bool = False,
    ) -> None:
        self.X, self.targets, self.weight = X, targets, weight
        self.settings, self.task, self.fitting = settings, task, fitting
        self.tree_seed = tree_seed  # None where there are no trees
        self._names = regression_names(settings.squares, curved)
        self._costs = [_COSTS[name] for name in self._names]
        self._growth: Growth | None = None
        self._geometry: Geometry | None = None
        self._views: Views = {}
        self._probes: dict[int, tuple[Float, Float]] = {}
        self._doubt: Float | None = None
        self._components: dict[int, Component] = {}
        self._going: Generator[float, None, None] | None = None
        self._done = 0.0

    def __deepcopy__(self, memo: Any) -> None:
        return None  # a copy begins anew: two learners that both go on must not share components

    def finish(self, run: Mapper) -> tuple[Geometry, list[Component]]:
        """Do all that is left, on several threads where `run` has them; trees come last."""
        with one_blas_thread:
            self._end_piece()
            self._look()
            left = [j for j in (0, 1) if j not in self._probes]
            self._probes |= zip(left, run(lambda j: _whole(self._probe(j)), left), strict=True)
            self._weigh()
            # the costly ones begun first, so that two threads end together
            left = sorted(
                (i for i in range(len(self._costs)) if i not in self._components), key=lambda i: -self._costs[i]
            )
            self._components |= zip(left, run(lambda i: _whole(self._component(i)), left), strict=True)
        assert self._geometry is not None
        trees = self._growth.finish(run).values() if self._growth else ()
        return self._geometry, [*(self._components[i].fork() for i in range(len(self._costs))), *trees]

    def _end_piece(self) -> None:
        """Finish the piece that the last step began: to begin it anew would take longer."""
        going, self._going = self._going, None
        ended = len(self._probes) + len(self._components)
        while going and len(self._probes) + len(self._components) == ended and next(going, None) is not None:
            pass

    def advance(self, share: float) -> None:
        """Go on until such a share of the work is done."""
        with one_blas_thread:
            while self._done < share:
                self._going = self._going or self._steps()
                try:
                    self._done = next(self._going, 1.0)
                except BaseException:
                    self._going = None  # what it was at is lost, what it had stored is not
                    raise
            if self._growth:
                self._growth.advance(share)

    def _steps(self) -> Generator[float, None, None]:
        """Take the steps one by one; yields the share of the work that is done."""
        whole, done = _LOOK_COST + 2 * _PROBE_COST + sum(self._costs), _LOOK_COST
        self._look()
        yield done / whole
        for j in (0, 1):
            if j not in self._probes:
                self._probes[j] = yield from _shares(self._probe(j), done / whole, _PROBE_COST / whole)
            done += _PROBE_COST
            yield done / whole
        self._weigh()
        for i, cost in enumerate(self._costs):
            if i not in self._components:
                self._components[i] = yield from _shares(self._component(i), done / whole, cost / whole)
            done += cost
            yield done / whole

    def _look(self) -> None:
        if self._geometry is None:
            geometry = Geometry.of(self.X)
            if self.tree_seed is not None:
                geometry = replace(geometry, coding=Coding.of(geometry.sorted_columns))
                codes = geometry.views(self.X, ("codes",))["codes"]
                self._growth = Growth(TREES, codes, self.targets, self.weight, self.task, self.tree_seed)
            self._views = geometry.views(self.X, ("standard", "normal"))
            self._geometry = geometry

    def _probe(self, j: int) -> Steps[tuple[Float, Float]]:
        rows = self._views[("standard", "normal")[j]]
        landmarks = _draw(np.ones(len(rows)), max(self.settings.budget // 4, 1), self.settings.seed, 100 + j)
        return probe_steps(rows, landmarks, self.targets, self.weight, self.task, self.fitting)

    def _weigh(self) -> None:
        """Take from the probes which rows are in doubt and which columns matter."""
        if self._doubt is None:
            assert self._geometry is not None
            floor = two_valued_scale(self.X)
            self._geometry.relevance = {
                name: self._probes[j][1] * floor for j, name in enumerate(("standard", "normal"))
            }
            names = {choice.geometry for choice in KERNELS} | {"standard", "normal"}
            names |= {"squares"} if self.settings.squares else set()
            self._views = self._geometry.views(self.X, names)
            self._doubt = self._probes[0][0] + self._probes[1][0] + _LEAST_DOUBT

    def _component(self, i: int) -> Steps[Component]:
        if i < len(KERNELS):
            return (yield from self._kernel(KERNELS[i], i, self.fitting, self.targets))
        name, columns, varying = self._names[i], self.X.shape[1], varying_columns(self.X)
        if name != CURVED.name:
            squares = name == ADDITIVE
            features = LinearFeatures.with_squares(columns) if squares else LinearFeatures.of(columns)
            ridge = max(1.0, varying / (6 if squares else 2))
            return (yield from self._fitted(name, features, ridge, self.fitting, self.targets))
        curve = curve_of(self.targets)
        on_processor = HostFitting(NewtonComponent)  # whatever learns the others
        inner = yield from self._kernel(CURVED, len(KERNELS) + 1, on_processor, bent(curve, self.targets))
        assert isinstance(inner, NewtonComponent)
        return CurvedComponent(CURVED.name, inner, curve)

    def _kernel(self, choice: KernelChoice, i: int, fitting: Fitting, targets: Float) -> Steps[Component]:
        assert self._doubt is not None
        count = max(int(choice.share * self.settings.budget), 1)
        support = _draw(self._doubt, count, self.settings.seed, i)
        rows = self._views[choice.geometry]
        features = fitting.kernel_features(choice.geometry, choice.kind, choice.width, rows, support)
        yield
        return (yield from self._fitted(choice.name, features, choice.ridge, fitting, targets))

    def _fitted(
        self, name: str, features: Features, ridge: float, fitting: Fitting, targets: Float
    ) -> Steps[Component]:
        return (yield from fitting.component(name, features, self._views, targets, self.weight, ridge, self.task))


_LOOK_COST, _PROBE_COST = 0.02, 0.1  # of the look at the columns, a probe and each component, in a unit of their own
_COSTS = {choice.name: choice.share**2 for choice in (*KERNELS, CURVED)} | {"linear": 0.01, ADDITIVE: 0.01}


def _whole(steps: Steps[T]) -> T:
    """Take all steps of one piece of work, in whatever thread."""
    with one_blas_thread:
        return finished(steps)


def _shares(steps: Steps[T], done: float, cost: float) -> Generator[float, None, T]:
    """Take the steps of one piece of work; yields the share of the whole that is done.

    There are about six, and the first, which evaluates the kernel, takes a quarter of the time or more.
    """
    part = 0.25
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        part = min(part + 0.13, 0.95)
        yield done + cost * part


def _draw(weights: Float, count: int, seed: int, purpose: int) -> NDArray[np.int64]:
    """Draw rows without replacement by exponential keys, from a generator of the row count and purpose alone."""
    u = np.random.default_rng([seed, len(weights), purpose]).random(len(weights))
    return np.sort(np.argsort(-np.log(u) / weights, kind="stable")[:count])


def probe_steps(
    rows: Single, landmarks: NDArray[np.int64], y: Float, weight: Float, task: Task, fitting: Fitting
) -> Steps[tuple[Float, Float]]:
    """Find how much each row is in doubt, and how relevant each column is, by a kernel fit on the kept rows."""
    features = fitting.kernel_features("probe", "gaussian", 0.5, rows, landmarks)
    yield
    w, scores = yield from fitting.means(features, {"probe": rows}, y, weight, 0.1, task)
    yield
    doubt = np.abs(y - fitted_means(scores, task)).max(axis=1) / 2
    gram, whiten, places = features.values({"probe": rows}), features.whitening(), features.landmark_rows()
    slope = np.zeros(rows.shape[1])
    for k in range(w.shape[1]):  # the gradient at x is the sum of alpha_j k(x, z_j) (z_j - x) / sigma^2
        G = gram * (whiten @ w[:-1, k])
        slope += ((G @ places - rows * G.sum(axis=1)[:, None]) ** 2).mean(axis=0)
    mean = slope.sum() / varying_columns(rows)
    relative = slope / mean if mean > 1e-30 else np.ones(len(slope))
    return doubt, (relative + _LEAST_RELEVANCE) ** 0.25


_SQUARE_VANISHES = 1e-130  # of numbers below this, squares of differences may leave the range of numbers


def target_scale(y: Float, robust: bool) -> tuple[float, float]:
    """Centre and spread of targets; with Huber's loss those of the middle half."""
    if robust:
        low, centre, high = np.quantile(y, (0.25, 0.5, 0.75))
        if high > low:
            return float(centre), float(SIZES.clip((high - low) / 1.349))
    largest = float(np.abs(y).max())
    deviation = float(y.std())
    if 0 < largest < _SQUARE_VANISHES:
        deviation = largest * float((y / largest).std())
    return float(y.mean()), deviation if deviation > 1e-12 * largest else 1.0  # of which none is zero

"""The learner behind the estimators: rows in, scores made before each label out.

While no more than `budget` rows have come, all are kept, and from the first 8, 16, 32, ... rows and at the budget
everything is rebuilt. What is rebuilt from 256 rows or more takes its place a little later and learns the rows between
then; meanwhile every row does a part of the work. After that each component learns from every row; only the landmarks
stay. Rebuilds, blocks and pruning happen at absolute row counts, so how a stream is cut into calls changes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import RowModel, Sample
from bomkl.auto.coding import Codes
from bomkl.auto.combination import Combination
from bomkl.auto.component import Component, NewtonComponent
from bomkl.auto.constants import CHUNK, DEVICE_FROM, LARGEST, regression_names
from bomkl.auto.fitting import Fitting, HostFitting
from bomkl.auto.geometry import Float, Geometry, Views
from bomkl.auto.growth import Growth
from bomkl.auto.held_rows import HeldRows
from bomkl.auto.one_row import Step, scores_of_one
from bomkl.auto.parallel import Mapper, threads_of
from bomkl.auto.pruning import components_to_drop
from bomkl.auto.rebuild import Rebuild, target_scale
from bomkl.auto.regrowth import first_sample, tend_trees
from bomkl.auto.row_arrays import array_bytes, checked, dense_rows, matrix_rows, on_processor, rows_for
from bomkl.auto.row_engine import RowEngine
from bomkl.auto.row_state import load_row_learner, row_learner_state
from bomkl.auto.saved import SUMS, Saved, State
from bomkl.auto.schedule import Schedule
from bomkl.auto.task import LearnerSettings, Task, new_class_log_odds
from bomkl.auto.trees import TREES, is_tree

_AT_ONCE = 4 * CHUNK  # rows that are made an array at a time


class RowLearner:
    """One learner of two or more classes, or of numbers, that learns row after row."""

    kind = "rows"
    builds_beside = True  # whether models are rebuilt a part with every row
    row_engine: RowEngine | None = None  # None: the processor
    curves_targets = True  # of numbers, for one component

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None:
        self.settings = settings
        self.schedule = Schedule(settings.budget, self.builds_beside)
        self.n_classes = n_classes
        self.seen = 0
        self.counts = np.zeros(n_classes)  # of the classes; of numbers the sum and how many
        self.kept = HeldRows()
        self.support: Float | None = None
        self.centre, self.spread = 0.0, 1.0
        self.geometry: Geometry | None = None
        self.rebuild: Rebuild | None = None  # one that has begun
        # What learns: either these three, or a compiled model that holds their parts
        self._components: list[Component] | None = []
        self._combination: Combination | None = None
        self._sample: Sample | None = None
        self._model: RowModel | None = None
        self._bare: list[Component] = []  # the components of the model, without their parts
        self._places: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # of the components of the model among all
        self._quiet_until = 0  # row count before which nothing happens but learning
        self.growth: Growth | None = None  # of trees, one that has begun
        self.grow_from: tuple[Codes, Float, Float] | None = None  # rows of the sample when it began
        self._begin_pool()

    def _pool(self) -> list[str]:
        return [*self._regressions(), *(TREES if self.settings.has_trees else ())]

    def _regressions(self) -> list[str]:
        return regression_names(self.settings.squares, self._has_curve)

    @property
    def _has_curve(self) -> bool:
        return self.curves_targets and self.settings.regression

    def _begin_pool(self) -> None:
        self.names = self._pool()  # of all components, those that were dropped as well
        self.combination = Combination.of(len(self.names))
        self.error_before = np.zeros(len(self.names))  # in units of the target, up to the last rebuild
        self.error_rows = np.zeros(len(self.names))

    def use(self, device: str) -> None:
        """Go on with a device."""
        from bomkl.auto.device import row_engine_for

        self.row_engine = row_engine_for(device)

    @property
    def on_device(self) -> RowEngine | None:
        """The device, once there is enough to do for one."""
        return self.row_engine if self.seen >= DEVICE_FROM else None

    # ------------------------------------------------------------ what learns

    @property
    def components(self) -> list[Component]:
        """Components, with what they have learned by now."""
        if self._components is None:
            assert self._model is not None
            self._components = [each.at(part) for each, part in zip(self._bare, self._model.parts, strict=True)]
        return self._components

    @components.setter
    def components(self, components: list[Component]) -> None:
        self._take_apart()
        self._components = components

    @property
    def combination(self) -> Combination:
        """Combination of the components."""
        if self._combination is None:
            assert self._model is not None
            self._combination = Combination(self._model.combination)
        return self._combination

    @combination.setter
    def combination(self, combination: Combination) -> None:
        self._take_apart()
        self._combination = combination

    @property
    def sample(self) -> Sample | None:
        """Sample of coded rows, once the budget is full and while there are trees."""
        return self._sample if self._model is None else self._model.sample

    @sample.setter
    def sample(self, sample: Sample | None) -> None:
        self._take_apart()
        self._sample = sample

    def _take_apart(self) -> None:
        """Go on without the compiled model: something about it changes."""
        if self._model is not None:
            self._components, self._combination, self._sample = self.components, self.combination, self.sample
            self._model = None

    def _assembled(self) -> RowModel:
        """Return the compiled model."""
        if self._model is None:
            components = self.components
            self._bare = [each.at(None) for each in components]
            self._places = np.array(self.places(), dtype=np.int64)
            self._model = self._model_of(components, self.combination, self._sample)
        return self._model

    def _model_of(
        self, components: list[Component], combination: Combination | None, sample: Sample | None
    ) -> RowModel:
        assert self.geometry is not None
        return RowModel.of(
            self.geometry.core(),
            [each.part(self.settings.forget) for each in components],
            None if combination is None else combination.core,
            sample,
            int(self.task),
            self.outputs,
            (self.centre, self.spread),
        )

    # ------------------------------------------------------------ learning

    @property
    def task(self) -> Task:
        """What is learned now."""
        return self.settings.task(self.n_classes)

    @property
    def outputs(self) -> int:
        """Scores a row."""
        return self.n_classes if self.task is Task.MULTICLASS else 1

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))
        begin = 0
        while begin < len(y):
            end = begin + min(self._rows_to_event(), len(y) - begin)
            rows = rows_for(self.on_device, X, begin, end)
            begin += self._chunk(rows, y[begin:end], weight[begin:end], run, out[begin:end])
        return checked(out)

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        n = X.shape[0]
        out = np.empty((n, self.outputs))
        if self.geometry is None:
            out[:] = self.prior_score()
            return out
        device = self.on_device
        if device is None:
            model, threads = self._assembled(), threads_of(run)
            for begin in range(0, n, _AT_ONCE):
                end = min(begin + _AT_ONCE, n)
                model.score(matrix_rows(X, begin, end), threads, out[begin:end])
            return out
        here = self._here()
        model_here = self._model_of(here, None, None) if here else None
        for begin in range(0, n, device.rows_at_once):
            rows = rows_for(device, X, begin, min(begin + device.rows_at_once, n))
            parts = [device.scores(self, rows)]
            if model_here is not None:
                parts.append(model_here.score_parts(on_processor(rows)))
            out[begin : begin + device.rows_at_once] = self.combination.scores(np.hstack(parts), self.task)
        return checked(out * self.spread + self.centre)

    def plan_one(self, x: Float, y: float) -> Step | None:
        """Score one row and learn from it in a copy; None where it has to go the long way."""
        after = self.fork()
        scores = after.score_and_learn(x[None], np.array([y], dtype=np.float64), np.ones(1))
        return Step(scores_of_one(scores[0]), after, [])

    def score_one(self, x: Float) -> float | Float | None:
        """Scores of one row as if it were learned from; None where it has to go the long way."""
        return None if self.support is None or self.on_device is not None else self._assembled().score_next(x)

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        log_odds = self.new_class_log_odds()
        self._take_apart()
        for component in self.components:
            component.add_class(log_odds)
        self.n_classes += 1
        self.counts = np.append(self.counts, 0.0)

    def forget(self, factor: float) -> None:
        """Forget from now on, by a factor a row; trees cannot, and go."""
        self._take_apart()
        self.settings = replace(self.settings, forget=factor)
        for component in self.components:
            component.close()
        self._drop_trees()

    def new_class_log_odds(self) -> float:
        """Log odds that the next row is of a class never seen."""
        return float(new_class_log_odds(self.seen))

    def __getstate__(self) -> dict[str, Any]:
        apart = {"_components": self.components, "_combination": self.combination, "_sample": self.sample}
        return vars(self) | apart | {"_model": None, "_bare": []}  # a copy has a model of its own

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return array_bytes(self.__getstate__())

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = object.__new__(type(self))
        fork.__dict__ = vars(self).copy()
        fork.counts, fork.error_before, fork.error_rows = (
            each.copy() for each in (self.counts, self.error_before, self.error_rows)
        )
        if self._model is not None:
            fork._model, fork._components, fork._combination = self._model.fork(), None, None
        else:
            fork._components = [each.fork() for each in self.components]
            fork._combination = self.combination.fork()
            fork._sample = None if self._sample is None else self._sample.fork()
        return fork

    # ------------------------------------------------------------ one chunk

    def _rows_to_event(self) -> int:
        if self.on_device is not None:
            return self.schedule.rows_to_event(self.seen, self.on_device.rows_at_once, self.sample is not None)
        if self.seen >= self._quiet_until:
            self._quiet_until = self.seen + self.schedule.rows_to_event(self.seen, 2**62, self.sample is not None)
        to_device = (
            _AT_ONCE if self.row_engine is None else DEVICE_FROM - self.seen
        )  # however rows are split into calls
        return min(self._quiet_until - self.seen, _AT_ONCE, to_device)

    def _chunk(self, X: Any, y: Float, weight: Float, run: Mapper, out: Float) -> int:
        """Score rows into `out`, and learn from them; returns how many."""
        n = len(y)
        if self.geometry is None:
            out[:] = self._prior_scores(y)
        elif self.on_device is not None:
            self._learn_on_device(X, y, weight, run, out)
        else:
            model = self._assembled()
            n = model.learn(X, y, weight, self.seen, threads_of(run), out)
            self.error_rows[self._places] += n
            if (self.seen + n) % CHUNK == 0 and model.has_unchecked:
                for component in self.components:
                    component.tend()
        if self.support is None:
            self.kept = self.kept.plus(dense_rows(X, 0, n), y[:n], weight[:n])
        elif self.seen + n < self._quiet_until and self.grow_from is None:
            self.seen += n
            return n
        due, growth = self.schedule.next_stage(self.seen), self.schedule.next_growth(self.seen)
        self.seen += n
        if self.seen == due and self.support is None:
            self._rebuild(run)
        elif self.support is None and self.schedule.built_from(due) <= self.seen < due:
            self._work_ahead(self.schedule.built_from(due), due)
        if self.seen == self.schedule.prune_at:
            self._prune()
        tend_trees(self, growth, run)
        return n

    def _learn_on_device(self, X: Any, y: Float, weight: Float, run: Mapper, out: Float) -> None:
        """Learn where a device has the regressions, and the processor the other components and the combination."""
        self._take_apart()  # the regressions are those of the device from now on
        device, here = self.on_device, self._here()
        assert device is not None
        targets = self.targets(y)
        with ThreadPoolExecutor(1) as aside:
            model = self._model_of(here, None, None) if here else None
            learned = aside.submit(
                lambda: (
                    np.empty((len(y), 0, self.outputs))
                    if model is None
                    else model.learn_parts(on_processor(X), y, weight, self.seen, threads_of(run))
                )
            )
            for begin, end, parts in device.learn(self, X, targets, weight):
                S = np.hstack([parts, learned.result()[begin:end]])
                out[begin:end] = self.combination.score_and_learn(S, targets[begin:end], weight[begin:end], self.task)
        if self.sample is not None:
            self.sample.add(self.views(on_processor(X), here)["codes"], y, weight, self.seen)
        out *= self.spread
        out += self.centre
        self.error_rows[self.places()] += len(y)
        if (self.seen + len(y)) % CHUNK == 0:
            for component in self.components:
                component.tend()

    def target_limits(self) -> tuple[float, float]:
        """Least and largest class number or target."""
        return (-LARGEST, LARGEST) if self.settings.regression else (0.0, self.n_classes - 1.0)

    def targets(self, y: Float) -> Float:
        """Return class numbers or targets as the components learn them."""
        return self.task.targets(y, self.n_classes, self.centre, self.spread)

    def prior_score(self) -> Float:
        """Score of any row before the first rebuild."""
        if self.task.is_regression:
            return np.asarray(self.counts[:1] / max(self.counts[1], 1.0))
        if self.task is Task.BINARY:
            return np.asarray(np.log((self.counts[1:] + 0.5) / (self.counts[:1] + 0.5)))
        return np.asarray(np.log((self.counts + 0.5) / (self.counts.sum() + 0.5 * self.n_classes)))

    def _prior_scores(self, y: Float) -> Float:
        out = np.empty((len(y), self.outputs))
        for t, value in enumerate(y):
            out[t] = self.prior_score()
            if self.task.is_regression:
                self.counts += (value, 1)
            else:
                self.counts[int(value)] += 1
        return out

    def views(self, X: Float, components: list[Component] | None = None) -> Views:
        """Rows in the views that the components, or some of them, need."""
        assert self.geometry is not None
        needing = self.components if components is None else components
        return self.geometry.views(X, {name for each in needing for name in each.geometries()})

    def _here(self) -> list[Component]:
        """Components that learn on the processor: all, or those that no device knows, which are the last ones."""
        return [each for each in self.components if self.on_device is None or not isinstance(each, NewtonComponent)]

    def places(self) -> list[int]:
        """Numbers of the living components among all."""
        return [self.names.index(component.name) for component in self.components]

    # ------------------------------------------------------------ rebuilding and pruning

    def _rebuild(self, run: Mapper) -> None:
        if self.names != self._pool():  # a file of a version with another pool
            self._begin_pool()
        elif self.geometry is not None:
            self._book_errors()
        X, y, weight = self.kept.arrays()
        self.kept = HeldRows((X,), (y,), (weight,))
        stage = self.schedule.built_from(self.seen)
        if self.task.is_regression:
            self.centre, self.spread = target_scale(y[:stage], self.settings.huber)
        self.geometry, self.components = self._build(X[:stage], self.targets(y[:stage]), weight[:stage], run)
        self.rebuild = None
        sample = first_sample(self, X[:stage], y[:stage], weight[:stage])
        if stage < self.seen:
            model = self._model_of(self.components, None, None)
            model.learn_parts(X[stage:], y[stage:], weight[stage:], stage, threads_of(run))
            if sample is not None:
                sample.add(self.views(X[stage:])["codes"], y[stage:], weight[stage:], stage)
        if stage == self.settings.budget:
            self.support = X[:stage]
            self.kept = HeldRows()
            self.sample = sample
            self._forget_unused_rows()
            self.combination.loss_sum[:] = 0

    def _build(self, X: Float, targets: Float, weight: Float, run: Mapper) -> tuple[Geometry, list[Component]]:
        begun = self.rebuild
        if begun is None or begun.targets.shape != targets.shape:
            begun = self._begin_rebuild(X, targets, weight, self.seen)
        return begun.finish(run)

    def _begin_rebuild(self, X: Float, targets: Float, weight: Float, due: int) -> Rebuild:
        tree_seed = self.settings.seed + due if self.settings.has_trees else None
        return Rebuild(X, targets, weight, self.settings, self.task, self._fitting(), tree_seed, self._has_curve)

    def _fitting(self) -> Fitting:
        if self.on_device is None:
            return HostFitting(NewtonComponent)
        return self.on_device.fitting(self.settings.budget)

    def _work_ahead(self, stage: int, due: int) -> None:
        """Do a part of the next rebuild, so that rows that come singly do not have to wait for all of it."""
        if self.rebuild is None or self.rebuild.targets.shape != (stage, self.outputs):
            X, y, weight = (each[:stage] for each in self.kept.arrays())
            scale = target_scale(y, self.settings.huber) if self.task.is_regression else (0.0, 1.0)
            targets = self.task.targets(y, self.n_classes, *scale)
            self.rebuild = self._begin_rebuild(X, targets, weight, due)
        self.rebuild.advance((self.seen - stage + 1) / (due - stage + 1))

    def _book_errors(self) -> None:
        """Put errors aside in units of the target, whose scale is about to change."""
        with np.errstate(over="ignore"):
            self.error_before[self.places()] += self.combination.error_sum * self.spread**2
        self.error_before = SUMS.clip(self.error_before)
        self.combination.error_sum[:] = 0

    def _forget_unused_rows(self) -> None:
        assert self.support is not None
        used = self.used_rows()
        self.support = self.support[used]
        for each in self.components:
            if each.support is not None:
                each.renumber(np.searchsorted(used, each.support))

    def used_rows(self) -> NDArray[np.int64]:
        """Return the numbers of the stored rows that components need."""
        supports = [each.support for each in self.components if each.support is not None]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *supports]))

    def _prune(self) -> None:
        self._drop(components_to_drop(self.components, self.combination))
        self._forget_unused_rows()

    def _drop(self, losers: list[int]) -> None:
        self._book_errors()
        self.combination = self.combination.without(np.array(sorted(losers), dtype=np.int64))
        self.components = [each for i, each in enumerate(self.components) if i not in losers]
        if not any(is_tree(each) for each in self.components):
            self.sample = self.growth = self.grow_from = None
            if self.geometry is not None:
                self.geometry = replace(self.geometry, coding=None)

    def _drop_trees(self) -> None:
        """Go on without tree experts, as if there had never been any."""
        if self.components:
            self._drop([i for i, each in enumerate(self.components) if is_tree(each)])
        else:  # before the first rebuild
            self.combination = Combination.of(len(self._regressions()))
        kept = [i for i, name in enumerate(self.names) if name not in TREES]
        self.names = [self.names[i] for i in kept]
        self.error_before, self.error_rows = self.error_before[kept], self.error_rows[kept]

    # ------------------------------------------------------------ insight

    @property
    def leader(self) -> RowLearner:
        """The learner that predictions are made with."""
        return self

    def stored_rows(self) -> Float:
        """Rows in memory: all while the budget lasts, then the landmarks."""
        if self.support is not None:
            return self.support
        return np.vstack(self.kept.X)[: self.settings.budget] if self.kept else np.empty((0, 0))

    def kernel_weights(self) -> Float:
        """Part of each component in the combination; zero for those that were dropped."""
        weights = np.zeros(len(self.names))
        weights[self.places() or slice(None)] = self.combination.influence()
        return weights

    def component_errors(self) -> Float:
        """Mean error of each component on the rows it has scored, each before learning from it; 0 before the first."""
        total = self.error_before.copy()
        total[self.places() or slice(None)] += self.combination.error_sum * self.spread**2
        return total / np.maximum(self.error_rows, 1)

    def n_support(self) -> NDArray[np.int64]:
        """Landmarks of each component."""
        counts = np.zeros(len(self.names), dtype=np.int64)
        for i, component in zip(self.places(), self.components, strict=True):
            counts[i] = 0 if component.support is None else len(component.support)
        return counts

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return row_learner_state(self)

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        learner = cls(LearnerSettings.from_state(saved.part("settings")))
        load_row_learner(learner, saved, columns)
        return learner

"""The learner behind the estimators: rows in, scores made before each label out.

While no more than `budget` rows have come, all are kept, and from the first 8, 16, 32, ... rows and at the budget
everything is rebuilt. What is rebuilt from 256 rows or more takes its place a little later and learns the rows between
then; meanwhile every row does a part of the work. After that each component learns from every row; only the landmarks
stay. Rebuilds, blocks and pruning happen at absolute row counts, so how a stream is cut into calls changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import BLOCK, OneRow
from bomkl.auto.coding import Codes
from bomkl.auto.combination import Combination
from bomkl.auto.component import Component, NewtonComponent, Scorer
from bomkl.auto.constants import CHUNK, DEVICE_FROM, LARGEST, regression_names
from bomkl.auto.fitting import Fitting, HostFitting
from bomkl.auto.geometry import Float, Geometry, Views
from bomkl.auto.growth import Growth
from bomkl.auto.held_rows import HeldRows
from bomkl.auto.one_row import Step, one_row_of
from bomkl.auto.parallel import Mapper, in_order
from bomkl.auto.pruning import components_to_drop
from bomkl.auto.rebuild import Rebuild, target_scale
from bomkl.auto.regrowth import first_sample, tend_trees, work_on_trees
from bomkl.auto.row_arrays import checked, on_processor, rows_for
from bomkl.auto.row_engine import RowEngine
from bomkl.auto.row_state import load_row_learner, row_learner_state
from bomkl.auto.sample import Sample
from bomkl.auto.saved import SUMS, Saved, State
from bomkl.auto.schedule import Schedule
from bomkl.auto.task import LearnerSettings, Task, new_class_log_odds
from bomkl.auto.trees import TREES, is_tree


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
        self.components: list[Component] = []
        self.shared = False  # whether another thread may be reading it, so that it must not change
        self.one_row: OneRow | None = None
        self.one_row_until = 0  # rows that `one_row` may learn up to
        self.rebuild: Rebuild | None = None  # one that has begun
        self.sample: Sample | None = None  # of coded rows, once the budget is full and while there are trees
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
            out[begin:end] = self._chunk(rows, y[begin:end], weight[begin:end], run)
            begin = end
        return checked(out)

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        n = X.shape[0]
        out = np.empty((n, self.outputs))
        if self.geometry is None:
            out[:] = self.prior_score()
            return out
        device, here = self.on_device, self._here()
        scorers = [component.scorer() for component in here]
        at_once = CHUNK if device is None else device.rows_at_once
        for begin in range(0, n, at_once):
            rows = rows_for(device, X, begin, min(begin + at_once, n))
            parts = [] if device is None else [device.scores(self, rows)]
            if here:
                parts += self._component_scores(on_processor(rows), here, scorers, run)
            S = np.hstack(parts)
            out[begin : begin + at_once] = self.combination.scores(S, self.task)
        return checked(out * self.spread + self.centre)

    def learn_one(self, x: Float, y: float, counts: dict[str, Any]) -> float | Float | None:
        """Score one row, then learn from it; None, with nothing changed, where it has to go the long way.

        The scores are a number, or an array where there are more than two classes.

        A mistake is counted in ``counts["_mistakes"]``, if there is one, in the same step.
        """
        one_row = self._prepared_to_learn()
        if one_row is None or self.shared:
            return None
        return self._unscaled(one_row.learn(self, x, y, self._target(y), 1.0, counts))

    def plan_one(self, x: Float, y: float) -> Step | None:
        """Plan what `learn_one` does, for a learner that this one is a part of; None where it cannot do it."""
        one_row = self._prepared_to_learn()
        scores = None if one_row is None else self._unscaled(one_row.score(x))
        if one_row is None or scores is None:
            return None
        return Step(scores, self, [(one_row.learn_scored, (self, y, self._target(y), 1.0))])

    def score_one(self, x: Float) -> float | Float | None:
        """Scores of one row as `learn_one` would give them; None where it has to go the long way."""
        one_row = self._prepared()
        return None if one_row is None else self._unscaled(one_row.score(x))

    def _prepared(self) -> OneRow | None:
        """Return what takes single rows; None where there is none yet."""
        if self.one_row is None and self.support is not None:
            # rows that close a block, or at which something happens, go the long way
            self.one_row_until = self.seen + min(BLOCK - self.seen % BLOCK, self._rows_to_event()) - 1
            self.one_row = one_row_of(self)
        return self.one_row

    def _prepared_to_learn(self) -> OneRow | None:
        """Return what learns from single rows; None where the next row has to go the long way."""
        one_row = self._prepared()
        if one_row is None or self.seen >= self.one_row_until:
            return None
        if self.grow_from is not None:
            work_on_trees(self, self.seen + 1)  # before the row is learned from: an interrupt changes nothing
        return one_row

    def _target(self, y: float) -> float:
        return float(self.targets(np.array([y]))[0, 0]) if self.settings.regression else y

    def _unscaled(self, scores: float | Float | None) -> float | Float | None:
        return None if scores is None else scores * self.spread + self.centre

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        log_odds = self.new_class_log_odds()
        for component in self.components:
            component.add_class(log_odds)
        self.n_classes += 1
        self.counts = np.append(self.counts, 0.0)

    def forget(self, factor: float) -> None:
        """Forget from now on, by a factor a row; trees cannot, and go."""
        self.settings = replace(self.settings, forget=factor)
        for component in self.components:
            component.close()
        self._drop_trees()

    def new_class_log_odds(self) -> float:
        """Log odds that the next row is of a class never seen."""
        return float(new_class_log_odds(self.seen))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"one_row": None}  # a copy has arrays of its own

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = copy.copy(self)
        fork.shared = False
        fork.counts, fork.error_before, fork.error_rows = (
            each.copy() for each in (self.counts, self.error_before, self.error_rows)
        )
        fork.combination = self.combination.fork()
        fork.components = [each.fork() for each in self.components]
        fork.sample = None if self.sample is None else self.sample.fork()
        return fork

    # ------------------------------------------------------------ one chunk

    def _rows_to_event(self) -> int:
        at_once = CHUNK if self.on_device is None else self.on_device.rows_at_once
        return self.schedule.rows_to_event(self.seen, at_once, self.sample is not None)

    def _chunk(self, X: Float, y: Float, weight: Float, run: Mapper) -> Float:
        if self.geometry is None:
            out = self._prior_scores(y)
        else:
            targets, out = self.targets(y), np.empty((len(y), self.outputs))
            here = self._here()
            views = self.views(on_processor(X), here) if here else {}
            for begin, end, parts in self._learned_parts(X, views, targets, weight, run):
                rows = slice(begin, end)
                out[rows] = self.combination.score_and_learn(parts, targets[rows], weight[rows], self.task)
            if self.sample is not None:
                self.sample.add(views["codes"], y, weight, self.seen)
            out = out * self.spread + self.centre
            self.error_rows[self.places()] += len(y)
        if self.support is None:
            self.kept = self.kept.plus(on_processor(X), y, weight)
        due, growth = self.schedule.next_stage(self.seen), self.schedule.next_growth(self.seen)
        self.seen += len(y)
        if self.seen == due and self.support is None:
            self._rebuild(run)
        elif self.support is None and self.schedule.built_from(due) <= self.seen < due:
            self._work_ahead(self.schedule.built_from(due), due)
        if self.seen == self.schedule.prune_at:
            self._prune()
        if self.seen % CHUNK == 0:
            for component in self.components:
                component.tend()
        tend_trees(self, growth, run)
        return out

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

    def views(self, X: Float, components: Iterable[Component] | None = None) -> Views:
        """Rows in the views that the components, or some of them, need."""
        assert self.geometry is not None
        needing = self.components if components is None else components
        return self.geometry.views(X, {name for each in needing for name in each.geometries()})

    def _here(self) -> list[Component]:
        """Components that learn on the processor: all, or those that no device knows, which are the last ones."""
        return [each for each in self.components if self.on_device is None or not isinstance(each, NewtonComponent)]

    def _learn_components(self, views: Views, targets: Float, weight: Float, run: Mapper) -> Float:
        task, forget, seen = self.task, self.settings.forget, self.seen

        def learn(i: int) -> Float:
            return self.components[i].score_and_learn(views, targets, weight, task, forget, seen)

        return np.stack(in_order(run, learn, self._costs()), axis=1)

    def _learned_parts(
        self, X: Float, views: Views, targets: Float, weight: Float, run: Mapper
    ) -> Iterator[tuple[int, int, Float]]:
        """Scores of the components, of a few rows at a time where a device learns."""
        device = self.on_device
        if device is None:
            yield 0, len(targets), self._learn_components(views, targets, weight, run)
            return

        def learn(component: Component) -> Float:
            return component.score_and_learn(views, targets, weight, self.task, self.settings.forget, self.seen)

        with ThreadPoolExecutor(1) as beside:
            here = beside.submit(lambda: list(run(learn, self._here())))
            for begin, end, parts in device.learn(self, X, targets, weight):
                yield begin, end, np.hstack([parts, *(each[begin:end, None] for each in here.result())])

    def _component_scores(
        self, X: Float, components: list[Component], scorers: list[Scorer], run: Mapper
    ) -> list[Float]:
        """Scores (n, 1, outputs) of each of some components."""
        views = self.views(X, components)

        def score(i: int) -> Float:
            return scorers[i](views)[:, None]

        return in_order(run, score, [each.cost for each in components])

    def _costs(self) -> list[float]:
        return [component.cost for component in self.components]

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
            views, targets, later = self.views(X[stage:]), self.targets(y[stage:]), weight[stage:]
            for component in self.components:
                component.score_and_learn(views, targets, later, self.task, self.settings.forget, stage)
            if sample is not None:
                sample.add(views["codes"], y[stage:], later, stage)
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
        self.combination.drop(np.array(sorted(losers), dtype=np.int64))
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

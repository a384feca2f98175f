"""A pool that is made anew as the first rows come, and loses what does not help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bomkl._core import DriftExperts
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import Component, NewtonComponent
from bomkl.auto.components.pruning import components_to_drop
from bomkl.auto.constants import MANY_CLASSES, ROWS_A_CLASS
from bomkl.auto.features.coding import Codes
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.auto.limits import SUMS
from bomkl.auto.parallel import Mapper, threads_of
from bomkl.auto.rows.fitting import Fitting, HostFitting
from bomkl.auto.rows.held_rows import HeldRows
from bomkl.auto.rows.learned_pool import LearnedPool
from bomkl.auto.rows.rebuild import Rebuild, target_scale
from bomkl.auto.rows.schedule import Schedule
from bomkl.auto.task import LearnerSettings
from bomkl.auto.trees.regrowth import Growth, first_sample
from bomkl.auto.trees.trees import TREES, is_tree


class RebuiltPool(LearnedPool):
    """Rebuilds from the kept rows, pruning, and the experts that follow drift."""

    builds_ahead = True  # whether models are rebuilt a part with every row

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None:
        super().__init__(settings, n_classes)
        self.schedule = Schedule(settings.budget, self.builds_ahead)
        self.kept = HeldRows()
        self.rebuild: Rebuild | None = None  # one that has begun
        self.growth: Growth | None = None  # of trees, one that has begun
        self.grow_from: tuple[Codes, Float, Float] | None = None  # rows of the sample when it began

    def _rebuild(self, run: Mapper) -> None:
        if self.names != self._pool():  # a file of a version with another pool
            self._begin_pool()
        elif self.geometry is not None:
            self._book_errors()
        X, y, weight = self.kept.arrays()
        self.kept = HeldRows((X,), (y,), (weight,))
        if self.drift is not None:
            self.drift.stop_groups()
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
        self._restart_drift(X, y)
        if self.support is not None:
            self.combination.loss_sum[:] = 0

    def _postpones(self, stage: int) -> bool:
        """Whether so few rows of many classes are not worth the time of a rebuild, which grows with the classes."""
        few = stage < min(ROWS_A_CLASS * self.n_classes, self.settings.budget)
        return few and self.builds_ahead and self.n_classes > MANY_CLASSES

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
        errors = self.error_before.copy()
        with np.errstate(over="ignore"):
            errors[self.places()] += self.combination.error_sum * self.spread**2
        self.error_before = SUMS.clip(errors)
        self.combination.error_sum[:] = 0

    def _forget_unused_rows(self) -> None:
        assert self.support is not None
        used = self.used_rows()
        self.support = self.support[used]
        for each in self.components:
            if each.support is not None:
                each.renumber(np.searchsorted(used, each.support))

    def _prune(self) -> None:
        self._drop(components_to_drop(self.components, self.combination, self._leading_losses()))
        self._forget_unused_rows()
        self._restart_drift(self.stored_rows()[:0], np.empty(0))

    def _leading_losses(self) -> Float:
        """Losses to choose kernels by: those in the leading group of drift experts if it outweighs the model.

        What that group lacks comes last, by the losses in the model.
        """
        losses: Float = self.combination.loss_sum
        if self.drift is not None:
            groups = self.drift.groups
            model, *weights = self.drift.influence()[: 1 + len(groups)]
            parts, _, combination, _ = groups[int(np.argmax(weights))]
            if combination is not None and max(weights) > model:
                losses = losses + combination.loss_sum.max()
                losses[parts] = combination.loss_sum
        return losses

    def _drop(self, losers: list[int]) -> None:
        self._book_errors()
        if self.drift is not None:
            self.drift.stop_groups()
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

    def stored_rows(self) -> Float:
        """Rows in memory: all while the budget lasts, then the landmarks."""
        if self.support is not None:
            return self.support
        return np.vstack(self.kept.X)[: self.settings.budget] if self.kept else np.empty((0, 0))

    # ------------------------------------------------------------ drift

    def follow_drift(self) -> None:
        """Learn with experts that follow drift from the next row on."""
        self.follows_drift = True

    def check_drift(self) -> None:
        """Refuse experts that do not fit the components."""
        if self.geometry is not None:
            self._assembled()

    def _begin_drift(self, columns: int) -> None:
        settings = self.settings
        self.drift = DriftExperts.of(
            int(self.task), self.n_classes, columns, settings.budget, settings.seed % 2**64, self.seen
        )
        if self.geometry is not None:
            self._restart_drift(np.empty((0, columns)), np.empty(0))

    def _restart_drift(self, X: Float, y: Float) -> None:
        """Let experts begin with other components; the rows are those that the learner was built from."""
        if self.drift is not None:
            self._assembled().restart_drift(X, y, self.support is not None)

    def _drift_regressions(self) -> list[Any]:
        groups = [] if self.drift is None else self.drift.groups
        return [regression for _, regressions, _, _ in groups for regression in regressions]

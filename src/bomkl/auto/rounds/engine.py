"""What computes the sums of rows for a learner in rounds: the compiled core, or a device with the same methods."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from bomkl._core import ROUND_BLOCK, combination_sums, component_sums, kernel_sums
from bomkl.auto.components.combination import centred
from bomkl.auto.components.component import Component, RoundsComponent
from bomkl.auto.components.information import Information
from bomkl.auto.constants import STACK_RIDGES
from bomkl.auto.features.features import KernelFeatures
from bomkl.auto.features.geometry import Float, Geometry, Views
from bomkl.auto.parallel import Mapper, in_order
from bomkl.auto.rounds.sums import Sums, SumsShape
from bomkl.auto.rows.arrays import dense_rows
from bomkl.auto.rows.engine import RowEngine
from bomkl.auto.rows.fitting import HostFitting
from bomkl.auto.rows.rebuild import Rebuild
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.task import LearnerSettings, Task

_FEW_BLOCKS = 64  # of a round: with more of them each thread has enough to do


class SumEngine(Protocol):
    """Scores of rows at the means of a learner, and what the rows add to its sums.

    A learner offers `views`, `components` (each a `NewtonComponent`, whose features map views to rows of features and
    whose regression has the means), `combination`, `task` and `outputs`; an engine changes none of it. A row must get
    the same numbers however many rows come with it. Sums are those of blocks of `ROUND_BLOCK` rows, counted from the
    first row given. Each block is rounded to the units of `Sums` on its own: their order does not matter.
    """

    rows: RowEngine | None  # what learns row by row on the same device; None: the core

    def rows_held(self, X: Any) -> Any:
        """Rows of an array of another library that is on the device; None for one that is elsewhere."""

    def scores(self, learner: RowLearner, X: Any, run: Mapper) -> Float:
        """Score rows: combined scores (n, outputs), of scaled targets."""

    def sums(
        self, learner: RowLearner, X: Any, targets: Float, weight: Float, log_rows: int, run: Mapper
    ) -> tuple[Float, Sums]:
        """Score rows, and add them up in the units of a round of ``2**log_rows`` rows."""

    def learned(self, regressions: list[Information], sums: Sums, run: Mapper) -> list[Information]:
        """Take the sums of a round in by one Newton step of each component."""

    def build(
        self, X: Float, targets: Float, weight: Float, settings: LearnerSettings, task: Task, run: Mapper
    ) -> tuple[Geometry, list[Component]]:
        """Make the views of the columns and the components when the budget is full."""


class CoreEngine:
    """The compiled core; threads share out blocks of rows."""

    rows: RowEngine | None = None

    def rows_held(self, X: Any) -> None:
        """Return None: the core reads what the processor holds."""

    def learned(self, regressions: list[Information], sums: Sums, run: Mapper) -> list[Information]:
        """Take the sums of a round in by one Newton step of each component."""
        pulls = sums.component_pulls()

        def learn(i: int) -> Information:
            return regressions[i].learned(sums.added_to(regressions[i].matrix, i), pulls[i])

        return in_order(run, learn, [float(each.rank) for each in regressions])

    def build(
        self, X: Float, targets: Float, weight: Float, settings: LearnerSettings, task: Task, run: Mapper
    ) -> tuple[Geometry, list[Component]]:
        """Make the views of the columns and the components when the budget is full."""
        return Rebuild(X, targets, weight, settings, task, HostFitting(RoundsComponent)).finish(run)

    def scores(self, learner: RowLearner, X: Any, run: Mapper) -> Float:
        """Score rows."""
        scorers = [component.scorer() for component in learner.components]

        def block(begin: int) -> Float:
            rows = dense_rows(X, begin, min(begin + ROUND_BLOCK, X.shape[0]))
            views = learner.views(rows)
            return learner.combination.scores(np.stack([score(views) for score in scorers], axis=1), learner.task)

        return joined(run(block, range(0, X.shape[0], ROUND_BLOCK)), learner.outputs)

    def sums(
        self, learner: RowLearner, X: Any, targets: Float, weight: Float, log_rows: int, run: Mapper
    ) -> tuple[Float, Sums]:
        """Score rows, and add them up."""
        shape = sums_shape(learner)
        free: deque[Sums] = deque()  # as many as threads: whole numbers may be added in any order

        @contextmanager
        def some_sums() -> Iterator[Sums]:
            try:
                sums = free.pop()
            except IndexError:
                sums = Sums.zeros(shape, log_rows)
            yield sums
            free.append(sums)

        begins = range(0, len(targets), ROUND_BLOCK)
        blocks = [_Block(learner, X, targets, weight, begin) for begin in begins]
        if len(blocks) < _FEW_BLOCKS:  # a thread without a block takes a component of one
            list(run(_Block.prepare, blocks))
            costs = [each.regression.rank**2 for each in newton_parts(learner)]
            shares = sorted(
                ((block, i) for block in blocks for i in range(len(costs))), key=lambda share: -costs[share[1]]
            )

            def add(share: tuple[_Block, int]) -> None:
                with some_sums() as sums:
                    share[0].add_component(share[1], sums)

            list(run(add, shares))

        def whole(block: _Block) -> Float:
            with some_sums() as sums:
                return block.add(sums)

        scores = joined(run(whole, blocks), learner.outputs)
        out = free.pop() if free else Sums.zeros(shape, log_rows)
        out.add(*free, run=run)
        return scores, out


class _Block:
    """Rows that are added up together."""

    def __init__(self, learner: RowLearner, X: Any, targets: Float, weight: Float, begin: int) -> None:
        self._learner, self._X, self._begin = learner, X, begin
        self._end = min(begin + ROUND_BLOCK, len(targets))
        self._targets, self._weight = targets[begin : self._end], weight[begin : self._end]
        self._views: Views | None = None
        self._scores: list[Float | None] = [None] * len(learner.components)

    def prepare(self) -> Views:
        """Make the views of the rows, unless they are there."""
        if self._views is None:
            self._views = self._learner.views(dense_rows(self._X, self._begin, self._end))
        return self._views

    def add_component(self, i: int, sums: Sums) -> Float:
        """Score the rows by one component, unless that has been done, and add what they say to it."""
        scores = self._scores[i]
        if scores is None:
            scores = self._scores[i] = np.empty(self._targets.shape)
            component = newton_parts(self._learner)[i]
            features, regression, views = component.features, component.regression, self.prepare()
            rows = (regression.means(), self._targets, self._weight, int(self._learner.task))
            to = (sums.log_rows, sums.information[i], *sums.pull(i))
            if isinstance(features, KernelFeatures):
                kernel_sums(features.core(), views[features.geometry], *rows, to, scores)
            else:
                component_sums(features(views), regression.rank, *rows, to, scores)
        return scores

    def add(self, sums: Sums) -> Float:
        """Score the rows, and add all that has not been added."""
        learner, y, weight, out = self._learner, self._targets, self._weight, np.empty(self._targets.shape)
        parts = [self.add_component(i, sums) for i in range(len(self._scores))]
        S, task = centred(np.stack(parts, axis=1), learner.task), int(learner.task)
        combination_sums(learner.combination.core, S, y, weight, task, (sums.log_rows, *sums.combination()), out)
        sums.rows += len(out)
        self._views, self._scores = None, []
        return out


def newton_parts(learner: RowLearner) -> list[RoundsComponent]:
    """Components of a learner in rounds, which are all regressions on features."""
    parts = [each for each in learner.components if isinstance(each, RoundsComponent)]
    assert len(parts) == len(learner.components)
    return parts


def sums_shape(learner: RowLearner) -> SumsShape:
    """Sizes of the sums of a learner."""
    ranks = tuple(each.regression.rank for each in newton_parts(learner))
    return SumsShape(ranks, learner.outputs, len(STACK_RIDGES))


def joined(parts: Iterable[Float], outputs: int) -> Float:
    """Rows of scores one after the other."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else np.vstack([np.empty((0, outputs)), *parts])

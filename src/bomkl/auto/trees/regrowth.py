"""Trees that a `RowLearner` grows anew from a sample of its stream, a part of the work with every row.

So no row has to wait for all of it. At which row counts trees are grown, ``rows/schedule.py`` decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from bomkl._core import Sample
from bomkl.auto.components.component import Component
from bomkl.auto.constants import SAMPLE, SAMPLE_OF_OTHERS
from bomkl.auto.features.coding import Codes
from bomkl.auto.features.geometry import Float
from bomkl.auto.parallel import Mapper
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import BOOSTED, FOREST, GROWING, Forest, Growing, is_tree

if TYPE_CHECKING:
    from bomkl.auto.rows.learned_pool import LearnedPool
    from bomkl.auto.rows.row_learner import RowLearner


class Growth:
    """Trees that are grown from a sample, all at once or in steps that may lie far apart; the result is the same.

    It is a function of the rows it is given, so a learner and its fork may share one: a step that one of them takes is
    a step for both.
    """

    def __init__(
        self, names: Iterable[str], codes: Codes, targets: Float, weight: Float, task: Task, seed: int
    ) -> None:
        self.outputs, self.share = targets.shape[1], 0.0  # of the work that is done
        self._parts = {name: GROWING[name](codes, targets, weight, task, seed % 2**64) for name in names}

    def __deepcopy__(self, memo: Any) -> None:
        return None  # a copy begins anew: two learners that go on at the same time must not share it

    def advance(self, share: float) -> None:
        """Go on until such a share of the work is done."""
        self.share = share
        for each in self._parts.values():
            each.advance(share)

    def finish(self, run: Mapper) -> dict[str, Component]:
        """Do all that is left, on several threads where `run` has them; components by their names."""
        return dict(zip(self._parts, run(Growing.finish, self._parts.values()), strict=True))


def first_sample(learner: LearnedPool, X: Float, y: Float, weight: Float) -> Sample | None:
    """Take the kept rows up; None where there are no trees."""
    if not learner.settings.has_trees:
        return None
    codes = learner.views(X)["codes"]
    return Sample.of(SAMPLE * learner.settings.budget, learner.settings.seed, codes, y, weight)


def grow_due_trees(learner: RowLearner, begun: int, run: Mapper) -> None:
    """Begin or go on growing, or put the new trees in their places, as is due now; growing begins at row `begun`."""
    if learner.sample is None or learner.seen < begun:
        return
    if learner.grow_from is None and learner.seen == begun:
        learner.grow_from = _rows_to_grow_from(learner, learner.sample, begun)
    if learner.grow_from is None:
        return
    if learner.seen == begun + learner.schedule.rows_to_grow:
        _take_grown_trees(learner, begun, run)
    else:
        work_on_trees(learner, learner.seen)


def _rows_to_grow_from(learner: RowLearner, sample: Sample, begun: int) -> tuple[Codes, Float, Float] | None:
    """Choose rows of the sample, all where boosted trees matter; None where growing trees is not worth the time."""
    codes, y, weight = sample.rows()
    if _boosted_trees_matter(learner):
        return codes, y, weight
    if not learner.schedule.always_grows(begun):
        return None
    most, random = SAMPLE_OF_OTHERS * learner.settings.budget, np.random.default_rng([learner.settings.seed, begun])
    some = np.sort(random.permutation(len(y))[:most])
    return codes[some], y[some], weight[some]


def _boosted_trees_matter(learner: RowLearner) -> bool:
    """Whether boosted trees have more than an even share of the influence, so that growing them more often pays."""
    influence = dict(zip([each.name for each in learner.components], learner.combination.influence(), strict=True))
    return bool(influence.get(BOOSTED, 0.0) * len(influence) > 1)


def work_on_trees(learner: RowLearner, seen: int) -> None:
    """Grow as much of the trees that are to take their places next as is due at a row count."""
    begun, within = learner.schedule.next_growth(learner.seen), learner.schedule.rows_to_grow
    share = (seen - begun + 1) / (within + 1)
    before = learner.growth
    if before is not None and before.outputs != learner.outputs and share < 2 * before.share:
        # A new class makes the work done so far useless. If it began anew at once, all of it would be done for every
        # row of a stream of new classes. Beginning anew when the share has doubled, it is done at most twice more.
        return
    _growth_from(learner, begun).advance(share)


def _growth_from(learner: RowLearner, begun: int) -> Growth:
    """Trees whose growing began at a row count.

    These are the boosted ones and, at the first growths, the forest: later its leaves know more rows.
    """
    if learner.growth is None or learner.growth.outputs != learner.outputs:
        assert learner.grow_from is not None
        early = begun <= learner.schedule.first_growths[-1]
        names = [each.name for each in learner.components if is_tree(each) and (early or each.name == BOOSTED)]
        codes, y, weight = learner.grow_from
        seed = learner.settings.seed + begun
        learner.growth = Growth(names, codes, learner.targets(y), weight, learner.task, seed)
    return learner.growth


def _take_grown_trees(learner: RowLearner, begun: int, run: Mapper) -> None:
    assert learner.sample is not None
    grown = _growth_from(learner, begun).finish(run)
    if FOREST in grown:  # so early that the sample has every row so far, in their order
        codes, y, weight = learner.sample.rows()
        forest = grown[FOREST]
        assert isinstance(forest, Forest)
        forest.learn(codes[begun:], learner.targets(y[begun:]), weight[begun:], begun)
    learner.components = [grown.get(each.name, each) for each in learner.components]
    learner.growth = learner.grow_from = None

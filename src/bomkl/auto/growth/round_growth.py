"""Growth around a learner in rounds, whose rows may be anywhere.

Growth learns from rows one after the other, and so in one place: the model's. Others score rows with the learner within
and send them in coded form, with what it said. Of a large round only the first rows take part, so that the work does
not grow with the number of machines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from bomkl.auto.constants import PRUNE_AT
from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.growth_learner import GrowthLearner
from bomkl.auto.learner import Learner, loadable
from bomkl.auto.parallel import Mapper
from bomkl.auto.rounds.round_learner import RoundLearner

MOST_ROWS = 131_072  # of a round that growth learns from


@loadable
class RoundGrowthLearner(GrowthLearner):
    """Trees and a network around a learner in rounds."""

    kind = "round growth"
    merges = True
    update = "rounds"

    def __init__(self, inner: Learner, columns: int) -> None:
        super().__init__(inner, columns)
        # rows from elsewhere come after four budgets, and are coded there
        self.pace = replace(self.pace, coded=min(self.pace.coded, PRUNE_AT * self.settings.budget))

    @property
    def rounds(self) -> RoundLearner:
        """The learner within."""
        return cast(RoundLearner, self.inner)

    def after_row(self, X: Float, y: Float) -> None:
        """Return None: a row may end a round."""

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        parts, begin = [np.empty((0, self.outputs))], 0
        while begin < len(y):
            end = min(begin + self.rounds.rows_left(), len(y))
            taken = begin + min(max(self.rounds.round_start + MOST_ROWS - self.seen, 0), end - begin)
            said = self.inner.score_and_learn(X[begin:end], y[begin:end], weight[begin:end], run)
            parts.append(self.take(X[begin:taken], y[begin:taken], weight[begin:taken], said[: taken - begin]))
            if taken < end:
                parts.append(self.scored(X[taken:end], said[taken - begin :], run))
            begin = end
        return np.vstack(parts)

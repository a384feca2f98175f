"""What learns row by row for a learner: a device with these methods, or, without one, the compiled core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from bomkl.auto.features.geometry import Float
from bomkl.auto.rows.fitting import Fitting

if TYPE_CHECKING:
    from bomkl.auto.rows.row_learner import RowLearner


class RowEngine(Protocol):
    """What learns the regressions of a learner on a device; trees and the combination stay with the processor."""

    rows_at_once: int

    def fitting(self, budget: int) -> Fitting:
        """Return what fits components to kept rows."""

    def learn(self, learner: RowLearner, X: Float, targets: Float, weight: Float) -> Iterator[tuple[int, int, Float]]:
        """Score rows, each just before the regressions learn from it; yields (n, m, outputs) for a few at a time."""

    def scores(self, learner: RowLearner, X: Float) -> Float:
        """Scores (n, m, outputs) of rows by what the regressions know now."""

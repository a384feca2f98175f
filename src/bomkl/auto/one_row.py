"""Single rows: a copy of the learner learns from the row, and takes its place in one step.

Copies are cheap where arrays are shared until they change. Very wide rows change few of very many weights, in place:
the learner plans the calls of the core that do so, and nothing changes before all of the step is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bomkl._core import in_one_step
from bomkl.auto.geometry import Float

Call = tuple[Any, tuple[Any, ...]]  # a function that is not written in Python, and its arguments


@dataclass(frozen=True)
class Step:
    """What learning from one row comes to."""

    scores: float | Float  # of the row before it is learned from; a number where there is one output
    after: Any  # the learner that has learned from it, once the calls are made
    calls: list[Call]

    @property
    def row_of_scores(self) -> Float:
        """Scores as an array of shape (1, outputs)."""
        return np.reshape(self.scores, (1, -1))


def scores_of_one(row: Float) -> float | Float:
    """Scores of one row, (outputs,), as callers of `learn_one` get them."""
    return float(row[0]) if len(row) == 1 else row


def learn_in_one_step(
    model: Any, x: Any, y: float, noting: Callable[[float], dict[str, Any]] | None = None
) -> float | Float | None:
    """Score one row, then learn from it; None, with nothing changed, where it has to go the long way.

    What has learned takes the place of `_learner` of the model. A mistake is counted in `_mistakes`, if there is one.
    `noting` tells what else changes in the model, given the score.
    """
    before = model.__dict__
    step = before["_learner"].plan_one(x, y)
    if step is None:
        return None
    updates = {"_learner": step.after}
    if "_mistakes" in before:
        updates["_mistakes"] = before["_mistakes"] + _is_mistake(step.scores, y)
    if noting is not None:
        updates |= noting(float(step.scores))
    if not step.calls:
        model.__dict__ = before | updates  # one step; whoever reads what was there keeps it
    elif not in_one_step(before["_learner"], step.calls, before, updates):
        return None
    scores: float | Float = step.scores
    return scores


def _is_mistake(scores: float | Float, y: float) -> bool:
    if isinstance(scores, float):
        return (scores if y > 0.5 else -scores) <= 0
    return int(np.argmax(scores)) != int(y)

"""Single rows: the core takes them from their values to their scores, and learns from them, in one step.

A learner that is made of others plans the step first: their scores, what it is itself afterwards, and the calls of the
core that change what the others have. Nothing changes before all of it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bomkl._core import OneRow, in_one_step
from bomkl.auto.component import NewtonComponent
from bomkl.auto.constants import LARGEST, SHARE
from bomkl.auto.curved import CurvedComponent
from bomkl.auto.features import KernelFeatures, LinearFeatures
from bomkl.auto.geometry import CLIP, FAR, VIEWS, Float, view_width
from bomkl.auto.newton import NewtonRegression
from bomkl.auto.trees import is_tree


def one_row_of(learner: Any) -> OneRow | None:
    """Prepare a learner; None where it has parts that the core does not know."""
    if learner.geometry is None:
        return None
    views = []
    for component in learner.components:
        if is_tree(component):
            views.append(-1)
            continue
        if type(component) not in (NewtonComponent, CurvedComponent) or not isinstance(
            component.regression, NewtonRegression
        ):
            return None
        if type(component.features) is KernelFeatures and component.features.geometry in VIEWS:
            views.append(VIEWS.index(component.features.geometry))
        elif type(component.features) is LinearFeatures:
            views.append(-1)
        else:
            return None
    geometry = learner.geometry
    standard, normal = (geometry.relevance[name].astype(np.float32) for name in ("standard", "normal"))
    leading = view_width("leading", len(geometry.mean))
    return OneRow(
        learner,
        standard,
        normal,
        views,
        clip=CLIP,
        far=FAR,
        largest=LARGEST,
        leading=leading,
        share=SHARE,
        outputs=learner.outputs,
        task=int(learner.task),
        forget=learner.settings.forget,
        error_rows=learner.error_rows,
        places=np.array(learner.places(), dtype=np.int64),
    )


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
    learner: Any, x: Any, y: float, holder: dict[str, Any], noting: Callable[[float | Float], Call] | None = None
) -> float | Float | None:
    """Score one row, then learn from it; None, with nothing changed, where it has to go the long way.

    What has learned takes the place of ``holder["_learner"]``. A mistake is counted in ``holder["_mistakes"]``, if
    there is one. `noting` tells what else to call, given the scores.
    """
    step = learner.plan_one(x, y)
    if step is None:
        return None
    calls = step.calls if noting is None else [*step.calls, noting(step.scores)]
    updates = {"_learner": step.after}
    if "_mistakes" in holder:
        updates["_mistakes"] = holder["_mistakes"] + _is_mistake(step.scores, y)
    return step.scores if in_one_step(learner, calls, holder, updates) else None


def _is_mistake(scores: float | Float, y: float) -> bool:
    if isinstance(scores, float):
        return (scores if y > 0.5 else -scores) <= 0
    return int(np.argmax(scores)) != int(y)

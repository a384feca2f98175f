"""What the trees and the network that grow with the stream add to a prediction, and how much columns matter to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.growth_learner import NETWORK, TREES, GrowthLearner
from bomkl.auto.learner import Learner
from bomkl.auto.rows.arrays import dense_rows
from bomkl.auto.rows.explain import Explanation, parts_of_columns
from bomkl.auto.task import Task

_NAMES = {TREES: "growing trees", NETWORK: "network"}
_ROWS = 64  # stored rows in which columns are changed


def explain_learner(
    learner: Learner, x: Any, sign: float, columns: Sequence[Any], output: int | None = None
) -> Explanation:
    """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest.

    What trees and the network add is listed beside the kernels. They and the learner within are combined by weights,
    by which the parts of the latter are multiplied here.
    """
    if not isinstance(learner, GrowthLearner) or not learner.awake:
        return learner.leader.explain(x, sign, columns, output)
    assert learner.core is not None
    assert learner.middle is not None
    scores, several = sign * learner.scores(x)[0], learner.task is Task.MULTICLASS
    if several:
        output = int(np.argmax(scores)) if output is None else output
    place = output or 0
    margin = float(scores[place] - (scores.mean() if several else 0.0))
    within = learner.leader.explain(x, sign, [], output)
    share, weights = learner.core.share, learner.core.weights
    inputs = learner.core.inputs(dense_rows(x, 0, 1), learner.inner.scores(x))[0, :, place]
    slope = share * weights[0] + 1 - share
    kernels = {name: slope * value for name, value in within.kernels.items()}
    for number, name in _NAMES.items():
        if learner.switches[number].is_in:
            kernels[name] = float(sign * share * weights[number] * inputs[number] * learner.scale[1])
    return replace(
        within,
        margin=margin,
        kernels=kernels,
        rows=slope * within.rows,
        remainder=margin - sum(kernels.values()),
        columns=parts_of_columns(learner, learner.middle, dense_rows(x, 0, 1)[0], sign, place, columns),
    )


def relevance_shares(learner: Learner) -> Float | None:
    """Tell how much each column matters, in shares of 1; None where it is not known yet.

    To trees and the network a column matters by how much they change where it has its mean instead, in stored rows.
    """
    shares = learner.leader.relevance_shares()
    if shares is None or not isinstance(learner, GrowthLearner) or not learner.awake:
        return shares
    core, middle = learner.core, learner.middle
    assert core is not None
    assert middle is not None
    rows = np.ascontiguousarray(learner.leader.stored_rows()[:_ROWS])
    said = np.zeros((len(rows), learner.outputs))
    usual = core.inputs(rows, said)
    changes = np.zeros((len(_NAMES), learner.columns))
    for column in range(learner.columns):
        changed = rows.copy()
        changed[:, column] = middle[column]
        difference = np.abs(core.inputs(changed, said) - usual).mean(axis=(0, 2))
        changes[:, column] = difference[list(_NAMES)]
    sizes = np.abs(core.weights[:3])
    parts = core.share * sizes / max(float(sizes.sum()), 1e-300)
    totals = changes.sum(axis=1, keepdims=True)
    grown = changes / np.where(totals > 0, totals, 1.0)
    total = (1 - core.share + parts[0]) * shares + parts[list(_NAMES)] @ grown
    return np.asarray(total / total.sum())

"""What columns, kernels and simple models added to a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bomkl._support.limits import WIDEST
from bomkl.auto.rows.arrays import dense_rows
from bomkl.auto.rows.explain import Explanation, explained_margin, parts_of_columns
from bomkl.auto.task import Task

if TYPE_CHECKING:
    from bomkl.auto.simple.simple_learner import SimpleLearner


def explain_simple(
    learner: SimpleLearner, x: Any, sign: float, columns: Sequence[Any], output: int | None
) -> Explanation:
    """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest."""
    output, margin = explained_margin(learner, x, sign, output)
    assert learner.combination is not None
    slope, slopes = learner.split(learner.combination.slopes())
    row = dense_rows(x, 0, 1)
    parts = np.concatenate([each.scores(row)[0] for each in learner.models])
    own = parts[:, output] - parts.mean(axis=1) if learner.task is Task.MULTICLASS else parts[:, 0]
    if learner.rests:
        leader = learner.inner.leader
        within = Explanation(margin, dict.fromkeys(leader.names, 0.0), np.zeros(len(leader.stored_rows())), margin, {})
    else:
        within = learner.inner.leader.explain(x, sign, [], output)
    kernels = {name: slope * value for name, value in within.kernels.items()}
    names = [name for each in learner.models for name in each.names]
    kernels |= {name: float(sign * value) for name, value in zip(names, slopes * own, strict=True)}
    means = next((each.mean for each in learner.models if hasattr(each, "mean")), np.zeros(learner.columns))
    by_column = parts_of_columns(learner, means, row[0], sign, output, columns) if learner.columns <= WIDEST else {}
    return replace(
        within,
        margin=margin,
        kernels=kernels,
        rows=slope * within.rows,
        remainder=margin - sum(kernels.values()),
        columns=by_column,
    )

"""Which stored rows and which kernels made a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bomkl.auto.component import NewtonComponent
from bomkl.auto.features import KernelFeatures
from bomkl.auto.geometry import Float
from bomkl.auto.rows import RowLearner, dense_rows
from bomkl.auto.task import Task
from bomkl.auto.wide import WideLearner


@dataclass(frozen=True)
class Explanation:
    """A prediction taken apart.

    Attributes
    ----------
    margin : float
        The score that is explained: log odds, of several classes the centred score of the likeliest, or the prediction.
    kernels : dict of str to float
        What each component added to it, to first order.
    rows : ndarray of shape (n_rows,)
        What each of `support_vectors_` added to it, over all kernels.
    remainder : float
        What is due to constants and to the combination not being linear.
    """

    margin: float
    kernels: dict[str, float]
    rows: Float
    remainder: float

    def largest_rows(self, n: int = 5) -> list[tuple[int, float]]:
        """Return the numbers of the n stored rows that mattered most and what they added.

        Parameters
        ----------
        n : int, default=5
            How many.

        Returns
        -------
        list of (int, float)
        """
        order = np.argsort(-np.abs(self.rows), kind="stable")[:n]
        return [(int(i), float(self.rows[i])) for i in order]


def explain_row(learner: RowLearner | WideLearner, x: Any, sign: float, output: int | None = None) -> Explanation:
    """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest."""
    scores = sign * learner.scores(x)[0]
    rows = np.zeros(len(learner.stored_rows()))
    if output is None:
        output = int(np.argmax(scores)) if learner.task is Task.MULTICLASS else 0
    margin = float(scores[output] - scores.mean()) if learner.task is Task.MULTICLASS else float(scores[0])
    kernels = dict.fromkeys(learner.names, 0.0)
    if isinstance(learner, WideLearner):
        return _explain_wide(learner, x, sign, output, margin)
    if learner.geometry is None:
        return Explanation(margin, kernels, rows, margin)
    slopes = sign * learner.combination.slopes() * learner.spread
    views = learner.views(dense_rows(x, 0, 1))
    for component, slope in zip(learner.components, slopes, strict=True):
        assert isinstance(component, NewtonComponent)
        features, rank = component.features, component.regression.rank
        means = component.regression.means()[:, :rank]
        if learner.task is Task.MULTICLASS:
            means = means - means.mean(axis=0)
        w = means[output]
        if isinstance(features, KernelFeatures):
            each = slope * features.values(views)[0] * (features.whitening() @ w[:-1])
            rows[features.support] += each
            kernels[component.name] = float(each.sum())
        else:
            kernels[component.name] = float(slope * (features(views)[0, : rank - 1] @ w[:-1]))
    return Explanation(margin, kernels, rows, margin - sum(kernels.values()))


def _explain_wide(learner: WideLearner, x: Any, sign: float, output: int, margin: float) -> Explanation:
    """Take a score apart: stored rows are those of the sketch, and the linear components add what columns add."""
    kernels = dict.fromkeys(learner.names, 0.0)
    if learner.columns is None:
        return Explanation(margin, kernels, np.empty(0), margin)
    row, slopes = learner.scaled(x), learner.combination.slopes()
    part = explain_row(learner.kernels, learner.sketch(row), sign, output)
    kernels |= {name: float(slopes[0] * value) for name, value in part.kernels.items()}
    linear = learner.linear.scores(row)[0] - learner.linear.bias
    if learner.task is Task.MULTICLASS:
        linear = linear - linear.mean(axis=1, keepdims=True)
    for name, value in zip(learner.names[len(part.kernels) :], linear[:, output] * slopes[1:], strict=True):
        kernels[name] = float(sign * value * learner.spread)
    return Explanation(margin, kernels, slopes[0] * part.rows, margin - sum(kernels.values()))

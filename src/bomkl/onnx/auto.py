"""Scores of the estimators of `bomkl.auto`, as operators.

The features of a component and its weights are one linear map of kernel values, so only their product is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import LARGEST, WIDEST
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import NewtonComponent
from bomkl.auto.components.curved import CurvedComponent
from bomkl.auto.drift.adaptive import AdaptiveLearner
from bomkl.auto.drift.fast_experts import FARTHEST, SLOW
from bomkl.auto.features.features import KernelFeatures
from bomkl.auto.features.pool_kernels import POOL_KERNELS
from bomkl.auto.growth.growth_learner import GrowthLearner
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.hashed.identifiers import IdentifierLearner
from bomkl.auto.learner import Learner
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.simple.class_means import ClassMeans
from bomkl.auto.simple.simple_learner import SimpleLearner
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import BoostedTrees, Forest
from bomkl.kernels import Gaussian
from bomkl.onnx.combining import combined, means, scores_of_means, stacked
from bomkl.onnx.graph import Graph, Result
from bomkl.onnx.growth import growth_scores
from bomkl.onnx.kernels import StoredRows
from bomkl.onnx.nearest import nearest_scores
from bomkl.onnx.simple import class_means_scores, dense_linear_scores
from bomkl.onnx.sums import inner_products
from bomkl.onnx.trees import boosted_scores, forest_scores
from bomkl.onnx.views import Views

_GROUPS, _NEAREST = 3, 3  # as in cpp/auto/drift/drift_experts.hpp
_LOST = 8.0  # squared widths of a Gaussian from the origin: single precision keeps 1e-6 of a squared width


def auto_scores(graph: Graph, estimator: Any) -> Result:
    """Add the scores of a fitted estimator: log odds, the log probability of each class, or the prediction."""
    if estimator.n_features_in_ > WIDEST:
        raise ValueError(
            f"to_onnx exports AutoMKL models of at most {WIDEST} columns, because ONNX Runtime takes dense rows only. "
            f"Got a model of {estimator.n_features_in_} columns. Use bomkl.modelfile to save it."
        )
    rows = graph.rows.clip(-LARGEST, LARGEST)
    learner = estimator._learner
    scores = _learner_scores(graph, rows, learner)
    if learner.task.is_regression:
        return scores
    if learner.task is Task.MULTICLASS:  # the learner numbers labels as they came
        return scores.columns(np.argsort(estimator._labels))
    return scores * estimator._external(np.ones((1, 1)))


def _learner_scores(graph: Graph, rows: Result, learner: Learner) -> Result:
    if learner.kind not in _FORMS:
        raise ValueError(f"to_onnx has no form of the learner {learner.kind!r}. Use bomkl.modelfile to save the model.")
    return _FORMS[learner.kind](graph, rows, learner)


def _leader_scores(graph: Graph, rows: Result, learner: Learner) -> Result:
    return _scores(graph, rows, cast(RowLearner, learner.leader))


def _scores(graph: Graph, rows: Result, learner: RowLearner) -> Result:
    if learner.geometry is None:
        base = graph.repeated(learner.prior_score())
        return base if learner.drift is None else _with_experts(graph, base, learner, [base] * (_GROUPS + _NEAREST))
    views = Views(rows, learner.geometry)
    parts = [_component_scores(graph, views, component) for component in learner.components]
    base = _in_units(combined(stacked(parts), learner.combination, learner.task), learner)
    if learner.drift is None:
        return base
    resting = learner.drift.resting
    groups = [
        base if resting or not group[0] else _group_scores(graph, views, learner, *group[:3])
        for group in learner.drift.groups
    ]
    nearest = [base] * _NEAREST
    if learner.drift.awake and (stored := learner.drift.state()["nearest"]) is not None:
        nearest = nearest_scores(graph, views["standard"], stored, base, learner.outputs, learner.task)
    return _with_experts(graph, base, learner, [*groups, *nearest])


def _in_units(scores: Result, learner: RowLearner) -> Result:
    return scores * learner.spread + learner.centre if learner.task.is_regression else scores


def _group_scores(
    graph: Graph, views: Views, learner: RowLearner, places: list[int], regressions: list[Any], weights: Any
) -> Result:
    """Scores of regressions on the first features of some components, combined."""
    components: list[Any] = learner.components
    parts = [
        _linear_scores(graph, views, components[place].features, regression)
        for place, regression in zip(places, regressions, strict=True)
    ]
    return _in_units(combined(stacked(parts), Combination(weights), learner.task), learner)


def _with_experts(graph: Graph, base: Result, learner: RowLearner, experts: list[Result]) -> Result:
    """Join experts that follow drift to a model; recent labels or targets are a constant."""
    assert learner.drift is not None
    recent = _recent(graph, base, learner.drift.label_scores())
    mixture = learner.drift.state()["mixture"]
    stack = Combination(learner.drift.stack)
    return _relative([base, *experts, *recent], recent, learner.drift.unit, learner.task, stack, mixture)


def _recent(graph: Graph, base: Result, known: NDArray[np.float64]) -> list[Result]:
    """Return what recent labels or targets say, a constant; before the first of them, what the base says."""
    return [base if np.isnan(each).any() else graph.repeated(each) for each in known]


def _relative(
    parts: list[Result],
    recent: list[Result],
    least: float,
    task: Task,
    combination: Combination,
    mixture: NDArray[np.float64] | None = None,
) -> Result:
    """Combine parts, the first of which is the base; numbers relative to it, in units of its errors."""
    S, origin = stacked(parts), parts[0].unsqueeze()
    if not task.is_regression:
        return combined(_with_mixture(S, mixture, task), combination, task)
    farthest = (stacked(recent) - origin).add("Abs").largest(axis=1, keepdims=0)
    unit = (farthest / FARTHEST).at_least(least)
    relative = ((S - origin) / unit.unsqueeze()).clip(-FARTHEST, FARTHEST)
    return parts[0] + combined(_with_mixture(relative, mixture, task), combination, task) * unit


def _with_mixture(S: Result, weights: NDArray[np.float64] | None, task: Task) -> Result:
    """Scores of parts and, where there are weights, of their mixture."""
    if weights is None:
        return S
    return S.add("Concat", scores_of_means(weights[None] @ means(S, task), task), axis=1)


def _component_scores(graph: Graph, views: Views, component: Any) -> Result:
    """Scores of one component, (rows, outputs); the last of its weights is that of the constant."""
    if isinstance(component, BoostedTrees):
        return boosted_scores(graph, views["codes"], component)
    if isinstance(component, Forest):
        return forest_scores(graph, views["codes"], component)
    if isinstance(component, CurvedComponent):
        return _straightened(_component_scores(graph, views, component.inner), component.curve)
    if not isinstance(component, NewtonComponent):
        raise TypeError(f"The component {component.name!r} cannot be exported to ONNX.")
    return _linear_scores(graph, views, component.features, component.regression)


def _linear_scores(graph: Graph, views: Views, features: Any, regression: Any) -> Result:
    """Scores of a regression on all features of a component, or on the first."""
    means = regression.means()[:, : regression.rank]
    weights, constant = means[:, :-1].T, means[:, -1]
    if isinstance(features, KernelFeatures):
        columns = _kernel(graph, views[features.geometry], features)
        weights = features.whitening()[:, : len(weights)].astype(np.float64) @ weights
    else:
        names = features.geometries()
        columns = graph.add("Concat", *(views[name] for name in names), axis=1)
        weights = np.pad(weights, ((0, features.rank - len(weights)), (0, 0)))
    return columns @ weights + constant


def _straightened(scores: Result, curve: NDArray[np.float64]) -> Result:
    """Undo the curve of targets; in double precision, runtimes have the exponential but no hyperbolic sine."""
    start, unit, mean, deviation, low, high = curve.tolist()
    up = (scores.clip(low, high) * deviation + mean).add("Exp")
    return (up - 1.0 / up) * (unit / 2) + start


def _kernel(graph: Graph, rows: Result, features: KernelFeatures) -> Result:
    landmarks = features.landmark_rows()
    stored = StoredRows(graph, rows, landmarks)
    kernel = POOL_KERNELS[features.kernel].kernel(features.scale)
    if isinstance(kernel, Gaussian) and features.scale * float(features.norms.max()) > _LOST:
        return _rough_gaussians(stored, rows, features)
    return stored.kernel(kernel, np.arange(len(landmarks)))


def _rough_gaussians(stored: StoredRows, rows: Result, features: KernelFeatures) -> Result:
    """Gaussians of distances that single precision left few digits of, rounded as `pool_kernels.hpp` does."""
    landmarks = features.landmark_rows()
    products = inner_products(rows, landmarks, np.float32)
    length = inner_products((rows * rows).rounded(), np.ones((1, landmarks.shape[1])), np.float32)
    lengths = (length + features.norms[: len(landmarks)]).rounded()
    distance = (lengths - products * 2.0).rounded()
    return stored.exp(distance.at_least(0.0), -float(np.float32(features.scale)))


def _adaptive_scores(graph: Graph, rows: Result, learner: AdaptiveLearner) -> Result:
    """Mix the predictive means of several learners by their weights, then join the experts of the last rows.

    What recent labels or targets say is what they say now: a constant.
    """
    task, fast = learner.task, learner.fast
    total = graph.repeated(np.zeros(learner.outputs))
    each = [_leader_scores(graph, rows, model) for model in learner.models]
    for weight, scores in zip(learner.weights(), each, strict=True):
        total += (scores.add("Exp") if task is Task.MULTICLASS else means(scores, task)) * weight
    base = scores_of_means(total, task)
    parts = [base, *each[:SLOW], *(_leader_scores(graph, rows, twin) for twin in fast.twins)]
    recent = _recent(graph, base, fast.recent_scores(np.full(learner.outputs, np.nan)))
    return _relative([*parts, *recent], recent, learner.unit(), task, fast.combination)


def _simple_scores(graph: Graph, rows: Result, learner: SimpleLearner) -> Result:
    """Combine the learner within the layer and the simple models."""
    if learner.combination is None:
        return _learner_scores(graph, rows, learner.inner)
    parts = [] if learner.rests else [_learner_scores(graph, rows, learner.inner)]
    for model in learner.models:
        if isinstance(model, ClassMeans):
            parts += class_means_scores(rows, model)
        else:
            parts += dense_linear_scores(rows, model)
    return combined(stacked(parts), learner.combination, learner.task)


def _growth_scores(graph: Graph, rows: Result, learner: GrowthLearner) -> Result:
    return growth_scores(graph, rows, learner, _learner_scores(graph, rows, learner.inner))


def _identifier_scores(graph: Graph, rows: Result, learner: IdentifierLearner) -> Result:
    return _learner_scores(graph, rows, learner.inner)


def _hashed_scores(graph: Graph, rows: Result, learner: HashedLearner) -> Result:
    raise ValueError(
        "to_onnx has no form of hashed values, and this model learns from those of missing values or of whole numbers "
        "that act like categories. Use bomkl.modelfile to save it."
    )


_FORMS: dict[str, Callable[[Graph, Result, Any], Result]] = {
    "rows": _leader_scores,
    "rounds": _leader_scores,
    "adaptive": _adaptive_scores,
    "challenged": _leader_scores,
    "simple": _simple_scores,
    "growth": _growth_scores,
    "identifiers": _identifier_scores,
    "hashed": _hashed_scores,
    "round growth": _growth_scores,
}

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
from bomkl.auto.learner import Learner
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.simple.class_means import ClassMeans
from bomkl.auto.simple.simple_learner import SimpleLearner
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import BoostedTrees, Forest
from bomkl.kernels import Gaussian
from bomkl.onnx.graph import Graph
from bomkl.onnx.growth import growth_scores
from bomkl.onnx.kernels import StoredRows
from bomkl.onnx.nearest import nearest_scores
from bomkl.onnx.simple import class_means_scores, dense_linear_scores
from bomkl.onnx.sums import inner_products
from bomkl.onnx.trees import boosted_scores, forest_scores
from bomkl.onnx.views import Views

# As in cpp/auto/components/combination.hpp and cpp/auto/components/losses.hpp.
_STACK_CLIP, _SCORE_CLIP, _TINY = 6.0, 15.0, 1e-12
_GROUPS, _NEAREST = 3, 3  # as in cpp/auto/drift/drift_experts.hpp
_LOST = 8.0  # squared widths of a Gaussian from the origin: single precision keeps 1e-6 of a squared width


def auto_scores(graph: Graph, estimator: Any) -> str:
    """Add the scores of a fitted estimator: log odds, the log probability of each class, or the prediction."""
    if estimator.n_features_in_ > WIDEST:
        raise ValueError(
            f"to_onnx exports AutoMKL models of at most {WIDEST} columns, because ONNX Runtime takes dense rows only. "
            f"Got a model of {estimator.n_features_in_} columns. Use bomkl.modelfile to save it."
        )
    rows = graph.clip(graph.rows, -LARGEST, LARGEST)
    learner = estimator._learner
    if learner.kind not in _FORMS:
        raise ValueError(f"to_onnx has no form of the learner {learner.kind!r}. Use bomkl.modelfile to save the model.")
    scores = _FORMS[learner.kind](graph, rows, learner)
    if learner.task.is_regression:
        return scores
    if learner.task is Task.MULTICLASS:  # the learner numbers labels as they came
        return graph.columns(scores, np.argsort(estimator._labels))
    return graph.add("Mul", scores, graph.number(estimator._external(np.ones((1, 1)))))


def _leader_scores(graph: Graph, rows: str, learner: Learner) -> str:
    return _scores(graph, rows, cast(RowLearner, learner.leader))


def _scores(graph: Graph, rows: str, learner: RowLearner) -> str:
    if learner.geometry is None:
        base = graph.repeated(learner.prior_score())
        return base if learner.drift is None else _with_experts(graph, base, learner, [base] * (_GROUPS + _NEAREST))
    views = Views(graph, rows, learner.geometry)
    parts = [_component_scores(graph, views, component) for component in learner.components]
    base = _in_units(graph, _combined(graph, _stacked(graph, parts), learner.combination, learner.task), learner)
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


def _in_units(graph: Graph, scores: str, learner: RowLearner) -> str:
    """Scores in units of the targets."""
    if not learner.task.is_regression:
        return scores
    return graph.plus(graph.add("Mul", scores, graph.number(learner.spread)), learner.centre)


def _group_scores(
    graph: Graph, views: Views, learner: RowLearner, places: list[int], regressions: list[Any], weights: Any
) -> str:
    """Scores of regressions on the first features of some components, combined."""
    components: list[Any] = learner.components
    parts = [
        _linear_scores(graph, views, components[place].features, regression)
        for place, regression in zip(places, regressions, strict=True)
    ]
    return _in_units(graph, _combined(graph, _stacked(graph, parts), Combination(weights), learner.task), learner)


def _with_experts(graph: Graph, base: str, learner: RowLearner, experts: list[str]) -> str:
    """Join experts that follow drift to a model; recent labels or targets are a constant."""
    assert learner.drift is not None
    known = learner.drift.label_scores()
    recent = [base if np.isnan(each).any() else graph.repeated(each) for each in known]
    mixture = learner.drift.state()["mixture"]
    stack = Combination(learner.drift.stack)
    return _relative(graph, [base, *experts, *recent], recent, learner.drift.unit, learner.task, stack, mixture)


def _relative(
    graph: Graph,
    parts: list[str],
    recent: list[str],
    least: float,
    task: Task,
    combination: Combination,
    mixture: NDArray[np.float64] | None = None,
) -> str:
    """Combine parts, the first of which is the base; numbers relative to it, in units of its errors."""
    stacked = _stacked(graph, parts)
    if not task.is_regression:
        return _combined(graph, _with_mixture(graph, stacked, mixture, task), combination, task)
    origin = graph.add("Unsqueeze", parts[0], graph.integers([1]))
    far = graph.add("Abs", graph.add("Sub", _stacked(graph, recent), origin))
    farthest = graph.add("Div", graph.add("ReduceMax", far, axes=[1], keepdims=0), graph.number(FARTHEST))
    unit = graph.add("Max", farthest, graph.number(least))
    relative = graph.add("Div", graph.add("Sub", stacked, origin), graph.add("Unsqueeze", unit, graph.integers([1])))
    near = _with_mixture(graph, graph.clip(relative, -FARTHEST, FARTHEST), mixture, task)
    return graph.add("Add", parts[0], graph.add("Mul", _combined(graph, near, combination, task), unit))


def _with_mixture(graph: Graph, S: str, weights: NDArray[np.float64] | None, task: Task) -> str:
    """Scores of parts and, where there are weights, of their mixture."""
    if weights is None:
        return S
    mean = graph.add("MatMul", graph.number(weights[None]), _means(graph, S, task))
    return graph.add("Concat", S, _scores_of_means(graph, mean, task), axis=1)


def _component_scores(graph: Graph, views: Views, component: Any) -> str:
    """Scores of one component, (rows, outputs); the last of its weights is that of the constant."""
    if isinstance(component, BoostedTrees):
        return boosted_scores(graph, views["codes"], component)
    if isinstance(component, Forest):
        return forest_scores(graph, views["codes"], component)
    if isinstance(component, CurvedComponent):
        return _straightened(graph, _component_scores(graph, views, component.inner), component.curve)
    if not isinstance(component, NewtonComponent):
        raise TypeError(f"The component {component.name!r} cannot be exported to ONNX.")
    return _linear_scores(graph, views, component.features, component.regression)


def _linear_scores(graph: Graph, views: Views, features: Any, regression: Any) -> str:
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
    return graph.add("Add", graph.add("MatMul", columns, graph.number(weights)), graph.number(constant))


def _straightened(graph: Graph, scores: str, curve: NDArray[np.float64]) -> str:
    """Undo the curve of targets; in double precision, runtimes have the exponential but no hyperbolic sine."""
    start, unit, mean, deviation, low, high = curve.tolist()
    bent = graph.add("Mul", graph.clip(scores, low, high), graph.number(deviation))
    up = graph.add("Exp", graph.add("Add", bent, graph.number(mean)))
    sinh = graph.add("Sub", up, graph.add("Div", graph.number(1.0), up))
    return graph.add("Add", graph.add("Mul", sinh, graph.number(unit / 2)), graph.number(start))


def _kernel(graph: Graph, rows: str, features: KernelFeatures) -> str:
    """Kernel values at the landmarks."""
    landmarks = features.landmark_rows()
    stored = StoredRows(graph, rows, landmarks)
    kernel = POOL_KERNELS[features.kernel].kernel(features.scale)
    if isinstance(kernel, Gaussian) and features.scale * float(features.norms.max()) > _LOST:
        return _rough_gaussians(graph, stored, rows, features)
    return stored.kernel(kernel, np.arange(len(landmarks)))


def _rough_gaussians(graph: Graph, stored: StoredRows, rows: str, features: KernelFeatures) -> str:
    """Gaussians of distances that single precision left few digits of, rounded as `pool_kernels.hpp` does."""
    landmarks = features.landmark_rows()
    products = inner_products(graph, rows, landmarks, np.float32)
    squares = graph.rounded(graph.add("Mul", rows, rows))
    length = inner_products(graph, squares, np.ones((1, landmarks.shape[1])), np.float32)
    lengths = graph.rounded(graph.add("Add", length, graph.number(features.norms[: len(landmarks)])))
    distance = graph.rounded(graph.add("Sub", lengths, graph.add("Mul", products, graph.number(2.0))))
    above = graph.add("Max", distance, graph.number(0.0))
    return stored.exp(above, -float(np.float32(features.scale)))


def _combined(graph: Graph, S: str, parts: Combination, task: Task) -> str:
    """Combine component scores (rows, components, outputs) to (rows, outputs)."""
    if task is Task.MULTICLASS:
        S = graph.add("Sub", S, graph.add("ReduceMean", S, axes=[2], keepdims=1))
    stacks = graph.add("MatMul", graph.number(parts.stack_w), graph.clip(S, -_STACK_CLIP, _STACK_CLIP))
    mixture = graph.add("MatMul", graph.number(parts.weights[None]), _means(graph, S, task))
    candidates = graph.add("Concat", stacks, _scores_of_means(graph, mixture, task), axis=1)
    final = graph.add("MatMul", graph.number(parts.final_shares()[None]), _means(graph, candidates, task))
    return graph.add("Squeeze", _scores_of_means(graph, final, task), graph.integers([1]))


def _means(graph: Graph, scores: str, task: Task) -> str:
    """Predictive means: probabilities of the classes on the last axis, or the prediction itself."""
    if task is Task.BINARY:
        return graph.add("Sigmoid", graph.clip(scores, -_SCORE_CLIP, _SCORE_CLIP))
    if task is Task.MULTICLASS:
        relative = graph.add("Sub", scores, graph.add("ReduceMax", scores, axes=[-1], keepdims=1))
        return graph.add("Softmax", graph.add("Max", relative, graph.number(-_SCORE_CLIP)), axis=-1)
    return scores


def _scores_of_means(graph: Graph, means: str, task: Task) -> str:
    """Log odds, log probabilities, or the prediction itself."""
    if task is Task.BINARY:
        against = graph.add("Sub", graph.number(1.0), means)
        return graph.add("Log", graph.add("Div", _at_least_tiny(graph, means), _at_least_tiny(graph, against)))
    return graph.add("Log", _at_least_tiny(graph, means)) if task is Task.MULTICLASS else means


def _at_least_tiny(graph: Graph, means: str) -> str:
    return graph.add("Max", means, graph.number(_TINY))


def _adaptive_scores(graph: Graph, rows: str, learner: AdaptiveLearner) -> str:
    """Mix the predictive means of several learners by their weights, then join the experts of the last rows.

    What recent labels or targets say is what they say now: a constant.
    """
    task, fast = learner.task, learner.fast
    total = graph.repeated(np.zeros(learner.outputs))
    each = [_leader_scores(graph, rows, model) for model in learner.models]
    for weight, scores in zip(learner.weights(), each, strict=True):
        means = graph.add("Exp", scores) if task is Task.MULTICLASS else _means(graph, scores, task)
        total = graph.add("Add", total, graph.add("Mul", means, graph.number(weight)))
    base = _scores_of_means(graph, total, task)
    parts = [base, *each[:SLOW], *(_leader_scores(graph, rows, twin) for twin in fast.twins)]
    known = fast.recent_scores(np.full(learner.outputs, np.nan))
    recent = [base if np.isnan(each).any() else graph.repeated(each) for each in known]
    return _relative(graph, [*parts, *recent], recent, learner.unit(), task, fast.combination)


def _stacked(graph: Graph, parts: list[str]) -> str:
    """Scores (n, outputs) of several parts as (n, parts, outputs)."""
    return graph.add("Concat", *(graph.add("Unsqueeze", part, graph.integers([1])) for part in parts), axis=1)


def _simple_scores(graph: Graph, rows: str, learner: SimpleLearner) -> str:
    """Combine the learner within the layer and the simple models."""
    if learner.combination is None:
        return _FORMS[learner.inner.kind](graph, rows, learner.inner)
    parts = [] if learner.rests else [_FORMS[learner.inner.kind](graph, rows, learner.inner)]
    for model in learner.models:
        if isinstance(model, ClassMeans):
            parts += class_means_scores(graph, rows, model)
        else:
            parts += dense_linear_scores(graph, rows, model)
    return _combined(graph, _stacked(graph, parts), learner.combination, learner.task)


def _growth_scores(graph: Graph, rows: str, learner: GrowthLearner) -> str:
    inner = _FORMS[learner.inner.kind](graph, rows, learner.inner)
    return growth_scores(graph, rows, learner, inner, _means, _scores_of_means)


_FORMS: dict[str, Callable[[Graph, str, Any], str]] = {
    "rows": _leader_scores,
    "rounds": _leader_scores,
    "adaptive": _adaptive_scores,
    "challenged": _leader_scores,
    "simple": _simple_scores,
    "growth": _growth_scores,
    "round growth": _growth_scores,
}

"""Scores of the estimators of `bomkl.auto`, as operators.

The features of a component and its weights are one linear map of kernel values, so only their product is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.combination import Combination
from bomkl.auto.component import NewtonComponent
from bomkl.auto.constants import LARGEST
from bomkl.auto.curved import CurvedComponent
from bomkl.auto.drift import AdaptiveLearner
from bomkl.auto.fast_experts import FARTHEST, SLOW
from bomkl.auto.features import KernelFeatures
from bomkl.auto.rows import RowLearner
from bomkl.auto.task import Task
from bomkl.auto.trees import BoostedTrees, Forest
from bomkl.auto.wide import WIDEST, WideLearner
from bomkl.kernels import Gaussian, Kernel, Laplacian, Polynomial
from bomkl.onnx.graph import Graph
from bomkl.onnx.kernels import StoredRows
from bomkl.onnx.sums import inner_products
from bomkl.onnx.trees import boosted_scores, forest_scores
from bomkl.onnx.views import Views

# As in cpp/auto/combination.hpp and cpp/auto/losses.hpp.
_STACK_CLIP, _SCORE_CLIP, _TINY = 6.0, 15.0, 1e-12
_LOST = 8.0  # squared widths of a Gaussian from the origin: single precision keeps 1e-6 of a squared width


def auto_scores(graph: Graph, estimator: Any) -> str:
    """Add the scores of a fitted estimator: log odds, the log probability of each class, or the prediction."""
    if estimator.n_features_in_ > WIDEST:
        raise ValueError(
            f"to_onnx exports AutoMKL models of at most {WIDEST} columns, because ONNX Runtime takes dense rows only. "
            f"Got a model of {estimator.n_features_in_} columns. Use bomkl.modelfile to save it."
        )
    rows = graph.clip(graph.rows, -LARGEST, LARGEST)
    learner: RowLearner | AdaptiveLearner = estimator._learner
    if isinstance(learner, RowLearner):
        learner = learner.leader
    score: Any = _adaptive_scores if isinstance(learner, AdaptiveLearner) else _scores
    scores: str = score(graph, rows, learner)
    if learner.task.is_regression:
        return scores
    if learner.task is Task.MULTICLASS:  # the learner numbers labels as they came
        return graph.columns(scores, np.argsort(estimator._labels))
    return graph.add("Mul", scores, graph.number(estimator._external(np.ones((1, 1)))))


def _scores(graph: Graph, rows: str, learner: RowLearner) -> str:
    if learner.geometry is None:
        return graph.repeated(learner.prior_score())
    views = Views(graph, rows, learner.geometry)
    parts = [_component_scores(graph, views, component) for component in learner.components]
    stacked = graph.add("Concat", *(graph.add("Unsqueeze", part, graph.integers([1])) for part in parts), axis=1)
    combined = _combined(graph, stacked, learner.combination, learner.task)
    if not learner.task.is_regression:
        return combined
    return graph.plus(graph.add("Mul", combined, graph.number(learner.spread)), learner.centre)


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
    features, regression = component.features, component.regression
    means = regression.means()[:, : regression.rank]
    weights, constant = means[:, :-1].T, means[:, -1]
    if isinstance(features, KernelFeatures):
        columns = _kernel(graph, views[features.geometry], features)
        weights = features.whitening().astype(np.float64) @ weights
    else:
        names = features.geometries()
        columns = graph.add("Concat", *(views[name] for name in names), axis=1)
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
    kernel: Kernel = Gaussian((2 * features.scale) ** -0.5)
    if features.kernel == "laplacian":
        kernel = Laplacian(features.scale)
    elif features.kernel == "polynomial":
        kernel = Polynomial(2, features.scale, 1.0)
    elif features.scale * float(features.norms.max()) > _LOST:
        return _rough_gaussians(graph, stored, rows, features)
    return stored.kernel(kernel, np.arange(len(landmarks)))


def _rough_gaussians(graph: Graph, stored: StoredRows, rows: str, features: KernelFeatures) -> str:
    """Gaussians of distances that single precision left few digits of, rounded as in `cpp/auto_features.hpp`."""
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
    each = [_scores(graph, rows, _of_rows(model)) for model in learner.models]
    for weight, scores in zip(learner.weights(), each, strict=True):
        means = graph.add("Exp", scores) if task is Task.MULTICLASS else _means(graph, scores, task)
        total = graph.add("Add", total, graph.add("Mul", means, graph.number(weight)))
    base = _scores_of_means(graph, total, task)
    parts = [base, *each[:SLOW], *(_scores(graph, rows, _of_rows(twin)) for twin in fast.twins)]
    known = fast.recent_scores(np.full(learner.outputs, np.nan))
    recent = [base if np.isnan(each).any() else graph.repeated(each) for each in known]
    stacked = _stacked(graph, [*parts, *recent])
    if not task.is_regression:
        return _combined(graph, stacked, fast.combination, task)
    beside = graph.add("Unsqueeze", base, graph.integers([1]))
    far = graph.add("Abs", graph.add("Sub", _stacked(graph, recent), beside))
    farthest = graph.add("Div", graph.add("ReduceMax", far, axes=[1], keepdims=0), graph.number(FARTHEST))
    unit = graph.add("Max", farthest, graph.number(learner.unit()))
    relative = graph.add("Div", graph.add("Sub", stacked, beside), graph.add("Unsqueeze", unit, graph.integers([1])))
    combined = _combined(graph, graph.clip(relative, -FARTHEST, FARTHEST), fast.combination, task)
    return graph.add("Add", base, graph.add("Mul", combined, unit))


def _stacked(graph: Graph, parts: list[str]) -> str:
    """Scores (n, outputs) of several parts as (n, parts, outputs)."""
    return graph.add("Concat", *(graph.add("Unsqueeze", part, graph.integers([1])) for part in parts), axis=1)


def _of_rows(learner: RowLearner | WideLearner) -> RowLearner:
    assert isinstance(learner, RowLearner)
    return learner

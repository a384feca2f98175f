"""Scores of the estimators of `bomkl.budget`, as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bomkl.budget.config import kernel_name
from bomkl.kernels import Kernel
from bomkl.learners import FOGD
from bomkl.onnx.graph import Graph, Result
from bomkl.onnx.kernels import StoredRows
from bomkl.onnx.sums import inner_products


def budget_scores(graph: Graph, estimator: Any) -> Result:
    """Add the scores of a fitted estimator, one column for each of its functions.

    Kernels of weight zero and rows that only they use are left out.
    """
    for kernel in estimator.kernels_:
        if not isinstance(kernel, Kernel):
            raise ValueError(
                f"The kernel {kernel_name(kernel)} is a Python function, which an ONNX model cannot hold. "
                "Only the kernels of bomkl.kernels can be exported."
            )
    vote = getattr(estimator, "combination", "score") == "vote"
    part = _vote_of(estimator._dtype) if vote else _weighted_score
    if isinstance(estimator._learner(), FOGD):
        return _fourier_scores(graph, estimator, part)
    stored = estimator.support_vectors_
    if not isinstance(stored, np.ndarray):
        stored = stored.toarray()  # an ONNX graph holds dense constants
    weights = np.atleast_2d(estimator.kernel_weights_)
    coefs = estimator.dual_coef_.reshape(len(weights), len(stored), len(estimator.kernels_))
    constant = np.zeros(len(weights))
    used = {}
    for i in np.flatnonzero(weights.any(axis=0)):
        rows = np.flatnonzero(coefs[:, :, i].any(axis=0))
        if len(rows):
            used[i] = rows
        elif vote:
            constant += weights[:, i]  # an empty function is zero everywhere, and the sign of zero is plus
    needed = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *used.values()]))
    kernels = StoredRows(graph, graph.rows, stored[needed])
    total = graph.repeated(constant)
    for i, rows in used.items():
        matrix = kernels.kernel(estimator.kernels_[i], np.searchsorted(needed, rows))
        total += part(matrix, coefs[:, rows, i].T, weights[:, i])
    return total


def _weighted_score(matrix: Result, coef: Any, weight: Any) -> Result:
    """Add what one kernel says where scores are combined."""
    return matrix @ (coef * weight)


def _vote_of(dtype: np.dtype[Any]) -> Callable[[Result, Any, Any], Result]:
    """Make the function that adds what one kernel says where kernels vote: its weight with the sign of its score.

    The sign of zero is plus. ONNX computes in float64, but a score that is too small for the model's own precision is
    zero.
    """
    zero = float(np.finfo(dtype).smallest_subnormal) / 2

    def vote(matrix: Result, coef: Any, weight: Any) -> Result:
        return (matrix @ coef < -zero).where(-weight, weight)

    return vote


def _fourier_scores(graph: Graph, estimator: Any, part: Callable[[Result, Any, Any], Result]) -> Result:
    """Add the scores of functions that are weighted sums of waves, rounded as in the engine: far out, all digits count.

    A cosine is one less twice the squared sine of half the angle: runtimes have no cosine in double precision.
    """
    weights, n = np.atleast_2d(estimator.kernel_weights_), estimator._learner().n_frequencies
    learned = estimator._engine.state()["feature_weights"].reshape(len(weights), -1, 2 * n) / np.sqrt(n)
    total = graph.repeated(np.zeros(len(weights)))
    inner: dict[bytes, Result] = {}  # of kernels with the same draws
    for i in np.flatnonzero(weights.any(axis=0)):
        draws, factors = estimator._engine.frequencies(int(i))
        key = draws.tobytes()
        if key not in inner:
            inner[key] = inner_products(graph.rows, draws, estimator._dtype)
        angles = inner[key] * factors
        half = (angles * 0.5).add("Sin")
        waves = (1.0 - 2.0 * (half * half)).add("Concat", angles.add("Sin"), axis=1)
        total += part(waves, learned[:, i].T, weights[:, i])
    return total

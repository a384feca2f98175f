"""Scores of the estimators of `bomkl.budget`, as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._engine_config import kernel_name
from bomkl.onnx.graph import Graph
from bomkl.onnx.kernels import StoredRows, is_exportable


def refuse_callables(estimator: Any) -> None:
    """Refuse a model with a kernel that is a Python function."""
    for kernel in estimator.kernels_:
        if not is_exportable(kernel):
            raise ValueError(
                f"The kernel {kernel_name(kernel)} is a Python function, which an ONNX model cannot hold. "
                "Only the kernels of bomkl.kernels can be exported."
            )


def budget_scores(graph: Graph, estimator: Any) -> str:
    """Add the scores of a fitted estimator, one column for each of its functions.

    Kernels of weight zero and rows that only they use are left out.
    """
    refuse_callables(estimator)
    vote = getattr(estimator, "combination", "score") == "vote"
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
        coef, weight = coefs[:, rows, i].T, weights[:, i]
        if vote:
            score = graph.add("MatMul", matrix, graph.number(coef))
            negative = graph.add("Less", score, graph.number(0.0))
            part = graph.add("Where", negative, graph.number(-weight), graph.number(weight))
        else:
            part = graph.add("MatMul", matrix, graph.number(coef * weight))
        total = graph.add("Add", total, part)
    return total

"""`to_onnx`: from a fitted estimator to an ONNX model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bomkl._support.validation import check_positive
from bomkl._version import __version__
from bomkl.auto.estimators.estimator import AutoEstimator
from bomkl.budget.estimator import EngineEstimator

if TYPE_CHECKING:
    from onnx import ModelProto

    from bomkl.onnx.graph import Graph, Result


def to_onnx(estimator: Any, tolerance: float = 1e-5) -> ModelProto:
    """Export a fitted model to ONNX.

    The input is ``X``, a matrix of rows: of floats if a Budget model computes in float32, else of doubles. All outputs
    but labels are doubles.

    Parameters
    ----------
    estimator : estimator of this package
        A fitted classifier or regressor of `bomkl`. Kernels that are Python functions cannot be exported.
    tolerance : float, default=1e-5
        How far the scores of the two may differ on rows like those the estimator has stored, as a share of the spread
        of these scores, which is twice their standard deviation. If they differ by more, the export is refused. Auto
        models keep features in single precision: with three or more classes they often need 1e-4.

    Returns
    -------
    model : onnx.ModelProto
        Its outputs are, for a classifier, ``label`` (of the type of ``classes_``), ``margins`` (as
        `decision_function`) and, if the classifier has them, ``probabilities``; for a regressor ``prediction``.

    Examples
    --------
    >>> from bomkl import BudgetMKLClassifier
    >>> from bomkl.onnx import to_onnx
    >>> model = to_onnx(BudgetMKLClassifier(budget=100).fit([[0.0], [1.0]], ["no", "yes"]))
    >>> [output.name for output in model.graph.output]
    ['label', 'margins']
    """
    from bomkl.onnx.agreement import check_agreement
    from bomkl.onnx.auto import auto_scores
    from bomkl.onnx.budget import budget_scores
    from bomkl.onnx.graph import Graph

    if not isinstance(estimator, EngineEstimator | AutoEstimator):
        raise TypeError(
            "to_onnx exports the classifiers and regressors of bomkl.budget, bomkl.paper and bomkl.auto. "
            f"Got {type(estimator).__name__} instead."
        )
    check_positive("to_onnx", "tolerance", tolerance)
    check_is_fitted(estimator)
    estimator = estimator._now()
    is_auto = isinstance(estimator, AutoEstimator)
    if estimator._n_columns() != estimator.n_features_in_:
        raise TypeError(
            "ONNX models of bomkl take matrices of numbers, and this model learned from a table with strings or dates. "
            "Encode its rows with model.encoder_.transform, and export a model that learned from the encoded rows."
        )
    graph = Graph(estimator.n_features_in_, np.float64 if is_auto else estimator._dtype)
    scores = (auto_scores if is_auto else budget_scores)(graph, estimator)
    if is_classifier(estimator):
        _add_labels(graph, scores, _plain_labels(estimator.classes_))
        if hasattr(estimator, "predict_proba"):
            _add_probabilities(graph, scores, len(estimator.classes_))
    else:
        graph.output("prediction", scores.squeeze())
    model = graph.model(type(estimator).__name__, __version__)
    check_agreement(model, estimator, tolerance)
    return model


def _add_labels(graph: Graph, scores: Result, labels: NDArray[Any]) -> None:
    """Add label and margins: one function tells two classes apart, of more the largest decides."""
    if len(labels) > 2:
        margins, width = scores, len(labels)
        index = margins.add("ArgMax", axis=1, keepdims=0)
    else:
        margins, width = scores.squeeze(), None
        index = margins.add("Greater", 0.0).where([len(labels) - 1], [0])
    graph.output("label", index.select_from(graph.constant(labels)), values=labels)
    graph.output("margins", margins, width=width)


def _add_probabilities(graph: Graph, scores: Result, n_classes: int) -> None:
    if n_classes == 1:
        probabilities = graph.repeated([1.0])
    elif n_classes == 2:
        probabilities = scores.add("Neg").add("Concat", scores, axis=1).add("Sigmoid")
    else:
        probabilities = scores.add("Softmax", axis=1)
    graph.output("probabilities", probabilities, width=n_classes)


def _plain_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as a type that ONNX has."""
    kind = classes.dtype.kind
    if kind in "iu":
        return classes.astype(np.uint64 if kind == "u" and classes.max() >= 2**63 else np.int64)
    if kind == "f":
        return classes.astype(np.float64)
    if kind == "b":
        return classes
    if all(isinstance(label, str) for label in classes):
        return classes.astype(object)
    raise TypeError(f"Labels must be numbers, strings or bools to be exported to ONNX. Got {classes[0]!r} instead.")

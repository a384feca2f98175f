"""Progressive validation of anything that can learn online: margin first, label after."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLASSES = np.array([-1, 1], dtype=np.int8)
ScoreAndLearn = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]


def score_and_learn_of(estimator: Any) -> ScoreAndLearn:
    """Return a function of (X, y) that returns each row's margin and then learns from the row.

    Parameters
    ----------
    estimator : object
        With ``score_and_learn(X, y)``, or a scikit-learn classifier with ``partial_fit``.

    Returns
    -------
    callable
        Margins are positive for the label +1.

    Examples
    --------
    >>> from sklearn.linear_model import Perceptron
    >>> learn = score_and_learn_of(Perceptron())
    >>> learn(np.array([[-1.0], [1.0], [-2.0], [2.0]]), np.array([-1, 1, -1, 1]))
    array([ 0.,  0., -4.,  4.])
    """
    method = getattr(estimator, "score_and_learn", None)
    if method is not None:
        if "classes" in inspect.signature(method).parameters:
            return lambda X, y: np.asarray(method(X, y, classes=CLASSES), dtype=np.float64)
        return lambda X, y: np.asarray(method(X, y), dtype=np.float64)
    if hasattr(estimator, "partial_fit"):
        return _RowByRow(estimator)
    raise TypeError(f"{type(estimator).__name__} has neither score_and_learn nor partial_fit: it cannot learn online.")


class _RowByRow:
    """Predict one row, then partial_fit it; before the first row the margin is zero, which counts as a mistake."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._fitted = False

    def __call__(self, X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
        margins = np.zeros(len(X))
        for index in range(len(X)):
            row, label = X[index : index + 1], y[index : index + 1]
            if self._fitted:
                margins[index] = self._margin(row)
                self._estimator.partial_fit(row, label)
            else:
                self._estimator.partial_fit(row, label, classes=CLASSES)
                self._fitted = True
        return margins

    def _margin(self, row: NDArray[Any]) -> float:
        scores = getattr(self._estimator, "decision_function", self._estimator.predict)(row)
        return float(np.ravel(scores)[0])

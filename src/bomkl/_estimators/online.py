"""The methods that all classifiers share, and those that all regressors share.

An estimator supplies how it learns (`_learn_rows`), what it is at a moment (`_now`), and how it scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from bomkl._support.change import change

Float = NDArray[np.float64]


class OnlineClassifier(ClassifierMixin):  # type: ignore[misc]
    """A classifier that learns row by row."""

    _now: Callable[[], Any]
    _learned_single_row: Callable[[Any, Any], bool]

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that may ever come. Without it, an Auto model adds a label when it first sees it; a Budget
            model takes the labels of its first call as all there are.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. Rows of weight 0 are skipped. Auto models count a weight above 1000 as 1000.

        Returns
        -------
        self : object
            The estimator.
        """
        if classes is not None or sample_weight is not None or not self._learned_single_row(X, y):
            change(self, lambda model: model._learn_rows(X, y, classes, sample_weight, with_scores=False))
        return self

    def score_and_learn(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Float:
        """Predict each row, then learn from it; return the margins of these predictions.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            As in `partial_fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. Rows of weight 0 are predicted only.

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As `decision_function` returns them. While an Auto model knows only one label, a positive margin is for
            that label if it is a number above zero.
        """

        def learn(model: Any) -> Any:
            return model._external(model._learn_rows(X, y, classes, sample_weight, with_scores=True))

        margins: Float = change(self, learn)
        return margins

    def decision_function(self, X: Any) -> Float:
        """Margins of rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive for ``classes_[1]``; with more than two classes a column for each, the largest for the
            prediction. Those of an Auto model are log odds, or log probabilities of more than two classes.
        """
        now = self._now()
        margins: Float = now._external(now._scores(X))
        return margins

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the labels of rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The likeliest class of each row.
        """
        now = self._now()
        margins = now.decision_function(X)
        if len(now.classes_) == 1:
            index = np.zeros(len(margins), dtype=np.intp)
        else:
            index = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = now.classes_[index]
        return labels


class OnlineRegressor(RegressorMixin):  # type: ignore[misc]
    """A regressor that learns row by row."""

    _learned_single_row: Callable[[Any, Any], bool]
    _score_one: Callable[[Any], Any]
    _whole_row: Callable[[Any], Any]
    predict: Callable[[Any], Any]

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. Rows of weight 0 are skipped. Auto models count a weight above 1000 as 1000.

        Returns
        -------
        self : object
            The estimator.
        """
        if sample_weight is not None or not self._learned_single_row(X, y):
            change(self, lambda model: model._learn_rows(X, y, sample_weight, with_scores=False))
        return self

    def score_and_learn(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Float:
        """Predict each row, then learn from it; return the predictions.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. Rows of weight 0 are predicted only.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
            Predictions.
        """
        predictions: Float = change(self, lambda model: model._learn_rows(X, y, sample_weight, with_scores=True))
        return predictions

    def predict_one(self, x: Any) -> float:
        """Predict the target of one row, in microseconds.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row, as in `learn_one`.

        Returns
        -------
        prediction : float
            The prediction.
        """
        prediction = self._score_one(x)
        return float(self.predict(self._whole_row(x))[0] if prediction is None else prediction)

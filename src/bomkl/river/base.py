"""What both families share: rows that are dictionaries or DataFrames, one or many at a time.

A family supplies how a row is learned and predicted once its columns are known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from river import base

from bomkl.river.checks import check_frame, check_label, number_to_predict
from bomkl.river.columns import Columns, TableColumns
from bomkl.tables import TableEncoder


class NamedColumns:
    """A model whose columns come with the stream."""

    _columns: Columns | TableColumns
    _model: Any

    @contextmanager
    def _learning(self, x: Mapping[Any, Any], frame: Any = None) -> Iterator[None]:
        """Make columns ready for a row, or for the first row of a DataFrame and all others; what fails leaves no trace.

        All cells are looked at first: numbers here, those of a table by its encoder.
        """
        columns = self._columns.ready_for(x)
        of_numbers = isinstance(columns, Columns)
        n_names = len(columns.places) if isinstance(columns, Columns) else 0
        if of_numbers and frame is not None:
            check_frame(frame)
        before = {name: copy(value) if isinstance(value, list | dict) else value for name, value in vars(self).items()}
        self._columns = columns
        try:
            if frame is not None and not of_numbers:  # which is learned from in pieces
                encoder, rows = getattr(self._model, "encoder_", None), columns.rows(frame)
                _ = TableEncoder().fit(rows) if encoder is None else encoder.encode(rows)
            columns.learn(x)
            yield
        except BaseException:
            vars(self).update(before)
            if isinstance(columns, Columns):
                columns.forget(n_names)
            raise


class RiverClassifier(NamedColumns, base.MiniBatchClassifier):
    """A classifier whose columns and labels come with the stream."""

    @property
    @abstractmethod
    def _known(self) -> list[Any]:
        """Labels, in the order in which they were first seen."""

    @abstractmethod
    def _learn_row(self, x: Mapping[Any, Any], label: Any) -> None:
        """Learn from one row, whose columns are known."""

    @abstractmethod
    def _learn_frame(self, X: Any, labels: list[Any]) -> None:
        """Learn from one row or more."""

    @abstractmethod
    def _winner(self, x: Mapping[Any, Any]) -> int:
        """Place of the likeliest label."""

    @abstractmethod
    def _winners(self, X: Any) -> Any:
        """Place of the likeliest label of each row."""

    @abstractmethod
    def _row_chances(self, x: Mapping[Any, Any]) -> Any:
        """Probability of each label."""

    @abstractmethod
    def _chances(self, X: Any) -> Any:
        """Probabilities, a column for each label."""

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            Features by name.
        y
            The label: anything hashable but NaN.
        """
        check_label(y)
        with self._learning(x):
            self._learn_row(x, y)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a DataFrame, with the same result as one by one.

        Parameters
        ----------
        X
            Features, a column for each.
        y
            The labels.
        """
        labels = list(y)
        for label in labels:
            check_label(label)
        if labels:
            with self._learning(dict(zip(X.columns, X.iloc[0], strict=True)), X):
                self._learn_frame(X, labels)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of one row; None before the model has seen a label.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as in all models of River.
        """
        return self._known[self._winner(x)] if self._known else None

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of every label seen so far.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as in all models of River.
        """
        return dict(zip(self._known, self._row_chances(x).tolist(), strict=True)) if self._known else {}

    def predict_proba_many(self, X: Any) -> Any:
        """Predict probabilities for the rows of a DataFrame, a column for each label seen so far.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not self._known or len(X) == 0:
            return pd.DataFrame(index=X.index, columns=self._known, dtype=np.float64)
        return pd.DataFrame(self._chances(X), index=X.index, columns=self._known)

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not self._known or len(X) == 0:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        labels = self._known
        return pd.Series([labels[int(place)] for place in self._winners(X)], index=X.index)


class RiverRegressor(NamedColumns, base.MiniBatchRegressor):
    """A regressor whose columns come with the stream."""

    @abstractmethod
    def _learn_row(self, x: Mapping[Any, Any], target: float) -> None:
        """Learn from one row, whose columns are known."""

    @abstractmethod
    def _learn_frame(self, X: Any, targets: list[float]) -> None:
        """Learn from one row or more."""

    @abstractmethod
    def _prediction(self, x: Mapping[Any, Any]) -> float:
        """Prediction of one row."""

    @abstractmethod
    def _predictions(self, X: Any) -> Any:
        """Predictions of one row or more."""

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            Features by name.
        y
            The target.
        """
        target = number_to_predict(y)
        with self._learning(x):
            self._learn_row(x, target)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a DataFrame, with the same result as one by one.

        Parameters
        ----------
        X
            Features, a column for each.
        y
            The targets.
        """
        targets = [number_to_predict(value) for value in y]
        if targets:
            with self._learning(dict(zip(X.columns, X.iloc[0], strict=True)), X):
                self._learn_frame(X, targets)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target of one row; 0 before the model has learned from any.

        Parameters
        ----------
        x
            Features by name.
        """
        return self._prediction(x) if hasattr(self._model, "n_features_in_") else 0.0

    def predict_many(self, X: Any) -> Any:
        """Predict the targets of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        learned = hasattr(self._model, "n_features_in_") and len(X)
        return pd.Series(self._predictions(X) if learned else np.zeros(len(X)), index=X.index)

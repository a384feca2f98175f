"""What both families share: rows that are dictionaries or DataFrames, one or many at a time.

A family supplies how rows are learned and predicted once their columns are known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from river import base

from bomkl._support.change import as_of, change, forked
from bomkl._support.validation import check_as_many
from bomkl.river.checks import check_frame, check_label, number_to_predict, weights_of
from bomkl.river.columns import Columns, TableColumns
from bomkl.tables.frames import flat

Rows = Any  # one row, a vector of numbers or a dict, or several: a matrix, or a list of dicts


def is_row(rows: Rows) -> bool:
    """Tell whether rows are a single one."""
    return isinstance(rows, dict) or (isinstance(rows, np.ndarray) and rows.ndim == 1)


class NamedColumns:
    """A model whose columns come with the stream."""

    _columns: Columns | TableColumns
    _model: Any

    @abstractmethod
    def _learn(self, rows: Rows, targets: list[Any], weights: list[float] | None) -> None:
        """Learn from rows, whose columns are known; None is a weight of one."""

    @abstractmethod
    def _target(self, y: Any) -> Any:
        """Refuse a label, or a number to predict, that cannot be learned."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            Features by name.
        y
            Its target: of a classifier anything hashable but NaN, of a regressor a finite number.
        w
            Weight of the row.
        """
        target = self._target(y)
        weight, x = weights_of(w, 1), flat(x)
        if not self._nothing_yet(weight):
            known = self._knows(target)
            self._learning(x, lambda model: model._learn(model._columns.row(x), [target], weight), known)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from the rows of a DataFrame, with the same result as one by one.

        Parameters
        ----------
        X
            Features, a column for each.
        y
            Their targets, as `learn_one` takes them.
        w
            Weights of the rows, or one weight for all.
        """
        targets = [self._target(each) for each in y]
        check_as_many(len(X), len(targets), "targets")
        weights = weights_of(w, len(targets))
        if not targets or self._nothing_yet(weights):
            return
        first = dict(zip(X.columns, X.iloc[0], strict=True))
        columns = self._columns.ready_for(first)
        if isinstance(columns, Columns):
            check_frame(X, columns.may_miss)
        self._learning(first, lambda model: model._learn(model._columns.rows(X), targets, weights))

    def _learning(self, x: Mapping[Any, Any], learn: Callable[[Self], None], known: bool = False) -> None:
        """Learn from a row, whose target may be known, or from a DataFrame with this first row.

        What fails leaves no trace.
        """
        columns = self._columns.ready_for(x)
        if known and columns is self._columns and columns.knows(x):
            learn(self)  # only the estimator changes, and as a whole
            return

        def begin(model: Self) -> None:
            model._columns = model._columns.ready_for(x)
            model._columns.learn(x)
            model._model = as_of(model._model, forked(vars(model._model)))
            learn(model)

        change(self, begin)

    def _knows(self, target: Any) -> bool:
        """Whether a label has come before; any number is known."""
        return True

    def _nothing_yet(self, weights: list[float] | None) -> bool:
        """Whether rows of weight zero come before all others: an estimator begins with a row that counts."""
        return weights is not None and not any(weights) and not hasattr(self._model, "n_features_in_")

    def _now(self) -> Self:
        """Return what the model is at this moment: calls that end meanwhile do not change it."""
        return as_of(self, self.__dict__)


class RiverClassifier(NamedColumns, base.MiniBatchClassifier):
    """A classifier whose columns and labels come with the stream."""

    @property
    @abstractmethod
    def _known(self) -> list[Any]:
        """Labels, in the order in which they were first seen."""

    @abstractmethod
    def _winners(self, rows: Rows) -> Any:
        """Place of the likeliest label of each row."""

    @abstractmethod
    def _chances(self, rows: Rows) -> Any:
        """Probabilities, a column for each label."""

    def _knows(self, target: Any) -> bool:
        return target in self._known

    @property
    def _multiclass(self) -> bool:
        return True

    def _target(self, y: Any) -> Any:
        check_label(y)
        return y

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of one row; None before the model has seen a label.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as in all models of River.
        """
        now = self._now()
        return now._known[int(now._winners(now._columns.row(flat(x)))[0])] if now._known else None

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of every label seen so far.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as in all models of River.
        """
        now = self._now()
        if not now._known:
            return {}
        return dict(zip(now._known, now._chances(now._columns.row(flat(x)))[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Predict probabilities for the rows of a DataFrame, a column for each label seen so far.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        now = self._now()
        if not now._known or len(X) == 0:
            return pd.DataFrame(index=X.index, columns=now._known, dtype=np.float64)
        return pd.DataFrame(now._chances(now._columns.rows(X)), index=X.index, columns=now._known)

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        now = self._now()
        if not now._known or len(X) == 0:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        labels, winners = now._known, now._winners(now._columns.rows(X))
        return pd.Series([labels[int(place)] for place in winners], index=X.index)


class RiverRegressor(NamedColumns, base.MiniBatchRegressor):
    """A regressor whose columns come with the stream."""

    @abstractmethod
    def _predictions(self, rows: Rows) -> Any:
        """Prediction of each row."""

    def _target(self, y: Any) -> float:
        return number_to_predict(y)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target of one row; 0 before the model has learned from any.

        Parameters
        ----------
        x
            Features by name.
        """
        now = self._now()
        if not hasattr(now._model, "n_features_in_"):
            return 0.0
        return float(now._predictions(now._columns.row(flat(x)))[0])

    def predict_many(self, X: Any) -> Any:
        """Predict the targets of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        now = self._now()
        learned = hasattr(now._model, "n_features_in_") and len(X)
        return pd.Series(now._predictions(now._columns.rows(X)) if learned else np.zeros(len(X)), index=X.index)

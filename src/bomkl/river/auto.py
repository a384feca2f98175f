"""`AutoMKLClassifier` and `AutoMKLRegressor` with rows that are dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base

from bomkl import auto
from bomkl.river.checks import check_frame, check_label, check_numbers, number_to_predict
from bomkl.river.columns import FixedColumns


class AutoMKLClassifier(base.MiniBatchClassifier):
    """Budget online multiple kernel classification with nothing to tune, for River.

    The model scales features itself. The width of the model is fixed by its first row, with room for as many new
    features; those that come when there is no more room share columns. Absent features count as zero.

    Parameters
    ----------
    budget
        Largest number of stored rows.
    drift
        "adapt" for streams whose distribution changes.
    seed
        Seed of all random draws.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from bomkl.river import AutoMKLClassifier
    >>> metric = evaluate.progressive_val_score(
    ...     datasets.Phishing().take(300), AutoMKLClassifier(budget=100, seed=1), metrics.Accuracy()
    ... )
    >>> metric.get() > 0.8
    True
    """

    def __init__(self, budget: int = 200, drift: str | None = None, seed: int | None = None) -> None:
        self.budget = budget
        self.drift = drift
        self.seed = seed
        self._columns = FixedColumns()
        self._codes: dict[Any, int] = {}  # of labels, in the order in which they were first seen
        self._model = auto.AutoMKLClassifier(budget=budget, drift=drift, random_state=seed)

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
        check_numbers(x)
        self._columns.learn(x)
        code = self._codes.get(y, len(self._codes))
        self._model.learn_one(self._columns.row(x), code)
        self._codes[y] = code

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
        check_frame(X)
        if not labels:
            return
        self._columns.learn(X.columns)
        codes = dict(self._codes)
        numbers = [codes.setdefault(label, len(codes)) for label in labels]
        self._model.partial_fit(self._columns.rows(X), numbers)
        self._codes = codes

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of one row; None before any label was seen.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as River's convention has it.
        """
        if not self._codes:
            return None
        return list(self._codes)[int(self._model.predict_one(self._columns.row(x)))]

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of every label seen so far.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as River's convention has it.
        """
        if not self._codes:
            return {}
        return dict(zip(self._codes, self._model.predict_proba_one(self._columns.row(x)).tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Predict probabilities for the rows of a DataFrame, a column for each label seen so far.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not self._codes or len(X) == 0:
            return pd.DataFrame(index=X.index, columns=list(self._codes), dtype=np.float64)
        probabilities = self._model.predict_proba(self._columns.rows(X))
        return pd.DataFrame(probabilities, index=X.index, columns=list(self._codes))

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not self._codes or len(X) == 0:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        labels = list(self._codes)
        return pd.Series([labels[int(code)] for code in self._model.predict(self._columns.rows(X))], index=X.index)


class AutoMKLRegressor(base.MiniBatchRegressor):
    """Budget online multiple kernel regression with nothing to tune, for River.

    The model scales features and targets itself. Features are handled as by `AutoMKLClassifier`.

    Parameters
    ----------
    budget
        Largest number of stored rows.
    drift
        "adapt" for streams whose distribution changes.
    seed
        Seed of all random draws.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from bomkl.river import AutoMKLRegressor
    >>> metric = evaluate.progressive_val_score(
    ...     datasets.TrumpApproval().take(300), AutoMKLRegressor(budget=100, seed=1), metrics.MAE()
    ... )
    >>> metric.get() < 1.0
    True
    """

    def __init__(self, budget: int = 200, drift: str | None = None, seed: int | None = None) -> None:
        self.budget = budget
        self.drift = drift
        self.seed = seed
        self._columns = FixedColumns()
        self._model = auto.AutoMKLRegressor(budget=budget, drift=drift, random_state=seed)

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
        check_numbers(x)
        self._columns.learn(x)
        self._model.learn_one(self._columns.row(x), target)

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
        check_frame(X)
        if targets:
            self._columns.learn(X.columns)
            self._model.partial_fit(self._columns.rows(X), targets)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target of one row; 0 before any row was learned from.

        Parameters
        ----------
        x
            Features by name.
        """
        if not hasattr(self._model, "n_features_in_"):
            return 0.0
        return float(self._model.predict_one(self._columns.row(x)))

    def predict_many(self, X: Any) -> Any:
        """Predict the targets of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not hasattr(self._model, "n_features_in_") or len(X) == 0:
            return pd.Series(np.zeros(len(X)), index=X.index)
        return pd.Series(self._model.predict(self._columns.rows(X)), index=X.index)

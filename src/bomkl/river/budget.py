"""`BudgetMKLClassifier` and `BudgetMKLRegressor` with rows that are dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from bomkl import budget as estimators
from bomkl.combiners import Combiner
from bomkl.learners import Learner
from bomkl.river.checks import check_frame, check_label, check_numbers, number_to_predict
from bomkl.river.columns import Columns

_END = object()


class BudgetMKLClassifier(base.MiniBatchClassifier):
    """Budget online multiple kernel classification for River.

    Parameters
    ----------
    kernels
        The pool of kernels: "paper" for the paper's 16, or a list of `bomkl.kernels`.
    learner
        Update rule of each kernel's classifier, one of `bomkl.learners`; None stands for the paper's.
    combiner
        How kernels are weighted, one of `bomkl.combiners`; None stands for the paper's.
    budget
        Largest number of support rows of each kernel and class; None for no limit.
    seed
        Seed of all random draws.

    Notes
    -----
    Probabilities are the logistic function of the margin, or the softmax of the margins of more than two classes. They
    rank rows well but are not calibrated.

    Examples
    --------
    >>> from river import compose, datasets, evaluate, metrics, preprocessing
    >>> from bomkl.river import BudgetMKLClassifier
    >>> model = compose.Pipeline(preprocessing.StandardScaler(), BudgetMKLClassifier(seed=1))
    >>> metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> metric.get() > 0.85
    True
    """

    def __init__(
        self,
        kernels: Any = "paper",
        learner: Learner | None = None,
        combiner: Combiner | None = None,
        budget: int | None = 200,
        seed: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.combiner = combiner
        self.budget = budget
        self.seed = seed
        self._columns = Columns()
        self._labels: list[Any] = []  # in the order in which they were first seen; their numbers are the classes
        self._model = estimators.BudgetMKLClassifier(
            kernels=kernels, learner=learner, combiner=combiner, budget=budget, random_state=seed
        )

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
        self._learn(self._columns.row(x), [y])

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
        self._columns.learn(X.columns)
        self._learn(self._columns.rows(X), labels)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of one row; None before any label was seen.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as River's convention has it.
        """
        if not self._labels:
            return None
        return self._labels[int(self._probabilities(self._columns.row(x)).argmax())]

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of every label seen so far.

        Parameters
        ----------
        x
            Features by name.
        **kwargs
            Ignored, as River's convention has it.
        """
        if not self._labels:
            return {}
        return dict(zip(self._labels, self._probabilities(self._columns.row(x))[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Predict probabilities for the rows of a DataFrame, a column for each label seen so far.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not self._labels:
            return pd.DataFrame(index=X.index)
        return pd.DataFrame(self._probabilities(self._columns.rows(X)), index=X.index, columns=self._labels)

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        if not self._labels:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        winners = self._probabilities(self._columns.rows(X)).argmax(axis=1)
        return pd.Series([self._labels[winner] for winner in winners], index=X.index)

    def _learn(self, rows: NDArray[np.float64], labels: list[Any]) -> None:
        self._model = self._model._with_columns(rows.shape[1])
        start = 0
        for stop, label in enumerate([*labels, _END]):
            if label is not _END and label in self._labels:
                continue
            # Rows up to here have labels that are known; the next label needs room first.
            if stop > start:
                numbers = np.array([self._labels.index(each) for each in labels[start:stop]])
                if hasattr(self._model, "classes_"):
                    _learn_checked(self._model, rows[start:stop], numbers)
                else:
                    self._model.partial_fit(rows[start:stop], numbers, classes=[0, 1])  # the second is yet to come
            if label is not _END:
                self._labels.append(label)
                if len(self._labels) > 2:
                    self._model = self._model._with_another_class()
            start = stop

    def _probabilities(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(self._labels) == 1:
            return np.ones((len(rows), 1))
        margins = _scores(self._model, rows)
        if margins.shape[1] == 1:
            margins = np.column_stack([np.zeros(len(rows)), margins])
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return probabilities


class BudgetMKLRegressor(base.MiniBatchRegressor):
    """Budget online multiple kernel regression for River.

    Parameters
    ----------
    kernels
        The pool of kernels: "paper" for the paper's 16, or a list of `bomkl.kernels`.
    learner
        Update rule of each kernel's function: PA, SPA, BOGD, BPAS, FOGD or NOGD of `bomkl.learners`; None stands for
        SPA. With FOGD, budget is None.
    combiner
        How kernels are weighted, one of `bomkl.combiners`; None stands for the default.
    epsilon
        Errors up to this cost nothing.
    budget
        Largest number of support rows of each kernel; None for no limit.
    seed
        Seed of all random draws.

    Examples
    --------
    >>> from river import compose, datasets, evaluate, metrics, preprocessing
    >>> from bomkl.river import BudgetMKLRegressor
    >>> scaled = preprocessing.TargetStandardScaler(BudgetMKLRegressor(seed=1))
    >>> model = compose.Pipeline(preprocessing.StandardScaler(), scaled)
    >>> metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> metric.get() < 1.0
    True
    """

    def __init__(
        self,
        kernels: Any = "paper",
        learner: Learner | None = None,
        combiner: Combiner | None = None,
        epsilon: float = 0.1,
        budget: int | None = 200,
        seed: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.combiner = combiner
        self.epsilon = epsilon
        self.budget = budget
        self.seed = seed
        self._columns = Columns()
        self._model = estimators.BudgetMKLRegressor(
            kernels=kernels, learner=learner, combiner=combiner, epsilon=epsilon, budget=budget, random_state=seed
        )

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
        self._learn(self._columns.row(x), [target])

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
        self._columns.learn(X.columns)
        self._learn(self._columns.rows(X), targets)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target of one row; 0 before any row was learned from.

        Parameters
        ----------
        x
            Features by name.
        """
        return float(self._predictions(self._columns.row(x))[0])

    def predict_many(self, X: Any) -> Any:
        """Predict the targets of the rows of a DataFrame.

        Parameters
        ----------
        X
            Features, a column for each.
        """
        import pandas as pd

        return pd.Series(self._predictions(self._columns.rows(X)), index=X.index)

    def _learn(self, rows: NDArray[np.float64], targets: list[float]) -> None:
        if len(targets):
            self._model = self._model._with_columns(rows.shape[1])
            if hasattr(self._model, "n_features_in_"):
                _learn_checked(self._model, rows, np.array(targets))
            else:
                self._model.partial_fit(rows, np.array(targets))

    def _predictions(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if not hasattr(self._model, "n_features_in_"):
            return np.zeros(len(rows))
        return _scores(self._model, rows)[:, 0]


def _learn_checked(model: Any, rows: NDArray[np.float64], targets: NDArray[Any]) -> None:
    """Learn rows that were made here, without scikit-learn's checks: for a single row these take most of the time."""
    deltas = model._deltas(None, len(targets))
    model._engine.learn(model._engine_rows(rows), targets.astype(np.float64), None, deltas, model._n_threads())


def _scores(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of rows that were made here, a column for each function, without scikit-learn's checks."""
    scores: NDArray[np.float64] = model._with_columns(rows.shape[1])._engine.score(rows, False, 1)
    return scores

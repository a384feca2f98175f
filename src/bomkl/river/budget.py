"""`BudgetMKLClassifier` and `BudgetMKLRegressor` with rows that are dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl import budget as estimators
from bomkl.combiners import Combiner
from bomkl.learners import Learner
from bomkl.river.base import RiverClassifier, RiverRegressor
from bomkl.river.columns import Columns, TableColumns

Rows = NDArray[np.float64] | list[dict[Any, Any]]  # of numbers, or of a table
_END = object()
_SURELY_IN_RANGE = 1e26  # targets that all models take


class BudgetMKLClassifier(RiverClassifier):
    """Budget online multiple kernel classification for River.

    Parameters
    ----------
    kernels
        "paper" for the 16 kernels of the paper, or a list of `bomkl.kernels`.
    learner
        Update rule of each kernel's function, one of `bomkl.learners`; None is SPA, as in the paper.
    combiner
        How the kernels are weighted, one of `bomkl.combiners`; None is Hedge, as in the paper.
    budget
        Largest number of support vectors of each kernel (and class); None for no limit.
    seed
        Seed of all random numbers.

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
        self._columns: Columns | TableColumns = Columns()
        self._labels: list[Any] = []  # in the order in which they were first seen; their numbers are the classes
        self._model = estimators.BudgetMKLClassifier(
            kernels=kernels, learner=learner, combiner=combiner, budget=budget, random_state=seed
        )

    @property
    def _known(self) -> list[Any]:
        return self._labels

    def _learn_row(self, x: Mapping[Any, Any], label: Any, weight: list[float] | None) -> None:
        self._learn(_one(self._columns.row(x)), [label], weight)

    def _learn_frame(self, X: Any, labels: list[Any], weights: list[float] | None) -> None:
        self._learn(self._columns.rows(X), labels, weights)

    def _winner(self, x: Mapping[Any, Any]) -> int:
        return int(self._row_chances(x).argmax())

    def _winners(self, X: Any) -> Any:
        return self._chances(X).argmax(axis=1)

    def _row_chances(self, x: Mapping[Any, Any]) -> Any:
        return self._probabilities(_one(self._columns.row(x)))[0]

    def _chances(self, X: Any) -> Any:
        return self._probabilities(self._columns.rows(X))

    def _learn(self, rows: Rows, labels: list[Any], weights: list[float] | None) -> None:
        self._model = _widened(self._model, rows)
        start = 0
        for stop, label in enumerate([*labels, _END]):
            if label is not _END and label in self._labels:
                continue
            # Rows up to here have labels that are known; the next label needs room first.
            if stop > start:
                numbers = np.array([self._labels.index(each) for each in labels[start:stop]])
                part = None if weights is None else weights[start:stop]
                if hasattr(self._model, "classes_"):
                    _learn_from(self._model, rows[start:stop], numbers, part)
                else:  # the second class is yet to come
                    self._model.partial_fit(rows[start:stop], numbers, classes=[0, 1], sample_weight=part)
            if label is not _END:
                self._labels = [*self._labels, label]
                if len(self._labels) > 2:
                    self._model = self._model._with_another_class()
            start = stop

    def _probabilities(self, rows: Rows) -> NDArray[np.float64]:
        if len(self._labels) == 1:
            return np.ones((len(rows), 1))
        margins = _scores(self._model, rows)
        if margins.shape[1] == 1:
            margins = np.column_stack([np.zeros(len(rows)), margins])
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return probabilities


class BudgetMKLRegressor(RiverRegressor):
    """Budget online multiple kernel regression for River.

    Parameters
    ----------
    kernels
        "paper" for the 16 kernels of the paper, or a list of `bomkl.kernels`.
    learner
        Update rule of each kernel's function: PA, SPA, BOGD, BPAS, FOGD or NOGD of `bomkl.learners`; None is SPA. With
        FOGD, set ``budget=None``.
    combiner
        How the kernels are weighted, one of `bomkl.combiners`; None is Hedge.
    epsilon
        Errors up to this size cost nothing.
    budget
        Largest number of support vectors of each kernel; None for no limit.
    seed
        Seed of all random numbers.

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
        self._columns: Columns | TableColumns = Columns()
        self._model = estimators.BudgetMKLRegressor(
            kernels=kernels, learner=learner, combiner=combiner, epsilon=epsilon, budget=budget, random_state=seed
        )

    def _learn_row(self, x: Mapping[Any, Any], target: float, weight: list[float] | None) -> None:
        self._learn(_one(self._columns.row(x)), [target], weight)

    def _learn_frame(self, X: Any, targets: list[float], weights: list[float] | None) -> None:
        self._learn(self._columns.rows(X), targets, weights)

    def _prediction(self, x: Mapping[Any, Any]) -> float:
        return float(_scores(self._model, _one(self._columns.row(x)))[0, 0])

    def _predictions(self, X: Any) -> Any:
        return _scores(self._model, self._columns.rows(X))[:, 0]

    def _learn(self, rows: Rows, targets: list[float], weights: list[float] | None) -> None:
        self._model = _widened(self._model, rows)
        if hasattr(self._model, "n_features_in_") and max(map(abs, targets)) < _SURELY_IN_RANGE:
            _learn_from(self._model, rows, np.array(targets), weights)
        else:
            self._model.partial_fit(rows, np.array(targets), sample_weight=weights)


def _one(row: NDArray[np.float64] | dict[Any, Any]) -> Rows:
    """One row as rows."""
    return [row] if isinstance(row, dict) else row


def _learn_from(model: Any, rows: Rows, targets: NDArray[Any], weights: list[float] | None) -> None:
    """Learn rows that were made here: one of numbers without scikit-learn's checks, which take most of the time."""
    if isinstance(rows, list) or len(rows) > 1 or weights is not None:
        model.partial_fit(rows, targets, sample_weight=weights)
    else:
        model.learn_one(rows[0], targets[0].item())


def _scores(model: Any, rows: Rows) -> NDArray[np.float64]:
    """Scores of rows that were made here, a column for each function, without scikit-learn's checks."""
    scores: NDArray[np.float64]
    scores = model._scores(rows) if isinstance(rows, list) else _widened(model, rows)._engine.score(rows, False, 1)
    return scores


def _widened(model: Any, rows: Rows) -> Any:
    """Give a model as many columns as rows of numbers have; those of a table do not change."""
    return model if isinstance(rows, list) else model._with_columns(rows.shape[1])

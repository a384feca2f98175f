"""`BudgetMKLClassifier` and `BudgetMKLRegressor` with rows that are dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl import budget as estimators
from bomkl.budget.growth import widened, with_another_class
from bomkl.combiners import Combiner
from bomkl.learners import Learner
from bomkl.river.base import RiverClassifier, RiverRegressor, Rows, is_row
from bomkl.river.columns import Columns

_END = object()
_LARGE_TARGET = 1e26  # all models take targets below it


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
        self._columns = Columns()
        self._labels: list[Any] = []  # in the order in which they were first seen; their numbers are the classes
        self._model = estimators.BudgetMKLClassifier(
            kernels=kernels, learner=learner, combiner=combiner, budget=budget, random_state=seed
        )

    @property
    def _known(self) -> list[Any]:
        return self._labels

    def _winners(self, rows: Rows) -> Any:
        return self._chances(rows).argmax(axis=1)

    def _learn(self, rows: Rows, targets: list[Any], weights: list[float] | None) -> None:
        labels, rows = targets, _several(rows)
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
                    self._model = with_another_class(self._model)
            start = stop

    def _chances(self, rows: Rows) -> Any:
        rows = _several(rows)
        if len(self._labels) == 1:
            return np.ones((len(rows), 1))
        margins = _scores(self._model, rows)
        if margins.shape[1] == 1:
            margins = np.column_stack([np.zeros(len(rows)), margins])
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


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
        self._columns = Columns()
        self._model = estimators.BudgetMKLRegressor(
            kernels=kernels, learner=learner, combiner=combiner, epsilon=epsilon, budget=budget, random_state=seed
        )

    def _predictions(self, rows: Rows) -> Any:
        return _scores(self._model, _several(rows))[:, 0]

    def _learn(self, rows: Rows, targets: list[Any], weights: list[float] | None) -> None:
        rows = _several(rows)
        self._model = _widened(self._model, rows)
        if hasattr(self._model, "n_features_in_") and max(map(abs, targets)) < _LARGE_TARGET:
            _learn_from(self._model, rows, np.array(targets), weights)
        else:
            self._model.partial_fit(rows, np.array(targets), sample_weight=weights)


def _several(rows: Rows) -> Rows:
    return ([rows] if isinstance(rows, dict) else rows[np.newaxis]) if is_row(rows) else rows


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
    return model if isinstance(rows, list) else widened(model, rows.shape[1])

"""`AutoMKLClassifier` and `AutoMKLRegressor` with rows that are dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from bomkl import auto
from bomkl._support.validation import check_choice, check_count
from bomkl.river.base import NamedColumns, RiverClassifier, RiverRegressor, Rows, is_row
from bomkl.river.columns import FixedColumns


class _AutoModel(NamedColumns):
    """What both models share."""

    _estimator: ClassVar[Any]

    features: int | None = None  # in pickles of earlier versions
    new_columns = "learn"  # likewise
    absent = "zero"  # likewise

    def __init__(
        self,
        budget: int = 200,
        drift: str | None = "auto",
        seed: int | None = None,
        features: int | None = None,
        new_columns: str = "learn",
        absent: str = "zero",
    ) -> None:
        check_choice(type(self).__name__, "absent", absent, ("zero", "missing"))
        if features is not None:
            check_count(type(self).__name__, "features", features)
        self.budget = budget
        self.drift = drift
        self.seed = seed
        self.features = features
        self.new_columns = new_columns
        self.absent = absent
        self._columns = FixedColumns(features, absent)
        self._model = self._estimator(budget=budget, drift=drift, random_state=seed, new_columns=new_columns)

    def _learn(self, rows: Rows, targets: list[Any], weights: list[float] | None) -> None:
        if is_row(rows) and weights is None:
            self._model.learn_one(rows, targets[0])
        else:
            self._model.partial_fit([rows] if is_row(rows) else rows, targets, sample_weight=weights)


class AutoMKLClassifier(_AutoModel, RiverClassifier):
    """Budget online multiple kernel classification with nothing to tune, for River.

    The model scales the features itself. It makes room for `features` features. Features that come when there is no
    more room share columns.

    Parameters
    ----------
    budget
        Largest number of stored rows.
    drift
        How to follow a stream that changes over time: "auto", None (never forget) or "adapt" (several models at once).
    seed
        Seed of all random numbers.
    features
        Number of features to make room for; None for twice as many as the first row has.
    new_columns
        What to do with features that were not in the first row, if rows are a table: "learn", "ignore" or "refuse".
    absent
        What a feature is that a row lacks: "zero", as in the models of River and for rows of few words out of many, or
        "missing", a value that is not known. With "missing", or if the first row has a string, a missing value or a
        date, rows are a table, where all that a row lacks is missing.

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

    _estimator = auto.AutoMKLClassifier
    _codes: Mapping[Any, int] = MappingProxyType({})  # of labels, in the order in which they were first seen

    @property
    def _known(self) -> list[Any]:
        return list(self._codes)

    def _learn(self, rows: Rows, targets: list[Any], weights: list[float] | None) -> None:
        new = dict.fromkeys(label for label in targets if label not in self._codes)
        codes = {**self._codes, **{label: len(self._codes) + i for i, label in enumerate(new)}} if new else self._codes
        super()._learn(rows, [codes[label] for label in targets], weights)
        self._codes = codes

    def _winners(self, rows: Rows) -> Any:
        return [self._model.predict_one(rows)] if is_row(rows) else self._model.predict(rows)

    def _chances(self, rows: Rows) -> Any:
        return [self._model.predict_proba_one(rows)] if is_row(rows) else self._model.predict_proba(rows)


class AutoMKLRegressor(_AutoModel, RiverRegressor):
    """Budget online multiple kernel regression with nothing to tune, for River.

    The model scales features and targets itself. It treats features as `AutoMKLClassifier` does.

    Parameters
    ----------
    budget
        Largest number of stored rows.
    drift
        How to follow a stream that changes over time: "auto", None (never forget) or "adapt" (several models at once).
    seed
        Seed of all random numbers.
    features
        Number of features to make room for; None for twice as many as the first row has.
    new_columns
        What to do with features that were not in the first row, if rows are a table: "learn", "ignore" or "refuse".
    absent
        What a feature is that a row lacks: "zero", as in the models of River and for rows of few words out of many, or
        "missing", a value that is not known. With "missing", or if the first row has a string, a missing value or a
        date, rows are a table, where all that a row lacks is missing.

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

    _estimator = auto.AutoMKLRegressor

    def _predictions(self, rows: Rows) -> Any:
        return [self._model.predict_one(rows)] if is_row(rows) else self._model.predict(rows)

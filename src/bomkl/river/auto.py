"""`AutoMKLClassifier` and `AutoMKLRegressor` with rows that are dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bomkl import auto
from bomkl._support.validation import check_choice, check_count
from bomkl.river.base import RiverClassifier, RiverRegressor
from bomkl.river.columns import Columns, FixedColumns, TableColumns


class AutoMKLClassifier(RiverClassifier):
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
        self._columns: Columns | TableColumns = FixedColumns(features, absent)
        self._codes: dict[Any, int] = {}  # of labels, in the order in which they were first seen
        self._model = auto.AutoMKLClassifier(budget=budget, drift=drift, random_state=seed, new_columns=new_columns)

    @property
    def _known(self) -> list[Any]:
        return list(self._codes)

    def _learn_row(self, x: Mapping[Any, Any], label: Any, weight: list[float] | None) -> None:
        codes = self._codes_with([label])
        row = self._columns.row(x)
        if weight is None:
            self._model.learn_one(row, codes[label])
        else:
            self._model.partial_fit([row], [codes[label]], sample_weight=weight)
        self._codes = codes

    def _learn_frame(self, X: Any, labels: list[Any], weights: list[float] | None) -> None:
        codes = self._codes_with(labels)
        self._model.partial_fit(self._columns.rows(X), [codes[label] for label in labels], sample_weight=weights)
        self._codes = codes

    def _codes_with(self, labels: list[Any]) -> dict[Any, int]:
        new = dict.fromkeys(label for label in labels if label not in self._codes)
        return self._codes | {label: len(self._codes) + i for i, label in enumerate(new)} if new else self._codes

    def _winner(self, x: Mapping[Any, Any]) -> int:
        return int(self._model.predict_one(self._columns.row(x)))

    def _winners(self, X: Any) -> Any:
        return self._model.predict(self._columns.rows(X))

    def _row_chances(self, x: Mapping[Any, Any]) -> Any:
        return self._model.predict_proba_one(self._columns.row(x))

    def _chances(self, X: Any) -> Any:
        return self._model.predict_proba(self._columns.rows(X))


class AutoMKLRegressor(RiverRegressor):
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
        self._columns: Columns | TableColumns = FixedColumns(features, absent)
        self._model = auto.AutoMKLRegressor(budget=budget, drift=drift, random_state=seed, new_columns=new_columns)

    def _learn_row(self, x: Mapping[Any, Any], target: float, weight: list[float] | None) -> None:
        row = self._columns.row(x)
        if weight is None:
            self._model.learn_one(row, target)
        else:
            self._model.partial_fit([row], [target], sample_weight=weight)

    def _learn_frame(self, X: Any, targets: list[float], weights: list[float] | None) -> None:
        self._model.partial_fit(self._columns.rows(X), targets, sample_weight=weights)

    def _prediction(self, x: Mapping[Any, Any]) -> float:
        return float(self._model.predict_one(self._columns.row(x)))

    def _predictions(self, X: Any) -> Any:
        return self._model.predict(self._columns.rows(X))

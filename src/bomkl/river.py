"""River models: the estimators of this package with rows that are dictionaries, one or many at a time.

Features may appear, vanish and come in any order: each name gets a column when it is first seen, and a feature that is
absent counts as zero. Labels need not be known beforehand either. New columns and new classes widen what was learned
without changing it. River is needed: ``pip install 'bomkl[river]'``.
"""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl import auto
from bomkl import budget as estimators
from bomkl.combiners import Combiner
from bomkl.learners import Learner

try:
    from river import base
except ImportError as missing:
    raise ImportError("bomkl.river needs River. Install it with: pip install 'bomkl[river]'") from missing

_FIRST_WIDTH = 8


class _Columns:
    """Columns of feature names, in the order in which names were first seen."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def learn(self, names: Iterable[Any]) -> None:
        """Give new names their columns; names that are new together are sorted, so their order has no effect."""
        for name in sorted(
            (name for name in names if name not in self.places), key=lambda name: (str(name), repr(name))
        ):
            self.places[name] = len(self.places)

    @property
    def width(self) -> int:
        """Number of columns, with room to grow."""
        return max(_FIRST_WIDTH, 1 << (len(self.places) - 1).bit_length()) if self.places else _FIRST_WIDTH

    def row(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """One row as a matrix; names without a column are left out."""
        row = np.zeros((1, self.width))
        for name, value in x.items():
            place = self.places.get(name)
            if place is not None:
                row[0, place] = _number(name, value)
        return row

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows of a DataFrame as a matrix; names without a column are left out."""
        rows = np.zeros((len(X), self.width))
        for name in X.columns:
            place = self.places.get(name)
            if place is not None:
                rows[:, place] = [_number(name, value) for value in X[name]]
        return rows


class _FixedColumns(_Columns):
    """Columns of a model whose width is fixed by its first row, with room to grow.

    Names that come when all columns are taken share one by their hash, so that endless new names need no more memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self._width = 0

    def learn(self, names: Iterable[Any]) -> None:
        """Give new names their columns, while there are any."""
        names = list(names)
        if not self._width:
            self._width = max(_FIRST_WIDTH, 1 << len(names).bit_length())
        new = sorted((name for name in names if name not in self.places), key=lambda name: (str(name), repr(name)))
        for name in new[: self._width - len(self.places)]:
            self.places[name] = len(self.places)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self._width

    def place(self, name: Any) -> int:
        """Column of a name."""
        place = self.places.get(name)
        if place is None:
            full = len(self.places) == self._width
            return zlib.crc32(repr(name).encode()) % self._width if full else -1
        return place

    def row(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """One row; names without a column are left out."""
        row = np.zeros(self._width)
        for name, value in x.items():
            if (place := self.place(name)) >= 0:
                row[place] += _number(name, value)
        return row

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows of a DataFrame as a matrix; names without a column are left out."""
        rows = np.zeros((len(X), self._width))
        for name in X.columns:
            if (place := self.place(name)) >= 0:
                rows[:, place] += [_number(name, value) for value in X[name]]
        return rows


def _number(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The feature {name!r} must be a number. Got {value!r} instead; a OneHotEncoder of River encodes names."
        ) from error
    if not math.isfinite(number):
        raise ValueError(f"The feature {name!r} must be a finite number. Got {value!r} instead.")
    return number


def _check_numbers(x: Mapping[Any, Any]) -> None:
    """Refuse a row before anything is learned from it, its names included."""
    for name, value in x.items():
        _number(name, value)


def _check_frame(X: Any) -> None:
    for name in X.columns:
        for value in X[name]:
            _number(name, value)


def _check_label(label: Any) -> None:
    """Refuse what could never be told from other labels, or be a key of the probabilities."""
    try:
        hash(label)
    except TypeError:
        rule = "hashable, such as a string, a number or a bool"
        raise ValueError(f"The label y must be {rule}. Got {label!r} instead.") from None
    try:
        is_missing = bool(label != label)
    except TypeError:  # pandas.NA
        is_missing = True
    if is_missing:
        raise ValueError(f"The label y must be known. Got {label!r} instead; leave rows without a label out.")


def _target(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"The target y must be a finite number. Got {value!r} instead; leave such rows out.")
    return number


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
        self._columns = _Columns()
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
        _check_label(y)
        _check_numbers(x)
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
            _check_label(label)
        _check_frame(X)
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
        self._model = _widened(self._model, rows.shape[1])
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
                    self._model = _with_another_class(self._model)
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
        self._columns = _Columns()
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
        target = _target(y)
        _check_numbers(x)
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
        targets = [_target(value) for value in y]
        _check_frame(X)
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
            self._model = _widened(self._model, rows.shape[1])
            if hasattr(self._model, "n_features_in_"):
                _learn_checked(self._model, rows, np.array(targets))
            else:
                self._model.partial_fit(rows, np.array(targets))

    def _predictions(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if not hasattr(self._model, "n_features_in_"):
            return np.zeros(len(rows))
        return _scores(self._model, rows)[:, 0]


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
        self._columns = _FixedColumns()
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
        _check_label(y)
        _check_numbers(x)
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
            _check_label(label)
        _check_frame(X)
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
        self._columns = _FixedColumns()
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
        target = _target(y)
        _check_numbers(x)
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
        targets = [_target(value) for value in y]
        _check_frame(X)
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


_END = object()


def _learn_checked(model: Any, rows: NDArray[np.float64], targets: NDArray[Any]) -> None:
    """Learn rows that were made here, without scikit-learn's checks: for a single row these take most of the time."""
    deltas = model._deltas(None, len(targets))
    model._engine.learn(model._engine_rows(rows), targets.astype(np.float64), None, deltas, model._n_threads())


def _scores(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of rows that were made here, a column for each function, without scikit-learn's checks."""
    scores: NDArray[np.float64] = _widened(model, rows.shape[1])._engine.score(rows, False, 1)
    return scores


def _widened(model: Any, width: int) -> Any:
    """Give a model with more features, all zero in the rows it has stored, so that it predicts as before."""
    before = getattr(model, "n_features_in_", width)
    if before == width:
        return model
    state = model.__getstate__()
    learned = copy.deepcopy(state["_engine"])
    learned["engine"]["rows"] = np.pad(learned["engine"]["rows"], ((0, 0), (0, width - before)))
    return _revived(model, {**state, "_engine": learned, "n_features_in_": width})


def _with_another_class(model: Any) -> Any:
    """Give a classifier with one more class, for which every row so far was an example of what it is not.

    Two classes share one function, whose negative is the function of the first; from three on each has its own.
    """
    state = model.__getstate__()
    learned = copy.deepcopy(state["_engine"])
    engine, n_kernels = learned["engine"], len(model.kernels_)
    n_classes = len(model.classes_)
    if n_classes == 2:
        engine = _doubled(engine)
    engine["term_starts"] = _lengthened(engine["term_starts"], n_kernels)
    engine["gram_starts"] = _lengthened(engine["gram_starts"], n_kernels)
    fresh = {"scales": np.ones(n_kernels), "forgetron": np.zeros(2 * n_kernels)}
    fresh["log_weights"] = np.full(n_kernels, -np.log(n_kernels))
    fresh["kernel_mistakes"] = np.zeros(n_kernels, dtype=np.int64)
    if "feature_weights" in engine:
        fresh["feature_weights"] = np.zeros(n_kernels * 2 * model.learner.n_frequencies)
    for name, values in fresh.items():
        engine[name] = np.concatenate([engine[name], values.astype(engine[name].dtype)])
    learned |= {"engine": engine, "task": "multiclass", "n_outputs": n_classes + 1}
    return _revived(model, {**state, "_engine": learned, "classes_": np.arange(n_classes + 1)})


def _doubled(engine: dict[str, Any]) -> dict[str, Any]:
    """Turn the function of two classes into one for each: the negative for the first, then the function itself."""
    twice = dict(engine)
    for name in ("term_rows", "scales", "forgetron", "inverse_gram", "log_weights", "kernel_mistakes"):
        twice[name] = np.tile(engine[name], 2)
    for name in {"term_coefs", "feature_weights"} & set(engine):
        twice[name] = np.concatenate([-engine[name], engine[name]])
    for name in ("term_starts", "gram_starts"):
        starts = engine[name]
        twice[name] = np.concatenate([starts, starts[1:] + starts[-1]])
    return twice


def _lengthened(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.concatenate([starts, np.full(count, starts[-1], dtype=starts.dtype)])


def _revived(model: Any, state: dict[str, Any]) -> Any:
    kind: type[Any] = type(model)
    changed = object.__new__(kind)
    changed.__setstate__(state)
    return changed

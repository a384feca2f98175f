"""`AutoMKLRegressor`."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from bomkl._estimators.labels import checked_numbers
from bomkl._estimators.online import OnlineRegressor
from bomkl._support.change import change
from bomkl._support.drawn_rows import Drawn, drawn_order
from bomkl._support.limits import LARGEST
from bomkl._support.validation import check_as_many, check_choice, is_finite_number
from bomkl.auto.device import on_host
from bomkl.auto.estimators.estimator import AutoEstimator
from bomkl.auto.estimators.uncertainty import ErrorModel
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import Learner
from bomkl.auto.parallel import Mapper
from bomkl.auto.saved import State
from bomkl.tables.encoded import EncodedRows, numbers_of


def _has_intervals(model: Any) -> bool:
    """Whether a model can tell its errors; raises AttributeError where it cannot."""
    if model.update == "rounds":
        raise AttributeError(
            "Deviations and intervals need update='rows': a round changes the model only when it ends, "
            "and its errors do not say how good the next predictions are."
        )
    if hasattr(model, "_learner") and not hasattr(model, "_errors"):
        raise AttributeError("This model was saved by a version without intervals. Learn from more rows first.")
    return True


_ERRORS_DRIFT = {None: False, "adapt": True, "auto": None}  # None: drift or not, as it was when they were first learned


class AutoMKLRegressor(OnlineRegressor, AutoEstimator):
    """Budget online multiple kernel regression with nothing to tune.

    The model has the same kernels, stored rows and combination as `AutoMKLClassifier`. It scales the target itself.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows. Memory, and the time for a row, grow with its square.
    loss : {"squared", "huber"}, default="squared"
        "huber" for targets with outliers: beyond one (robust) standard deviation of the target, it grows linearly.
    drift : {"auto", None, "adapt"}, default="auto"
        How to follow a stream that changes over time. "auto" adds small experts of the last rows, most of which sleep
        until there is evidence of drift. None never forgets. "adapt" learns with several models at once, and takes at
        least three times as long. Rows that `fit` shuffles have no order of time, so "auto" is None there; the experts
        begin with the first row that comes after `fit`. "auto" is also None with ``update="rounds"``, on a GPU, and for
        more than 512 columns.
    update : {"rows", "rounds"}, default="rows"
        When the model learns: after every row, or in rounds, which suit large tables. Rounds take less than half the
        time on one thread, use all threads of `n_jobs`, and can be split over machines (`bomkl.merge`, `bomkl.dask`).
        Predictions include every row given so far in both cases.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where the model learns: on the processor, or on a GPU through PyTorch (``pip install '.[gpu]'``). "auto"
        uses a GPU if there is one. The processor always keeps the trees, the first 256 rows, and rows of more than 512
        columns. The result is the same except for rounding, and you may change the device of a model at any time.
    trees : bool, default=True
        Whether to use trees beside the kernels: boosted trees and a forest, grown from a bounded sample of the stream.
        They lower the error if columns matter at thresholds, and take about a third of the time. With
        ``update="rounds"`` there are only those that come after 20,480 rows; there are none for more than 512 columns.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of a table hold. For all other columns, the types of the table or their first values decide.
    new_columns : {"learn", "ignore", "refuse"}, default="learn"
        What to do with columns that were not in the first row of a table: learn from them, ignore them with a warning,
        or raise an error. Those that come after three quarters of `budget` rows cannot be learned and are ignored.
    missing : {"learn", "refuse"}, default="learn"
        What NaN in an array is: a missing value, filled in from the other columns and rows, or an error. In rows of
        more than 512 columns, a missing value counts as zero. Tables may always have missing values.
    memory : int, str or None, default=None
        Most memory for what is learned: bytes, or a string such as ``"256 MB"``. None: 256 MiB, or twice what the
        kernels need at most. It decides how many rows of a long stream are kept for the trees and the network that grow
        with it (see ``docs/auto.md``). The kernels need some megabytes, which grow with the square of `budget`; a limit
        below that only switches growth off.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        If above 0, show a progress bar on stderr while the model learns.

    Attributes
    ----------
    kernels_ : list of PoolMember
        The pool: kernels, linear models and trees. Each has a ``name``, its ``kernel`` and the ``view`` of the
        columns that the kernel works on.
    kernel_weights_ : ndarray of shape (n_kernels,)
        Weight of each member of the pool in the combination. The weights sum to 1.
    component_errors_ : ndarray of shape (n_kernels,)
        Mean squared error of each member alone, each row predicted before the model learned from it.
    support_vectors_ : ndarray of shape (n_rows, n_columns)
        Stored rows; those of a table as ``encoder_`` has encoded them.
    n_support_ : ndarray of shape (n_kernels,)
        Number of stored rows that each member uses as landmarks.
    n_seen_ : int
        Number of rows that the model has learned from.
    drift_ : list of DriftEvent
        Changes of the stream that ``drift="auto"`` has noticed: when, how strong, and which experts took over.
    nbytes_ : int
        Memory of the learned arrays, in bytes.
    n_features_in_ : int
        Number of columns, of a table as well.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much each column matters: what shuffling it would add to the loss of rows not yet learned from, in shares
        of all columns.
    feature_importances_std_ : ndarray of shape (n_features_in_,)
        Standard error of each of them. A column within two of zero may be noise.
    encoder_ : TableEncoder or None
        What encodes the rows of a table; None if the model learned from a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bomkl import AutoMKLRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 1))
    >>> model = AutoMKLRegressor(budget=100, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.99
    True
    """

    _learned = (*AutoEstimator._learned, "_errors")
    _target = "number"

    def __init__(
        self,
        budget: int = 1000,
        loss: str = "squared",
        drift: str | None = "auto",
        update: str = "rows",
        device: str = "cpu",
        trees: bool = True,
        types: dict[Any, str] | None = None,
        new_columns: str = "learn",
        missing: str = "learn",
        memory: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.budget = budget
        self.loss = loss
        self.drift = drift
        self.update = update
        self.device = device
        self.trees = trees
        self.types = types
        self.new_columns = new_columns
        self.missing = missing
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, shuffle: bool | None = None) -> Self:
        """Forget everything, then learn from the rows of a table once, in a random order.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        shuffle : bool or None, default=None
            Whether to learn from the rows in a random order, which `random_state` decides. False is for rows in the
            order of time. None is True, but False with ``drift="adapt"``.

        Returns
        -------
        self : object
            The fitted estimator.
        """

        def learn(model: Self) -> None:
            model._learn_rows(X, y, sample_weight, with_scores=False, shuffle=shuffle)

        change(self, learn, anew=True)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the targets of rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return the expected standard deviation of each error as well.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
            Predictions.
        deviations : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        now = self._now()
        rows = now._check_known_rows(X)
        predictions = now._scores_as_learned(rows)[:, 0]
        if not return_std:
            return predictions
        errors = now._error_model()
        with now._working(rows.shape[0]) as run:
            return predictions, errors.deviations(numbers_of(rows), run)

    @available_if(_has_intervals)  # type: ignore[untyped-decorator]
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Float:
        """Predict an interval for the target of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Share of the targets that should lie inside, from 0.5 to 0.99.

        Returns
        -------
        intervals : ndarray of shape (n_samples, 2)
            Lower and upper end. An interval is wide if the errors of similar rows were large. The widths are
            calibrated on the last rows, each predicted before the model learned from it.

        Examples
        --------
        >>> import numpy as np
        >>> from bomkl import AutoMKLRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 1, size=(2000, 1))
        >>> y = X[:, 0] + 0.2 * X[:, 0] * rng.normal(size=2000)  # the noise grows with the column
        >>> model = AutoMKLRegressor(budget=50, random_state=0).fit(X, y)
        >>> widths = np.diff(model.predict_interval([[0.1], [0.9]]), axis=1)[:, 0]
        >>> bool(widths[1] > 2 * widths[0])
        True
        """
        if not isinstance(coverage, Real) or isinstance(coverage, bool) or not 0.5 <= float(coverage) <= 0.99:
            raise ValueError(
                f"The coverage of predict_interval must be a number from 0.5 to 0.99. Got {coverage!r} instead."
            )
        now = self._now()
        rows = now._check_known_rows(X)
        predictions, errors = now._scores_as_learned(rows)[:, 0], now._error_model()
        with now._working(rows.shape[0]) as run:
            reaches = errors.reaches(numbers_of(rows), float(coverage), run)
        return np.column_stack([predictions - reaches, predictions + reaches])

    def _error_model(self) -> ErrorModel:
        _has_intervals(self)
        errors: ErrorModel = self._errors
        return errors.settled()

    def learn_one(self, x: Any, y: float) -> float:
        """Learn from one row, and return what was predicted before: `score_and_learn` for one row.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row. A dict or Series names the columns; the model must know these names.
        y : float
            Its target.

        Returns
        -------
        prediction : float
            The prediction.
        """
        scores = self._learn_one(x, y) if hasattr(self, "_learner") else None
        return float(self.score_and_learn(self._whole_row(x), [y])[0] if scores is None else scores)

    def _row_target(self, y: Any) -> float | None:
        return float(y) if is_finite_number(y) and abs(y) <= LARGEST else None

    def _single_target(self, y: NDArray[Any]) -> float | None:
        return self._row_target(y.item()) if y.dtype == np.float64 else None

    def _after_row(self, row: Any, y: float, learner: Learner, scores: Float) -> dict[str, Any]:
        after = super()._after_row(row, y, learner, scores)
        if self.update == "rounds":  # whose errors say little about the next predictions
            return after
        errors: ErrorModel | None = after.get("_errors")  # files of 0.1.0 have none
        if errors is None:
            errors = ErrorModel(self._learner.settings, self._n_columns(), self._errors_drift)
        errors = errors.with_noted(row.copy(), y - float(scores[0, 0]))
        if errors.has_noted_many:
            errors = errors.fork()
            errors.learn_noted()
        after["_errors"] = errors
        return after

    @property
    def _errors_drift(self) -> bool:
        return self.drift == "adapt" or self._follows_drift

    def _shown_error(self) -> str:
        best = float(np.min(self.component_errors_, initial=np.inf))
        return f"root mean square {best**0.5:.4g} of the best component alone, before learning each row"

    def _check_saved(self) -> None:
        super()._check_saved()
        if not self._learner.task.is_regression:
            raise ValueError("The saved model is not one of a regressor.")
        if (saved := self.__dict__.pop("_errors", None)) is not None:
            self._errors = ErrorModel.from_state(
                saved, self._learner.settings, self._n_columns(), _ERRORS_DRIFT[self._started_with["drift"]]
            )
            if self._errors.seen > self._learner.seen:
                raise ValueError("The saved model has errors of more rows than it learned from.")

    def __getstate__(self) -> State:
        state = super().__getstate__()
        if "_errors" in state:
            state["_errors"] = state["_errors"].to_state()
        return state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(type(self).__name__, "loss", self.loss, ("squared", "huber"))

    def _learn_rows(
        self, X: Any, y: Any, sample_weight: Any, *, with_scores: bool, shuffle: bool | None = False
    ) -> Float:
        first = not hasattr(self, "_learner")
        self._prepare(first)
        X = self._check_rows(X, first)
        targets = checked_numbers(on_host(y))
        check_as_many(X.shape[0], len(targets), "targets")
        outside = np.abs(targets) > LARGEST
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"y must lie within {LARGEST:g}. Row {row} has {targets[row]:g} instead. Scale the targets."
            )
        weight = self._check_weight(sample_weight, X)
        seed = self._draw_seed() if first else 0
        shuffled = self._shuffles(shuffle)
        if shuffled:
            order = drawn_order(seed, weight)
            X, targets, weight = Drawn(X, order), targets[order], weight[order]
        if first:
            self._start(True, 2, seed)
            if not shuffled:
                self._follow_drift()
        if self.update == "rows" and not hasattr(self, "_errors"):  # files of 0.1.0 have none
            self._errors = ErrorModel(self._learner.settings, self._n_columns(), self._errors_drift)
        learned = self._learn_in_parts(X, targets, weight, with_scores=with_scores, shuffled=shuffled)
        return np.concatenate([np.empty(0), *learned])

    def _piece(self, X: Any, y: Float, weight: Float, kind: str, run: Mapper) -> Float:
        if kind == "skip":
            return self._learner.scores(X, run)[:, 0]
        scores = self._score_and_learn(X, y, weight, run)[:, 0]
        if self.update == "rows":
            self._errors.learn(numbers_of(X), y - scores, weight, run)
        return scores

    def _learn_anew(self, X: EncodedRows, y: Float, weight: Float) -> Float:
        scores = super()._learn_anew(X, y, weight)
        if self.update == "rows":
            self._errors = ErrorModel(self._learner.settings, self._n_columns(), self._errors_drift)
            with self._working(len(y)) as run:
                self._errors.learn(X.numbers, y - scores[:, 0], weight, run)
        return scores

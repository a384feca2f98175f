"""`AutoMKLClassifier` and `AutoMKLRegressor` on Dask."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, Self

import dask.base
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bomkl import auto, modelfile
from bomkl._support.progress import progress_bar
from bomkl._support.repr import ShowsState, State
from bomkl.dask.runner import DaskRunner, current_client
from bomkl.dask.tables import delayed_tables
from bomkl.partitions import Job, learn_partitions


class _DaskEstimator(ShowsState):
    """All of both estimators but what their tasks ask for."""

    checkpoint: str | None
    client: Any
    get_params: Callable[..., dict[str, Any]]
    _local: Callable[..., Any]
    _regression: bool
    _quality: Callable[[Any, Any, Any], float]

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, target: Any = "y") -> Self:
        """Learn from all rows once, in a random order.

        Parameters
        ----------
        X : Dask DataFrame or array, list of delayed partitions or futures, or path of a Parquet file or folder
            Rows. A delayed partition is a table, or a tuple of rows, targets and, if there are any, weights.
        y : Dask Series or array or None, default=None
            Targets. None: they are a column of the table.
        sample_weight : name of a column, Dask Series or array, or None, default=None
            Weights of the rows. Rows of weight 0 are skipped, and a weight above 1000 counts as 1000.
        target : name, default="y"
            Column of the targets.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in self._shared()}
        return self._learn(self._local(update="rounds", **settings), X, y, sample_weight, target, resume=True)

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, target: Any = "y") -> Self:
        """Learn from more rows.

        It takes and returns what `fit` does.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight=sample_weight, target=target)
        return self._learn(copy.deepcopy(self.model_), X, y, sample_weight, target, resume=False)

    def score(self, X: Any, y: Any = None, *, sample_weight: Any = None, target: Any = "y") -> float:
        """Score the model: accuracy of a classifier, R^2 of a regressor.

        Parameters
        ----------
        X : Dask DataFrame or array
            Rows.
        y : Dask Series or array or None, default=None
            Labels or targets. None: they are a column of the table.
        sample_weight : name of a column, Dask Series or array, or None, default=None
            Weights of the rows.
        target : name, default="y"
            Column of the labels or targets.

        Returns
        -------
        score : float
            The score.
        """
        weight = X[sample_weight] if isinstance(sample_weight, str) else sample_weight
        y = X[target] if y is None else y
        weight = (y == y).astype(float) if weight is None else weight
        return self._quality(self.predict(X), y, weight)

    def _shown_state(self) -> State:
        return self.model_._shown_state() if hasattr(self, "model_") else []

    def to_local(self) -> Any:
        """Return the model as an estimator that needs no Dask.

        Returns
        -------
        model : estimator
            `bomkl.AutoMKLClassifier` or `bomkl.AutoMKLRegressor`.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.model_

    def predict(self, X: Any) -> Any:
        """Predict rows; Dask tables and arrays are predicted lazily.

        Parameters
        ----------
        X : Dask DataFrame or array, or rows in memory
            Rows.

        Returns
        -------
        predictions : Dask Series or array, or an array
            Predictions, of the same kind as the rows.
        """
        return self._lazily("predict", X)

    def _shared(self) -> set[str]:
        """Names of the settings that the local estimator has, too."""
        return set(self.get_params(deep=False)) - {"client", "checkpoint"}

    def _learn(self, model: Any, X: Any, y: Any, sample_weight: Any, target: Any, resume: bool) -> Self:
        tables = delayed_tables(X, y, sample_weight, target)
        folder = os.path.dirname(os.path.abspath(self.checkpoint or ""))
        if not os.path.isdir(folder):  # rather now than after the first round
            raise FileNotFoundError(f"checkpoint={self.checkpoint!r}: there is no folder {folder}.")
        with current_client(self.client) as client:
            runner = DaskRunner(client, tables)
            with progress_bar(len(tables), "counting rows", "partition") as bar:
                summaries = runner.summaries(len(tables), self._regression, bar.update)
            job = Job(model, summaries)
            if resume:
                self._resume(job)
            with progress_bar(job.rows, "learning", "row", initial=job.done) as bar:
                learn_partitions(job, runner, lambda: self._save(job), bar.update)
        self.model_ = job.model
        self.n_features_in_ = self.model_.n_features_in_
        return self

    def _save(self, job: Job) -> None:
        if self.checkpoint is not None:
            notes = job.notes() | {"finished": job.done == job.rows}
            modelfile.save(job.model, self.checkpoint, {"partitions": notes})

    def _resume(self, job: Job) -> None:
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return
        saved = modelfile.read(self.checkpoint)
        notes = saved.notes.get("partitions")
        if notes is None:
            raise ValueError(f"{self.checkpoint}: is not a checkpoint of bomkl.dask. Remove it, or name another.")
        if not notes["finished"]:
            job.resume(saved.estimator, notes)

    def _lazily(self, method: str, X: Any) -> Any:
        model = self.to_local()
        names = getattr(model, "feature_names_in_", None)
        wide = method == "predict_proba"
        width = len(model.classes_) if wide else 0
        kind = np.float64 if wide or self._regression else model.classes_.dtype
        nothing = np.empty((0, width) if wide else 0, dtype=kind)

        def call(rows: Any) -> Any:
            framed = hasattr(rows, "columns")
            if framed and names is not None:  # without the target; what a table lacks is missing
                rows = rows[[name for name in names if name in rows.columns]]
            found = getattr(model, method)(rows) if rows.shape[0] else nothing
            if not hasattr(rows, "index"):
                return found
            import pandas as pd

            return pd.DataFrame(found, rows.index, model.classes_) if wide else pd.Series(found, rows.index)

        if hasattr(X, "map_partitions"):
            return X.map_partitions(call, meta=call(X._meta))
        if hasattr(X, "map_blocks"):
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            if wide:
                return X.map_blocks(call, meta=nothing, chunks=(X.chunks[0], (width,)))
            return X.map_blocks(call, meta=nothing, drop_axis=1)
        return call(X)


class AutoMKLClassifier(_DaskEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Budget online multiple kernel classification on Dask.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows.
    client : distributed.Client or None, default=None
        The cluster. None: the current client, or a new cluster on this machine.
    checkpoint : path or None, default=None
        Model file that is written after each round. If it exists and is not finished, `fit` goes on from it.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of a table hold. For all other columns, the types of the table or their first values decide.
    random_state : int, RandomState or None, default=None
        Source of all random numbers.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where the workers compute. "auto": a worker that has a GPU uses it. "cuda": every worker must have one.

    Attributes
    ----------
    model_ : bomkl.AutoMKLClassifier
        The model.
    n_features_in_ : int
        Number of columns.
    """

    _local = auto.AutoMKLClassifier
    _regression = False

    def __init__(
        self,
        budget: int = 1000,
        client: Any = None,
        checkpoint: str | None = None,
        types: dict[Any, str] | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.budget = budget
        self.client = client
        self.checkpoint = checkpoint
        self.types = types
        self.random_state = random_state
        self.device = device

    @property
    def classes_(self) -> Any:
        """The labels."""
        return self.to_local().classes_

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes; of Dask tables and arrays lazily.

        Parameters
        ----------
        X : Dask DataFrame or array, or rows in memory
            Rows.

        Returns
        -------
        probabilities : Dask DataFrame or array, or an array
            A column for each of ``classes_``.
        """
        return self._lazily("predict_proba", X)

    def _quality(self, found: Any, y: Any, weight: Any) -> float:
        right, whole = dask.base.compute(((found == y).astype(float) * weight).sum(), weight.sum())
        return float(right / whole)


class AutoMKLRegressor(_DaskEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Budget online multiple kernel regression on Dask.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows.
    client : distributed.Client or None, default=None
        The cluster. None: the current client, or a new cluster on this machine.
    checkpoint : path or None, default=None
        Model file that is written after each round. If it exists and is not finished, `fit` goes on from it.
    loss : {"squared", "huber"}, default="squared"
        "huber" for targets with outliers: beyond one (robust) standard deviation of the target, it grows linearly.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of a table hold. For all other columns, the types of the table or their first values decide.
    random_state : int, RandomState or None, default=None
        Source of all random numbers.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where the workers compute. "auto": a worker that has a GPU uses it. "cuda": every worker must have one.

    Attributes
    ----------
    model_ : bomkl.AutoMKLRegressor
        The model.
    n_features_in_ : int
        Number of columns.
    """

    _local = auto.AutoMKLRegressor
    _regression = True

    def __init__(
        self,
        budget: int = 1000,
        client: Any = None,
        checkpoint: str | None = None,
        loss: str = "squared",
        types: dict[Any, str] | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.budget = budget
        self.client = client
        self.checkpoint = checkpoint
        self.loss = loss
        self.types = types
        self.random_state = random_state
        self.device = device

    def _quality(self, found: Any, y: Any, weight: Any) -> float:
        mean = (y * weight).sum() / weight.sum()
        left, whole = dask.base.compute((weight * (found - y) ** 2).sum(), (weight * (y - mean) ** 2).sum())
        return float(1 - left / whole)

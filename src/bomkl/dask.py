"""AutoMKL on Dask: tables larger than one machine, in rounds of sums.

Every task is a pure function of one partition, so that the scheduler may run it again anywhere: a worker that dies
costs time and changes no bit of the model. The model itself stays with the client, which writes a
checkpoint after each round.

>>> import dask.dataframe as dd, pandas as pd, numpy as np
>>> from bomkl.dask import AutoMKLClassifier
>>> X = np.random.default_rng(0).normal(size=(3000, 2))
>>> table = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1] > 0}), npartitions=4)
>>> model = AutoMKLClassifier(budget=100, random_state=0).fit(table, target="y")
>>> model.score(table, target="y") > 0.95
True
"""

from __future__ import annotations

import contextlib
import copy
import glob
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bomkl import auto, modelfile
from bomkl._repr import ShowsState, State
from bomkl.partitions import (
    Call,
    Gains,
    Job,
    PartitionError,
    Piece,
    Runner,
    features,
    learn_partitions,
    named,
    piece_sums,
    total,
)
from bomkl.progress import progress_bar

try:
    import dask.base
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ImportError("bomkl.dask needs Dask: pip install 'bomkl[dask]'") from error

_ADD_AT_ONCE = 16  # pieces whose gains are added on a worker before they go to the client
_PATIENCE = 300  # seconds without any worker
_PATIENCE_AFTER_DEATHS = 60
_LOOK = 5  # seconds between two looks at the workers

# ---------------------------------------------------------------- partitions, on the workers


def _table(part: Any, number: int, target: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Rows, targets and weights of a partition."""
    with named(number):
        if isinstance(part, tuple):
            X, y, *rest = part
            return features(X), _plain(y), _plain(rest[0]) if rest else None
        for name in (target, *([] if weight is None else [weight])):
            if name not in part.columns:
                raise ValueError(f"there is no column {name!r}.")
        names = [name for name in part.columns if name not in (target, weight)]
        return features(part[names]), _plain(part[target]), None if weight is None else _plain(part[weight])


def _plain(column: Any) -> Any:
    return None if column is None else np.asarray(column).reshape(-1)


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _itself(value: Any) -> Any:
    return value


def _gains(table: tuple[Any, ...], static: Any, means: Any, piece: Piece) -> Gains:
    return piece_sums(static, means, piece, *table)


# ---------------------------------------------------------------- partitions, at the client


def _delayed_parts(data: Any, y: Any, sample_weight: Any, target: Any) -> tuple[list[Delayed], Any]:
    """Partitions as delayed objects, and the name of the column of weights, where it is one."""
    if isinstance(data, str | os.PathLike):
        data = _read_folder(os.fspath(data))
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        weight = sample_weight if isinstance(sample_weight, str) else None
        for name, argument in ((target, "target"), (weight, "sample_weight")):
            if name is not None and name not in data.columns and (argument != "target" or y is None):
                raise ValueError(f"{argument}={name!r} is not a column of the table. It has {list(data.columns)}.")
        if y is None and (weight is not None or sample_weight is None):
            return list(data.to_delayed()), weight
        data, y, sample_weight = _split_table(data, y, sample_weight, target, weight)
        columns = [each for each in (data, y, sample_weight) if each is not None]
        counts = [each.npartitions for each in columns]
        if len(set(counts)) > 1:
            raise ValueError(f"X, y and sample_weight must have the same number of partitions. Got {counts}.")
        return [
            delayed(_together)(*parts) for parts in zip(*(each.to_delayed() for each in columns), strict=True)
        ], None
    if hasattr(data, "to_delayed"):  # an array
        if y is None:
            raise ValueError("Arrays need their targets: fit(X, y).")
        data = data.rechunk({1: -1}) if data.ndim == 2 and data.numblocks[1] > 1 else data
        others = [each.rechunk({0: data.chunks[0]}) for each in (y, sample_weight) if each is not None]
        blocks = [each.to_delayed().reshape(-1) for each in (data, *others)]
        return [delayed(_together)(*parts) for parts in zip(*blocks, strict=True)], None
    if isinstance(data, Sequence) and all(isinstance(part, Delayed) for part in data):
        return list(data), sample_weight
    raise TypeError(
        "Data must be a Dask DataFrame or array, a list of delayed partitions, or the path of a Parquet file or "
        f"folder. Got {type(data).__name__}."
    )


def _split_table(data: Any, y: Any, sample_weight: Any, target: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Take targets and weights that are columns out of a table."""
    if weight is not None:
        data, sample_weight = data.drop(columns=weight), data[weight]
    if y is None:
        data, y = data.drop(columns=target), data[target]
    return data, y, sample_weight


def _read_folder(path: str) -> Any:
    import dask.dataframe as dd

    if not (glob.glob(path) or os.path.exists(path)):
        raise FileNotFoundError(f"{path}: there is no such file or folder.")
    return dd.read_parquet(path)


class _DaskRunner(Runner):
    """Calls the functions of `bomkl.partitions` on the workers."""

    def __init__(self, client: Any, tables: list[Delayed]) -> None:
        self.client, self.tables = client, tables
        self.held: dict[int, Any] = {}  # partitions that a round has taken a part of: the next one takes more
        self.static: Any = None
        self.deaths = False  # workers have died of a task more often than Dask bears

    def gains(self, job: Job, pieces: list[Piece]) -> Iterable[Gains]:
        """Yield gains of groups of pieces, as they are ready."""
        if self.static is None:
            self.static = delayed(_itself)(job.static())
        means = delayed(_itself)(job.means())
        self._hold(pieces)
        groups = [pieces[i : i + _ADD_AT_ONCE] for i in range(0, len(pieces), _ADD_AT_ONCE)]
        calls: list[Call] = [
            (_gains, [piece.partition for piece in group], (self.static, means, group)) for group in groups
        ]
        for _, gains in self.results(calls):
            yield gains

    def _hold(self, pieces: list[Piece]) -> None:
        """Keep partitions in the memory of the workers while later rounds take more of their rows, and no longer."""
        used = {piece.partition for piece in pieces}
        self.held = {i: held for i, held in self.held.items() if i in used}
        new = sorted({piece.partition for piece in pieces if piece.end < piece.rows} - self.held.keys())
        if new:
            self.held.update(zip(new, self.client.persist([self.tables[i] for i in new]), strict=True))

    def attempt(self, calls: dict[int, Call]) -> Iterator[tuple[int, Any]]:
        """Compute all calls; those whose workers died too often for the scheduler are left out."""
        from distributed import KilledWorker, as_completed

        futures = self.client.compute([self._task(*call) for call in calls.values()])
        places = {future.key: i for i, future in zip(calls, futures, strict=True)}
        died, alone = False, threading.Event()
        try:
            for future in self._watched(as_completed(futures), futures, alone):
                i = places[future.key]
                try:
                    result = future.result()
                except KilledWorker:
                    died = self.deaths = True
                    continue
                except CancelledError:
                    if not alone.is_set():
                        raise
                    if self.deaths:  # so that is why there is no worker
                        continue
                    raise PartitionError(
                        f"Partition {calls[i][1][0]}: the cluster has had no worker for {_PATIENCE} seconds. Start "
                        "some and call again: learning goes on from the checkpoint."
                    ) from None
                except PartitionError:
                    raise
                except Exception as error:
                    with named(self._culprit(calls[i][1])):
                        raise error
                yield i, result
        finally:
            self.client.cancel(futures)
            if died:
                self.held = {}  # what a dead worker held

    def _watched(self, ready: Iterable[Any], futures: list[Any], alone: threading.Event) -> Iterator[Any]:
        """Yield futures; where there is no worker for long, set `alone` and cancel them: nobody waits for ever."""
        stop = threading.Event()

        def watch() -> None:
            seconds = 0
            while not stop.wait(_LOOK):
                with contextlib.suppress(OSError, TimeoutError):  # the scheduler is busy, or gone
                    seconds = 0 if self.client.nthreads() else seconds + _LOOK
                if seconds >= (_PATIENCE_AFTER_DEATHS if self.deaths else _PATIENCE):
                    alone.set()
                    self.client.cancel(futures)
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield from ready
        finally:
            stop.set()
            thread.join()

    def _task(self, function: Callable[..., Any], partitions: list[int], arguments: tuple[Any, ...]) -> Delayed:
        tables = [self.held.get(i, self.tables[i]) for i in partitions]
        task: Delayed
        if function is _gains:  # a task for each piece, so that all workers have something to do
            *shared, pieces = arguments
            pairs = zip(tables, pieces, strict=True)
            task = delayed(total)([delayed(_gains)(table, *shared, piece) for table, piece in pairs])
        else:
            task = delayed(function)(*tables, *arguments)
        return task

    def _culprit(self, partitions: list[int]) -> int:
        """Find out which partition cannot be read."""
        for i in partitions:
            try:
                self.client.compute(self.tables[i]).result()
            except Exception:
                return i
        return partitions[0]


# ---------------------------------------------------------------- estimators


class _DaskEstimator(ShowsState):
    """All of both estimators but what their tasks ask for."""

    checkpoint: str | None
    client: Any
    get_params: Callable[..., dict[str, Any]]
    _local: Callable[..., Any]
    _regression: bool
    _quality: Callable[[Any, Any, Any], float]

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, target: Any = "y") -> Self:
        """Learn from all rows once, in a drawn order.

        Parameters
        ----------
        X : Dask DataFrame or array, list of delayed partitions, or path of a Parquet file or folder
            Rows. Delayed partitions are tables, or tuples of rows, targets and perhaps weights.
        y : Dask Series or array or None, default=None
            Targets; None where they are a column of the table.
        sample_weight : name of a column, Dask Series or array, or None, default=None
            Weights of the rows; those of weight 0 are skipped, those above 1000 count as 1000.
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

        Parameters
        ----------
        X : Dask DataFrame or array, list of delayed partitions, or path of a Parquet file or folder
            Rows.
        y : Dask Series or array or None, default=None
            Targets; None where they are a column of the table.
        sample_weight : name of a column, Dask Series or array, or None, default=None
            Weights of the rows.
        target : name, default="y"
            Column of the targets.

        Returns
        -------
        self : object
            The estimator.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight=sample_weight, target=target)
        return self._learn(copy.deepcopy(self.model_), X, y, sample_weight, target, resume=False)

    def score(self, X: Any, y: Any = None, *, sample_weight: Any = None, target: Any = "y") -> float:
        """Share of the rows that are predicted rightly, or the coefficient of determination.

        Parameters
        ----------
        X : Dask DataFrame or array
            Rows.
        y : Dask Series or array or None, default=None
            Labels or targets; None where they are a column of the table.
        sample_weight : name of a column, Dask Series or array, or None, default=None
            Weights of the rows.
        target : name, default="y"
            Column of the labels or targets.

        Returns
        -------
        score : float
            Accuracy of a classifier, R^2 of a regressor.
        """
        weight = X[sample_weight] if isinstance(sample_weight, str) else sample_weight
        y = X[target] if y is None else y
        weight = y == y if weight is None else weight
        return self._quality(self.predict(X), y, weight)

    def _shown_state(self) -> State:
        return self.model_._shown_state() if hasattr(self, "model_") else []

    def to_local(self) -> Any:
        """Return the model as an estimator of `bomkl`, which needs no Dask.

        Returns
        -------
        model : estimator
            `bomkl.AutoMKLClassifier` or `bomkl.AutoMKLRegressor`.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.model_

    def predict(self, X: Any) -> Any:
        """Predict, lazily.

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
        parts, weight = _delayed_parts(X, y, sample_weight, target)
        tables = [delayed(_table, pure=True)(part, i, target, weight) for i, part in enumerate(parts)]
        with _client(self.client) as client:
            runner = _DaskRunner(client, tables)
            with progress_bar(len(parts), "counting rows", "partition") as bar:
                summaries = runner.summaries(len(parts), self._regression, bar.update)
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
            rows = rows[list(names)] if framed and names is not None else rows
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
        The cluster; None for the current client, or a new one on this machine.
    checkpoint : path or None, default=None
        Model file that is written after each round. Where it is there and not finished, `fit` goes on from it.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of tables hold; others are taken as the table has them, or as their first cells look.
    random_state : int, RandomState or None, default=None
        Source of all random draws.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where workers add up rows: "auto" uses the GPU of each worker that has one, "cuda" insists on one.

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
        """Probabilities of the classes, lazily.

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
        right, whole = dask.base.compute(((found == y) * weight).sum(), weight.sum())
        return float(right / whole)


class AutoMKLRegressor(_DaskEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Budget online multiple kernel regression on Dask.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows.
    client : distributed.Client or None, default=None
        The cluster; None for the current client, or a new one on this machine.
    checkpoint : path or None, default=None
        Model file that is written after each round. Where it is there and not finished, `fit` goes on from it.
    loss : {"squared", "huber"}, default="squared"
        What the model minimises; "huber" does not mind a few targets that are far off.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of tables hold; others are taken as the table has them, or as their first cells look.
    random_state : int, RandomState or None, default=None
        Source of all random draws.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where workers add up rows: "auto" uses the GPU of each worker that has one, "cuda" insists on one.

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


@contextlib.contextmanager
def _client(given: Any) -> Iterator[Any]:
    """Yield a client: the one given, the current one, or a new one for as long as it is needed."""
    from distributed import Client, LocalCluster, get_client

    if given is not None:
        yield given
        return
    try:
        current = get_client()
    except ValueError:
        with LocalCluster(processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
            yield client
        return
    yield current


@contextlib.contextmanager
def cluster_runner(address: str, read: Callable[[int], tuple[Any, ...]], count: int) -> Iterator[Runner]:
    """Yield a runner on the cluster of a scheduler, whose workers read partitions themselves."""
    from distributed import Client

    with Client(address) as client:
        yield _DaskRunner(client, [delayed(read, pure=True)(i) for i in range(count)])

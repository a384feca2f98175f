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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bomkl import auto, modelfile
from bomkl._repr import ShowsState, State
from bomkl.auto.sums import Sums, total
from bomkl.partitions import (
    Job,
    PartitionError,
    Piece,
    Summary,
    drawn_rows,
    learn_partitions,
    named,
    piece_sums,
    summary,
)
from bomkl.progress import progress_bar

try:
    import dask.base
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ImportError("bomkl.dask needs Dask: pip install 'bomkl[dask]'") from error

_ADD_AT_ONCE = 16  # sums that are added on a worker before they go to the client
_ATTEMPTS = 20  # of a round whose workers die


# ---------------------------------------------------------------- partitions, on the workers


def _table(part: Any, number: int, target: Any, columns: Any) -> tuple[Any, Any]:
    """Rows and targets of a partition as arrays; errors name the partition, the row and the column."""
    with named(number):
        if isinstance(part, tuple):
            X, y = part
            X, y = _array(X), np.asarray(y).reshape(-1)
        else:
            names = [name for name in part.columns if name != target] if columns is None else list(columns)
            missing = [name for name in [*names, target] if name not in part.columns]
            if missing:
                raise ValueError(f"there is no column {missing[0]!r}.")
            X, y = _numbers(part[names]), part[target].to_numpy()
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} rows, but y has {len(y)}.")
        return X, y


def _array(X: Any) -> Any:
    return X.tocsr() if hasattr(X, "tocsr") else _numbers(X) if hasattr(X, "columns") else np.asarray(X)


def _numbers(frame: Any) -> Any:
    try:
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        for name in frame.columns:
            for row, value in enumerate(frame[name]):
                try:
                    float(value)
                except (TypeError, ValueError):
                    raise ValueError(f"row {row}, column {name!r} holds {value!r}, which is not a number.") from None
        raise


def _summary(table: tuple[Any, Any], number: int, regression: bool) -> Summary:
    with named(number):
        return summary(*table, regression)


def _head(table: tuple[Any, Any], piece: Piece) -> tuple[Any, Any]:
    return drawn_rows(piece, *table)


def _sums(table: tuple[Any, Any], static: Any, means: Any, piece: Piece) -> Any:
    return piece_sums(static, means, piece, *table)


def _itself(value: Any) -> Any:
    return value


# ---------------------------------------------------------------- partitions, at the client


def _delayed_parts(data: Any, y: Any, target: Any) -> tuple[list[Delayed], Any]:
    """Partitions as delayed objects, and the names of the feature columns (None where they have none)."""
    if isinstance(data, str | os.PathLike):
        data = _read_folder(os.fspath(data))
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        names = [name for name in data.columns if name != target]
        if y is not None:
            if y.npartitions != data.npartitions:
                raise ValueError(f"X has {data.npartitions} partitions, but y has {y.npartitions}. They must be equal.")
            pairs = zip(data.to_delayed(), y.to_delayed(), strict=True)
            return [delayed(_both)(a, b) for a, b in pairs], None
        if target not in data.columns:
            raise ValueError(f"target={target!r} is not a column of the table. It has {list(data.columns)}.")
        return list(data.to_delayed()), names
    if hasattr(data, "to_delayed"):  # an array
        if y is None:
            raise ValueError("Arrays need their targets: fit(X, y).")
        data = data.rechunk({1: -1}) if data.ndim == 2 and data.numblocks[1] > 1 else data
        y = y.rechunk({0: data.chunks[0]}) if y.chunks[0] != data.chunks[0] else y
        rows = data.to_delayed().reshape(-1)
        return [delayed(_both)(a, b) for a, b in zip(rows, y.to_delayed().reshape(-1), strict=True)], None
    if isinstance(data, Sequence) and all(isinstance(part, Delayed) for part in data):
        return list(data), None
    raise TypeError(
        "Data must be a Dask DataFrame or array, a list of delayed partitions, or the path of a Parquet file or "
        f"folder. Got {type(data).__name__}."
    )


def _both(X: Any, y: Any) -> tuple[Any, Any]:
    return X, y


def _read_folder(path: str) -> Any:
    import dask.dataframe as dd

    if not (glob.glob(path) or os.path.exists(path)):
        raise FileNotFoundError(f"{path}: there is no such file or folder.")
    return dd.read_parquet(path)


class _DaskRunner:
    """Calls the functions of `bomkl.partitions` on the workers."""

    def __init__(self, client: Any, parts: list[Delayed], target: Any, columns: Any) -> None:
        self.client = client
        self.tables = [delayed(_table, pure=True)(part, i, target, columns) for i, part in enumerate(parts)]
        self.held: dict[int, Any] = {}  # partitions that a round has taken a part of: the next one takes more
        self.static: Any = None

    def summaries(self, regression: bool, done: Callable[[int], Any]) -> list[Summary]:
        """Rows and labels of each partition."""
        found: dict[int, Summary] = {}

        def task(i: int) -> Any:
            return delayed(_summary)(self.tables[i], i, regression)

        for i, each in self._results(len(self.tables), task, lambda i: [i]):
            found[i] = each
            done(1)
        return [found[i] for i in range(len(self.tables))]

    def head(self, pieces: list[Piece]) -> list[tuple[Any, Any]]:
        """Rows of each piece, in order."""
        found = dict(
            self._results(
                len(pieces),
                lambda i: delayed(_head)(self.tables[pieces[i].partition], pieces[i]),
                lambda i: [pieces[i].partition],
            )
        )
        return [found[i] for i in range(len(pieces))]

    def sums(self, job: Job, pieces: list[Piece]) -> Iterable[Sums]:
        """Yield sums of groups of pieces, as they are ready."""
        if self.static is None:
            self.static = delayed(_itself)(job.static())
        means = delayed(_itself)(job.means())
        self._hold(pieces)
        groups = [pieces[i : i + _ADD_AT_ONCE] for i in range(0, len(pieces), _ADD_AT_ONCE)]

        def task(i: int) -> Delayed:
            tables = [self.held.get(piece.partition, self.tables[piece.partition]) for piece in groups[i]]
            pairs = zip(tables, groups[i], strict=True)
            sums: Delayed = delayed(total)([delayed(_sums)(table, self.static, means, piece) for table, piece in pairs])
            return sums

        for _, sums in self._results(len(groups), task, lambda i: [piece.partition for piece in groups[i]]):
            yield sums

    def _hold(self, pieces: list[Piece]) -> None:
        """Keep partitions in the memory of the workers while later rounds take more of their rows, and no longer."""
        used = {piece.partition for piece in pieces}
        self.held = {i: held for i, held in self.held.items() if i in used}
        new = sorted({piece.partition for piece in pieces if piece.end < piece.rows} - self.held.keys())
        if new:
            self.held.update(zip(new, self.client.persist([self.tables[i] for i in new]), strict=True))

    def _results(
        self, count: int, task: Callable[[int], Delayed], where: Callable[[int], list[int]]
    ) -> Iterator[tuple[int, Any]]:
        """Results of tasks as they are ready; those whose workers died too often for the scheduler begin again."""
        from distributed import KilledWorker, as_completed

        left = list(range(count))
        for _ in range(_ATTEMPTS):
            futures = self.client.compute([task(i) for i in left])
            places = {future.key: i for i, future in zip(left, futures, strict=True)}
            try:
                for future in as_completed(futures):
                    i = places[future.key]
                    try:
                        result = future.result()
                    except KilledWorker:
                        continue
                    except PartitionError:
                        raise
                    except Exception as error:
                        raise PartitionError(f"{self._culprit(where(i))}: {error}") from error
                    left.remove(i)
                    yield i, result
            finally:
                self.client.cancel(futures)
            if not left:
                return
            self.held = {}  # what a dead worker held
        raise PartitionError(
            f"Partition {where(left[0])[0]}: workers died again and again while they worked on it, most likely for "
            "want of memory. Use smaller partitions or workers with more memory."
        )

    def _culprit(self, partitions: list[int]) -> str:
        """Find out which partition cannot be read."""
        for i in partitions:
            try:
                self.client.compute(self.tables[i]).result()
            except Exception:
                return f"Partition {i}"
        return f"Partitions {partitions}"


# ---------------------------------------------------------------- estimators


class _DaskEstimator(ShowsState, BaseEstimator):  # type: ignore[misc]
    _local: Callable[..., Any]
    _regression: bool

    def __init__(
        self, budget: int = 1000, client: Any = None, checkpoint: str | None = None, random_state: Any = None
    ) -> None:
        self.budget = budget
        self.client = client
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, target: Any = "y") -> Self:
        """Learn from all rows once, in a drawn order.

        Parameters
        ----------
        X : Dask DataFrame or array, list of delayed partitions, or path of a Parquet file or folder
            Rows. Delayed partitions are DataFrames, or pairs of an array of rows and one of targets.
        y : Dask Series or array or None, default=None
            Targets; None where they are a column of the table.
        target : name, default="y"
            Column of the targets.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        model = self._local(self.budget, update="rounds", random_state=self.random_state)
        return self._learn(model, X, y, target, resume=True)

    def partial_fit(self, X: Any, y: Any = None, *, target: Any = "y") -> Self:
        """Learn from more rows.

        Parameters
        ----------
        X : Dask DataFrame or array, list of delayed partitions, or path of a Parquet file or folder
            Rows.
        y : Dask Series or array or None, default=None
            Targets; None where they are a column of the table.
        target : name, default="y"
            Column of the targets.

        Returns
        -------
        self : object
            The estimator.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, target=target)
        return self._learn(copy.deepcopy(self.model_), X, y, target, resume=False)

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

    def _learn(self, model: Any, X: Any, y: Any, target: Any, resume: bool) -> Self:
        parts, columns = _delayed_parts(X, y, target)
        with _client(self.client) as client:
            runner = _DaskRunner(client, parts, target, columns)
            with progress_bar(len(parts), "counting rows", "partition") as bar:
                summaries = runner.summaries(self._regression, bar.update)
            job = Job(model, summaries)
            if resume and self.checkpoint is not None and os.path.exists(self.checkpoint):
                saved = modelfile.read(self.checkpoint)
                notes = saved.notes.get("partitions")
                if notes is None:
                    raise ValueError(
                        f"{self.checkpoint}: is not a checkpoint of bomkl.dask. Remove it, or name another."
                    )
                if not notes["finished"]:
                    job.resume(saved.estimator, notes)

            def save() -> None:
                if self.checkpoint is not None:
                    notes = job.notes() | {"finished": job.done == job.rows}
                    modelfile.save(job.model, self.checkpoint, {"partitions": notes})

            with progress_bar(job.rows, "learning", "row", initial=job.done) as bar:
                learn_partitions(job, runner, save, bar.update)
        if columns is not None:
            job.model.feature_names_in_ = np.array(columns, dtype=object)
        self.model_ = job.model
        self.n_features_in_ = self.model_.n_features_in_
        return self

    def _lazily(self, method: str, X: Any) -> Any:
        model, names = copy.copy(self.to_local()), getattr(self.model_, "feature_names_in_", None)
        if names is not None:  # rows come as plain arrays of the right columns
            del model.feature_names_in_
        wide = method == "predict_proba"

        nothing = getattr(model, method)(np.zeros((1, model.n_features_in_)))[:0]

        def call(rows: Any) -> Any:
            rows = rows[list(names)] if names is not None and hasattr(rows, "columns") else rows
            found = getattr(model, method)(_array(rows)) if rows.shape[0] else nothing
            if not hasattr(rows, "index"):
                return found
            import pandas as pd

            return pd.DataFrame(found, rows.index, model.classes_) if wide else pd.Series(found, rows.index)

        if hasattr(X, "map_partitions"):
            return X.map_partitions(call, meta=call(X._meta))
        if hasattr(X, "map_blocks"):
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            if wide:
                return X.map_blocks(call, meta=nothing, chunks=(X.chunks[0], (nothing.shape[1],)))
            return X.map_blocks(call, meta=nothing, drop_axis=1)
        return call(X)

    def _pair(self, X: Any, y: Any, target: Any) -> tuple[Any, Any]:
        if y is None:
            return X, X[target]
        return X, y


class AutoMKLClassifier(ClassifierMixin, _DaskEstimator):  # type: ignore[misc]
    """Budget online multiple kernel classification on Dask.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows.
    client : distributed.Client or None, default=None
        The cluster; None for the current client, or a new one on this machine.
    checkpoint : path or None, default=None
        Model file that is written after each round. Where it is there and not finished, `fit` goes on from it.
    random_state : int, RandomState or None, default=None
        Source of all random draws.

    Attributes
    ----------
    model_ : bomkl.AutoMKLClassifier
        The model.
    n_features_in_ : int
        Number of columns.
    """

    _local = auto.AutoMKLClassifier
    _regression = False

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

    def score(self, X: Any, y: Any = None, *, target: Any = "y") -> float:
        """Share of the rows that are predicted rightly.

        Parameters
        ----------
        X : Dask DataFrame or array
            Rows.
        y : Dask Series or array or None, default=None
            Labels; None where they are a column of the table.
        target : name, default="y"
            Column of the labels.

        Returns
        -------
        score : float
            Accuracy.
        """
        X, y = self._pair(X, y, target)
        return float((self.predict(X) == y).mean().compute())


class AutoMKLRegressor(RegressorMixin, _DaskEstimator):  # type: ignore[misc]
    """Budget online multiple kernel regression on Dask.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows.
    client : distributed.Client or None, default=None
        The cluster; None for the current client, or a new one on this machine.
    checkpoint : path or None, default=None
        Model file that is written after each round. Where it is there and not finished, `fit` goes on from it.
    random_state : int, RandomState or None, default=None
        Source of all random draws.

    Attributes
    ----------
    model_ : bomkl.AutoMKLRegressor
        The model.
    n_features_in_ : int
        Number of columns.
    """

    _local = auto.AutoMKLRegressor
    _regression = True

    def score(self, X: Any, y: Any = None, *, target: Any = "y") -> float:
        """Coefficient of determination.

        Parameters
        ----------
        X : Dask DataFrame or array
            Rows.
        y : Dask Series or array or None, default=None
            Targets; None where they are a column of the table.
        target : name, default="y"
            Column of the targets.

        Returns
        -------
        score : float
            1 - (sum of squared errors) / (sum of squared deviations).
        """
        X, y = self._pair(X, y, target)
        found = self.predict(X)
        left, all_of_it = dask.base.compute(((found - y) ** 2).sum(), ((y - y.mean()) ** 2).sum())
        return float(1 - left / all_of_it)


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
        with LocalCluster(processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
            yield client
        return
    yield current


@contextlib.contextmanager
def cluster_runner(address: str, read: Callable[[int], tuple[Any, Any]], count: int) -> Iterator[Any]:
    """Yield a runner on the cluster of a scheduler, whose workers read partitions themselves."""
    from distributed import Client

    with Client(address) as client:
        yield _DaskRunner(client, [delayed(read)(i) for i in range(count)], None, None)

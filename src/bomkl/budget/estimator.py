"""What the estimators of `bomkl.budget` share: settings, input, the engine and what can be read off it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bomkl._core import Engine32, Engine64, NotFiniteError, after_fork_in_child, after_fork_in_parent, before_fork
from bomkl._estimators.table_rows import TableRows
from bomkl._support.change import as_of, change
from bomkl._support.drawn_rows import Drawn, Order, drawn_order, row_numbers, rows_at_once
from bomkl._support.progress import learning_bar
from bomkl._support.repr import ShowsState, State, bytes_text, mistakes_text, top_kernels
from bomkl._support.row_order import note_order
from bomkl._support.validation import check_bool, check_choice, check_count, check_kept, parameter_error, thread_count
from bomkl.budget.config import TASKS, KernelCalls, combiner_record, kernel_name, kernel_record, learner_record
from bomkl.budget.parameters import Float, check_parameters, checked_weights, kernel_list, selection_deltas
from bomkl.combiners import Combiner
from bomkl.kernels import Kernel, KernelLike
from bomkl.learners import SPA, Learner
from bomkl.tables.frames import Table, in_single_precision
from bomkl.tables.learned import Update

# Narrower or fuller rows are faster dense (`bomkl bench roofline`); their products still skip zeros.
WIDE = 1024
SPARSE_DENSITY = 0.05

_MOST_THREADS = 1024
_NOTHING_LEARNED = "Sample weights must contain at least one non-zero number: nothing was learned."

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork_in_parent, after_in_child=after_fork_in_child)


@contextmanager
def _rows_numbered(numbers: Any) -> Iterator[None]:
    """Let errors of the engine name rows by their place in X, of which it was given a part."""
    try:
        yield
    except NotFiniteError as error:
        named = re.sub(r"\brow (\d+)", lambda row: f"row {numbers[int(row[1])]}", str(error))
        raise NotFiniteError(named) from None


def _plain(array: Any, dtype: Any) -> NDArray[Any]:
    """Return an array as the engine takes it: contiguous, aligned and of this type; a copy only where it is not."""
    return np.require(array, dtype=dtype, requirements=["C", "A"])


def _is_array(x: Any) -> bool:
    """Whether a row is an array that hides none of its values."""
    return type(x) is np.ndarray or (isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray))


class EngineEstimator(ShowsState, TableRows, BaseEstimator):  # type: ignore[misc]
    """An estimator around one compiled engine; subclasses supply the task."""

    _learned: tuple[str, ...] = ("_engine", "_encoder", "_order")
    _losses: tuple[str, ...]
    _default_combiner: Combiner

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, shuffle: bool = True) -> Self:
        """Forget everything, then learn from the rows of a table once, in a random order.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels, or the targets of a regression.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        shuffle : bool, default=True
            Whether to learn from the rows in a random order, which `random_state` decides. False is for rows in the
            order of time.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        check_bool(f"{type(self).__name__}.fit", "shuffle", shuffle)

        def learn(model: Self) -> None:
            model._learn_all(X, y, sample_weight, shuffle)
            if model.n_seen_ == 0:
                raise ValueError(_NOTHING_LEARNED)

        change(self, learn, anew=True)
        return self

    def _learn_all(self, X: Any, y: Any, sample_weight: Any, shuffle: bool) -> None:
        raise NotImplementedError

    def _learner(self) -> Learner:
        learner: Learner | None = self.learner
        return SPA() if learner is None else learner

    def _combiner(self) -> Combiner:
        combiner: Combiner | None = self.combiner
        return self._default_combiner if combiner is None else combiner

    def _check_parameters(self) -> None:
        check_parameters(self, self._learner(), self._combiner(), self._losses)

    def _kernel_list(self) -> list[KernelLike]:
        return kernel_list(type(self).__name__, self.kernels)

    def _config(self, kernels: list[KernelLike], task: str, n_outputs: int, seed: int) -> dict[str, Any]:
        return {
            "kernels": [kernel_record(k) for k in kernels],
            "learner": learner_record(self._learner()),
            "combiner": combiner_record(self._combiner()),
            "task": TASKS.index(task),
            "n_outputs": n_outputs,
            "vote": getattr(self, "combination", "score") == "vote",
            "select": self.selection_delta is not None,
            "select_updates": self.selection_scope in ("update", "both"),
            "select_combination": self.selection_scope in ("combination", "both"),
            "normalize_step": self.normalize_step,
            "budget": 0 if self.budget is None else int(self.budget),
            "epsilon": float(getattr(self, "epsilon", 0.0)),
            "seed": seed,
        }

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**63 - 1, dtype=np.int64))

    def _drawn_order(self, weights: Float | None, n: int) -> tuple[int, Order]:
        """Draw the seed of a new engine, and an order of the rows it learns from."""
        seed = self._draw_seed()
        order = drawn_order(seed, np.ones(n) if weights is None else weights)
        if not len(order):
            raise ValueError(_NOTHING_LEARNED)
        return seed, order

    def _start(
        self,
        kernels: list[KernelLike],
        task: str,
        n_outputs: int,
        dtype: Any,
        seed: int | None = None,
        sparse: bool = False,
    ) -> None:
        """Make an empty engine of the precision of the first rows; a sparse one stores rows without their zeros."""
        seed = self._draw_seed() if seed is None else seed
        self._seed = seed
        self._dtype = np.dtype(dtype)
        self._started_as = (task, n_outputs)
        self._settings = self._learning_settings()
        self.kernels_ = kernels
        engine = Engine32 if self._dtype == np.float32 else Engine64
        config = self._config(kernels, task, n_outputs, seed)
        only_native = all(isinstance(k, Kernel) for k in kernels)
        self._engine = engine(config, self._n_columns(), sparse and only_native, KernelCalls(kernels))

    def _learning_settings(self) -> dict[str, Any]:
        """Return the settings that must not change while learning goes on."""
        settings: dict[str, Any] = self.get_params(deep=False)
        for name in ("n_jobs", "random_state", "class_weight", "verbose"):
            settings.pop(name, None)
        return settings

    def _check_settings_kept(self) -> None:
        check_kept(self, self._settings)

    def _n_threads(self) -> int:
        return min(thread_count(type(self).__name__, self.n_jobs), _MOST_THREADS)

    def _dtypes(self, first: bool) -> Any:
        if not first:
            return self._dtype
        return [np.float64, np.float32] if self.dtype is None else np.dtype(self.dtype)

    def _check_rows(self, X: Any, first: bool) -> Any:
        """Rows as a matrix, or as a table that is still to be encoded."""
        table = self._table(X, first) if first or "_encoder" in self.__dict__ else None
        if table is None:
            return self._matrix(X, first, dtype=self._dtypes(first), order="C")
        if first:
            single = in_single_precision(X) if self.dtype is None else self.dtype == "float32"
            self._dtype = np.dtype(np.float32 if single else np.float64)
        return table

    def _rows_to_learn(self, X: Any, y: Any, weights: Float | None) -> tuple[Any, Update | None]:
        """Rows as the engine takes them, and what the encoder of a table learns from them."""
        if not isinstance(X.X if isinstance(X, Drawn) else X, Table):
            return X, None
        learned = np.ones(len(y), dtype=bool) if weights is None else weights > 0
        if isinstance(X, Drawn):
            return self._in_precision(self._encoded_in_blocks(X, y, learned)), None
        rows, update = self._encoded(X, y, learned, range(len(y)))
        return self._in_precision(rows), update

    def _encoded_in_blocks(self, X: Drawn, y: Any, learned: NDArray[np.bool_]) -> Float:
        """Rows of a table in a drawn order, encoded; the encoder of this model, which is new, learns from them."""
        n, step = X.shape[0], X.rows_at_once
        out = np.empty((n, self._encoder.n_features_out_))
        for rows in (slice(begin, min(begin + step, n)) for begin in range(0, n, step)):
            out[rows], update = self._encoded(X[rows], y[rows], learned[rows], row_numbers(X, rows))
            self._take_over(update)
        return out

    def _in_precision(self, rows: Float) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            rows = rows.astype(self._dtype, copy=False)
        if not math.isfinite(rows.sum()) and not (finite := np.isfinite(rows)).all():
            row, column = np.argwhere(~finite)[0].tolist()
            raise ValueError(
                f"The column {self._columns_of_features()[column]!r} must hold numbers within {rows.dtype}. The one in "
                f"row {row} is larger. Use dtype='float64'."
            )
        return rows

    @staticmethod
    def _wide_and_sparse(X: Any) -> bool:
        """Whether rows are better stored without their zeros; what is learned does not depend on it."""
        X = X.X if isinstance(X, Drawn) else X
        if isinstance(X, np.ndarray) or X.shape[1] < WIDE:
            return False
        return bool(X.nnz < SPARSE_DENSITY * X.shape[0] * X.shape[1])

    @staticmethod
    def _engine_rows(X: Any) -> Any:
        if isinstance(X, np.ndarray):
            return _plain(X, X.dtype)
        return _plain(X.data, X.dtype), _plain(X.indices, np.int32), _plain(X.indptr, np.int64)

    def _sample_weights(self, X: Any, sample_weight: Any) -> Float:
        return checked_weights(type(self).__name__, X.shape[0], sample_weight)

    def _check_call(self, X: Any) -> tuple[Any, bool]:
        """Check settings and rows of a call, and tell whether it is the first."""
        first = not hasattr(self, "_engine")
        if first:
            self._check_parameters()
        else:
            self._check_settings_kept()
        return self._check_rows(X, first), first

    def _choose_kernels(self, X: Any, targets: NDArray[Any]) -> list[KernelLike]:
        """Kernels to begin with; all that are configured."""
        return self._kernel_list()

    def _learn_targets(
        self,
        X: Any,
        targets: NDArray[Any],
        weights: Float | None,
        first: bool,
        shuffle: bool,
        task: str,
        n_outputs: int,
    ) -> Float:
        """Learn rows that are checked; targets are numbers of classes, or those of a regression."""
        seed, order = self._drawn_order(weights, len(targets)) if shuffle else (None, None)
        if order is not None:
            X, targets = Drawn(X, order), targets[order]
            weights = None if weights is None else weights[order]
        else:
            note_order(self, targets if weights is None else targets[weights > 0], labels=task != "regression")
        X, update = self._rows_to_learn(X, targets, weights)
        if first:
            kernels, sparse = self._choose_kernels(X, targets), self._wide_and_sparse(X)
            self._start(kernels, task, n_outputs, X.dtype, seed, sparse)
        scores = self._learn(X, targets, weights, first, order)
        self._take_over(update)
        return scores

    def _learn(
        self, X: Any, targets: NDArray[Any], weights: Float | None, first: bool, order: Order | None = None
    ) -> Float:
        """Learn with an engine that no other model shares."""
        owner = type(self).__name__
        deltas = selection_deltas(owner, self.selection_delta, self.n_seen_, weights, len(targets))
        targets, given = _plain(targets, np.float64), None if weights is None else _plain(weights, np.float64)
        scores = []
        with learning_bar(len(targets), self.verbose if first else 0, rows_at_once(X)) as parts:
            for part in parts(0, len(targets)):
                weight, delta = (None if each is None else each[part] for each in (given, deltas))
                whole = part == slice(0, len(targets)) and not isinstance(X, Drawn)
                rows = self._engine_rows(X if whole else X[part])
                with _rows_numbered(range(part.start, part.stop) if order is None else order[part]):
                    scores.append(self._engine.learn(rows, targets[part], weight, delta, self._n_threads()))
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def _learned_single_row(self, X: Any, y: Any) -> bool:
        """Tell that `partial_fit` has no short way for one row."""
        return False

    def _learn_one(self, x: Any, target: float, state: dict[str, Any]) -> Any:
        """Learn from one row that is ready for the engine; None where it is not, or something needs a closer look.

        Attributes are those of one moment, when the label was looked up: another thread may have called `fit` since.
        """
        if not _is_array(x) or "_engine" not in state or callable(self.selection_delta):
            return None
        if "_encoder" in state:
            if self._n_columns() != self.n_features_in_:
                return None
            if x.ndim == 1 and x.dtype.kind in "biuf":  # a row of a matrix in whatever way it is stored
                with np.errstate(over="ignore"):
                    x = _plain(x, self._dtype)
        self._check_settings_kept()
        try:
            return state["_engine"].learn_one(x, target, self.selection_delta)
        except (TypeError, ValueError):
            return None

    def _score_one(self, x: Any) -> Any:
        return self._score_one_by(x, self.__dict__)

    def _score_one_by(self, x: Any, state: dict[str, Any]) -> Any:
        """Scores of one row that is ready for the engine, else None; attributes as in `_learn_one`."""
        if not _is_array(x) or "_engine" not in state:
            return None
        if "_encoder" in state and self._n_columns() != self.n_features_in_:
            return None
        try:
            return state["_engine"].score_one(x)
        except (TypeError, ValueError):
            return None

    def _scores(self, X: Any, per_kernel: bool = False) -> Float:
        check_is_fitted(self)
        now = self._now()  # encoder and engine of one moment
        X = now._check_rows(X, first=False)
        if isinstance(X, Table):
            X = now._in_precision(now._encoder.encode(X))
        return now._engine.score(now._engine_rows(X), per_kernel, now._n_threads())

    def _now(self) -> Self:
        """Return what the model is at this moment: calls that end meanwhile do not change it.

        Except for `learn_one` with a row of a matrix, which learns in place.
        """
        return as_of(self, self.__dict__)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_engine")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _per_kernel(self, values: Any, dtype: Any) -> NDArray[Any]:
        array = np.array(values, dtype=dtype).reshape(-1, len(self.kernels_))
        return array[0] if len(array) == 1 else array

    @property
    def kernel_weights_(self) -> Float:
        """Weight of each kernel in the combination; with more than two classes, a row for each class."""
        log_weights = np.array(self._engine.log_weights).reshape(-1, len(self.kernels_))
        relative = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        return self._per_kernel(relative / relative.sum(axis=1, keepdims=True), np.float64)

    @property
    def n_support_(self) -> NDArray[np.int64]:
        """Number of support vectors of each kernel."""
        return self._per_kernel(self._engine.n_support, np.int64)

    @property
    def support_vectors_(self) -> Any:
        """The stored rows, each once; a CSR matrix if they are stored without their zeros."""
        return self._stored_rows(self._engine.state())

    def _stored_rows(self, state: dict[str, Any]) -> Any:
        if "rows" in state:
            return state["rows"]
        starts = state["row_starts"]
        parts = (state["row_values"], state["row_columns"], starts)
        return csr_matrix(parts, shape=(len(starts) - 1, self._n_columns()))

    @property
    def dual_coef_(self) -> Float:
        """Coefficient of each stored row in the function of each kernel; zero if the kernel does not use the row."""
        state = self._engine.state()
        starts, m = state["term_starts"], len(self.kernels_)
        n_rows = len(state["rows"]) if "rows" in state else len(state["row_starts"]) - 1
        coefs = np.zeros((len(starts) - 1, n_rows))
        for e, (begin, end) in enumerate(pairwise(starts)):
            coefs[e, state["term_rows"][begin:end]] = state["scales"][e] * state["term_coefs"][begin:end]
        per_output = coefs.reshape(len(coefs) // m, m, coefs.shape[1]).transpose(0, 2, 1)
        return per_output[0] if len(per_output) == 1 else per_output

    @property
    def n_seen_(self) -> int:
        """Number of rows that the model has learned from."""
        return self._engine.n_seen

    @property
    def nbytes_(self) -> int:
        """Memory of the stored rows and coefficients, in bytes."""
        return self._engine.bytes

    def _shown_state(self) -> State:
        if not hasattr(self, "_engine"):
            return []
        model = self._now()
        state = [("rows", f"{model.n_seen_:,}")]
        if hasattr(model, "mistakes_") and model.n_seen_:
            state.append(("error", mistakes_text(model.mistakes_, model.n_seen_)))
        state += [("stored rows", f"{model._engine.n_rows:,}"), ("memory", bytes_text(model.nbytes_))]
        weights = np.atleast_2d(model.kernel_weights_).mean(axis=0)
        return state + top_kernels([kernel_name(kernel) for kernel in model.kernels_], weights.tolist())

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "seed": self._seed,
            "dtype": self._dtype.name,
            "task": self._started_as[0],
            "n_outputs": self._started_as[1],
            "engine": self._engine.state(),
        }

    def _restore(self, state: dict[str, Any], kernels: list[KernelLike]) -> None:
        """Go on from `_state()`; n_features_in_ must be set. What does not fit together is refused."""
        learned, task, n_outputs = state["engine"], state["task"], state["n_outputs"]
        check_choice("a stored model", "task", task, TASKS)
        check_choice("a stored model", "dtype", state["dtype"], ("float32", "float64"))
        check_count("a stored model", "n_outputs", n_outputs)
        check_count("a stored model", "n_features_in_", self.n_features_in_)
        self._check_restored_task(task, n_outputs)
        if len(learned["log_weights"]) != n_outputs * len(kernels):
            raise parameter_error(
                "a stored model", "log_weights", f"{n_outputs} x {len(kernels)} numbers", len(learned["log_weights"])
            )
        self._start(kernels, task, n_outputs, state["dtype"], state["seed"], "row_values" in learned)
        self._engine.load(learned)

    def _check_restored_task(self, task: str, n_outputs: int) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        model = self._now()
        state: dict[str, Any] = dict(super(EngineEstimator, model).__getstate__())
        for name in ("_numbers", "_order"):  # made anew where they are needed
            state.pop(name, None)
        if "_engine" in state:
            state["_engine"] = model._state()
        if "_encoder" in state:
            state["_encoder"] = state["_encoder"].state()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        for name, value in (("verbose", 0), ("types", None)):  # which earlier versions did not have
            if not hasattr(type(self), name):
                state.setdefault(name, value)
        learned, encoder = state.pop("_engine", None), state.pop("_encoder", None)
        super().__setstate__(state)
        if learned is not None:
            now: dict[str, Any] = self.get_params(deep=False)
            kept = state.get("_settings", {})  # with which it was learned, whatever the parameters are now
            self.set_params(**{name: kept[name] for name in now if name in kept})
            if encoder is not None:
                self._encoder_from_state(encoder)
            self._restore(learned, kernel_list("a stored model", self.kernels_))
            self.set_params(**now)

"""What the two estimators share: settings, input, threads, state and insight."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bomkl._change import as_of, changing
from bomkl._drawn_rows import Drawn
from bomkl._extras import install_hint
from bomkl._repr import ShowsState, bytes_text, top_kernels
from bomkl._repr import State as ShownState
from bomkl._table_rows import TableRows
from bomkl._validation import (
    check_bool,
    check_choice,
    check_count,
    check_kept,
    check_n_jobs,
    check_sparse,
    parameter_error,
    thread_count,
    weights_as_numbers,
)
from bomkl.auto.constants import FIRST_STAGE
from bomkl.auto.device import DEVICES, on_host, rows_on_device
from bomkl.auto.drift import AdaptiveLearner
from bomkl.auto.explain import Explanation, explain_row, relevance_shares
from bomkl.auto.features import LinearFeatures
from bomkl.auto.geometry import Float
from bomkl.auto.missing import (
    MISSING,
    filled,
    filled_and_learned,
    filler_from_state,
    first_missing,
    has_missing,
    new_filler,
    without_missing,
)
from bomkl.auto.parallel import Mapper, shared_by
from bomkl.auto.pool import PoolMember, pool_members
from bomkl.auto.rounds import RoundLearner
from bomkl.auto.row_arrays import array_bytes, counted
from bomkl.auto.rows import RowLearner
from bomkl.auto.saved import State
from bomkl.auto.sparse_rows import canonical_rows
from bomkl.auto.task import LearnerSettings
from bomkl.auto.versions import Learner, learner_from_state, learner_state
from bomkl.auto.wide import WIDEST, WideLearner, learner_type
from bomkl.tables import TableEncoder
from bomkl.tables.cells import check_kinds
from bomkl.tables.early import Room, next_stage
from bomkl.tables.frames import Table, is_table
from bomkl.tables.learned import Update

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEW_COLUMNS = ("learn", "ignore", "refuse")
_WIDEST_TO_GROW = WIDEST // 2  # columns of a first row, after which more columns are taken in


class AutoEstimator(ShowsState, TableRows, BaseEstimator):  # type: ignore[misc]
    """An estimator around one learner; subclasses supply the task."""

    _learned: tuple[str, ...] = ("_learner", "_started_with", "_encoder", "_filler", "_order")
    _learner: Learner

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        check_count(owner, "budget", self.budget)
        if self.drift not in (None, "adapt"):
            raise parameter_error(owner, "drift", "None or 'adapt'", self.drift)
        check_choice(owner, "update", self.update, ("rows", "rounds"))
        if self.update == "rounds" and self.drift is not None:
            raise parameter_error(owner, "drift", "None with update='rounds', which never forgets", self.drift)
        self._check_device()
        if not isinstance(self.trees, bool | np.bool_):
            raise parameter_error(owner, "trees", "True or False", self.trees)
        check_kinds(self.types)
        check_choice(owner, "new_columns", self.new_columns, NEW_COLUMNS)
        check_choice(owner, "missing", self.missing, MISSING)
        check_n_jobs(owner, self.n_jobs)

    def _check_device(self) -> None:
        owner = type(self).__name__
        check_choice(owner, "device", self.device, DEVICES)
        if self.device == "cuda" and hasattr(self, "n_features_in_") and self._n_columns() > WIDEST:
            raise parameter_error(owner, "device", f"'cpu' or 'auto' for more than {WIDEST} columns", self.device)

    def _learning_settings(self) -> dict[str, Any]:
        """Return the settings that must not change while learning goes on."""
        names = ("budget", "drift", "update", "trees", "loss", "types")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _prepare(self, first: bool) -> None:
        """Check the settings: all at the start, later that they are the same."""
        if first:
            self._check_parameters()
        else:
            check_kept(self, self._started_with)

    def _start(self, regression: bool, n_classes: int, seed: int) -> None:
        if self.update == "rounds" and self._n_columns() > WIDEST:
            rule = f"'rows' for more than {WIDEST} columns: rounds sum over all pairs of columns"
            raise parameter_error(type(self).__name__, "update", rule, self.update)
        self._started_with = self._learning_settings()
        if self.budget < FIRST_STAGE:
            warnings.warn(
                f"budget={self.budget} is very small: scales of the columns and widths of the kernels are taken from "
                f"that many rows. Use at least {FIRST_STAGE}, better 100 or more.",
                UserWarning,
                stacklevel=6,
            )
        self._learner = self._new_learner(regression, n_classes, seed)

    def _new_learner(self, regression: bool, n_classes: int, seed: int) -> Learner:
        """Make a learner of rows with as many columns as there are now."""
        huber = getattr(self, "loss", None) == "huber"
        trees = bool(self.trees) and self.update == "rows" and self.n_features_in_ <= WIDEST
        squares = self.update == "rows" and LinearFeatures.has_room_for_squares(self._n_columns())
        settings = LearnerSettings(int(self.budget), seed, regression, huber, trees=trees, squares=squares)
        kind = self._kind(self.drift, self.update)
        if kind is AdaptiveLearner:
            return AdaptiveLearner(settings, n_classes, self._n_columns())
        return kind(settings, n_classes)

    # ------------------------------------------------------------ columns that come later

    def _grows_from(self, table: Table) -> bool:
        return len(table.first_names) <= _WIDEST_TO_GROW

    def _parts(self, X: Any, counted: NDArray[np.bool_]) -> Iterator[tuple[slice, Any]]:
        """Parts of the rows, each to be learned from before the next; between them columns are taken in.

        That happens at absolute row counts, so that the split into calls changes nothing.
        """
        begin, n = 0, len(counted)
        while begin < n:
            end = min(begin + X.rows_at_once, n) if isinstance(X, Drawn) else n
            table = X.X if isinstance(X, Drawn) else X
            if isinstance(table, Table) and self._rows_to_keep() and self._encoder.may_grow_by(table):
                left = next_stage(self._learner.seen, int(self.budget)) - self._learner.seen
                learned = np.flatnonzero(counted[begin:end])
                end = begin + int(learned[left - 1]) + 1 if len(learned) >= left else end
            rows = slice(begin, end)
            part = X[rows] if isinstance(X, Drawn) or rows != slice(0, n) else X
            if "_filler" not in vars(self) and has_missing(part) and (full := first_missing(part)):
                rows, part = slice(begin, begin + full), part[:full]  # the filler begins with the rows learned by then
            yield rows, part
            begin = rows.stop
            self._take_in_columns()

    def _rows_to_keep(self) -> int:
        """Rows that the encoder may still keep: none once the budget is full, or if it has not met all rows."""
        encoder = self.encoder_
        if encoder is None or not encoder.grows or encoder.n_rows_ != self._learner.seen:
            return 0
        return max(int(self.budget) - self._learner.seen, 0)

    def _room(self, weight: Float) -> Room:
        """How columns are taken that were not there before."""
        return Room(self._rows_to_keep(), self.new_columns == "learn", weight)

    def _take_in_columns(self) -> None:
        """Learn anew from all rows so far where columns have come since, at certain row counts."""
        encoder = self.encoder_
        if encoder is None or not encoder.grows:
            return
        seen, known = self._learner.seen, encoder.n_rows_ == self._learner.seen
        stage = next_stage(seen - 1, int(self.budget)) if seen else 0
        if known and seen == stage and encoder.waits:
            self._encoder, X, y, weight = encoder.grown(WIDEST)
            if self._encoder.n_features_out_ != encoder.n_features_out_:
                self._learn_anew(X, y.astype(np.float64), weight)
            self._take_names()
        if not known or seen >= self.budget:
            self._encoder = self._encoder.settled()

    def _learn_anew(self, X: Float, y: Float, weight: Float) -> Float:
        """Put a learner in place that has learned from rows with more columns; returns what it predicted before."""
        settings = self._learner.settings
        classes = max(self._learner.outputs, 2)
        self._learner = self._new_learner(settings.regression, classes, settings.seed)
        with self._working(len(y)) as run:
            return self._learner.score_and_learn(X, y, weight, run)

    def _kind(self, drift: Any, update: Any) -> type[Learner]:
        if drift is not None:
            return AdaptiveLearner
        return RoundLearner if update == "rounds" else learner_type(self._n_columns())

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**63 - 1, dtype=np.int64))

    def _shuffles(self, shuffle: bool | None) -> bool:
        """Whether `fit` draws an order of the rows."""
        if shuffle is None:
            return self.drift is None
        check_bool(f"{type(self).__name__}.fit", "shuffle", shuffle)
        if shuffle and self.drift is not None:
            raise ValueError(
                f"shuffle=True of {type(self).__name__}.fit cannot be used with drift={self.drift!r}: drift is about "
                "the order of the rows."
            )
        return shuffle

    @contextmanager
    def _working(self, rows: int) -> Iterator[Mapper]:
        """Yield what shares work out over threads, the learner being on its device."""
        self._check_device()
        if not isinstance(self._learner, WideLearner):
            self._learner.use(self.device)
        with self._threads(rows) as run:
            yield run

    def _sign(self) -> float:
        """Return -1 where the learner's score is the negative of the estimator's."""
        return 1.0

    def _check_rows(self, X: Any, first: bool) -> Any:
        """Rows as a matrix, or as a table that is still to be encoded."""
        table = self._table(X, first)
        if table is not None:
            return table
        there = rows_on_device(X, self.device)
        if there is not None:
            return self._check_rows_there(there, first)
        return self._validated(X, first)

    def _validated(self, X: Any, first: bool) -> Any:
        finite = True if self.missing == "refuse" else "allow-nan"
        X = self._matrix(X, first, dtype=[np.float64, np.float32], ensure_all_finite=finite)
        return without_missing(X) if self._n_columns() > WIDEST and has_missing(X) else X

    def _encoded(
        self, X: Any, y: Any, learned: NDArray[np.bool_], numbers: Any, room: Room | None = None
    ) -> tuple[Any, Update | None]:
        if isinstance(X, Table) or ("_filler" not in vars(self) and not has_missing(X)):
            return super()._encoded(X, y, learned, numbers, room)
        rows, self._filler = filled_and_learned(self._filler_so_far(), X, learned)
        return rows, None

    def _filler_so_far(self) -> TableEncoder:
        """Return what fills NaN; before the first one, the rows in memory tell how."""
        state = self.__dict__
        if "_filler" in state:
            filler: TableEncoder = state["_filler"]
            return filler
        learner = state["_learner"]
        known, filler = state.get("_filler_of_stored", (None, None))
        if known != (learner, learner.seen):
            stored = learner.leader.stored_rows()
            filler = new_filler(self._n_columns(), stored if stored.shape[1] == self._n_columns() else stored[:0])
            state["_filler_of_stored"] = ((learner, learner.seen), filler)
        return filler

    def _check_rows_there(self, rows: Any, first: bool) -> Any:
        """Rows on a device, after the checks of `_validated`; they stay there unless the processor needs them all."""
        self._validated(rows[:1].toarray() if rows.shape else rows.toarray(), first)  # shape, type and names
        rows = rows.in_floats()
        wrong = rows.first_not_finite()
        if wrong is not None:
            return self._validated(rows.toarray(), first)  # an error names the row; NaN is filled in on the processor
        return rows.toarray() if self.drift is not None or self._n_columns() > WIDEST else rows

    def _check_known_rows(self, X: Any) -> Any:
        """Rows as the learner takes them, to predict."""
        check_is_fitted(self)
        X = self._check_rows(X, first=False)
        if isinstance(X, Table):
            return self._encoder.encode(X)
        return filled(self._filler_so_far(), X) if has_missing(X) else X

    def _check_weight(self, sample_weight: Any, X: Any) -> Float:
        if sample_weight is None:
            return np.ones(X.shape[0])
        sample_weight = on_host(sample_weight)
        given = weights_as_numbers(type(self).__name__, sample_weight)
        if hasattr(self, "_learner") and given.ndim == 1 and not given.any():
            # In the midst of a stream there may be nothing to learn, for scikit-learn always an error
            return np.zeros_like(_check_sample_weight(np.ones(len(given)), X, dtype=np.float64))
        with np.errstate(over="ignore", invalid="ignore"):  # in sums of huge weights of both signs
            weight: Float = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise parameter_error(type(self).__name__, "sample_weight", "not negative", float(weight.min()))
        return counted(weight)

    def _one_row(self, x: Any) -> Any:
        return super()._one_row(on_host(x))

    def _quick_row(self, x: Any) -> Any:
        """One row as learners take it; None where it has to be looked at first, or encoded."""
        if self.__dict__.get("_encoder") is not None:
            return None
        row = x if type(x) is np.ndarray else self._one_row(x)
        if isinstance(row, np.ndarray):
            if row.ndim != 1 or row.dtype.kind not in "iufb" or len(row) != self.__dict__.get("n_features_in_"):
                return None
            if len(row) > WIDEST:
                return canonical_rows(row[None], 0, 1) if np.isfinite(row).all() else None
            row = np.ascontiguousarray(row, dtype=np.float64)
            return row if np.isfinite(row).all() else None
        return self._quick_sparse_row(row)

    def _quick_sparse_row(self, row: Any) -> Any:
        """One very wide row likewise, of a sparse one."""
        columns = self.__dict__.get("n_features_in_", 0)
        if columns <= WIDEST or getattr(row, "format", None) != "csr" or row.shape != (1, columns):
            return None
        row = check_sparse(row)
        return canonical_rows(row, 0, 1) if row.dtype.kind in "iufb" and np.isfinite(row.data).all() else None

    def _learn_one(self, x: Any, y: Any) -> float | Float | None:
        """Score one row, then learn from it; None, with nothing changed, where it has to go the long way."""
        with changing(self):
            row = None if "_filler" in self.__dict__ else self._quick_row(x)
            if row is None:
                return None
            self._prepare(False)
            return self._learn_row(row, y)

    def _learn_row(self, row: Any, y: Any) -> float | Float | None:
        """Score a row as learners take it, then learn from it, in one step."""
        raise NotImplementedError

    def _score_one(self, x: Any) -> float | Float | None:
        """Scores of one row; None where it has to go the long way."""
        learner = self.__dict__.get("_learner")
        if learner is None or isinstance(learner, RoundLearner):
            return None
        row = self._quick_row(x)
        return None if row is None else learner.score_one(row)

    def _scores(self, X: Any) -> Float:
        X = self._check_known_rows(X)
        with self._working(X.shape[0]) as run:
            return self._learner.scores(X, run)

    @contextmanager
    def _threads(self, rows: int) -> Iterator[Mapper]:
        """Yield `map`, or that of a pool of threads where there is enough to share."""
        n = thread_count(type(self).__name__, self.n_jobs) if rows > 1 else 1
        if n == 1:
            yield map
            return
        with ThreadPoolExecutor(n) as pool:
            yield shared_by(pool, n)

    def _now(self) -> Self:
        """Return what the model is at this moment: calls that end meanwhile do not change it."""
        now = as_of(self, self.__dict__)
        marked: Any = None
        while (learner := vars(now).get("_learner")) is not marked:  # another thread may have put one here meanwhile
            marked = learner
            marked.shared = True
        return now

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "learn"
        return tags

    # ------------------------------------------------------------ insight

    @property
    def _leader(self) -> RowLearner | WideLearner:
        check_is_fitted(self)
        return self._now()._learner.leader

    @property
    def n_seen_(self) -> int:
        """Number of rows that the model has learned from."""
        check_is_fitted(self)
        return self._learner.seen

    @property
    def kernels_(self) -> list[PoolMember]:
        """Members of the pool: the kernels, the linear model and the trees, in the order of `kernel_weights_`."""
        return pool_members(self._leader)

    @property
    def kernel_weights_(self) -> Float:
        """Weight of each member in the combination; zero for those that were dropped. The weights sum to 1."""
        return self._leader.kernel_weights()

    @property
    def component_errors_(self) -> Float:
        """Error of each member alone, each row predicted before learning: share of mistakes, or mean squared error."""
        return self._leader.component_errors()

    @property
    def n_support_(self) -> NDArray[np.int64]:
        """Number of landmarks of each member; linear models and trees have none."""
        return self._leader.n_support()

    @property
    def support_vectors_(self) -> Float:
        """The stored rows: all of them until the budget is full, then the landmarks."""
        rows = self._leader.stored_rows()
        return rows if rows.size else np.empty((0, self._n_columns()))

    @property
    def nbytes_(self) -> int:
        """Memory of the learned arrays, in bytes."""
        check_is_fitted(self)
        state = self.__dict__
        return array_bytes(state["_learner"]) + array_bytes(state.get("_errors"))

    @property
    def feature_importances_(self) -> Float:
        """How much each column matters: how steeply the score changes along it, on average. The values sum to 1.

        For a table, they are in the order of its columns. They are zero until the model has seen enough rows.
        """
        now = self._now()
        importances = relevance_shares(now._leader)
        if importances is None:
            return np.broadcast_to(0.0, now.n_features_in_)  # of any width
        if now.encoder_ is None:
            return importances
        by_column = now._by_column(importances)
        return np.array([by_column.get(column, 0.0) for column in now.encoder_.kinds_])

    def _shown_state(self) -> ShownState:
        if not hasattr(self, "_learner"):
            return []
        now = self._now()
        state = [("rows", f"{now.n_seen_:,}"), ("error", now._shown_error()), ("memory", bytes_text(now.nbytes_))]
        return state + top_kernels([str(kernel) for kernel in now.kernels_], now.kernel_weights_.tolist())

    def _shown_error(self) -> str:
        """Return the error so far in words."""
        raise NotImplementedError

    def explain(self, x: Any) -> Explanation:
        """Explain the prediction of one row: what each column, kernel and stored row contributed.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features), or table of one row
            The row.

        Returns
        -------
        explanation : Explanation
            What each column, kernel and stored row added to the score. With ``drift="adapt"`` it explains the
            learner that counts most.
        """
        now = self._now()
        check_is_fitted(now)
        if not sp.issparse(x) and not is_table(x):
            x = np.atleast_2d(on_host(x))
        row = now._check_known_rows(x)
        if row.shape[0] != 1:
            raise ValueError(f"explain takes one row at a time. Got {row.shape[0]} rows instead.")
        return explain_row(now._leader, row, now._sign(), now._columns_of_features())

    def plot_weights(self, ax: Any = None) -> Figure:
        """Draw the weight and the error of each member of the pool.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw into. None: a new figure.

        Returns
        -------
        figure : matplotlib Figure
            The figure.
        """
        now = self._now()
        weights, errors, names = now.kernel_weights_, now.component_errors_, [str(kernel) for kernel in now.kernels_]
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(f"plot_weights needs matplotlib. {install_hint('plots')}") from error
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
        places = np.arange(len(weights))[::-1]
        bars = ax.barh(places, weights)
        ax.bar_label(bars, [f"{error:.3g}" for error in errors], padding=3)
        ax.set_yticks(places, names)
        ax.set_xlabel("weight in the combination (number: error of the component alone)")
        ax.set_xlim(0, max(1.15 * float(weights.max()), 0.1))
        figure: Figure = ax.figure
        return figure

    # ------------------------------------------------------------ state

    def __getstate__(self) -> State:
        now = self._now()
        state: State = dict(super(AutoEstimator, now).__getstate__())
        if "_learner" in state:
            state["_learner"] = learner_state(state["_learner"])
        for name in ("_encoder", "_filler"):
            if name in state:
                state[name] = state[name].state()
        for name in ("_filler_of_stored", "_order"):  # made anew where they are needed
            state.pop(name, None)
        return state

    def __setstate__(self, state: State) -> None:
        new: State = {"verbose": 0, "new_columns": "learn", "missing": "learn"}  # since earlier versions
        state = new | state
        learned = state.pop("_learner", state.pop("_stream", None))  # version 0.1.0 called it "_stream"
        encoder, filler = state.pop("_encoder", None), state.pop("_filler", None)
        super().__setstate__(state)
        if learned is not None:
            columns = self._saved_columns()
            if encoder is not None:
                self._encoder_from_state(encoder)
                columns = self._n_columns()
            if filler is not None:
                self._filler = filler_from_state(filler, columns)
            self._learner = learner_from_state(learned, columns)
            if isinstance(self._learner, RoundLearner):
                self._learner.mistakes_when_loaded = vars(self).get("_mistakes", 0)
            self._check_saved()

    def _saved_columns(self) -> int:
        columns = vars(self).get("n_features_in_")
        if type(columns) is not int or not 1 <= columns < 2**31:
            raise ValueError(f"'n_features_in_' of the saved model must be an int >= 1. Got {columns!r} instead.")
        return columns

    def _check_saved(self) -> None:
        """Refuse a saved state whose parts do not fit together."""
        started = vars(self).get("_started_with")
        if isinstance(started, dict) and "update" not in started:  # as in files of version 0.1.0
            self._started_with = started = started | {"update": "rows", "trees": False}
            self.__dict__["trees"] = False
        if isinstance(started, dict) and "types" not in started:  # as in files up to version 0.2.0
            self._started_with = started = started | {"types": self.types}
        if not isinstance(started, dict) or sorted(started) != sorted(self._learning_settings()):
            raise ValueError(f"'_started_with' of the saved model must hold its settings. Got {started!r} instead.")
        settings = self._learner.settings
        kind = self._kind(started["drift"], started["update"])
        if started["budget"] != settings.budget or type(self._learner) is not kind:
            raise ValueError("The settings of the saved model are not those of its learner.")

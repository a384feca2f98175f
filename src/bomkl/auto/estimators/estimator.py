"""What the two estimators share: settings, columns that come later, threads and state."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from bomkl._support.change import as_of
from bomkl._support.drawn_rows import Drawn, row_numbers
from bomkl._support.limits import WIDEST
from bomkl._support.progress import learning_bar
from bomkl._support.row_order import note_order
from bomkl._support.validation import (
    check_bool,
    check_choice,
    check_count,
    check_kept,
    check_n_jobs,
    parameter_error,
    thread_count,
)
from bomkl.auto.build import Choices, fits, follow_drift, learner_of_rows, new_learner
from bomkl.auto.constants import FIRST_STAGE
from bomkl.auto.device import DEVICES, row_engine_for
from bomkl.auto.estimators.attributes import FittedAttributes
from bomkl.auto.estimators.input_rows import InputRows
from bomkl.auto.estimators.labels import pieces
from bomkl.auto.estimators.memory import memory_bytes
from bomkl.auto.estimators.missing import (
    MISSING,
    filler_from_state,
    rows_before_filler,
)
from bomkl.auto.estimators.pictures import Pictures
from bomkl.auto.features.features import LinearFeatures
from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.pace import pool_bytes
from bomkl.auto.learner import Learner
from bomkl.auto.parallel import Mapper, shared_by
from bomkl.auto.saved import State
from bomkl.auto.task import LearnerSettings
from bomkl.auto.versions import learner_of_any_version, versioned_state
from bomkl.tables.cells import check_kinds
from bomkl.tables.early import Room, next_stage
from bomkl.tables.encoded import EncodedRows
from bomkl.tables.frames import Table

NEW_COLUMNS = ("learn", "ignore", "refuse")
_WIDEST_TO_GROW = WIDEST // 2  # columns of a first row, after which more columns are taken in


_ONE_THREAD: AbstractContextManager[Mapper] = nullcontext(map)


@contextmanager
def _threads(n: int) -> Iterator[Mapper]:
    with ThreadPoolExecutor(n) as pool:
        yield shared_by(pool, n)


class AutoEstimator(FittedAttributes, InputRows, Pictures, BaseEstimator):  # type: ignore[misc]
    """An estimator around one learner; subclasses supply the task."""

    _learned: tuple[str, ...] = (
        "_learner",
        "_started_with",
        "_encoder",
        "_filler",
        "_order",
        "_places",
        "_importance",
        "_history",
    )
    _learner: Learner

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        check_count(owner, "budget", self.budget)
        if self.drift not in ("auto", None, "adapt"):
            raise parameter_error(owner, "drift", "'auto', None or 'adapt'", self.drift)
        check_choice(owner, "update", self.update, ("rows", "rounds"))
        if self.update == "rounds" and self.drift == "adapt":
            raise parameter_error(
                owner, "drift", "'auto' or None with update='rounds', which never forgets", self.drift
            )
        self._check_device()
        if not isinstance(self.trees, bool | np.bool_):
            raise parameter_error(owner, "trees", "True or False", self.trees)
        check_kinds(self.types)
        self._check_changeable()
        memory_bytes(owner, self.memory)
        check_n_jobs(owner, self.n_jobs)

    def _check_changeable(self) -> None:
        """Check the settings that may change while learning goes on and that nothing else checks."""
        owner = type(self).__name__
        check_choice(owner, "new_columns", self.new_columns, NEW_COLUMNS)
        check_choice(owner, "missing", self.missing, MISSING)

    def _check_device(self) -> None:
        owner = type(self).__name__
        check_choice(owner, "device", self.device, DEVICES)
        if self.device == "cuda" and hasattr(self, "n_features_in_") and self._n_columns() > WIDEST:
            raise parameter_error(owner, "device", f"'cpu' or 'auto' for more than {WIDEST} columns", self.device)

    def _learning_settings(self) -> dict[str, Any]:
        """Return the settings that must not change while learning goes on."""
        names = ("budget", "drift", "update", "trees", "loss", "types", "memory")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _prepare(self, first: bool) -> None:
        """Check the settings: all at the start, later that they are the same."""
        if first:
            self._check_parameters()
        else:
            check_kept(self, self._started_with)
            self._check_changeable()
            self._follow_drift()

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

    def _follow_drift(self) -> None:
        """Follow drift from the next row on, if the settings say so: rows of a stream come, not a table."""
        if self.drift != "auto" or self.update != "rows" or self._follows_drift:
            return
        if row_engine_for(self.device) is None:  # with a GPU, "auto" is None
            follow_drift(self._learner)

    @property
    def _follows_drift(self) -> bool:
        return bool(getattr(learner_of_rows(self._learner), "follows_drift", False))

    def _new_learner(self, regression: bool, n_classes: int, seed: int) -> Learner:
        """Make a learner of rows with as many columns as there are now."""
        huber = getattr(self, "loss", None) == "huber"
        trees, by_rows = bool(self.trees) and self.n_features_in_ <= WIDEST, self.update == "rows"
        squares = by_rows and LinearFeatures.has_room_for_squares(self._n_columns())
        memory = memory_bytes(type(self).__name__, self.memory)
        if self.memory is None:  # a large budget must not leave growth without room
            memory = max(memory, 2 * pool_bytes(int(self.budget), self._n_columns(), self.update))
        settings = LearnerSettings(
            int(self.budget),
            seed,
            regression,
            huber,
            trees=trees and by_rows,
            squares=squares,
            memory=memory,
            growing_trees=trees,
        )
        choices = self._choices(self.drift, self.update, 0 if regression else n_classes)
        return new_learner(choices, settings, n_classes)

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
            if self._rows_to_keep():
                left = next_stage(self._learner.seen, int(self.budget)) - self._learner.seen
                learned = np.flatnonzero(counted[begin:end])
                end = begin + int(learned[left - 1]) + 1 if len(learned) >= left else end
            rows = slice(begin, end)
            part = X[rows] if isinstance(X, Drawn) or rows != slice(0, n) else X
            if "_filler" not in vars(self) and (before := rows_before_filler(part, counted[rows])):
                rows, part = slice(begin, begin + before), part[:before]
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
            if self._encoder.lays_out_otherwise(encoder):
                self._learn_anew(X, y.astype(np.float64), weight)
            self._take_names()
        if not known or seen >= self.budget:
            self._encoder = self._encoder.settled()

    def _learn_in_parts(self, X: Any, y: Any, weight: Float, *, with_scores: bool, shuffled: bool) -> list[Any]:
        """Learn from checked rows; y are class numbers or targets. Returns what `_piece` does of each, or nothing."""
        counted, are_labels = weight > 0, self._target == "class"
        if not with_scores and not counted.all():
            X = Drawn(X, np.flatnonzero(counted))
            y, weight, counted = y[counted], weight[counted], counted[counted]
        if not shuffled and self.drift != "adapt":
            note_order(self, y[counted], labels=are_labels)
        learned: list[Any] = []
        with learning_bar(len(y), self.verbose, error=self._mean_error) as parts:
            for rows, part in self._parts(X, counted):
                begin, codes = rows.start, y[rows] if are_labels else np.zeros(rows.stop - rows.start, dtype=np.intp)
                numbers, room = row_numbers(X, rows), self._room(weight[rows])
                encoded, update = self._encoded(part, y[rows], counted[rows], numbers, room)
                gap = self._first_gap(encoded, counted[rows])
                with self._working(len(codes)) as run:
                    for first, last, kind in pieces(codes, counted[rows], self._learner_classes(), gap):
                        if first == gap:
                            self._begin_cells(encoded)
                        for each in parts(begin + first, begin + last):
                            some = encoded[each.start - begin : each.stop - begin]
                            found = self._piece(self._rows_of(some), y[each], weight[each], kind, run)
                            if with_scores:
                                learned.append(found)
                self._take_over(update)
        return learned

    def _piece(self, X: Any, y: Any, weight: Float, kind: str, run: Mapper) -> Any:
        """Score rows, and learn from them unless the kind of `pieces` says otherwise."""
        raise NotImplementedError

    def _learner_classes(self) -> int:
        return max(self._learner.outputs, 2)

    def _learn_anew(self, X: EncodedRows, y: Float, weight: Float) -> Float:
        """Put a learner in place that has learned from rows with more columns; returns what it predicted before."""
        settings, follows = self._learner.settings, self._follows_drift
        self._learner = self._new_learner(settings.regression, self._learner_classes(), settings.seed)
        self._measure_anew(len(y))
        if follows:
            follow_drift(self._learner)
        if self._first_gap(X, weight > 0) is not None:
            self._begin_cells(X)
        with self._working(len(y)) as run:
            return self._learner.score_and_learn(self._rows_of(X), y, weight, run)

    def _choices(self, drift: Any, update: Any, classes: int) -> Choices:
        encoder = self.encoder_
        return Choices(self._n_columns(), drift, update, classes, 0 if encoder is None else encoder.hashed_columns)

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**63 - 1, dtype=np.int64))

    def _shuffles(self, shuffle: bool | None) -> bool:
        """Whether `fit` draws an order of the rows."""
        if shuffle is None:
            return bool(self.drift != "adapt")
        check_bool(f"{type(self).__name__}.fit", "shuffle", shuffle)
        if shuffle and self.drift == "adapt":
            raise ValueError(
                f"shuffle=True of {type(self).__name__}.fit cannot be used with drift={self.drift!r}: drift is about "
                "the order of the rows."
            )
        return shuffle

    def _working(self, rows: int) -> AbstractContextManager[Mapper]:
        """Enter to get what shares work out over threads, the learner being on its device."""
        self._check_device()
        self._learner.use(self.device)
        n = thread_count(type(self).__name__, self.n_jobs) if rows > 1 else 1
        return _ONE_THREAD if n == 1 else _threads(n)

    def _sign(self) -> float:
        """Return -1 where the learner's score is the negative of the estimator's."""
        return 1.0

    def _scores(self, X: Any) -> Float:
        return self._scores_as_learned(self._check_known_rows(X))

    def _scores_as_learned(self, rows: Any) -> Float:
        """Scores of rows as the learner takes them, with the sign and the order of the classes that it has."""
        with self._working(rows.shape[0]) as run:
            return self._learner.scores(rows, run)

    def _external(self, scores: Float) -> Float:
        """Scores with the sign and the order of the classes that users see."""
        return scores

    def _scores_of_rows(self, rows: Any) -> Float:
        """Scores of rows as the learner takes them, (n, outputs), as users see them."""
        scores = self._external(self._scores_as_learned(rows))
        return scores[:, None] if scores.ndim == 1 else scores

    def _now(self) -> Self:
        """Return what the model is at this moment: calls that end meanwhile do not change it."""
        return as_of(self, self.__dict__)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "learn"
        return tags

    # ------------------------------------------------------------ state

    def __getstate__(self) -> State:
        now = self._now()
        state: State = dict(super(AutoEstimator, now).__getstate__())
        if "_learner" in state:
            state["_learner"] = versioned_state(state["_learner"])
        for name in ("_encoder", "_filler"):
            if name in state:
                state[name] = state[name].state()
        for name in ("_importance", "_history"):
            if name in state:
                state[name] = state[name].to_state()
        for name in ("_filler_of_stored", "_order", "_places"):  # made anew where they are needed
            state.pop(name, None)
        return state

    def __setstate__(self, state: State) -> None:
        new: State = {
            "verbose": 0,
            "new_columns": "learn",
            "missing": "learn",
            "memory": None,
        }  # since earlier versions
        state = new | state
        learned = state.pop("_learner", state.pop("_stream", None))  # version 0.1.0 called it "_stream"
        encoder, filler = state.pop("_encoder", None), state.pop("_filler", None)
        importance, history = state.pop("_importance", None), state.pop("_history", None)
        super().__setstate__(state)
        if learned is not None:
            columns = self._saved_columns()
            if encoder is not None:
                self._encoder_from_state(encoder)
                columns = self._n_columns()
            if filler is not None:
                self._filler = filler_from_state(filler, columns)
            learner: Any = learner_of_any_version(learned, columns)
            if learner.merges:
                rounds: Any = learner_of_rows(learner)
                rounds.mistakes_when_loaded = vars(self).get("_mistakes", 0)
            self._learner = learner
            self._check_saved()
            self._insight_from_state(importance, history)

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
        if isinstance(started, dict) and "memory" not in started:  # likewise
            self._started_with = started = started | {"memory": self.memory}
        if not isinstance(started, dict) or sorted(started) != sorted(self._learning_settings()):
            raise ValueError(f"'_started_with' of the saved model must hold its settings. Got {started!r} instead.")
        if started["drift"] not in ("auto", None, "adapt"):
            raise ValueError(f"'_started_with' of the saved model holds drift={started['drift']!r}.")
        settings = self._learner.settings
        classes = 0 if settings.regression else self._learner.n_classes
        choices = self._choices(started["drift"], started["update"], classes)
        if started["budget"] != settings.budget or not fits(choices, self._learner):
            raise ValueError("The settings of the saved model are not those of its learner.")

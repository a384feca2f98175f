"""How an estimator checks rows and weights, fills in missing values, and encodes tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bomkl._support.limits import WIDEST
from bomkl._support.validation import (
    is_as_before,
    parameter_error,
    weights_as_numbers,
)
from bomkl.auto.build import takes_cells, with_cell_models
from bomkl.auto.device import on_host, rows_on_device
from bomkl.auto.estimators.missing import (
    dense,
    filled,
    filled_and_learned,
    has_missing,
    new_filler,
    without_missing,
)
from bomkl.auto.estimators.one_row import OneRow
from bomkl.auto.features.geometry import Float
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.rows.arrays import counted
from bomkl.tables import TableEncoder
from bomkl.tables.early import Room
from bomkl.tables.encoded import EncodedRows, numbers_of, with_cells
from bomkl.tables.frames import Table
from bomkl.tables.learned import Update


class InputRows(OneRow):
    """Rows as the learner takes them."""

    device: str
    missing: str

    def _check_rows(self, X: Any, first: bool) -> Any:
        """Rows as a matrix, or as a table that is still to be encoded."""
        table = self._table(X, first)
        if table is not None:
            return table
        on_device = rows_on_device(X, self.device)
        if on_device is not None:
            return self._check_device_rows(on_device, first)
        return self._validated(on_host(X), first)

    def _validated(self, X: Any, first: bool) -> Any:
        finite = True if self.missing == "refuse" else "allow-nan"
        X = self._matrix(X, first, dtype=[np.float64, np.float32], ensure_all_finite=finite)
        return without_missing(X) if self._n_columns() > WIDEST and has_missing(X) else X

    def _encoded(
        self, X: Any, y: Any, learned: NDArray[np.bool_], numbers: Any, room: Room | None = None
    ) -> tuple[Any, Update | None]:
        if isinstance(X, Table) or ("_filler" not in vars(self) and not has_missing(X)):
            rows, update = super()._encoded(X, y, learned, numbers, room)
            self._places = None if update is None else update.columns_of_features()
            return (rows if update is None else EncodedRows(rows, update.cells)), update
        if not learned.any():
            return filled(self._filler_so_far(), X), None
        rows, self._filler = filled_and_learned(self._filler_so_far(), X, learned)
        vars(self).pop("_filler_of_stored", None)  # which keeps an earlier learner in memory
        return rows, None

    def _take_over(self, update: Update | None) -> None:
        super()._take_over(update)
        self._places = None  # from here on they are those of the encoder, which may change before the next rows

    def _rows_of(self, rows: Any) -> Any:
        """Give encoded rows, or a matrix without missing values, as the learner takes them."""
        if not isinstance(self._learner, HashedLearner):
            return numbers_of(rows)
        return rows if isinstance(rows, EncodedRows) else with_cells(dense(rows))

    def _first_gap(self, rows: Any, learned: NDArray[np.bool_]) -> int | None:
        """Find the row that models of cells begin with; None before it, and where they have begun or never do."""
        ready = isinstance(rows, EncodedRows) and takes_cells(self._learner)
        return rows.first_gap(learned) if ready else None

    def _begin_cells(self, rows: EncodedRows) -> None:
        """Learn from the cells of rows as well: that one is missing may tell something."""
        self._learner = with_cell_models(self._learner, len(rows.cells))
        self._measure_anew(self._learner.seen)

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

    def _check_device_rows(self, rows: Any, first: bool) -> Any:
        """Rows on a device, after the checks of `_validated`; they stay there unless the processor needs them all."""
        self._validated(rows[:1].toarray() if rows.shape else rows.toarray(), first)  # shape, type and names
        rows = rows.in_floats()
        wrong = rows.first_not_finite()
        if wrong is not None:
            return self._validated(rows.toarray(), first)  # an error names the row; NaN is filled in on the processor
        return rows.toarray() if self.drift == "adapt" or self._n_columns() > WIDEST else rows

    def _is_plain(self, X: Any) -> bool:
        """Whether rows are a matrix that the learner takes as it is."""
        state = self.__dict__
        if type(X) is not np.ndarray or "_learner" not in state or "_filler" in state or "_encoder" in state:
            return False
        return is_as_before(self, X)

    def _check_known_rows(self, X: Any) -> Any:
        """Rows as the learner takes them, to predict."""
        if self._is_plain(X):
            return X
        check_is_fitted(self)
        X = self._check_rows(X, first=False)
        if isinstance(X, Table):
            return self._rows_of(self._encoder.encode_with_cells(X))
        return self._rows_of(filled(self._filler_so_far(), X) if has_missing(X) else X)

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

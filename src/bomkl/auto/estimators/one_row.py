"""Single rows: blocks of one, without the checks of a matrix where a row needs none."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._core import all_finite
from bomkl._support.change import change_by_row
from bomkl._support.limits import WIDEST
from bomkl._support.row_order import RowOrder
from bomkl._support.validation import check_sparse
from bomkl.auto.device import on_host
from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.columns import MeasuredColumns
from bomkl.auto.learner import Learner, after_row, short_after_row
from bomkl.auto.rows.arrays import scores_of_one
from bomkl.auto.wide.sparse_rows import canonical_rows

Attributes = dict[str, Any]


class OneRow(MeasuredColumns):
    """How an estimator takes one row."""

    drift: str | None
    verbose: int
    _learner: Learner

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
            return row if all_finite(row) else None
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

        def learned() -> tuple[Attributes, Any] | None:
            row = None if "_filler" in self.__dict__ else self._quick_row(x)
            target = None if row is None else self._row_target(y)
            if target is None:
                return None
            self._prepare(False)
            after, scores = after_row(self._learner, _block(row), np.array([target], dtype=np.float64))
            return self._after_row(row, target, after, scores), self._external_one(scores_of_one(scores[0]))

        return change_by_row(self, learned)

    def _learned_single_row(self, X: Any, y: Any) -> bool:
        """Learn from one row of a plain matrix, if the learner has a short way for it; tell whether it has learned."""
        given = type(X) is np.ndarray and X.shape[:1] == (1,) and X.dtype == np.float64 and type(y) is np.ndarray
        state = self.__dict__
        if not given or y.shape != (1,) or self.verbose or "_learner" not in state or "feature_names_in_" in state:
            return False

        def learned() -> tuple[Attributes, bool] | None:
            row = None if "_filler" in self.__dict__ else self._quick_row(X[0])
            target = None if row is None else self._single_target(y)
            order = None if target is None else self._order_after(target)
            if target is None or order is None:
                return None
            self._prepare(False)
            found = short_after_row(self._learner, X, np.array([target], dtype=np.float64))
            if found is None:
                return None
            after = self._after_row(row, target, *found)
            after.update(order)
            return after, True

        return change_by_row(self, learned) is not None

    def _after_row(self, row: Any, y: float, learner: Learner, scores: Float) -> Attributes:
        """Return the attributes that the model has once a learner has learned from one more row."""
        after = self.__dict__.copy()
        after.update(self._noted_row(_block(row), np.array([y], dtype=np.float64), scores), _learner=learner)
        return after

    def _prepare(self, first: bool) -> None:
        """Check the settings: all at the start, later that they are the same."""
        raise NotImplementedError

    def _row_target(self, y: Any) -> float | None:
        """Target as learners take it; None where it has to be looked at first."""
        raise NotImplementedError

    def _single_target(self, y: Any) -> float | None:
        """Target of an array of one likewise."""
        raise NotImplementedError

    def _order_after(self, target: float) -> Attributes | None:
        """Tell what is known of the order of the rows after one more; None where a warning is due."""
        if self.drift == "adapt":
            return {}
        before = self.__dict__.get("_order", RowOrder())
        labels = self._target == "class"
        after = before.after_label(int(target)) if labels else before.after_numbers(np.array([target]))
        return None if after.told and not before.told else {"_order": after}

    def _external_one(self, scores: float | Float) -> Any:
        """Scores of one row with the sign and the order of the classes that users see."""
        return scores

    def _score_one(self, x: Any) -> float | Float | None:
        """Scores of one row; None where it has to go the long way."""
        learner = self.__dict__.get("_learner")
        if learner is None:
            return None
        row = self._quick_row(x)
        return None if row is None else learner.score_one(row)


def _block(row: Any) -> Any:
    return row[None] if isinstance(row, np.ndarray) else row

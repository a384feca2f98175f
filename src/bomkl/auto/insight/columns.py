"""How an estimator measures its columns while it learns, and the attributes that report it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bomkl._estimators.table_rows import TableRows
from bomkl._support.change import as_of
from bomkl._support.limits import WIDEST
from bomkl.auto.features.geometry import Float
from bomkl.auto.hashed.explain import column_shares
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.insight.history import History
from bomkl.auto.insight.importance import Importance
from bomkl.auto.insight.mixing import RowMixer
from bomkl.auto.learner import Learner
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import dense_rows
from bomkl.auto.saved import State
from bomkl.auto.wide.sparse_rows import canonical_rows
from bomkl.tables.encoded import EncodedRows

_MOST_LISTED = 2**24  # columns that an array is made for


class MeasuredColumns(TableRows):
    """Importances of the columns."""

    update: str
    _learner: Learner
    _importance: Importance
    _history: History
    _places: list[Any] | None = None  # columns of the features of rows that are being learned from

    def _column_names(self) -> list[Any]:
        """Columns of the user, in the order of the importances."""
        encoder = self.encoder_
        return list(self._columns_of_features() if encoder is None else encoder.kinds_)

    @property
    def _is_wide(self) -> bool:
        """Whether rows are those of a matrix with too many columns to measure each of them in every window."""
        return self.encoder_ is None and self.n_features_in_ > WIDEST

    def _mixer(self) -> RowMixer | None:
        """Return what knows the columns of the rows; None of very wide rows of a matrix."""
        encoder = self.encoder_
        if self._is_wide:
            return None
        if encoder is None:
            names = range(self.n_features_in_)
            return RowMixer(names, names, names if isinstance(self._learner, HashedLearner) else ())
        places = self._places or encoder.columns_of_features()
        return RowMixer(list(encoder.kinds_), places, self._hashed_names())

    def _sample(self) -> Any:
        """Return rows of the stream as the learner takes them now; None before some were kept."""
        importance: Importance | None = vars(self).get("_importance")
        sample = None if importance is None else importance.sample()
        if not isinstance(sample, EncodedRows):
            return sample
        return (vars(self).get("_filler") or self._encoder).encoded_again(sample)

    def _hashed_names(self) -> Sequence[Any]:
        """Columns whose cells rows have beside their numbers."""
        if not isinstance(self._learner, HashedLearner):
            return ()
        encoder = self.encoder_
        return self._columns_of_features() if encoder is None else encoder.hashed_names()

    def _score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; remember how good the scores are."""
        task = self._learner.task
        scores = self._measure_and_learn(X, y, weight, run)
        if "_history" not in vars(self):  # as in files up to version 0.2.0
            self._history = History(task.is_regression)
        self._history = self._history.plus(y, scores, task)
        return scores

    def _measure_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper) -> Float:
        """Score and learn, and measure the columns on some of the rows before they are learned from."""
        if self.update == "rounds":  # whose rows may be learned from anywhere
            return self._learner.score_and_learn(X, y, weight, run)
        if "_importance" not in vars(self):  # as in files up to version 0.2.0
            self._importance = Importance(self._learner.seen)
        parts, begin = [], 0
        while begin < len(y):
            end = begin + self._importance.rows_together(self._learner.seen, len(y) - begin)
            rows = X if end - begin == len(y) else X[begin:end]
            if self._importance.measures(self._learner.seen):
                importance, stays = self._measure(self._learner, rows, y[begin:end], weight[begin:end], run)
                self._learner, self._importance = self._learner.fork() if stays else self._learner, importance
            parts.append(self._learner.score_and_learn(rows, y[begin:end], weight[begin:end], run))
            begin = end
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _measure_anew(self, seen: int) -> None:
        """Go on measuring with rows that have more to them."""
        if "_importance" in vars(self):
            self._importance = self._importance.fork()
            self._importance.begin_anew(seen)

    def _measure(self, learner: Learner, X: Any, y: Float, weight: Float, run: Mapper = map) -> tuple[Importance, bool]:
        """Measure the columns on rows of a window before they are learned from; whether the learner has to stay."""
        importance = self._importance.fork()
        if not isinstance(X, EncodedRows):
            X = (canonical_rows if self._is_wide else dense_rows)(X, 0, X.shape[0])
        return importance, importance.note(learner, X, y, weight, self._mixer, run)

    def _noted_row(self, row: Any, y: Float, scores: Float) -> dict[str, Any]:
        """Tell what else changes with one row; the learner has not learned from it yet, and stays as it is."""
        changed: dict[str, Any] = {}
        if (history := vars(self).get("_history")) is not None:
            changed["_history"] = history.plus(y, scores, self._learner.task)
        importance = vars(self).get("_importance")
        if importance is not None and importance.measures(self._learner.seen):
            changed["_importance"] = self._measure(self._learner, row, y, np.ones(1))[0]
        return changed

    @property
    def feature_importances_(self) -> Float:
        """How much each column matters: what shuffling it would cost, in shares of all columns. They sum to 1.

        Along the stream, the model predicts some rows with the values of a column passed on among them, before it
        learns from them. The importance is what that adds to the loss (log loss, or squared error), later rows counting
        more. It is 0 where it adds nothing. Columns with a rank correlation of at least .9, or at most -.9, are
        shuffled together and share equally, even if the model uses only one of them. Columns of texts stand alone, and
        so do more than 512 columns of an array. While few rows were measured, what it changes in the predictions counts
        as well, for half. Until the first rows were measured, and with ``update="rounds"``, it is how steeply the score
        changes along the column.
        """
        now = as_of(self, vars(self))
        check_is_fitted(now)
        means, _ = now._measured()
        if means is None:
            return now._slope_shares()
        positive = np.maximum(means, 0.0)
        return np.asarray(positive / (float(positive.sum()) or 1.0))

    @property
    def feature_importances_std_(self) -> Float:
        """Standard error of each of `feature_importances_`; NaN for a column that was not measured."""
        now = as_of(self, vars(self))
        check_is_fitted(now)
        means, deviations = now._measured()
        if means is None:
            return np.broadcast_to(np.nan, now.n_features_in_)
        return np.asarray(deviations / (float(np.maximum(means, 0.0).sum()) or 1.0))

    def _measured(self, of_errors: bool = False) -> tuple[Any, Any]:
        """Rise of the loss, or of the error, that shuffling each column brings, and its deviation; None before."""
        means, deviations = self._all_measured()
        return (None, None) if means is None else (means[int(of_errors)], deviations[int(of_errors)])

    def _all_measured(self) -> tuple[Any, Any]:
        """Rises of loss, of error, and parts of the rise of the loss by class in the order of coming; None before."""
        importance: Importance | None = vars(self).get("_importance")
        if importance is None or not len(importance.averages.columns):
            return None, None
        averages = importance.averages
        if len(averages.mean) * self.n_features_in_ > _MOST_LISTED:
            return None, None
        return averages.of(self.n_features_in_)

    def _measured_by_class(self) -> tuple[Any, Any]:
        """Give importances for each known label, in the order of coming, and their deviations; None before."""
        means, deviations = self._all_measured()
        if means is None:
            return None, None
        total = np.maximum(means[2:], 0.0).sum(axis=1, keepdims=True)
        total[total == 0] = 1.0
        return np.maximum(means[2:], 0.0) / total, deviations[2:] / total

    def _slope_shares(self) -> Float:
        shares = column_shares(self._learner, self._columns_of_features(), self._hashed_names())
        if shares is None:
            return np.broadcast_to(0.0, self.n_features_in_)  # of any width
        return np.array([shares.get(column, 0.0) for column in self._column_names()])

    def _mean_error(self) -> float | None:
        """Mean error of the predictions so far, each before its row was learned from; None before the first ones."""
        history: History | None = vars(self).get("_history")
        if history is None or not history.rows:
            return None
        return float(history.spans[:, 1].sum() / history.rows)

    def _insight_from_state(self, importance: State | None, history: State | None) -> None:
        learner = self._learner
        if importance is not None:
            cells = len(self._hashed_names()) if isinstance(learner, HashedLearner) else None
            columns = self._n_columns()
            self._importance = Importance.from_state(importance, learner.seen, columns, cells, self.n_features_in_)
        if history is not None:
            self._history = History.from_state(history, learner.task.is_regression, max(learner.outputs, 2))

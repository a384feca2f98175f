"""The model of the service: an estimator, the columns it takes, and the figures about it."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from bomkl.evaluate import row_errors
from bomkl.serve.model.columns import Columns, IgnoredColumns
from bomkl.serve.model.monitor import Monitor
from bomkl.serve.storage.entry import ROOT, Entry, Place
from bomkl.tables.notices import TableWarning

MICRO_BATCH = 256  # rows learned at a time while predictions come: they wait for no more than that
BULK_BATCH = 1024  # rows learned at a time otherwise


class Learner:
    """Learns entries of the log in order; the result depends on the entries alone, not on how they are grouped.

    `estimator`: the model; a callable makes it when the first label tells what there is to learn. `monitor`: figures
    about the rows learned so far. `seq`: the last entry that was learned.
    """

    def __init__(self, estimator: Any, monitor: Monitor | None = None, seq: int = 0, digest: bytes = ROOT) -> None:
        self.estimator, self.monitor, self.seq, self.digest = estimator, monitor or Monitor(), seq, digest
        self.ignored = IgnoredColumns()  # by the estimator, since this learner began
        self.view = View(estimator, self.rows)  # the model for other threads

    @property
    def classifies(self) -> bool:
        """Whether it learns classes rather than numbers."""
        return isinstance(self.estimator, ClassifierMixin)  # `is_classifier` makes all tags each time

    @property
    def fitted(self) -> bool:
        """Whether the estimator has learned a row, here or before."""
        return hasattr(self.estimator, "n_features_in_")

    @property
    def rows(self) -> int:
        """Rows of the log up to the last entry that was learned, those that the estimator refused included."""
        return self.monitor.rows + self.monitor.refused

    @property
    def place(self) -> Place:
        """The place in the log after the last entry that was learned."""
        return Place(self.seq, self.rows, self.digest)

    def copy(self) -> Self:
        """Return a learner that shares nothing with this one."""
        return type(self)(copy.deepcopy(self.estimator), Monitor.restore(self.monitor.state()), self.seq, self.digest)

    # ------------------------------------------------------------ learning

    def learn(
        self, entries: Sequence[Entry], columns: Columns, between: Callable[[], int] = lambda: BULK_BATCH
    ) -> list[list[Any]]:
        """Learn entries and return, for each, the predictions made just before each row was learned from.

        `between`: called every few rows: what it reads is the model after some of them. Returns the most rows that may
        be learned before it is called again.
        """
        if not hasattr(self.estimator, "score_and_learn"):
            self.estimator = self.estimator(columns.labels)
        rows = [row for entry in entries for row in entry.rows]
        labels = [label for entry in entries for label in entry.labels]
        y = columns.targets(labels)
        predictions: list[Any] = []
        while (begin := len(predictions)) < len(y):
            end = begin + self._rows_at_once(y[begin:], between())
            predictions += self._learn_rows(columns, rows[begin:end], y[begin:end])
            self.monitor.add_weights(self.kernel_weights)
            self.view = View(self.estimator, self.rows)
        self.seq, self.digest = entries[-1].seq, entries[-1].digest
        ends = np.cumsum([len(entry.labels) for entry in entries]).tolist()
        return [predictions[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

    def _learn_rows(self, columns: Columns, rows: list[Any], y: NDArray[Any]) -> list[Any]:
        known = self.classes()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("ignore", UserWarning)  # about few rows or one class: more will come
                warnings.simplefilter("always", TableWarning)
                margins = np.asarray(self.estimator.score_and_learn(columns.input(rows), y))
        except (ArithmeticError, LookupError, TypeError, ValueError):  # the estimator is as it was
            if len(y) > 1:
                parts = [slice(at, at + 1) for at in range(len(y))]
                return [label for part in parts for label in self._learn_rows(columns, rows[part], y[part])]
            # The checks before the log let a row through that the estimator refuses. A restart must skip it as well.
            self.monitor.refused += 1
            return [None]
        for each in caught:
            if isinstance(each.message, TableWarning):
                self.ignored.add(each.message.ignored)
        return self._count(margins, y, known)

    def _rows_at_once(self, y: NDArray[Any], most: int) -> int:
        """Tell how many rows to learn in one call.

        They end where the curves need the weights, and a row with a new label is alone. The margins of a call are
        about the classes known at its end; so those of every row are about the classes known once the row has been
        learned from, however the rows are grouped.
        """
        # up to a multiple of `most`, where estimators that work in blocks end one
        size = min(most - self.monitor.rows % most, self.monitor.rows_to_weights(), len(y))
        if not self.classifies:
            return size
        known = set(self.classes())
        return max(next((at for at, label in enumerate(y[:size].tolist()) if label not in known), size), 1)

    def _count(self, margins: NDArray[np.float64], y: NDArray[Any], known: list[Any]) -> list[Any]:
        errors = row_errors(self.estimator, margins, y, known)
        if not self.classifies:
            self.monitor.count_numbers(y, errors)
            predictions: list[Any] = margins.tolist()
            return predictions
        predictions, sure = self._predicted(margins, known)
        self.monitor.count_classes(y.tolist(), errors, sure)
        return predictions

    def _predicted(self, margins: NDArray[np.float64], known: list[Any]) -> tuple[list[Any], NDArray[np.float64]]:
        """Labels and their probabilities, among the classes that were known before these rows."""
        if not known:
            return [None] * len(margins), np.full(len(margins), np.nan)
        classes, before = self.classes(), set(known)
        scores = np.column_stack([-margins / 2, margins / 2]) if margins.ndim == 1 else margins.copy()
        if len(known) == 1:
            return known * len(margins), np.full(len(margins), np.nan)
        scores[:, [label not in before for label in classes]] = -np.inf
        best = scores.argmax(axis=1)
        labels: list[Any] = [classes[at] for at in best]
        if margins.ndim == 1:  # no side was taken, which counts as a mistake
            labels = [None if margin == 0 else label for margin, label in zip(margins, labels, strict=True)]
        if not hasattr(self.estimator, "predict_proba"):
            return labels, np.full(len(margins), np.nan)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return labels, odds[np.arange(len(best)), best] / odds.sum(axis=1)

    # ------------------------------------------------------------ reading

    def classes(self) -> list[Any]:
        """Return the classes known so far, sorted; none for numbers."""
        found = getattr(self.estimator, "classes_", None)
        return [] if found is None else found.tolist()

    def kernel_weights(self) -> list[float]:
        """Weight of each kernel, averaged over the classes where each has its own."""
        weights: list[float] = np.atleast_2d(self.estimator.kernel_weights_).mean(axis=0).tolist()
        return weights

    def drift_events(self) -> list[dict[str, Any]]:
        events = getattr(self.estimator, "drift_", []) if self.fitted else []
        return [
            {"rows": each.row, "sudden": each.sudden, "strength": each.strength, "experts": each.experts}
            | {"columns": {str(column): shift for column, shift in each.columns.items()}}
            for each in events
        ]

    def kernels(self) -> list[str]:
        """Names of the kernels; none before the first row."""
        return [str(kernel) for kernel in self.estimator.kernels_] if self.fitted else []


class View:
    """The model after some whole call: what is learned later does not change it.

    `rows`: rows of the log that it has learned.
    """

    def __init__(self, estimator: Any, rows: int) -> None:
        self.fitted = hasattr(estimator, "n_features_in_")
        self.estimator, self.rows = estimator._now() if self.fitted else estimator, rows

    def predict(
        self, rows: list[Any], columns: Columns, interval: float | None = None, explain: bool = False
    ) -> dict[str, list[Any]]:
        """Predict rows; all is null before the first row.

        `interval`: share of the numbers that should lie between ``lower`` and ``upper``. `explain`: whether to take
        each prediction apart. Returns a list for each part of the answer: ``predictions``, ``probabilities`` of the
        classes, and what was asked for.
        """
        names = ["predictions", *(["lower", "upper"] if interval is not None else []), *["explanations"] * explain]
        if not self.fitted:
            return {name: [None] * len(rows) for name in names}
        found = self._predict(columns.input(rows))
        if interval is not None:
            ends = self.estimator.predict_interval(columns.input(rows), interval)
            for name, values in zip(("lower", "upper"), ends.T.tolist(), strict=True):
                found[name] = [value if math.isfinite(value) else None for value in values]
        if explain:
            found["explanations"] = [self._explain(columns.input([row]), columns) for row in rows]
        return found

    def _predict(self, X: Any) -> dict[str, list[Any]]:
        if not hasattr(self.estimator, "predict_proba"):
            return {"predictions": self.estimator.predict(X).tolist()}
        classes, probabilities = self.estimator.classes_.tolist(), self.estimator.predict_proba(X)
        names = [str(label) for label in classes]
        return {
            # of two equal probabilities the first class, as `predict` does
            "predictions": [classes[best] for best in probabilities.argmax(axis=1).tolist()],
            "probabilities": [dict(zip(names, row, strict=True)) for row in probabilities.tolist()],
        }

    def _explain(self, X: Any, columns: Columns) -> dict[str, Any]:
        found = self.estimator.explain(X)
        names = list(columns.kinds)
        return {
            "score": found.margin,
            "columns": {name if type(name) is str else names[name]: value for name, value in found.columns.items()},
            "kernels": found.kernels,
            "stored_rows": found.largest_rows(),
            "remainder": found.remainder,
        }

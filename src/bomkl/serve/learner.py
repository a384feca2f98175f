"""The model of the service: an estimator, the columns it takes, and the figures about it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bomkl.evaluate import row_errors
from bomkl.serve.columns import Columns
from bomkl.serve.entry import ROOT, Entry, Place
from bomkl.serve.monitor import Monitor
from bomkl.tables.notices import TableWarning

MICRO_BATCH = 256  # rows learned at a time while predictions come: they wait for no more than that
BULK_BATCH = 1024  # rows learned at a time otherwise


class Learner:
    """Learns entries of the log in order; the result depends on the entries alone, not on how they are grouped.

    Parameters
    ----------
    estimator : estimator of this package, or callable
        The model; a callable makes it when the first label tells what there is to learn.
    monitor : Monitor or None, default=None
        Figures about the rows learned so far.
    seq : int, default=0
        The last entry that was learned.
    digest : bytes
        Checksum of that entry.
    """

    def __init__(self, estimator: Any, monitor: Monitor | None = None, seq: int = 0, digest: bytes = ROOT) -> None:
        self.estimator, self.monitor, self.seq, self.digest = estimator, monitor or Monitor(), seq, digest

    @property
    def classifies(self) -> bool:
        """Whether it learns classes rather than numbers."""
        return bool(is_classifier(self.estimator))

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

        Parameters
        ----------
        entries : sequence of Entry
            What to learn.
        columns : Columns
            What their cells mean.
        between : callable
            Called every few rows: what it reads is the model after some of them. Returns the most rows that may be
            learned before it is called again.
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
        self.seq, self.digest = entries[-1].seq, entries[-1].digest
        ends = np.cumsum([len(entry.labels) for entry in entries]).tolist()
        return [predictions[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

    def _learn_rows(self, columns: Columns, rows: list[Any], y: NDArray[Any]) -> list[Any]:
        known = self.classes()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about few rows or one class: more will come
                margins = np.asarray(self.estimator.score_and_learn(columns.input(rows), y))
        except (ArithmeticError, LookupError, TypeError, ValueError):  # the estimator is as it was
            if len(y) > 1:
                parts = [slice(at, at + 1) for at in range(len(y))]
                return [label for part in parts for label in self._learn_rows(columns, rows[part], y[part])]
            # The checks before the log let a row through that the estimator refuses. A restart must skip it as well.
            self.monitor.refused += 1
            return [None]
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
        labels, places = np.unique(y[:size], return_index=True)
        known = set(self.classes())
        new = min(
            (at for label, at in zip(labels.tolist(), places.tolist(), strict=True) if label not in known), default=size
        )
        return max(new, 1)

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

    def kernels(self) -> list[str]:
        """Names of the kernels; none before the first row."""
        return [str(kernel) for kernel in self.estimator.kernels_] if self.fitted else []

    def predict(self, rows: list[Any], columns: Columns) -> list[dict[str, Any]]:
        """Predict rows: the label with the probability of each class, or the number; null before the first row."""
        if not self.fitted:
            return [{"prediction": None} for _ in rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # of cells that count as missing
            return self._predicted_rows(columns.input(rows))

    def _predicted_rows(self, X: Any) -> list[dict[str, Any]]:
        if not hasattr(self.estimator, "predict_proba"):
            return [{"prediction": value} for value in self.estimator.predict(X).tolist()]
        classes, probabilities = self.classes(), self.estimator.predict_proba(X)
        names = [str(label) for label in classes]
        # of two equal probabilities the first class, as `predict` does
        return [
            {"prediction": classes[best], "probabilities": dict(zip(names, row, strict=True))}
            for best, row in zip(probabilities.argmax(axis=1).tolist(), probabilities.tolist(), strict=True)
        ]

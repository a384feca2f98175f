"""How well a model does: on a stream, where it predicts each row and then learns from it, and on labelled rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bomkl._support.validation import check_count

_FIRST_REPORT = 64


@dataclass(frozen=True)
class Progress:
    """A report on an estimator after some rows of a stream.

    Parameters
    ----------
    rows : int
        Rows seen so far.
    error : float
        Mean error of all of them: the share of mistakes of a classifier (a zero margin is a mistake), the mean absolute
        error of a regressor.
    error_since_last : float
        The same over the rows since the last report.
    support_vectors : int
        Support vectors, summed over the kernels (and the classes).
    kernels : tuple of str
        The kernels.
    kernel_weights : tuple of float
        Weight of each kernel (averaged over the classes).
    kernel_support : tuple of int
        Support vectors of each kernel (summed over the classes).
    metric : {"error rate", "mean absolute error"}, default="error rate"
        What the errors are.
    """

    rows: int
    error: float
    error_since_last: float
    support_vectors: int
    kernels: tuple[str, ...] = ()
    kernel_weights: tuple[float, ...] = ()
    kernel_support: tuple[int, ...] = ()
    metric: str = "error rate"

    @property
    def top_kernel(self) -> str:
        """The kernel of the greatest weight; the first of them on a tie."""
        return self.kernels[int(np.argmax(self.kernel_weights))] if self.kernels else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"top_kernel": self.top_kernel}


def progressive_validation(
    estimator: Any,
    blocks: Iterable[tuple[Any, Any]],
    *,
    classes: Sequence[Any] | None = None,
    every: int | None = None,
) -> Iterator[Progress]:
    """Learn from a stream and report the error: each row is predicted before the estimator learns from it.

    Parameters
    ----------
    estimator : object
        Any object with ``score_and_learn(X, y)``. If it has learned before, it goes on.
    blocks : iterable of (X, y)
        Rows and labels, for example a `bomkl.streams.Stream`.
    classes : sequence or None, default=None
        All classes, for a classifier that has not learned yet. None: the classes of the first block.
    every : int or None, default=None
        Rows between reports. None: after 64 rows, and each time the number of rows has doubled.

    Yields
    ------
    Progress
        The last one is about the whole stream.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import BudgetMKLClassifier
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> *_, last = progressive_validation(BudgetMKLClassifier(random_state=0), [(X, y)])
    >>> last.rows, last.error < 0.1
    (500, True)
    """
    validation = ProgressiveValidation(estimator, classes=classes, every=every)
    for block in blocks:
        X, y = block
        yield from validation.learn(X, y, getattr(block, "weight", None))
    yield from validation.finish()


def read_progress(lines: str | os.PathLike[str] | Iterable[str]) -> list[Progress]:
    """Read what ``bomkl eval --json`` wrote.

    Parameters
    ----------
    lines : path or iterable of str
        A file, or its lines.

    Returns
    -------
    list of Progress

    Examples
    --------
    >>> read_progress(['{"rows": 64, "error": 0.25, "error_since_last": 0.25, "support_vectors": 9}'])[0].error
    0.25
    """
    if isinstance(lines, str | os.PathLike):
        with open(lines, encoding="utf-8") as file:
            return read_progress(list(file))
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            plain.pop("top_kernel", None)
            for name in ("kernels", "kernel_weights", "kernel_support"):
                plain[name] = tuple(plain.get(name, ()))
            records.append(Progress(**plain))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"Line {number} is not one that 'bomkl eval --json' writes: {line.strip()[:80]!r}"
            ) from error
    return records


class ProgressiveValidation:
    """Progressive validation, one block at a time. What it has counted can be saved and continued.

    Parameters
    ----------
    estimator : object
        As for `progressive_validation`.
    classes : sequence or None, default=None
        As for `progressive_validation`.
    every : int or None, default=None
        As for `progressive_validation`.
    tally : Tally or None, default=None
        What an earlier validation of the same stream has counted. None: nothing yet.
    observe : callable or None, default=None
        Called with the predictions of some rows, made before the estimator learned from them.
    watch : callable or None, default=None
        Called with some rows, their labels, their margins and their errors, likewise.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        classes: Sequence[Any] | None = None,
        every: int | None = None,
        tally: Tally | None = None,
        observe: Callable[[NDArray[Any]], None] | None = None,
        watch: Callable[[Any, NDArray[Any], NDArray[np.float64], NDArray[np.float64]], None] | None = None,
    ) -> None:
        if every is not None:
            check_count("progressive_validation", "every", every)
        self.estimator, self.classes, self.every, self.observe = estimator, classes, every, observe
        self.watch = watch
        self.tally = tally or Tally(next_report=every or _FIRST_REPORT)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> list[Progress]:
        """Predict each row, then learn from it.

        Parameters
        ----------
        X : array-like, sparse matrix or table of n rows
            Rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,) or None, default=None
            Their weights. The error counts every row once.

        Returns
        -------
        list of Progress
            The reports that fall among these rows; often there is none.
        """
        tally, start, records = self.tally, 0, []
        while start < len(y):
            stop = min(len(y), start + tally.next_report - tally.rows)
            part = slice(start, stop)
            options = {} if sample_weight is None else {"sample_weight": sample_weight[part]}
            if self.classes is not None and is_classifier(self.estimator):
                options["classes"] = np.asarray(self.classes)
            known = getattr(self.estimator, "classes_", ())
            margins = np.asarray(self.estimator.score_and_learn(_rows_of(X, part), y[part], **options))
            grows = not getattr(self.estimator, "_declared", True)
            errors = row_errors(self.estimator, margins, y[part], known if grows else None)
            tally.errors += float(errors.sum())
            if self.watch is not None:
                self.watch(_rows_of(X, part), y[part], margins, errors)
            tally.rows += stop - start
            start = stop
            if self.observe is not None:
                self.observe(predictions_of(self.estimator, margins))
            if tally.rows == tally.next_report:
                tally.next_report += self.every or tally.rows
                records += self.finish()
        return records

    def finish(self) -> list[Progress]:
        """Return a report of the rows since the last one.

        Returns
        -------
        list of Progress
            One record, or none.
        """
        tally = self.tally
        if tally.rows == tally.reported_rows:
            return []
        record = self.current()
        tally.reported_rows, tally.reported_errors = tally.rows, tally.errors
        return [record]

    def current(self) -> Progress:
        """Return the progress so far, without making a report of it.

        Returns
        -------
        Progress
        """
        estimator, tally = self.estimator, self.tally
        weights = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
        support = np.atleast_2d(estimator.n_support_).sum(axis=0)
        return Progress(
            rows=tally.rows,
            error=tally.errors / tally.rows,
            error_since_last=(tally.errors - tally.reported_errors) / max(1, tally.rows - tally.reported_rows),
            support_vectors=int(support.sum()),
            kernels=tuple(map(str, estimator.kernels_)),
            kernel_weights=tuple(map(float, weights)),
            kernel_support=tuple(map(int, support)),
            metric=metric_name(estimator),
        )


@dataclass
class Tally:
    """What progressive validation counts."""

    next_report: int
    rows: int = 0
    errors: float = 0.0
    reported_rows: int = 0
    reported_errors: float = 0.0


def row_errors(
    estimator: Any, margins: NDArray[np.float64], y: Any, known: Iterable[Any] | None = None
) -> NDArray[np.float64]:
    """Error of each row: 0 or 1 for a classifier, the absolute difference for a regressor.

    Only the classes that came before a row count for it, so the errors do not depend on how rows are grouped. A label
    that comes for the first time is a mistake, and so is a margin of zero between two classes.

    Parameters
    ----------
    estimator : object
        What made the margins; a classifier tells its classes.
    margins : ndarray of shape (n,) or (n, n_classes)
        What ``score_and_learn`` gave.
    y : array-like of shape (n,)
        The labels.
    known : iterable or None, default=None
        Classes that the classifier knew before these rows; None: all of them.

    Returns
    -------
    ndarray of shape (n,)
    """
    y = np.asarray(y)
    if not is_classifier(estimator):
        return np.abs(np.asarray(margins - y, dtype=np.float64))
    classes: NDArray[Any] = np.asarray(estimator.classes_)
    came, row = _first_rows(classes, y, known), np.arange(len(y))
    # while one label is known, what the sign of the margin means is not: that label is all there is to predict
    scores = margins if margins.ndim == 2 else np.column_stack([-margins, margins])[:, : len(classes)]
    candidates = came < row[:, None]
    wrong: NDArray[np.bool_] = classes[np.argmax(np.where(candidates, scores, -np.inf), axis=1)] != y
    wrong |= ~candidates.any(axis=1)
    if margins.ndim == 1:
        wrong |= (margins == 0) & (candidates.sum(axis=1) == 2)
    return wrong.astype(np.float64)


def _first_rows(classes: NDArray[Any], y: NDArray[Any], known: Iterable[Any] | None) -> NDArray[np.intp]:
    """Row in which each class comes for the first time; -1 for those that were known before."""
    came = np.full(len(classes), -1)
    if known is not None:
        before = set(known)
        for label, place in zip(*np.unique(y, return_index=True), strict=True):
            if label not in before:
                came[np.searchsorted(classes, label)] = place
    return came


def predictions_of(estimator: Any, margins: NDArray[np.float64]) -> NDArray[Any]:
    """Turn margins into predictions: the labels of a classifier, the numbers of a regressor.

    Parameters
    ----------
    estimator : object
        What made the margins; a classifier tells its classes.
    margins : ndarray of shape (n,) or (n, n_classes)
        What ``score_and_learn`` gave.

    Returns
    -------
    ndarray of shape (n,)
    """
    if not is_classifier(estimator):
        return margins
    classes: NDArray[Any] = np.asarray(estimator.classes_)
    best = np.where(margins > 0, len(classes) - 1, 0) if margins.ndim == 1 else np.argmax(margins, axis=1)
    predictions: NDArray[Any] = classes[best]
    return predictions


def metric_name(estimator: Any) -> str:
    """Name what `Progress.error` is for an estimator."""
    return "error rate" if is_classifier(estimator) else "mean absolute error"


def _rows_of(X: Any, part: slice) -> Any:
    if isinstance(X, dict):
        return {name: cells[part] for name, cells in X.items()}
    return X.iloc[part] if hasattr(X, "iloc") else X[part]

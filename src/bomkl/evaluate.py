"""Progressive validation: every row is first predicted, then learned, so the error is honest without a test set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bomkl._validation import check_count

_FIRST_REPORT = 64


@dataclass(frozen=True)
class Progress:
    """How an estimator does after some rows of a stream.

    Parameters
    ----------
    rows : int
        Rows seen so far.
    error : float
        Mean error of all of them: the share of mistakes of a classifier (a zero margin is a mistake), the mean absolute
        error of a regressor.
    error_since_last : float
        The same over the rows since the record before.
    support_vectors : int
        Support vectors, summed over the kernels (and the classes).
    kernels : tuple of str
        The kernels.
    kernel_weights : tuple of float
        Weight of each kernel (averaged over the classes).
    kernel_support : tuple of int
        Support vectors of each kernel (summed over the classes).
    """

    rows: int
    error: float
    error_since_last: float
    support_vectors: int
    kernels: tuple[str, ...] = ()
    kernel_weights: tuple[float, ...] = ()
    kernel_support: tuple[int, ...] = ()

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
    """Learn a stream and report the error of predictions made just before each row was learned.

    Parameters
    ----------
    estimator : object
        Anything with ``score_and_learn(X, y)``; it goes on from what it has learned already.
    blocks : iterable of (X, y)
        Rows and labels, for example a `bomkl.streams.Stream`.
    classes : sequence or None, default=None
        All classes, for a classifier that has not learned any row yet; None: those of the first block.
    every : int or None, default=None
        Rows from one record to the next; None: after 64 rows, and whenever their number has doubled.

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
    for X, y in blocks:
        yield from validation.learn(X, y)
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
    """Progressive validation one block at a time; what it has counted can be saved and gone on from.

    Parameters
    ----------
    estimator : object
        As for `progressive_validation`.
    classes : sequence or None, default=None
        As for `progressive_validation`.
    every : int or None, default=None
        As for `progressive_validation`.
    tally : Tally or None, default=None
        What an earlier validation of the same stream had counted; None: nothing yet.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        classes: Sequence[Any] | None = None,
        every: int | None = None,
        tally: Tally | None = None,
    ) -> None:
        if every is not None:
            check_count("progressive_validation", "every", every)
        self.estimator, self.classes, self.every = estimator, classes, every
        self.tally = tally or Tally(next_report=every or _FIRST_REPORT)

    def learn(self, X: Any, y: Any) -> Iterator[Progress]:
        """Predict and learn some rows; all of them are learned when the iterator is used up."""
        tally, start = self.tally, 0
        while start < len(y):
            stop = min(len(y), start + tally.next_report - tally.rows)
            margins = _score_and_learn(self.estimator, X[start:stop], y[start:stop], self.classes)
            tally.errors += float(row_errors(self.estimator, margins, y[start:stop]).sum())
            tally.rows += stop - start
            start = stop
            if tally.rows == tally.next_report:
                tally.next_report += self.every or tally.rows
                yield from self.finish()

    def finish(self) -> Iterator[Progress]:
        """Report rows that no record has covered yet."""
        tally = self.tally
        if tally.rows > tally.reported_rows:
            yield _progress(self.estimator, tally)
            tally.reported_rows, tally.reported_errors = tally.rows, tally.errors


@dataclass
class Tally:
    """What progressive validation counts."""

    next_report: int
    rows: int = 0
    errors: float = 0.0
    reported_rows: int = 0
    reported_errors: float = 0.0


def row_errors(estimator: Any, margins: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
    """Error of each row: 0 or 1 for a classifier, the absolute difference for a regressor.

    Parameters
    ----------
    estimator : object
        What made the margins; a classifier tells its classes.
    margins : ndarray of shape (n,) or (n, n_classes)
        What ``score_and_learn`` gave.
    y : ndarray of shape (n,)
        The labels.

    Returns
    -------
    ndarray of shape (n,)
    """
    if not is_classifier(estimator):
        return np.abs(np.asarray(margins - y, dtype=np.float64))
    classes: NDArray[Any] = np.asarray(estimator.classes_)
    wrong: NDArray[np.bool_]
    if margins.ndim == 1:
        sign = np.where(y == classes[-1], 1.0, -1.0)
        wrong = sign * margins <= 0
    else:
        wrong = classes[np.argmax(margins, axis=1)] != y
    return wrong.astype(np.float64)


def _score_and_learn(estimator: Any, X: Any, y: Any, classes: Sequence[Any] | None) -> NDArray[np.float64]:
    if classes is not None and is_classifier(estimator):
        return np.asarray(estimator.score_and_learn(X, y, classes=np.asarray(classes)))
    return np.asarray(estimator.score_and_learn(X, y))


def _progress(estimator: Any, tally: Tally) -> Progress:
    weights = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
    support = np.atleast_2d(estimator.n_support_).sum(axis=0)
    return Progress(
        rows=tally.rows,
        error=tally.errors / tally.rows,
        error_since_last=(tally.errors - tally.reported_errors) / (tally.rows - tally.reported_rows),
        support_vectors=int(support.sum()),
        kernels=tuple(map(str, estimator.kernels_)),
        kernel_weights=tuple(map(float, weights)),
        kernel_support=tuple(map(int, support)),
    )

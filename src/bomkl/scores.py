"""Scores of a model on labelled rows that it does not learn from, added up block by block."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bomkl.tables.notices import TableWarning

MOST_FOR_AUC = 5_000_000  # rows: more would take too much memory, and change no digit that matters
_SMALLEST = 1e-15  # probability that a log loss takes for less
COVERAGE = 0.9


def score_model(estimator: Any, blocks: Iterable[Any]) -> dict[str, Any]:
    """Score a model on labelled rows.

    Parameters
    ----------
    estimator : object
        A fitted classifier or regressor.
    blocks : iterable of (X, y)
        Rows and labels. A block may have an attribute ``weight``, as those of a `bomkl.streams.Stream`; it holds the
        weight of each row.

    Returns
    -------
    dict
        For a classifier: rows, accuracy, error rate, log loss (if it has probabilities), AUC (with more than two
        classes, the mean of each class against the others) and the confusion matrix. For a regressor: rows, mean
        absolute error, root mean squared error, R2, and the coverage and mean width of its intervals, if it has any. A
        score that these rows do not define is None.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import AutoMKLClassifier
    >>> X, y = make_moons(600, noise=0.1, random_state=0)
    >>> model = AutoMKLClassifier(budget=100, random_state=0).fit(X[:500], y[:500])
    >>> scores = score_model(model, [(X[500:], y[500:])])
    >>> scores["rows"], scores["accuracy"] > 0.9
    (100, True)
    """
    scores = _ClassScores(estimator) if is_classifier(estimator) else _NumberScores(estimator)
    for block in blocks:
        X, y = block
        weight = getattr(block, "weight", None)
        scores.add(X, np.asarray(y), np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64))
    return scores.result()


class _ClassScores:
    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.classes = np.asarray(estimator.classes_)
        self.rows, self.weight, self.right, self.loss = 0, 0.0, 0.0, 0.0
        self.pairs: Counter[tuple[Any, Any]] = Counter()
        self.kept: list[tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]] = []

    def add(self, X: Any, y: NDArray[Any], weight: NDArray[np.float64]) -> None:
        predicted = np.asarray(self.estimator.predict(X))
        probabilities = hasattr(self.estimator, "predict_proba")
        with _without_warnings():
            scores = self.estimator.predict_proba(X) if probabilities else self.estimator.decision_function(X)
        scores = np.asarray(scores)
        self.weight += float(weight.sum())
        self.right += float(weight[predicted == y].sum())
        self.pairs.update(zip(y.tolist(), predicted.tolist(), strict=True))
        if probabilities:
            places = np.searchsorted(self.classes, y)
            known = places < len(self.classes)
            known[known] = self.classes[places[known]] == y[known]
            own = np.where(known, scores[np.arange(len(y)), np.where(known, places, 0)], 0.0)
            self.loss -= float((weight * np.log(np.clip(own, _SMALLEST, 1.0))).sum())
        if self.rows < MOST_FOR_AUC:
            self.kept.append((y, scores[:, -1] if probabilities and scores.shape[1] == 2 else scores, weight))
        self.rows += len(y)

    def result(self) -> dict[str, Any]:
        accuracy = _share(self.right, self.weight)
        found: dict[str, Any] = {
            "rows": self.rows,
            "accuracy": accuracy,
            "error rate": None if accuracy is None else 1 - accuracy,
        }
        if hasattr(self.estimator, "predict_proba"):
            found["log loss"] = _share(self.loss, self.weight)
        found["AUC"] = self._auc()
        labels = sorted(
            {*self.classes.tolist(), *(label for label, _ in self.pairs)}, key=lambda each: (str(type(each)), each)
        )
        counts = [[self.pairs[label, predicted] for predicted in labels] for label in labels]
        return found | {"labels": labels, "confusion": counts}

    def _auc(self) -> float | None:
        """Area under the curve; the mean of each class against the others where there are more than two."""
        from sklearn.metrics import roc_auc_score

        if not self.kept or len(self.classes) < 2:
            return None
        y = np.concatenate([each[0] for each in self.kept])
        scores = np.concatenate([each[1] for each in self.kept])
        weight = np.concatenate([each[2] for each in self.kept])
        columns = scores[:, None] if scores.ndim == 1 else scores
        areas = []
        for label, column in zip(self.classes[-columns.shape[1] :], columns.T, strict=True):
            positive = y == label
            if weight[positive].any() and weight[~positive].any():
                areas.append(float(roc_auc_score(positive, column, sample_weight=weight)))
        return float(np.mean(areas)) if areas else None


class _NumberScores:
    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.rows, self.weight, self.absolute, self.squared = 0, 0.0, 0.0, 0.0
        self.mean, self.spread = 0.0, 0.0  # of the targets: weighted mean, and sum of squared differences from it
        self.inside, self.width = 0.0, 0.0

    def add(self, X: Any, y: NDArray[Any], weight: NDArray[np.float64]) -> None:
        difference = np.asarray(self.estimator.predict(X), dtype=np.float64) - y
        self.absolute += float((weight * np.abs(difference)).sum())
        self.squared += float((weight * difference**2).sum())
        if hasattr(self.estimator, "predict_interval"):
            with _without_warnings():
                low, high = np.asarray(self.estimator.predict_interval(X, coverage=COVERAGE)).T
            self.inside += float(weight[(low <= y) & (y <= high)].sum())
            self.width += float((weight * (high - low)).sum())
        self.rows += len(y)
        if (added := float(weight.sum())) == 0:
            return
        # Two parts as one (Chan et al., 1979): no difference of large numbers
        mean = float(np.average(y, weights=weight))
        total, shift = self.weight + added, mean - self.mean
        self.spread += float((weight * (y - mean) ** 2).sum()) + shift**2 * self.weight * added / total
        self.mean += shift * added / total
        self.weight = total

    def result(self) -> dict[str, Any]:
        squared = _share(self.squared, self.weight)
        found: dict[str, Any] = {
            "rows": self.rows,
            "mean absolute error": _share(self.absolute, self.weight),
            "root mean squared error": None if squared is None else math.sqrt(squared),
            "R2": 1 - self.squared / self.spread if self.spread > 0 else None,
        }
        if hasattr(self.estimator, "predict_interval"):
            found[f"coverage of {COVERAGE:.0%} intervals"] = _share(self.inside, self.weight)
            found["mean width of intervals"] = _share(self.width, self.weight)
        return found


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings about rows that were predicted before: each counts how many rows it is about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        yield


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None

"""Figures about the rows learned so far: errors, baseline, classes, calibration, kernel weights, drift.

All of them depend on the rows in the log alone, so that a restart and a replay give the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 1000
_FIRST_STRIDE = 16
_MOST_POINTS = 400
_BINS = 10
_MOST_WARNINGS = 50
_ALARM = 4.0  # standard deviations
SERIES = ("rows", "error", "window_error", "baseline_error", "window_baseline_error", "kernel_weights")


class Monitor:
    """Counts what the learner did; `state` gives plain values from which `restore` goes on."""

    def __init__(self) -> None:
        self.rows = 0
        self.refused = 0  # rows that the estimator would not learn
        self.errors = 0.0
        self.squares = 0.0  # of the errors
        self.baseline_errors = 0.0
        self.recent = np.zeros(WINDOW)  # errors of the last rows, the newest at (rows - 1) % WINDOW
        self.recent_baseline = np.zeros(WINDOW)
        self.class_counts: dict[Any, int] = {}
        self.target_sum = 0.0
        self.bins = np.zeros((_BINS, 3))  # rows, sum of the probabilities given to the prediction, correct predictions
        self.stride = _FIRST_STRIDE
        self.points: dict[str, list[Any]] = {name: [] for name in SERIES}
        self.warnings: list[dict[str, Any]] = []
        self.drifting = False

    # ------------------------------------------------------------ counting

    def rows_to_point(self) -> int:
        """Rows until the next point of the curves."""
        return self.stride - self.rows % self.stride

    def count_classes(self, labels: list[Any], errors: NDArray[np.float64], sure: NDArray[np.float64]) -> None:
        """Count rows of a classifier: labels, errors, and the probability that was given to each prediction."""
        baseline = np.empty(len(labels))
        counts = self.class_counts
        for at, label in enumerate(labels):
            # the class that came most often; of several the one that came first
            baseline[at] = not counts or max(counts, key=counts.__getitem__) != label
            counts[label] = counts.get(label, 0) + 1
        known = ~np.isnan(sure)
        places = np.minimum((sure[known] * _BINS).astype(np.intp), _BINS - 1)
        np.add.at(self.bins, places, np.column_stack([np.ones(len(places)), sure[known], 1 - errors[known]]))
        self._count(errors, baseline)

    def count_numbers(self, targets: NDArray[np.float64], errors: NDArray[np.float64]) -> None:
        """Count rows of a regressor; the baseline is the mean of the targets so far."""
        sums = self.target_sum + np.concatenate([[0.0], np.cumsum(targets)])
        before = np.arange(self.rows, self.rows + len(targets))
        baseline = np.abs(targets - sums[:-1] / np.maximum(before, 1))
        self.target_sum = float(sums[-1])
        self._count(errors, baseline)

    def _count(self, errors: NDArray[np.float64], baseline: NDArray[np.float64]) -> None:
        places = np.arange(self.rows, self.rows + len(errors)) % WINDOW
        self.recent[places], self.recent_baseline[places] = errors, baseline
        for error, other in zip(
            errors.tolist(), baseline.tolist(), strict=True
        ):  # in order: the same bits for any split
            self.errors += error
            self.squares += error * error
            self.baseline_errors += other
        self.rows += len(errors)

    def add_point(self, kernel_weights: Callable[[], list[float]]) -> None:
        """Add a point to the curves if one is due; when they are full, keep every second point."""
        if self.rows % self.stride or self.rows == (self.points["rows"] or [0])[-1]:
            return
        values = (self.rows, self.error, self.window_error, self.baseline_error, self.window_baseline_error)
        for name, value in zip(SERIES, (*values, kernel_weights()), strict=True):
            self.points[name].append(value)
        self._watch()
        if len(self.points["rows"]) > _MOST_POINTS:
            self.stride *= 2
            kept = [at for at, rows in enumerate(self.points["rows"]) if rows % self.stride == 0]
            self.points = {name: [column[at] for at in kept] for name, column in self.points.items()}

    def _watch(self) -> None:
        """Warn when the last rows have more errors than the ones before would lead one to expect."""
        before = self.rows - WINDOW
        if before < WINDOW:
            return
        mean = float(self.errors - self.recent.sum()) / before
        variance = max(self.squares / self.rows - self.error**2, 1e-12)
        excess = (self.window_error - mean) / math.sqrt(variance * (1 / WINDOW + 1 / before))
        if excess > _ALARM and not self.drifting:
            self.warnings.append({"rows": self.rows, "error_before": mean, "window_error": self.window_error})
            del self.warnings[:-_MOST_WARNINGS]
        self.drifting = excess > (_ALARM / 2 if self.drifting else _ALARM)

    # ------------------------------------------------------------ figures

    @property
    def error(self) -> float:
        """Mean error of all rows, each predicted before the model learned from it."""
        return self.errors / max(self.rows, 1)

    @property
    def baseline_error(self) -> float:
        """Mean error of always saying the most frequent class so far, or the mean so far."""
        return self.baseline_errors / max(self.rows, 1)

    @property
    def window_error(self) -> float:
        """Mean error of the last 1,000 rows."""
        return float(self.recent[: self.rows].mean()) if self.rows else 0.0

    @property
    def window_baseline_error(self) -> float:
        """Mean error of the baseline on the last 1,000 rows."""
        return float(self.recent_baseline[: self.rows].mean()) if self.rows else 0.0

    def figures(self) -> dict[str, Any]:
        """Everything a reader wants to know, as plain values for JSON."""
        filled = self.bins[self.bins[:, 0] > 0]
        return {
            "rows": self.rows,
            "refused": self.refused,
            "error": self.error,
            "window_rows": min(self.rows, WINDOW),
            "window_error": self.window_error,
            "baseline_error": self.baseline_error,
            "window_baseline_error": self.window_baseline_error,
            "classes": [{"label": label, "rows": rows} for label, rows in self.class_counts.items()],
            "calibration": [
                {"rows": int(rows), "probability": sure / rows, "accuracy": correct / rows}
                for rows, sure, correct in filled.tolist()
            ],
            "drift": {"now": self.drifting, "warnings": list(self.warnings)},
        }

    # ------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Plain values and arrays from which `restore` goes on."""
        state = {**vars(self), "class_counts": [list(pair) for pair in self.class_counts.items()]}
        state["points"] = {name: list(column) for name, column in self.points.items()}
        return {
            **state,
            "recent": self.recent.copy(),
            "recent_baseline": self.recent_baseline.copy(),
            "bins": self.bins.copy(),
            "warnings": list(self.warnings),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Monitor:
        """Go on from what `state` gave."""
        monitor = cls()
        vars(monitor).update({name: state[name] for name in vars(monitor)})
        monitor.class_counts = dict(map(tuple, state["class_counts"]))
        return monitor

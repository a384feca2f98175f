"""Figures about the rows learned so far: errors, baseline, classes, calibration, kernel weights, drift.

All of them depend on the rows in the log alone, so that a restart and a replay give the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

WINDOW = 1000
_MOST_POINTS = 400
_MOST_WEIGHTS = 32  # fewer than of the errors: learning stops at each, because the model has to be asked
_BINS = 10
_MOST_WARNINGS = 50
_ALARM = 4.0  # standard deviations


class Curve:
    """Values at every `stride` rows; when there are too many of them, every second one goes.

    `columns`: row counts under "rows", and values under other names.
    """

    def __init__(self, most: int, columns: dict[str, list[Any]], stride: int = 16) -> None:
        self.most, self.columns, self.stride = most, columns, stride
        self._thin()

    def rows_to_point(self, rows: int) -> int:
        """Rows from row count `rows` to the next point."""
        return self.stride - rows % self.stride

    def add(self, rows: int, *values: Any) -> None:
        for column, value in zip(self.columns.values(), (rows, *values), strict=True):
            column.append(value)
        self._thin()

    def copy(self) -> Self:
        """Return a curve that shares nothing with this one."""
        return type(self)(self.most, {name: list(column) for name, column in self.columns.items()}, self.stride)

    def _thin(self) -> None:
        while len(self.columns["rows"]) > self.most:
            self.stride *= 2
            kept = [at for at, rows in enumerate(self.columns["rows"]) if rows % self.stride == 0]
            self.columns = {name: [column[at] for at in kept] for name, column in self.columns.items()}


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
        names = ("rows", "error", "window_error", "baseline_error", "window_baseline_error")
        self.points = Curve(_MOST_POINTS, {name: [] for name in names})
        self.weights = Curve(_MOST_WEIGHTS, {"rows": [], "kernel_weights": []})
        self.warnings: list[dict[str, Any]] = []
        self.drifting = False

    # ------------------------------------------------------------ counting

    def rows_to_weights(self) -> int:
        """Rows until the kernel weights are wanted next."""
        return self.weights.rows_to_point(self.rows)

    def add_weights(self, kernel_weights: Callable[[], list[float]]) -> None:
        """Add the kernel weights to their curve if they are due."""
        if self.rows and self.rows % self.weights.stride == 0 and self.weights.columns["rows"][-1:] != [self.rows]:
            self.weights.add(self.rows, kernel_weights())

    def count_classes(self, labels: list[Any], errors: NDArray[np.float64], sure: NDArray[np.float64]) -> None:
        """Count rows of a classifier: labels, errors, and the probability that was given to each prediction."""
        baseline = np.empty(len(labels))
        counts = self.class_counts
        # the class that came most often; of several the one that came first
        leader = max(counts, key=counts.__getitem__, default=None)
        order = {label: at for at, label in enumerate(counts)}
        for at, label in enumerate(labels):
            baseline[at] = leader != label
            counts[label] = count = counts.get(label, 0) + 1
            before = order.setdefault(label, len(order))
            if leader is None or (count, -before) > (counts[leader], -order[leader]):
                leader = label
        known = ~np.isnan(sure)
        places = np.minimum((sure[known] * _BINS).astype(np.intp), _BINS - 1)
        np.add.at(self.bins, places, np.column_stack([np.ones(len(places)), sure[known], 1 - errors[known]]))
        self._count(errors, baseline)

    def count_numbers(self, targets: NDArray[np.float64], errors: NDArray[np.float64]) -> None:
        """Count rows of a regressor; the baseline is the mean of the targets so far."""
        sums = np.add.accumulate(np.concatenate([[self.target_sum], targets]))  # the same bits for any split
        before = np.arange(self.rows, self.rows + len(targets))
        baseline = np.abs(targets - sums[:-1] / np.maximum(before, 1))
        self.target_sum = float(sums[-1])
        self._count(errors, baseline)

    def _count(self, errors: NDArray[np.float64], baseline: NDArray[np.float64]) -> None:
        begin = 0
        while begin < len(errors):
            end = min(begin + self.points.rows_to_point(self.rows), len(errors))
            self._count_to_point(errors[begin:end], baseline[begin:end])
            begin = end

    def _count_to_point(self, errors: NDArray[np.float64], baseline: NDArray[np.float64]) -> None:
        places = np.arange(self.rows, self.rows + len(errors)) % WINDOW
        self.recent[places], self.recent_baseline[places] = errors, baseline
        self.errors = _added(self.errors, errors)
        self.squares = _added(self.squares, errors * errors)
        self.baseline_errors = _added(self.baseline_errors, baseline)
        self.rows += len(errors)
        if self.rows % self.points.stride == 0:
            self.points.add(self.rows, self.error, self.window_error, self.baseline_error, self.window_baseline_error)
            self._watch()

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

    def curves(self) -> dict[str, list[Any]]:
        """Errors at some row counts, "rows", and kernel weights at some, "weight_rows"."""
        weights = self.weights.copy().columns
        return {
            **self.points.copy().columns,
            "weight_rows": weights["rows"],
            "kernel_weights": weights["kernel_weights"],
        }

    # ------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Plain values and arrays from which `restore` goes on."""
        points, weights = self.points.copy(), self.weights.copy()
        return {
            **vars(self),
            "class_counts": [list(pair) for pair in self.class_counts.items()],
            "points": points.columns,
            "stride": points.stride,
            "weights": weights.columns,
            "weight_stride": weights.stride,
            "recent": self.recent.copy(),
            "recent_baseline": self.recent_baseline.copy(),
            "bins": self.bins.copy(),
            "warnings": list(self.warnings),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Monitor:
        points, stride = dict(state["points"]), state["stride"]
        if "weights" not in state:  # version 0.1.0 had both curves in one
            weights = {"rows": list(points["rows"]), "kernel_weights": points.pop("kernel_weights")}
            state = {**state, "weights": weights, "weight_stride": stride}
        monitor = cls()
        vars(monitor).update({name: state[name] for name in vars(monitor)})
        monitor.class_counts = dict(map(tuple, state["class_counts"]))
        monitor.points = Curve(_MOST_POINTS, points, stride)
        monitor.weights = Curve(_MOST_WEIGHTS, state["weights"], state["weight_stride"])
        return monitor


def _added(total: float, values: NDArray[np.float64]) -> float:
    """Add values one after another, so that calls may be split anywhere."""
    return float(np.add.accumulate(np.concatenate([[total], values]))[-1])

"""Votes of the nearest of stored rows, as operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.task import Task
from bomkl.onnx.graph import Graph, Result

# As in cpp/auto/drift/nearest_rows.hpp.
_MOST_NUMBERS, _FEWEST, _LAST, _WINDOW, _K = 40_000, 100, 1000, 200, 5


def nearest_scores(
    graph: Graph, rows: Result, stored: dict[str, Any], base: Result, outputs: int, task: Task
) -> list[Result]:
    """Scores by the nearest of the last rows, and of all stored rows; `stored` is what the core saves of them."""
    y: NDArray[np.float64] = stored["y"]
    x = stored["x"].reshape(len(y), -1).astype(np.float64)
    last = min(max(_MOST_NUMBERS // x.shape[1] // 2, _FEWEST), _LAST)
    age = (stored["rows"] + last - 1 - np.arange(len(y))) % last
    of_last = np.arange(len(y)) < last
    return [
        _votes(graph, rows, x[used], y[used], outputs, task) if len(used) >= _K else base
        for used in map(np.flatnonzero, (of_last & (age < _WINDOW), of_last, np.ones(len(y))))
    ]


def _votes(graph: Graph, rows: Result, x: Any, y: Any, outputs: int, task: Task) -> Result:
    near = graph.least((x**2).sum(axis=1) - rows @ x.T * 2.0, _K)
    labels = y[:, None] if task is not Task.MULTICLASS else np.eye(outputs)[y.astype(np.intp)]
    total = near.select_from(labels).sum(axis=1, keepdims=0)
    if task.is_regression:
        return total / _K
    if task is Task.MULTICLASS:
        return ((total + 0.5 / outputs) / (_K + 0.5)).add("Log")
    return ((total + 0.25) / (_K + 0.25 - total)).add("Log")

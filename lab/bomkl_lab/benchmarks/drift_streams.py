"""Streams that change: classic generators, and recorded ones in the order of time.

SEA, hyperplane, LED, Agrawal, mixed, sine and moving clouds are those of River. Interchanging Gaussians, moving squares
and the transient chessboard follow Losing, Hammer and Wersing, "KNN classifier with self adjusting memory for
heterogeneous concept drift" (2016), with fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bomkl_lab.benchmarks.peers_files import multiflow
from bomkl_lab.benchmarks.peers_methods import peer
from bomkl_lab.benchmarks.peers_streams import stream

Rows = tuple[Any, Any]


def _arrays(rows: Any) -> Rows:
    """River's (features, label) pairs as arrays; strings become numbers."""
    pairs = list(rows)
    X = np.array([list(x.values()) for x, _ in pairs])
    if X.dtype.kind not in "biuf":
        X = np.column_stack([np.unique(column, return_inverse=True)[1] for column in X.T])
    return X.astype(np.float64), np.array([int(y) for _, y in pairs])


def _concepts(name: str, variants: list[dict[str, Any]], rows: int) -> Callable[[], Rows]:
    """Make a stream of some rows of each variant of one of River's generators."""

    def read() -> Rows:
        make = getattr(peer("river.datasets.synth"), name)
        parts = [_arrays(make(seed=k, **settings).take(rows)) for k, settings in enumerate(variants)]
        return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])

    return read


def _flipped() -> Rows:
    X, y = stream("magic04", 0)
    X, y = X[:10_000], y[:10_000]
    return X, np.where(np.arange(len(y)) < 5000, y, 1 - y)


def _steady() -> Rows:
    X, y = stream("susy-sample", 0)
    return X[:6000], y[:6000]


def _moving_clouds() -> Rows:
    make = peer("river.datasets.synth").RandomRBFDrift
    settings = {"n_classes": 5, "n_features": 10, "n_centroids": 50, "n_drift_centroids": 50, "change_speed": 0.001}
    return _arrays(make(seed_model=0, seed_sample=0, **settings).take(10_000))


def _interchanging_gaussians() -> Rows:
    """Fifteen clouds, of which two swap their classes every 800 rows."""
    random = np.random.default_rng(5)
    places, order = random.uniform(-1, 1, size=(15, 2)), np.arange(15)
    X, y = [], []
    for t in range(12_000):
        if t % 800 == 799:
            one, two = random.choice(15, 2, replace=False)
            order[[one, two]] = order[[two, one]]
        y.append(random.integers(15))
        X.append(places[order[y[-1]]] + random.normal(0, 0.06, 2))
    return np.array(X), np.array(y)


def _moving_squares() -> Rows:
    """Four squares side by side that move to and fro, faster than a window of a thousand rows can follow."""
    random = np.random.default_rng(6)
    y = random.integers(0, 4, 12_000)
    swing = np.abs((np.arange(len(y)) / 600) % 2 - 1)  # from 1 to 0 and back
    X = random.uniform(size=(len(y), 2))
    X[:, 0] += 2 * y + 8 * swing
    return X, y


def _transient_chessboard() -> Rows:
    """Show the squares of a board one after another, then rows of the whole board."""
    random, board = np.random.default_rng(7), np.random.default_rng(8).permutation(np.arange(64) % 8)
    X, y = [], []
    for _ in range(2):
        for square in random.permutation(64):
            X.append(random.uniform(size=(64, 2)) + np.array([square % 8, square // 8]))
            y.append(np.full(64, board[square]))
        everywhere = random.uniform(0, 8, size=(2048, 2))
        X.append(everywhere)
        y.append(board[everywhere[:, 0].astype(int) + 8 * everywhere[:, 1].astype(int)])
    return np.vstack(X), np.concatenate(y)


def _in_time(name: str) -> Callable[[], Rows]:
    return lambda: stream(name, 0)


def recorded(name: str) -> Callable[[], Rows]:
    def read() -> Rows:
        X, y = multiflow(name)
        return X[:20_000], y[:20_000].astype(np.int64)

    return read


_QUARTERS = (2500, 5000, 7500)
STREAMS: dict[str, tuple[Callable[[], Rows], tuple[int, ...]]] = {  # rows, and where they change abruptly
    "SEA, 4 concepts of 2500 rows, 10 % noise": (
        _concepts("SEA", [{"variant": k, "noise": 0.1} for k in range(4)], 2500),
        _QUARTERS,
    ),
    "rotating hyperplane, 10 columns, 5 % noise": (
        _concepts("Hyperplane", [{"n_drift_features": 10, "mag_change": 0.01, "noise_percentage": 0.05}], 10_000),
        (),
    ),
    "LED, 7 columns that move, 10 % noise": (
        _concepts("LEDDrift", [{"noise_percentage": 0.1, "irrelevant_features": True, "n_drift_features": 7}], 10_000),
        (),
    ),
    "Agrawal, functions 0 to 3": (
        _concepts("Agrawal", [{"classification_function": k} for k in range(4)], 2500),
        _QUARTERS,
    ),
    "mixed, reversed every 2500 rows": (
        _concepts("Mixed", [{"classification_function": k % 2} for k in range(4)], 2500),
        _QUARTERS,
    ),
    "sine, concepts that come back": (
        _concepts("Sine", [{"classification_function": k} for k in (0, 2, 0, 2)], 2500),
        _QUARTERS,
    ),
    "moving clouds, 5 classes, 10 columns": (_moving_clouds, ()),
    "interchanging Gaussians, 15 classes": (_interchanging_gaussians, ()),
    "moving squares, 4 classes": (_moving_squares, ()),
    "transient chessboard, 8 classes": (_transient_chessboard, ()),
    "magic04, labels flipped after 5000 of 10,000": (_flipped, (5000,)),
    "electricity, first 20,000 rows in time": (recorded("elec"), ()),
    "weather, 18,159 days in time": (recorded("weather"), ()),
    "electricity, the other 25,312 rows in time": (_in_time("elec-late"), ()),
    "flights, 20,460 rows in time": (_in_time("flights"), ()),
    "susy, 6000 rows, no drift": (_steady, ()),
}

"""What `bomkl bench unseen` compares beside the peers of `bomkl bench peers`: simple methods, and more of River."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl_lab.benchmarks.peers_methods import METHODS as PEERS
from bomkl_lab.benchmarks.peers_methods import Method, peer, river_stream
from bomkl_lab.benchmarks.peers_streams import Stream

OURS = "AutoMKL"
REFITTED = "LightGBM refitted"  # keeps all rows


def nearest(data: Stream, n_jobs: int, k: int = 10, window: int = 2000) -> Any:
    """Average of the nearest neighbours among the last rows, in units of the deviations so far."""
    X, rows, width = data.X, len(data.y), max(data.classes, 1)
    targets = np.eye(width)[data.y] if data.classes else data.y[:, None]
    counts = np.arange(1, rows + 1)[:, None]
    mean = np.cumsum(X, axis=0) / counts
    spread = np.sqrt(np.maximum(np.cumsum((X - X[0]) ** 2, axis=0) / counts - (mean - X[0]) ** 2, 0))
    out = np.full((rows, width), 1 / data.classes if data.classes else 0.0)
    for t in range(1, rows):
        unit = np.where(spread[t - 1] > 1e-12, spread[t - 1], 1)
        begin = max(0, t - window)
        far = (((X[begin:t] - X[t]) / unit) ** 2).sum(axis=1)
        near = np.argpartition(far, k - 1)[:k] if t - begin > k else np.arange(t - begin)
        out[t] = targets[begin + near].mean(axis=0)
    return out if data.classes else out[:, 0]


def last(data: Stream, n_jobs: int) -> Any:
    """Repeat the last label or target."""
    if not data.classes:
        return np.concatenate([[0], data.y[:-1]])
    before = np.vstack([np.full(data.classes, 1 / data.classes), np.eye(data.classes)[data.y[:-1]]])
    return 0.9 * before + 0.1 / data.classes


def linear(data: Stream, n_jobs: int) -> Any:
    """River's linear models of scaled columns (and of scaled targets)."""
    models, optim, scale = (peer(f"river.{name}") for name in ("linear_model", "optim", "preprocessing"))
    step = optim.AdaGrad(0.1)
    if data.classes == 2:
        return river_stream(lambda: scale.StandardScaler() | models.LogisticRegression(optimizer=step))(data, n_jobs)
    if data.classes:
        return river_stream(lambda: scale.StandardScaler() | models.SoftmaxRegression(optimizer=step))(data, n_jobs)
    regression = scale.StandardScaler() | models.LinearRegression(optimizer=step)
    return river_stream(lambda: None, lambda: scale.TargetStandardScaler(regressor=regression))(data, n_jobs)


def adaptive_tree(data: Stream, n_jobs: int) -> Any:
    tree = peer("river.tree")
    return river_stream(
        lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0), lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=0)
    )(data, n_jobs)


def mondrian(data: Stream, n_jobs: int) -> Any:
    forest = peer("river.forest")
    return river_stream(
        lambda: forest.AMFClassifier(n_estimators=10, seed=0), lambda: forest.AMFRegressor(n_estimators=10, seed=0)
    )(data, n_jobs)


def naive_bayes(data: Stream, n_jobs: int) -> Any:
    return river_stream(lambda: peer("river.naive_bayes").GaussianNB())(data, n_jobs)


METHODS: dict[str, Method] = {
    OURS: PEERS[OURS],
    "the last label": last,
    "nearest rows": nearest,
    **{name: PEERS[name] for name in ("VW logistic", "VW nn 10")},
    "River linear": linear,
    "River naive Bayes": naive_bayes,
    "River adaptive tree": adaptive_tree,
    "River ARF": PEERS["River ARF"],
    "River AMF": mondrian,
    **{name: PEERS[name] for name in ("MOA SRP 30", "MOA ARF 100", REFITTED)},
}

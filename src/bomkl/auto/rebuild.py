"""Parts of a rebuild: what a first fit says about rows and columns, the scale of targets, threads."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features import KernelFeatures
from bomkl.auto.fit import fitted_means, ridge_fit
from bomkl.auto.geometry import Float, Single, varying_columns
from bomkl.auto.task import Task

_LEAST_RELEVANCE = 0.05


def probe_fit(rows: Single, landmarks: NDArray[np.int64], y: Float, weight: Float, task: Task) -> tuple[Float, Float]:
    """How much each row is in doubt, and how relevant each column is, by a kernel fit on the kept rows."""
    features = KernelFeatures.of("probe", "gaussian", 0.5, rows, landmarks)
    F = features({"probe": rows})[:, : features.rank + 1].astype(np.float64)
    w, _ = ridge_fit(F, y, weight, 0.1, task)
    doubt = np.abs(y - fitted_means(F @ w, task)).max(axis=1) / 2
    gram, whiten, places = features.values({"probe": rows}), features.whitening(), features.landmark_rows()
    slope = np.zeros(rows.shape[1])
    for k in range(w.shape[1]):  # the gradient at x is the sum of alpha_j k(x, z_j) (z_j - x) / sigma^2
        G = gram * (whiten @ w[:-1, k])
        slope += ((G @ places - rows * G.sum(axis=1)[:, None]) ** 2).mean(axis=0)
    mean = slope.sum() / varying_columns(rows)
    relative = slope / mean if mean > 1e-30 else np.ones(len(slope))
    return doubt, (relative + _LEAST_RELEVANCE) ** 0.25


def target_scale(y: Float, robust: bool) -> tuple[float, float]:
    """Centre and spread of targets; with Huber's loss those of the middle half."""
    if robust:
        low, centre, high = np.quantile(y, (0.25, 0.5, 0.75))
        if high > low:
            return float(centre), float((high - low) / 1.349)
    deviation = float(y.std())
    return float(y.mean()), deviation if deviation > 1e-12 * float(np.abs(y).max()) else 1.0


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Rebuild with one thread in BLAS: with more, the last bits would depend on the machine's load."""
    return _controller().limit(limits=1, user_api="blas")

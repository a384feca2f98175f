"""Rebuilding: everything that is taken from the kept rows, by functions of those rows alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.component import Component, NewtonComponent
from bomkl.auto.constants import KERNELS
from bomkl.auto.features import Features, KernelFeatures, LinearFeatures
from bomkl.auto.fit import fitted_means, ridge_fit
from bomkl.auto.geometry import Float, Geometry, Single, Views, two_valued_scale, varying_columns
from bomkl.auto.task import LearnerSettings, Task

_LEAST_RELEVANCE = 0.05
_LEAST_DOUBT = 0.02


class Mapper(Protocol):
    """`map`, or that of a thread pool."""

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        """Apply a function to items."""


def in_order(run: Mapper, function: Callable[[int], Any], costs: list[float]) -> list[Any]:
    """Results for 0, 1, ..., the costly ones begun first so that two threads end together."""
    order = sorted(range(len(costs)), key=lambda i: -costs[i])
    results = dict(zip(order, run(function, order), strict=True))
    return [results[i] for i in range(len(costs))]


class Fitting(Protocol):
    """What fits components to kept rows: the processor, or a device."""

    def kernel_features(
        self, geometry: str, kernel: str, width: float, rows: Single, support: NDArray[np.int64]
    ) -> KernelFeatures:
        """Build the map of `KernelFeatures.of`."""

    def means(
        self, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> tuple[Float, Float]:
        """Posterior mean (r, outputs) of ridge regression on features, and the scores it gives the rows."""

    def component(
        self, name: str, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Component:
        """Make a component that starts from ridge regression on features."""


class HostFitting:
    """Fits by the processor.

    Parameters
    ----------
    kind : subclass of NewtonComponent
        What the components are.
    """

    def __init__(self, kind: type[NewtonComponent]) -> None:
        self._kind = kind

    def kernel_features(
        self, geometry: str, kernel: str, width: float, rows: Single, support: NDArray[np.int64]
    ) -> KernelFeatures:
        """Build the map of `KernelFeatures.of`."""
        return KernelFeatures.of(geometry, kernel, width, rows, support)

    def means(
        self, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> tuple[Float, Float]:
        """Posterior mean and the scores it gives the rows."""
        F = _used(features, views)
        w, _ = ridge_fit(F, y, weight, ridge, task)
        return w, F @ w

    def component(
        self, name: str, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Component:
        """Make a component that starts from ridge regression on features."""
        return self._kind.fitted(name, features, *ridge_fit(_used(features, views), y, weight, ridge, task), ridge)


def _used(features: Features, views: Views) -> Float:
    return features(views)[:, : features.rank + 1].astype(np.float64)


def build(
    X: Float,
    targets: Float,
    weight: Float,
    settings: LearnerSettings,
    task: Task,
    run: Mapper,
    fitting: Fitting,
) -> tuple[Geometry, list[Component]]:
    """Make the views of the columns and the components, fitted to the first rows of a stream."""
    with one_blas_thread:
        geometry = Geometry.of(X)
        views = geometry.views(X, ("standard", "normal"))
        n = len(X)

        def probe(j: int) -> tuple[Float, Float]:
            rows = views[("standard", "normal")[j]]
            landmarks = _draw(np.ones(n), max(settings.budget // 4, 1), settings.seed, 100 + j)
            return probe_fit(rows, landmarks, targets, weight, task, fitting)

        doubts, relevances = zip(*run(probe, (0, 1)), strict=True)
        doubt = doubts[0] + doubts[1] + _LEAST_DOUBT
        floor = two_valued_scale(X)
        geometry.relevance = {name: each * floor for name, each in zip(("standard", "normal"), relevances, strict=True)}
        views = geometry.views(X, {choice.geometry for choice in KERNELS} | {"standard", "normal"})

        def component(i: int) -> Component:
            features: Features
            if i == len(KERNELS):
                name, features, ridge = "linear", LinearFeatures.of(X.shape[1]), max(1.0, varying_columns(X) / 2)
            else:
                choice = KERNELS[i]
                support = _draw(doubt, max(int(choice.share * settings.budget), 1), settings.seed, i)
                name, rows, ridge = choice.name, views[choice.geometry], choice.ridge
                features = fitting.kernel_features(choice.geometry, choice.kind, choice.width, rows, support)
            return fitting.component(name, features, views, targets, weight, ridge, task)

        return geometry, in_order(run, component, [choice.share for choice in KERNELS] + [0.0])


def _draw(weights: Float, count: int, seed: int, purpose: int) -> NDArray[np.int64]:
    """Draw rows without replacement by exponential keys, from a generator of the row count and purpose alone."""
    u = np.random.default_rng([seed, len(weights), purpose]).random(len(weights))
    return np.sort(np.argsort(-np.log(u) / weights, kind="stable")[:count])


def probe_fit(
    rows: Single, landmarks: NDArray[np.int64], y: Float, weight: Float, task: Task, fitting: Fitting
) -> tuple[Float, Float]:
    """How much each row is in doubt, and how relevant each column is, by a kernel fit on the kept rows."""
    features = fitting.kernel_features("probe", "gaussian", 0.5, rows, landmarks)
    w, scores = fitting.means(features, {"probe": rows}, y, weight, 0.1, task)
    doubt = np.abs(y - fitted_means(scores, task)).max(axis=1) / 2
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


class _OneBlasThread:
    """Rebuild with one thread in BLAS: with more, the last bits would depend on the machine's load.

    The limit is one of the process, so the first to come sets it and the last to leave takes it back.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()

    def begin_anew(self) -> None:
        """Forget who was inside: in a forked process nobody is left to leave."""
        if self._inside:
            self._limit.restore_original_limits()
        self.__init__()  # type: ignore[misc]


one_blas_thread = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.begin_anew)

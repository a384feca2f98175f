"""What fits components to kept rows: the processor, or a device."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.components.component import Component, NewtonComponent
from bomkl.auto.features.features import Features, KernelFeatures
from bomkl.auto.features.geometry import Float, Single, Views
from bomkl.auto.rows.fit import Steps, ridge_fit_steps
from bomkl.auto.task import Task


class Fitting(Protocol):
    """What fits components to kept rows: the processor, or a device."""

    def kernel_features(
        self, geometry: str, kernel: str, width: float, rows: Single, support: NDArray[np.int64]
    ) -> KernelFeatures:
        """Build the map of `KernelFeatures.of`."""

    def means(
        self, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Steps[tuple[Float, Float]]:
        """Find in steps the posterior mean (r, outputs) of ridge regression on features, and its scores of the rows."""

    def component(
        self, name: str, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Steps[Component]:
        """Make in steps a component that starts from ridge regression on features."""


class HostFitting:
    """Fits by the processor."""

    def __init__(self, kind: type[NewtonComponent]) -> None:
        self._kind = kind

    def kernel_features(
        self, geometry: str, kernel: str, width: float, rows: Single, support: NDArray[np.int64]
    ) -> KernelFeatures:
        """Build the map of `KernelFeatures.of`."""
        return KernelFeatures.of(geometry, kernel, width, rows, support)

    def means(
        self, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Steps[tuple[Float, Float]]:
        """Find the posterior mean and the scores it gives the rows."""
        F = _used(features, views)
        yield
        w, _ = yield from ridge_fit_steps(F, y, weight, ridge, task)
        return w, F @ w

    def component(
        self, name: str, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Steps[Component]:
        """Make a component that starts from ridge regression on features."""
        F = _used(features, views)
        yield
        w, covariance = yield from ridge_fit_steps(F, y, weight, ridge, task)
        yield
        return self._kind.fitted(name, features, w, covariance, ridge)


def _used(features: Features, views: Views) -> Float:
    return features(views)[:, : features.rank + 1].astype(np.float64)

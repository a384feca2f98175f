"""Fits of components to the kept rows on a device: for large budgets the processor would take minutes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bomkl.auto.components.component import Component, NewtonComponent, RoundsComponent
from bomkl.auto.components.information import Information
from bomkl.auto.features.features import Features, KernelFeatures, least_pivot
from bomkl.auto.features.geometry import Float, Single, Views
from bomkl.auto.features.pool_kernels import POOL_KERNELS
from bomkl.auto.gpu.errors import on_device
from bomkl.auto.gpu.model import DeviceFeatures, fetched, means, pulls_and_curvature, tensor
from bomkl.auto.gpu.pivots import pivoted_cholesky
from bomkl.auto.rows.fit import LEAST_CURVATURE, Directions, FitRounds, Steps, step_length
from bomkl.auto.task import Task

_MANY = 1024  # landmarks from which on choosing among them takes less time on the device


class DeviceFitting:
    """`Fitting` on a device.

    `kind`: what the components are: those that learn in rounds hold information, others a covariance. `budget`: for the
    error where the device has too little memory.
    """

    def __init__(self, device: Any, kind: type[NewtonComponent], budget: int) -> None:
        self._device, self._kind, self._budget = device, kind, budget

    def kernel_features(
        self, geometry: str, kernel: str, width: float, rows: Single, support: NDArray[np.int64]
    ) -> KernelFeatures:
        """Build the map of `KernelFeatures.of`."""
        if len(support) < _MANY:
            return KernelFeatures.of(geometry, kernel, width, rows, support)
        return KernelFeatures.of(geometry, kernel, width, rows, support, self._chosen_and_whitening)

    def _chosen_and_whitening(self, kernel: str, scale: float, landmarks: Float) -> tuple[NDArray[np.int64], Any]:
        """Do what `features.chosen_and_whitening` does."""
        with on_device(self._budget):
            z = tensor(landmarks, self._device)
            gram = POOL_KERNELS[kernel].tensor_matrix(scale, z)
            chosen, factor = pivoted_cholesky(gram, least_pivot(float(gram.sum()), len(gram)))
            eye = torch.eye(len(factor), dtype=factor.dtype, device=self._device)
            inverse = torch.linalg.solve_triangular(factor.tril(), eye, upper=False)
            return chosen.cpu().numpy(), fetched(inverse.float()).T

    def means(
        self, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Steps[tuple[Float, Float]]:
        """Find the posterior mean and the scores it gives the rows."""
        yield
        with on_device(self._budget):
            F = self._rows(features, views)
            w, _ = self._fit(F, y, weight, ridge, task)
            return w.cpu().numpy(), (F.double() @ w).cpu().numpy()

    def component(
        self, name: str, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Steps[Component]:
        """Make a component that starts from ridge regression on features."""
        yield
        with on_device(self._budget):
            w, information = self._fit(self._rows(features, views), y, weight, ridge, task)
            if not issubclass(self._kind, RoundsComponent):
                covariance = torch.cholesky_inverse(torch.linalg.cholesky(information))
                return self._kind.fitted(name, features, w.cpu().numpy(), covariance.cpu().numpy(), ridge)
            padded = np.zeros((w.shape[1], features.width))
            padded[:, : len(w)] = w.T.cpu().numpy()
            return self._kind(name, features, Information(padded, information.cpu().numpy()))

    def _rows(self, features: Features, views: Views) -> Any:
        needed = {name: tensor(views[name], self._device) for name in features.geometries()}
        return DeviceFeatures(features, self._device)(needed)[: features.rank + 1].T.contiguous()

    def _fit(self, F: Any, y: Float, weight: Float, ridge: float, task: Task) -> tuple[Any, Any]:
        """Posterior mean (r, outputs) and information (r, r) of ridge regression under the loss of a task."""
        targets, counted = tensor(y, self._device, torch.float64), tensor(weight, self._device, torch.float64)
        double = F.double()
        w = torch.zeros((F.shape[1], targets.shape[1]), dtype=torch.float64, device=self._device)
        rounds = FitRounds(task)
        for anew in rounds:
            f = double @ w
            pull, h = pulls_and_curvature(f, targets, task)
            if task is Task.MULTICLASS:  # twice the largest p (1 - p) bounds the Hessian of the softmax
                p = means(f, task)
                h = 2 * (p * (1 - p)).amax(dim=1).clamp_min(LEAST_CURVATURE)
            if anew:
                (information, factor), directions = _information(F, double, counted * h, ridge), Directions()
            slope = double.T @ (counted[:, None] * pull) - ridge * w
            step = directions.after(slope, torch.cholesky_solve(slope, factor))
            if not task.is_regression:
                scores, change = (each.cpu().numpy() for each in (f, double @ step))
                penalty = ridge * float((w * step).sum()), ridge * float((step * step).sum())
                step = step * step_length(scores, change, y, weight, *penalty, task)
            w = w + step
            rounds.took(float(step.abs().max()))
        return w, information


def _information(F: Any, double: Any, h: Any, ridge: float) -> tuple[Any, Any]:
    """F^T h F + ridge and its Cholesky factor; in double precision where single precision is not enough."""
    roots = h.sqrt()[:, None]
    scaled = F * roots.float()
    while True:
        matrix = (scaled.T @ scaled).double()
        matrix.diagonal().add_(ridge)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not int(failed):
            return matrix, factor
        ridge = ridge if scaled.dtype == torch.float32 else ridge + 1e-12 * float(matrix.trace())
        scaled = double * roots

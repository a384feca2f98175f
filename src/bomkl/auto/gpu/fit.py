"""Fits of components to the kept rows on a device: for large budgets the processor would take minutes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bomkl.auto.component import Component, RoundsComponent
from bomkl.auto.features import Features, KernelFeatures, kernel_scale, least_pivot
from bomkl.auto.fit import LEAST_CURVATURE, ROUNDS, SMALL_NEWTON_STEP, SMALL_STEP
from bomkl.auto.geometry import Float, Single, Views
from bomkl.auto.gpu.kernels import laplacian_values
from bomkl.auto.gpu.losses import means, pulls_and_curvature
from bomkl.auto.gpu.model import DeviceFeatures, tensor
from bomkl.auto.information import Information
from bomkl.auto.task import Task

_STEPS_AT_ONCE = 64  # steps of a factorisation between two looks at how far it has come


class DeviceFitting:
    """`Fitting` on a device."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def kernel_features(
        self, geometry: str, kernel: str, width: float, rows: Single, support: NDArray[np.int64]
    ) -> KernelFeatures:
        """Build the map of `KernelFeatures.of`."""
        scale = kernel_scale(kernel, width, rows)
        landmarks = tensor(rows[support], self._device, torch.float64)
        gram = _kernel_matrix(kernel, scale, landmarks)
        factor, order = pivoted_cholesky(gram, least_pivot(float(gram.sum()), len(gram)))
        eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
        whiten = torch.linalg.solve_triangular(factor, eye, upper=False).T
        chosen = order.cpu().numpy()
        return KernelFeatures.whitened(
            geometry, kernel, scale, rows[support][chosen], whiten.cpu().numpy(), support[chosen]
        )

    def means(
        self, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> tuple[Float, Float]:
        """Posterior mean and the scores it gives the rows."""
        F = self._rows(features, views)
        w, _ = self._fit(F, y, weight, ridge, task)
        return w.cpu().numpy(), (F.double() @ w).cpu().numpy()

    def component(
        self, name: str, features: Features, views: Views, y: Float, weight: Float, ridge: float, task: Task
    ) -> Component:
        """Make a component that starts from ridge regression on features."""
        w, information = self._fit(self._rows(features, views), y, weight, ridge, task)
        padded = np.zeros((w.shape[1], features.width))
        padded[:, : len(w)] = w.T.cpu().numpy()
        return RoundsComponent(name, features, Information(padded, information.cpu().numpy()))

    def _rows(self, features: Features, views: Views) -> Any:
        needed = {name: tensor(views[name], self._device) for name in features.geometries()}
        return DeviceFeatures(features, self._device)(needed)[:, : features.rank + 1].contiguous()

    def _fit(self, F: Any, y: Float, weight: Float, ridge: float, task: Task) -> tuple[Any, Any]:
        """Posterior mean (r, outputs) and information (r, r) of ridge regression under the loss of a task."""
        targets, counted = tensor(y, self._device, torch.float64), tensor(weight, self._device, torch.float64)
        double = F.double()
        w = torch.zeros((F.shape[1], targets.shape[1]), dtype=torch.float64, device=self._device)
        small = SMALL_NEWTON_STEP if task is Task.BINARY else SMALL_STEP
        for _ in range(1 if task is Task.SQUARED else ROUNDS):
            f = double @ w
            pull, h = pulls_and_curvature(f, targets, task)
            if task is Task.MULTICLASS:  # twice the largest p (1 - p) bounds the Hessian of the softmax
                p = means(f, task)
                h = 2 * (p * (1 - p)).amax(dim=1).clamp_min(LEAST_CURVATURE)
            information, factor = _information(F, double, counted * h, ridge)
            step = torch.cholesky_solve(double.T @ (counted[:, None] * pull) - ridge * w, factor)
            w = w + step
            if float(step.abs().max()) < small:
                break
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


def _kernel_matrix(kernel: str, scale: float, z: Any) -> Any:
    if kernel == "polynomial":
        return (1 + z @ z.T * scale) ** 2
    if kernel == "laplacian":
        return laplacian_values(z.float(), z.T.float().contiguous(), scale).double()
    norms = (z * z).sum(dim=1)
    return torch.exp(-scale * (norms[:, None] + norms[None] - 2 * z @ z.T).clamp_min(0))


def pivoted_cholesky(matrix: Any, least: float) -> tuple[Any, Any]:
    """Lower triangular factor of the best rows of a matrix, and their numbers, while pivots are above `least`.

    Examples
    --------
    >>> factor, order = pivoted_cholesky(torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 4]]).double(), 1e-9)
    >>> factor.tolist(), order.tolist()
    ([[2.0, 0.0], [0.0, 1.0]], [2, 0])
    """
    n = len(matrix)
    factor = torch.zeros((n, n), dtype=matrix.dtype, device=matrix.device)  # factor[k] is its column k
    left = matrix.diagonal().clone()
    order = torch.zeros(n, dtype=torch.int64, device=matrix.device)
    pivots = torch.zeros(n, dtype=matrix.dtype, device=matrix.device)
    rank = 0
    for k in range(n):
        pivot = left.argmax()
        pivots[k] = left[pivot]
        column = matrix[pivot] - factor[:k].T @ factor[:k, pivot]
        column = column / left[pivot].clamp_min(1e-300).sqrt()
        factor[k] = column
        order[k] = pivot
        left = left - column * column
        left[pivot] = -torch.inf
        if (k + 1) % _STEPS_AT_ONCE == 0 or k + 1 == n:
            good = int((pivots[: k + 1] > least).cumprod(dim=0).sum())
            rank = good
            if good <= k:
                break
    chosen = order[:rank]
    return factor[:rank][:, chosen].T.tril(), chosen

"""The kernels of the pool: their functions, each with all of its forms, and the choices of width and view.

A function is a class here and a struct of the same name in ``cpp/auto/features/pool_kernels.hpp``. A form that it does
not have raises an error that names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

from bomkl.auto.features.geometry import Float, varying_columns
from bomkl.kernels import Gaussian, Kernel, Laplacian, Polynomial

_PAIRS_OF = 250  # rows whose distances stand for all


class PoolKernel:
    """A function of two rows with one number, its scale."""

    name: ClassVar[str]  # by which the core and files know it
    fused: ClassVar[str | None] = None  # the loop of `bomkl.auto.gpu.kernels` that does what `tensor_values` does

    def scale(self, width: float, rows: Float) -> float:
        """Return the scale of a width, in median distances of rows; the same for all where there is no width."""
        raise NotImplementedError

    def matrix(self, scale: float, a: Float, b: Float) -> Float:
        """Values of each row of a with each row of b: what all other forms are compared with."""
        raise NotImplementedError

    def kernel(self, scale: float) -> Kernel:
        """Return the same function as users know it, which has the form for ONNX."""
        raise TypeError(f"The kernel {self.name!r} of the pool has no form for reports and ONNX.")

    def tensor_matrix(self, scale: float, z: Any) -> Any:
        """Values of each row of a tensor (n, columns) with each, on its device."""
        raise TypeError(f"The kernel {self.name!r} of the pool has no form for a GPU. Use device='cpu'.")

    def tensor_values(self, scale: float, x: Any, landmarks: Any, norms: Any) -> Any:
        """Values of rows x (n, columns) at landmarks (columns, landmarks) of squared lengths `norms`, likewise."""
        raise TypeError(f"The kernel {self.name!r} of the pool has no form for a GPU. Use device='cpu'.")


class _Gaussian(PoolKernel):
    """exp(-scale |a - b|^2)."""

    name = "gaussian"
    fused = "gaussian"

    def scale(self, width: float, rows: Float) -> float:
        return 0.5 / (width * median_distance(rows)) ** 2

    def matrix(self, scale: float, a: Float, b: Float) -> Float:
        return np.exp(-squared_distances(a, b) * scale)

    def kernel(self, scale: float) -> Kernel:
        return Gaussian(sigma=(2 * scale) ** -0.5)

    def tensor_matrix(self, scale: float, z: Any) -> Any:
        norms = (z * z).sum(dim=1)
        return (norms[:, None] + norms[None] - 2 * z @ z.T).clamp_min_(0).mul_(-scale).exp_()

    def tensor_values(self, scale: float, x: Any, landmarks: Any, norms: Any) -> Any:
        distances = (norms[None] + (x * x).sum(dim=1, keepdim=True)).addmm(x, landmarks, alpha=-2)
        return distances.clamp_min_(0).mul_(-scale).exp_()


class _Polynomial(PoolKernel):
    """(1 + scale a b)^2."""

    name = "polynomial"
    fused = "polynomial"

    def scale(self, width: float, rows: Float) -> float:
        return 1 / varying_columns(rows)

    def matrix(self, scale: float, a: Float, b: Float) -> Float:
        return np.asarray((1 + a @ b.T * scale) ** 2)

    def kernel(self, scale: float) -> Kernel:
        return Polynomial(degree=2, gamma=scale, coef0=1.0)

    def tensor_matrix(self, scale: float, z: Any) -> Any:
        return (1 + z @ z.T * scale).square_()

    def tensor_values(self, scale: float, x: Any, landmarks: Any, norms: Any) -> Any:
        return (x @ landmarks).mul_(scale).add_(1).square_()


class _Laplacian(PoolKernel):
    """exp(-scale |a - b|_1)."""

    name = "laplacian"
    fused = "city block"

    def scale(self, width: float, rows: Float) -> float:
        return 1 / (width * median_distance(rows, city_block=True))

    def matrix(self, scale: float, a: Float, b: Float) -> Float:
        return np.exp(-city_block_distances(a, b) * scale)

    def kernel(self, scale: float) -> Kernel:
        return Laplacian(gamma=scale)

    def tensor_matrix(self, scale: float, z: Any) -> Any:
        import torch

        return torch.cdist(z, z, p=1.0).mul_(-scale).exp_()

    def tensor_values(self, scale: float, x: Any, landmarks: Any, norms: Any) -> Any:
        out = x.new_zeros((len(x), landmarks.shape[1]))
        for column, place in zip(x.T, landmarks, strict=True):
            out += (column[:, None] - place[None, :]).abs()
        return out.mul_(-scale).exp_()


POOL_KERNELS: dict[str, PoolKernel] = {each.name: each for each in (_Gaussian(), _Polynomial(), _Laplacian())}


# ---------------------------------------------------------------- choices


@dataclass(frozen=True)
class KernelChoice:
    """One kernel of the pool."""

    name: str  # what reports call it
    kind: str  # its function, one of `POOL_KERNELS`
    geometry: str  # the view of the columns it works on
    width: float  # of a Gaussian or Laplacian, in median distances of that view
    ridge: float  # strength of the prior
    share: float  # landmarks, as a share of the budget


KERNELS = (
    KernelChoice("polynomial 2", "polynomial", "standard", 1.0, 0.3, 0.25),
    KernelChoice("gaussian normal 1", "gaussian", "normal", 1.0, 0.1, 0.25),
    KernelChoice("gaussian common 1", "gaussian", "common", 1.0, 0.1, 0.25),
    KernelChoice("gaussian leading 1/4", "gaussian", "leading", 0.25, 0.1, 0.25),
    KernelChoice("gaussian relevant 1/2", "gaussian", "relevant standard", 0.5, 0.03, 0.5),
    KernelChoice("gaussian relevant normal 1/2", "gaussian", "relevant normal", 0.5, 0.03, 0.5),
    KernelChoice("gaussian relevant 1", "gaussian", "relevant standard", 1.0, 0.3, 0.25),
    KernelChoice("gaussian relevant normal 1", "gaussian", "relevant normal", 1.0, 0.1, 0.25),
    KernelChoice("laplacian normal 1", "laplacian", "normal", 1.0, 0.1, 0.25),
    KernelChoice("laplacian relevant normal 1/2", "laplacian", "relevant normal", 0.5, 0.1, 0.5),
)
NARROW = tuple(choice.name for choice in KERNELS if choice.share == 0.5)
CURVED = KernelChoice("polynomial 2 log", "polynomial", "standard", 1.0, 0.3, 0.5)  # of numbers, on a curved scale
COMPONENTS = (*(choice.name for choice in KERNELS), "linear")
ADDITIVE = "additive"  # linear in the columns, their normal scores and squares of these, where columns are few


def regression_names(squares: bool, curved: bool) -> list[str]:
    """Name the components that are regressions, in their order: with squares of the columns, with a curved target."""
    return [*COMPONENTS, *([ADDITIVE] if squares else []), *([CURVED.name] if curved else [])]


# ---------------------------------------------------------------- distances


def squared_distances(a: Float, b: Float) -> Float:
    """Squared distance of each row of a to each row of b."""
    return np.asarray(np.maximum((a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2 * a @ b.T, 0))


def city_block_distances(a: Float, b: Float) -> Float:
    """Sum of absolute differences of each row of a to each row of b."""
    return np.asarray(cdist(a, b, "cityblock"))


@lru_cache(maxsize=8)
def _above_diagonal(n: int) -> NDArray[np.bool_]:
    return np.triu(np.ones((n, n), dtype=bool), 1)


def median_distance(rows: Float, city_block: bool = False) -> float:
    """Median distance of pairs of rows; 1 where there is none.

    Examples
    --------
    >>> median_distance(np.array([[0.0, 0.0], [3.0, 4.0]])), median_distance(np.array([[0.0, 0.0], [3.0, 4.0]]), True)
    (5.0, 7.0)
    """
    rows = rows[:_PAIRS_OF]
    if len(rows) < 2:
        return 1.0
    if city_block:
        median = float(np.median(pdist(rows, "cityblock")))
    else:  # of the squares, whose order is the same: two roots are quicker than all
        squares = squared_distances(rows, rows)[_above_diagonal(len(rows))]
        middle = [(len(squares) - 1) // 2, len(squares) // 2]
        median = float(np.sqrt(np.partition(squares, middle)[middle]).mean())
    return median if median > 1e-12 else 1.0

"""Kernels: what a user configures. Each is a map of the inner product and the two squared norms.

The compiled core evaluates the kernels of this module itself; any other callable ``k(X, Z) -> matrix`` works too and is
called once per block of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._validation import check_count, check_finite, check_positive, parameter_error

Matrix = NDArray[np.float64]

_NARROWEST, _WIDEST = 1e-150, 1e150  # whose squares, and one over them, are numbers


def squared_distances(X: Matrix, Z: Matrix) -> Matrix:
    """Squared Euclidean distance of every row of X to every row of Z, free of cancellation."""
    return np.stack([((X - z) ** 2).sum(axis=1) for z in Z], axis=1) if len(Z) else np.zeros((len(X), 0))


@dataclass(frozen=True)
class _Kernel:
    def __call__(self, X: Any, Z: Any) -> Matrix:
        """Kernel matrix between the rows of X and the rows of Z."""
        return self._matrix(np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64))

    def diagonal(self, X: Any) -> Matrix:
        """k(x, x) for every row of X."""
        return np.array([self._matrix(row[None], row[None])[0, 0] for row in np.asarray(X, dtype=np.float64)])

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        raise TypeError(f"{type(self).__name__} is not a kernel")


@dataclass(frozen=True)
class Linear(_Kernel):
    """The inner product x.z.

    Examples
    --------
    >>> from bomkl.kernels import Linear
    >>> float(Linear()([[1.0, 2.0]], [[3.0, 4.0]])[0, 0])
    11.0
    """

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        return X @ Z.T


@dataclass(frozen=True)
class Polynomial(_Kernel):
    """(gamma x.z + coef0) to the power of degree.

    Parameters
    ----------
    degree : int, default=2
        The exponent, 1 to 1000.
    gamma : float, default=1.0
        Factor of the inner product, > 0.
    coef0 : float, default=0.0
        Constant added to it.

    Examples
    --------
    >>> from bomkl.kernels import Polynomial
    >>> float(Polynomial(degree=3)([[1.0, 1.0]], [[1.0, 1.0]])[0, 0])
    8.0
    """

    degree: int = 2
    gamma: float = 1.0
    coef0: float = 0.0

    def __post_init__(self) -> None:
        check_count("Polynomial", "degree", self.degree, largest=1000)
        check_positive("Polynomial", "gamma", self.gamma)
        check_finite("Polynomial", "coef0", self.coef0)

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        return (self.gamma * (X @ Z.T) + self.coef0) ** self.degree


@dataclass(frozen=True)
class _DistanceKernel(_Kernel):
    sigma: float = 1.0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_positive(owner, "sigma", self.sigma)
        if not _NARROWEST <= self.sigma <= _WIDEST:
            raise parameter_error(owner, "sigma", f"from {_NARROWEST} to {_WIDEST}", self.sigma)


@dataclass(frozen=True)
class Gaussian(_DistanceKernel):
    """exp(-|x - z|^2 / (2 sigma^2)).

    Parameters
    ----------
    sigma : float, default=1.0
        The width, > 0.

    Examples
    --------
    >>> from bomkl.kernels import Gaussian
    >>> round(float(Gaussian(sigma=1.0)([[0.0]], [[1.0]])[0, 0]), 4)
    0.6065
    """

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        return np.exp(-squared_distances(X, Z) / (2 * self.sigma**2))


@dataclass(frozen=True)
class Exponential(_DistanceKernel):
    """exp(-|x - z| / sigma), also known as Matern-1/2 or the Laplacian of the Euclidean distance.

    Parameters
    ----------
    sigma : float, default=1.0
        The length scale, > 0.

    Examples
    --------
    >>> from bomkl.kernels import Exponential
    >>> round(float(Exponential(sigma=2.0)([[0.0]], [[2.0]])[0, 0]), 4)
    0.3679
    """

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        return np.exp(-np.sqrt(squared_distances(X, Z)) / self.sigma)


@dataclass(frozen=True)
class Cauchy(_DistanceKernel):
    """1 / (1 + |x - z|^2 / sigma^2), the rational quadratic kernel of order one.

    Parameters
    ----------
    sigma : float, default=1.0
        The length scale, > 0.

    Examples
    --------
    >>> from bomkl.kernels import Cauchy
    >>> float(Cauchy(sigma=1.0)([[0.0]], [[1.0]])[0, 0])
    0.5
    """

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        return 1 / (1 + squared_distances(X, Z) / self.sigma**2)


@dataclass(frozen=True)
class Cosine(_Kernel):
    """x.z / (|x| |z|), and 0 where either row is zero.

    Examples
    --------
    >>> from bomkl.kernels import Cosine
    >>> float(Cosine()([[2.0, 0.0]], [[3.0, 0.0]])[0, 0])
    1.0
    """

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        norms = np.sqrt(np.outer((X**2).sum(axis=1), (Z**2).sum(axis=1)))
        return np.divide(X @ Z.T, norms, out=np.zeros_like(norms), where=norms > 0)


NativeKernel = Linear | Polynomial | Gaussian | Exponential | Cauchy | Cosine
KernelLike = NativeKernel | Callable[[Any, Any], Any]


def paper_kernels() -> list[KernelLike]:
    """Return the paper's 16 kernels: (x.z)^p for p = 1, 2, 3 and Gaussians of width 2^-6 to 2^6.

    Examples
    --------
    >>> from bomkl.kernels import paper_kernels
    >>> len(paper_kernels())
    16
    """
    return [*(Polynomial(degree=p) for p in (1, 2, 3)), *(Gaussian(sigma=2.0**e) for e in range(-6, 7))]

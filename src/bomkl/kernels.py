"""Kernels: they measure how similar two rows are.

The compiled core computes the kernels of this module. Any other function ``k(X, Z) -> matrix`` works as well; it is
called once for each block of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bomkl._support.validation import check_count, check_finite, check_positive, parameter_error

Matrix = NDArray[np.float64]

_NARROWEST, _WIDEST = 1e-150, 1e150  # whose squares, and one over them, are numbers


def _check_width(owner: str, name: str, value: Any) -> None:
    check_positive(owner, name, value)
    if not _NARROWEST <= value <= _WIDEST:
        raise parameter_error(owner, name, f"from {_NARROWEST} to {_WIDEST}", value)


def squared_distances(X: Matrix, Z: Matrix) -> Matrix:
    """Squared Euclidean distance of every row of X to every row of Z, free of cancellation."""
    return np.stack([((X - z) ** 2).sum(axis=1) for z in Z], axis=1) if len(Z) else np.zeros((len(X), 0))


@dataclass(frozen=True)
class Kernel:
    """Base of the kernels that the compiled core computes.

    A subclass is a frozen dataclass. ``cpp/kernels`` holds the map for the engine under the same name; `numbers` are
    its constants. `operators` is the map for ONNX, and `_matrix` the one that tests compare both with.
    """

    has_fourier_transform: ClassVar[bool] = False  # it is a function of x - z, and cpp/kernels has its frequencies

    def numbers(self) -> dict[str, float]:
        """Return the constants of the compiled map: a, b and degree, as far as it has them."""
        return {}

    def operators(self, on: Any) -> Any:
        """Return the map as ONNX operators on inner products, distances or cosines (`bomkl.onnx.kernels`)."""
        raise TypeError(f"{type(self).__name__} is not a kernel")

    def __call__(self, X: Any, Z: Any) -> Matrix:
        """Kernel matrix between the rows of X and the rows of Z."""
        return self._matrix(np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64))

    def diagonal(self, X: Any) -> Matrix:
        """k(x, x) for every row of X."""
        return np.array([self._matrix(row[None], row[None])[0, 0] for row in np.asarray(X, dtype=np.float64)])

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        raise TypeError(f"{type(self).__name__} is not a kernel")


@dataclass(frozen=True)
class Linear(Kernel):
    """The inner product x.z.

    Examples
    --------
    >>> from bomkl.kernels import Linear
    >>> float(Linear()([[1.0, 2.0]], [[3.0, 4.0]])[0, 0])
    11.0
    """

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        return X @ Z.T

    def operators(self, on: Any) -> Any:
        """Inner products."""
        return on.inner


@dataclass(frozen=True)
class Polynomial(Kernel):
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

    def numbers(self) -> dict[str, float]:
        """Factor, addend and exponent."""
        return {"a": float(self.gamma), "b": float(self.coef0), "degree": int(self.degree)}

    def operators(self, on: Any) -> Any:
        """Powers of inner products."""
        return (on.inner * float(self.gamma) + float(self.coef0)) ** float(self.degree)


@dataclass(frozen=True)
class _DistanceKernel(Kernel):
    has_fourier_transform: ClassVar[bool] = True

    sigma: float = 1.0

    def __post_init__(self) -> None:
        _check_width(type(self).__name__, "sigma", self.sigma)


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

    def numbers(self) -> dict[str, float]:
        """1 / (2 sigma^2)."""
        return {"a": 1 / (2 * float(self.sigma) ** 2)}

    def operators(self, on: Any) -> Any:
        """Exponentials of squared distances."""
        return on.exp(on.squared_distance(float(self.sigma)), -1 / (2 * float(self.sigma) ** 2))


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

    def numbers(self) -> dict[str, float]:
        """1 / sigma."""
        return {"a": 1 / float(self.sigma)}

    def operators(self, on: Any) -> Any:
        """Exponentials of distances."""
        return on.exp(on.squared_distance(float(self.sigma)).add("Sqrt"), -1 / float(self.sigma))


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

    def numbers(self) -> dict[str, float]:
        """1 / sigma^2."""
        return {"a": 1 / float(self.sigma) ** 2}

    def operators(self, on: Any) -> Any:
        """Reciprocals of squared distances."""
        return 1.0 / (on.squared_distance(float(self.sigma)) * (1 / float(self.sigma) ** 2) + 1.0)


@dataclass(frozen=True)
class Cosine(Kernel):
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

    def operators(self, on: Any) -> Any:
        """Cosines."""
        return on.cosine


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-gamma |x - z|_1), of the sum of absolute differences; also called the taxicab or Manhattan distance.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the distance, > 0; 1 / n_features suits columns of variance one.

    Examples
    --------
    >>> from bomkl.kernels import Laplacian
    >>> round(float(Laplacian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]])[0, 0]), 4)
    0.3679
    """

    has_fourier_transform: ClassVar[bool] = True

    gamma: float = 1.0

    def __post_init__(self) -> None:
        _check_width("Laplacian", "gamma", self.gamma)

    def _matrix(self, X: Matrix, Z: Matrix) -> Matrix:
        distances = [np.abs(X - z).sum(axis=1) for z in Z]
        return np.exp(-self.gamma * np.stack(distances, axis=1)) if len(Z) else np.zeros((len(X), 0))

    def numbers(self) -> dict[str, float]:
        """Return gamma."""
        return {"a": float(self.gamma)}

    def operators(self, on: Any) -> Any:
        """Exponentials of sums of absolute differences."""
        return on.exp(on.taxicab, -float(self.gamma))


KernelLike = Kernel | Callable[[Any, Any], Any]


def paper_kernels() -> list[KernelLike]:
    """Return the paper's 16 kernels: (x.z)^p for p = 1, 2, 3 and Gaussians of width 2^-6 to 2^6.

    Examples
    --------
    >>> from bomkl.kernels import paper_kernels
    >>> len(paper_kernels())
    16
    """
    return [*(Polynomial(degree=p) for p in (1, 2, 3)), *paper_gaussians()]


def paper_gaussians() -> list[KernelLike]:
    """Return the 13 Gaussians among the paper's kernels, of width 2^-6 to 2^6.

    Examples
    --------
    >>> from bomkl.kernels import paper_gaussians
    >>> paper_gaussians()[6]
    Gaussian(sigma=1.0)
    """
    return [Gaussian(sigma=2.0**e) for e in range(-6, 7)]

"""The same algorithms in vectorised NumPy, one row at a time: what a careful user would write without a core."""

from __future__ import annotations

import numpy as np

from bomkl.kernels import Gaussian, Polynomial


class GrowingRows:
    """Rows with squared norms and coefficients, in arrays that double when they are full."""

    def __init__(self, features, n_coefs):
        self.n = 0
        self.rows = np.empty((64, features), dtype=np.float32)
        self.norms = np.empty(64, dtype=np.float32)
        self.coefs = np.zeros((n_coefs, 64), dtype=np.float32)

    def add(self, x, norm, coefs):
        """Append a row."""
        if self.n == len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
            self.norms = np.concatenate([self.norms, np.empty_like(self.norms)])
            self.coefs = np.concatenate([self.coefs, np.zeros_like(self.coefs)], axis=1)
        self.rows[self.n], self.norms[self.n], self.coefs[:, self.n] = x, norm, coefs
        self.n += 1


def kernel_values(kernel, inner, distance):
    match kernel:
        case Polynomial():
            return inner**kernel.degree
        case Gaussian():
            return np.exp(distance * np.float32(-1 / (2 * kernel.sigma**2)))


def spa_mistakes(X, y, kernels, seed=0, eta=0.1, alpha=1.0, beta=3.0, gamma=0.99, delta=0.001):
    """BOMKC(SPA); every kernel has rows of its own, because SPA's kernels share few. Returns mistakes and SVs."""
    rng = np.random.default_rng(seed)
    support = [GrowingRows(X.shape[1], 1) for _ in kernels]
    norms = np.einsum("ij,ij->i", X, X)
    log_weights, f, mistakes = np.zeros(len(kernels)), np.zeros(len(kernels)), 0
    for x, norm, label in zip(X, norms, y, strict=True):
        for i, (kernel, s) in enumerate(zip(kernels, support, strict=True)):
            inner = s.rows[: s.n] @ x
            distance = np.maximum(s.norms[: s.n] + norm - 2 * inner, 0) if isinstance(kernel, Gaussian) else None
            f[i] = s.coefs[0, : s.n] @ kernel_values(kernel, inner, distance)
        relative = np.exp(log_weights - log_weights.max())
        mistakes += label * (relative @ f) <= 0
        loss = np.maximum(0, 1 - label * f)
        rho = np.minimum(alpha, loss) / beta
        draws = rng.random((2, len(kernels)))
        for chosen in np.flatnonzero((draws[0] < (1 - delta) * relative + delta) & (draws[1] < rho)):
            support[chosen].add(x, norm, label * min(eta / rho[chosen], loss[chosen]))
        log_weights += loss * np.log(gamma)
    return mistakes, sum(s.n for s in support)


def omkc_mistakes(X, y, kernels, gamma=0.99):
    """OMKC(DD); the kernels share their rows, so one product with the pool serves all. Returns mistakes and SVs."""
    pool = GrowingRows(X.shape[1], len(kernels))
    norms = np.einsum("ij,ij->i", X, X)
    log_weights, f, mistakes, n_support = np.zeros(len(kernels)), np.zeros(len(kernels)), 0, 0
    for x, norm, label in zip(X, norms, y, strict=True):
        inner = pool.rows[: pool.n] @ x
        distance = np.maximum(pool.norms[: pool.n] + norm - 2 * inner, 0)
        for i, kernel in enumerate(kernels):
            f[i] = pool.coefs[i, : pool.n] @ kernel_values(kernel, inner, distance)
        relative = np.exp(log_weights - log_weights.max())
        mistakes += label * (relative @ np.where(f >= 0, 1, -1)) <= 0
        wrong = label * f <= 0
        if wrong.any():
            pool.add(x, norm, np.where(wrong, label, 0))
        log_weights[wrong] += np.log(gamma)
        n_support += wrong.sum()
    return mistakes, n_support

"""Newton regression that learns in rounds: posterior mean and information, both in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from bomkl._core import BLOCK, solve_symmetric
from bomkl.auto.features.geometry import Float
from bomkl.auto.saved import Saved, State


@dataclass
class Information:
    """Posterior mean w (outputs, width) and information (rank, rank), the inverse of the covariance."""

    w: Float
    matrix: Float

    @classmethod
    def of(cls, w: Float, covariance: Float, width: int) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r) in features of some width."""
        means = np.zeros((w.shape[1], width))
        means[:, : len(w)] = w.T
        return cls(means, _large_inverse(covariance))

    @classmethod
    def empty(cls, rank: int, w: Float | None = None) -> Self:
        """Make one that knows its rank, and perhaps its means, only."""
        return cls(np.empty((0, 0)) if w is None else w, np.empty((rank, 0)))

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""
        return len(self.matrix)

    def means(self) -> Float:
        """Posterior mean, (outputs, width)."""
        return self.w

    def learned(self, information: Float, pull: Float) -> Information:
        """Take a round in by one Newton step: the information after it, and sum x (y - p), (outputs, rank), at w."""
        w = self.w.copy()
        w[:, : self.rank] += solution(information, np.ascontiguousarray(pull.T)).T
        return Information(w, information)

    def fork(self) -> Self:
        """Return it: a round makes another one."""
        return self

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class, which starts at a constant score."""
        new = np.zeros((1, self.w.shape[1]))
        new[0, self.rank - 1] = log_odds
        old = self.w if len(self.w) > 1 else np.vstack([-0.5 * self.w, 0.5 * self.w])
        self.w = np.vstack([old, new])

    def to_state(self) -> State:
        """Everything it is, as arrays. Half of a symmetric matrix says all of it."""
        if not np.array_equal(self.matrix, self.matrix.T):
            return {"w": self.w, "matrix": self.matrix}
        return {"w": self.w, "lower": self.matrix[np.tril_indices(self.rank)]}

    @classmethod
    def from_state(cls, saved: Saved, rank: int, outputs: int) -> Self:
        """Go on where `to_state` was called."""
        w = saved.array("w", (outputs, -(-rank // BLOCK) * BLOCK))
        if saved.has("matrix"):  # as version 0.2.0 saved all of them
            matrix = saved.array("matrix", (rank, rank))
        else:
            matrix, places = np.empty((rank, rank)), np.tril_indices(rank)
            matrix[places] = matrix.T[places] = saved.array("lower", (rank * (rank + 1) // 2,))
        saved.end()
        return cls(w, matrix)


def solution(matrix: Float, b: Float) -> Float:
    """Solve a symmetric equation; what rounding has made indefinite gets a little more on its diagonal.

    Examples
    --------
    >>> solution(np.array([[4.0, 2.0], [2.0, 2.0]]), np.array([[6.0], [4.0]])).tolist()
    [[1.0], [1.0]]
    """
    more = 1e-12 * max(float(np.trace(matrix)) / len(matrix), 1e-300)
    for _ in range(40):
        out = b.copy()
        if solve_symmetric(matrix, out):
            return out
        matrix = matrix + more * np.eye(len(matrix))
        more *= 10
    raise ValueError("The information of a model is not that of a covariance.")


def _large_inverse(matrix: Float) -> Float:
    """Invert a covariance of the exact fit, by LAPACK as that is."""
    factor, failed = dpotrf(matrix, lower=1)
    if failed:
        return inverse(matrix)
    lower, _ = dpotri(factor, lower=1)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def inverse(matrix: Float) -> Float:
    """Invert a symmetric matrix."""
    out = solution(np.ascontiguousarray(matrix), np.eye(len(matrix)))
    return np.asarray((out + out.T) / 2)

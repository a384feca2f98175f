"""Online Newton regression on fixed features, in blocks of 64 rows."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from bomkl._core import BLOCK, close_block, current_means, linear_scores, newton_rows
from bomkl.auto.blas import one_blas_thread
from bomkl.auto.geometry import Float, Single, on_cache_lines, packed, unpacked
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

UNCHECKED = 16384.0
MARGIN = 64 * float(np.finfo(np.float32).eps)  # least eigenvalue after a repair, as a share of the largest variance


@dataclass
class NewtonRegression:
    """Posterior mean w and covariance P as of the start of the open block, and the rows of that block so far.

    Holding the open block apart makes the scores of its rows the same bits in however many calls they come. It makes a
    copy cheap, too: while a block is open, rows are only added behind those that are there, so a fork shares all arrays
    with its original until it closes a block.
    """

    w: Float
    P: Single
    rows: Single
    U: Single
    M: Float
    c: Float
    a: Float
    V: Single
    trace: Float  # the largest that forgetting may bring P to, and that of P as of the last row
    open: int = 0
    unchecked: float = 0.0  # rows learned since P was last known to be positive definite, or their weight if above 1
    owned: bool = True  # whether no other shares the arrays

    @classmethod
    def of(cls, w: Float, covariance: Float, width: int, ridge: float) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r), which a prior of 1 / ridge has led to."""
        rank, outputs = w.shape
        means = np.zeros((outputs, width))
        means[:, :rank] = w.T
        return cls.at_block_start(means, packed(covariance), rank / ridge)

    @classmethod
    def at_block_start(cls, w: Float, P: Single, largest_trace: float) -> Self:
        """Start from means (outputs, width) and a packed covariance, with no row in the open block."""
        outputs, width = w.shape
        return cls(
            w=w,
            P=P,
            rows=np.zeros((BLOCK, width), dtype=np.float32),
            U=np.zeros((BLOCK, width), dtype=np.float32),
            M=np.zeros((BLOCK, BLOCK)),
            c=np.zeros(BLOCK),
            a=np.zeros((BLOCK, outputs)),
            V=np.zeros((len(P), BLOCK, BLOCK), dtype=np.float32),
            trace=np.array([largest_trace, np.trace(unpacked(P), dtype=np.float64)]),
        )

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""
        return int(self.P.shape[1])

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = copy.copy(self)
        fork.trace, fork.owned = self.trace.copy(), False
        return fork

    def here(self) -> Self:
        """Return itself: its arrays are on the processor."""
        return self

    def _own(self) -> None:
        if self.owned:
            return
        n = self.open
        self.w, self.P, self.M = self.w.copy(), on_cache_lines(self.P), self.M.copy()
        self.rows, self.U, self.c, self.a = (_with_first(each, n) for each in (self.rows, self.U, self.c, self.a))
        self.V, self.owned = self.V.copy(), True

    def score_and_learn(self, F: Single, y: Float, weight: Float, task: Task, forget: float, seen: int) -> Float:
        """Score rows of features, each just before it is learned from; `seen` rows came before them."""
        scores = np.empty(y.shape)
        to_boundary = BLOCK - seen % BLOCK
        if len(y) >= to_boundary:
            self._own()
        counted = np.concatenate([[self.unchecked], np.maximum(weight, 1.0)])
        self.unchecked = float(np.add.accumulate(counted)[-1])  # one after another, so that calls may be split anywhere
        self.open = newton_rows(
            *self._arrays(),
            F,
            y,
            weight,
            int(task),
            (1 - forget) * self.rank,
            self.open,
            to_boundary,
            scores,
        )
        return scores

    def close(self) -> None:
        """Make the rows of the open block part of the posterior before the block is full."""
        self._own()
        close_block(*self._arrays(), self.open)
        self.open = 0

    def repair(self) -> None:
        """Keep the covariance positive definite in single precision; called between blocks, at absolute row counts.

        Learning maps P to (P^-1 + H)^-1, where the largest eigenvalue of H is at most W |x|^2 after rows of weight W.
        If P has no eigenvalue below m, then after learning it has none below m / (1 + m W |x|^2). Rounding changes each
        block by a symmetric error that learning shrinks as it shrinks P (see `close_block`). Between two looks lie at
        most 256 blocks, whose errors add up to about 16 times that of one; m has room for 128 roundings of the largest
        variance. So it is enough to look from time to time whether P - m I has a Cholesky factor and, where it has
        none, to add to the diagonal of P: a loss of certainty that single precision could hardly have told from none.
        """
        if self.unchecked < UNCHECKED or self.open:
            return
        self.unchecked = 0.0
        P = unpacked(self.P)[:, : self.rank].astype(np.float64)
        margin = MARGIN * float(P.diagonal().max())
        diagonal, added = P.diagonal() - margin, 0.0
        with one_blas_thread:
            while True:
                np.fill_diagonal(P, diagonal + added)
                if dpotrf(P, lower=1)[1] == 0:
                    break
                added = 4 * added or margin
        if added:
            self.P = packed(_with_diagonal(unpacked(self.P)[:, : self.rank], diagonal + margin + added))
            self.trace[1] = np.trace(unpacked(self.P), dtype=np.float64)

    def means(self) -> Float:
        """Posterior mean with every row learned, (outputs, width)."""
        means = np.empty_like(self.w)
        current_means(*self._arrays(), self.open, means)
        return means

    def scores(self, F: Single, means: Float) -> Float:
        """Score rows of features with the posterior mean of `means`."""
        out = np.empty((len(F), len(means)))
        linear_scores(F, means, self.rank, out)
        return out

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class, which starts at a constant score."""
        self.close()
        new = np.zeros((1, self.w.shape[1]))
        new[0, self.rank - 1] = log_odds
        old = self.w if len(self.w) > 1 else np.vstack([-0.5 * self.w, 0.5 * self.w])
        self.w = np.vstack([old, new])
        self.a = np.zeros((BLOCK, len(self.w)))

    def to_state(self) -> State:
        """Everything it is; of the open block only the rows that are there."""
        n = self.open
        return {
            "w": self.w,
            "P": self.P,
            "rows": self.rows[:n],
            "U": self.U[:n],
            "M": np.triu(self.M[:n, :n], 1),
            "c": self.c[:n],
            "a": self.a[:n],
            "V": self.V[:, :n],
            "trace": self.trace,
            "unchecked": self.unchecked,
        }

    @classmethod
    def from_state(cls, saved: Saved, rank: int, outputs: int, most_open: int) -> Self:
        """Go on where `to_state` was called."""
        tiles = -(-rank // BLOCK)
        width = tiles * BLOCK
        w = saved.array("w", (outputs, width))
        P = on_cache_lines(saved.array("P", (tiles, rank, BLOCK), np.float32))
        rows = saved.array("rows", (None, width), np.float32)
        n = len(rows)
        if n > most_open:
            raise saved.wrong("rows", f"at most {most_open} rows, those of the open block", n)
        regression = cls.at_block_start(w, P, 0.0)
        regression.open = n
        regression.rows[:n] = rows
        regression.U[:n] = saved.array("U", (n, width), np.float32)
        regression.M[:n, :n] = saved.array("M", (n, n))
        regression.c[:n] = saved.array("c", (n,))
        regression.a[:n] = saved.array("a", (n, outputs))
        regression.V[:, :n] = saved.array("V", (tiles, n, BLOCK), np.float32)
        regression.trace = saved.array("trace", (2,))  # rounding can bring that of P just below zero
        regression.unchecked = saved.number("unchecked", 0.0)
        saved.end()
        return regression

    def _arrays(self) -> tuple[Float, Single, Single, Single, Float, Float, Float, Single, Float]:
        return self.w, self.P, self.rows, self.U, self.M, self.c, self.a, self.V, self.trace


def _with_first(array: NDArray[Any], n: int) -> NDArray[Any]:
    """Copy an array, but only its first n rows."""
    made = np.empty_like(array)
    made[:n] = array[:n]
    return made


def _with_diagonal(matrix: Single, diagonal: Float) -> Single:
    matrix = matrix.copy()
    np.fill_diagonal(matrix, diagonal)
    return matrix

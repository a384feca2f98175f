"""One component: online Newton regression on fixed features, in blocks of 64 rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bomkl._core import BLOCK, close_block, current_means, linear_scores, newton_rows
from bomkl.auto.geometry import Float, Single, packed
from bomkl.auto.task import Task


@dataclass
class Component:
    """Posterior mean w and covariance P as of the start of the open block, and the rows of that block so far.

    Holding the open block apart makes the scores of its rows the same bits in however many calls they come.
    """

    w: Float
    P: Single
    rows: Single
    U: Single
    M: Float
    c: Float
    a: Float
    open: int = 0

    @classmethod
    def of(cls, w: Float, covariance: Float, width: int) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r) in features of some width."""
        rank, outputs = w.shape
        means = np.zeros((outputs, width))
        means[:, :rank] = w.T
        return cls(
            w=means,
            P=packed(covariance),
            rows=np.zeros((BLOCK, width), dtype=np.float32),
            U=np.zeros((BLOCK, width), dtype=np.float32),
            M=np.zeros((BLOCK, BLOCK)),
            c=np.zeros(BLOCK),
            a=np.zeros((BLOCK, outputs)),
        )

    @property
    def rank(self) -> int:
        """Features in use."""
        return int(self.P.shape[1])

    def score_and_learn(self, F: Single, y: Float, weight: Float, task: Task, forget: float, seen: int) -> Float:
        """Score rows of features, each just before it is learned; `seen` rows came before them."""
        scores = np.empty(y.shape)
        self.open = newton_rows(
            *self._arrays(),
            F,
            y,
            weight,
            int(task),
            (1 - forget) * self.rank,
            self.open,
            BLOCK - seen % BLOCK,
            scores,
        )
        return scores

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
        close_block(*self._arrays(), self.open)
        self.open = 0
        new = np.zeros((1, self.w.shape[1]))
        new[0, self.rank - 1] = log_odds
        old = self.w if len(self.w) > 1 else np.vstack([-0.5 * self.w, 0.5 * self.w])
        self.w = np.vstack([old, new])
        self.a = np.zeros((BLOCK, len(self.w)))

    def _arrays(self) -> tuple[Float, Single, Single, Single, Float, Float, Float]:
        return self.w, self.P, self.rows, self.U, self.M, self.c, self.a

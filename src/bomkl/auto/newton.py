"""Online Newton regression on fixed features, in blocks of 64 rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bomkl._core import BLOCK, close_block, current_means, linear_scores, newton_rows
from bomkl.auto.geometry import Float, Single, packed
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task


@dataclass
class NewtonRegression:
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
        return cls._at_block_start(means, packed(covariance))

    @classmethod
    def _at_block_start(cls, w: Float, P: Single) -> Self:
        outputs, width = w.shape
        return cls(
            w=w,
            P=P,
            rows=np.zeros((BLOCK, width), dtype=np.float32),
            U=np.zeros((BLOCK, width), dtype=np.float32),
            M=np.zeros((BLOCK, BLOCK)),
            c=np.zeros(BLOCK),
            a=np.zeros((BLOCK, outputs)),
        )

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""
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
        }

    @classmethod
    def from_state(cls, saved: Saved, rank: int, outputs: int, most_open: int) -> Self:
        """Go on where `to_state` was called."""
        tiles = -(-rank // BLOCK)
        width = tiles * BLOCK
        w = saved.array("w", (outputs, width))
        P = saved.array("P", (tiles, rank, BLOCK), np.float32)
        rows = saved.array("rows", (None, width), np.float32)
        n = len(rows)
        if n > most_open:
            raise saved.wrong("rows", f"at most {most_open} rows, those of the open block", n)
        regression = cls._at_block_start(w, P)
        regression.open = n
        regression.rows[:n] = rows
        regression.U[:n] = saved.array("U", (n, width), np.float32)
        regression.M[:n, :n] = saved.array("M", (n, n))
        regression.c[:n] = saved.array("c", (n,))
        regression.a[:n] = saved.array("a", (n, outputs))
        saved.end()
        return regression

    def _arrays(self) -> tuple[Float, Single, Single, Single, Float, Float, Float]:
        return self.w, self.P, self.rows, self.U, self.M, self.c, self.a

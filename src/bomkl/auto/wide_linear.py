"""The linear components of very wide rows: AdaGrad with implicit steps, in memory of one number a column and output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bomkl._core import wide_rows, wide_scores
from bomkl.auto.geometry import Float, Single
from bomkl.auto.saved import Limits, Saved, State
from bomkl.auto.sparse_rows import NonZeros
from bomkl.auto.task import Task

RATES = (1.0, 8.0)  # few informative rows want large steps, noisy ones small; the combination chooses

# What a new scale of the targets may bring weights and sums of squared gradients to. A row can then add no more than
# about 1e100 to the squares: scaled values are at most 64, weights 1000.
_WEIGHTS = Limits(-1e35, 1e35)
_SQUARES = Limits(0.0, 1e250)
_LARGEST_FACTOR = 1e150


@dataclass
class WideLinear:
    """Weights and sums of squared gradients of the columns seen so far; one model for each of `RATES`."""

    w: Single
    S: Float
    bias: Float
    bias_sum: Float
    active: Float
    fade: Float
    owned: bool = True  # whether no other shares the arrays

    @classmethod
    def of(cls, outputs: int) -> Self:
        """Start from zero."""
        rates = len(RATES)
        return cls(
            w=np.zeros((rates, 0, outputs), dtype=np.float32),
            S=np.zeros((rates, 0)),
            bias=np.zeros((rates, outputs)),
            bias_sum=np.zeros(rates),
            active=np.zeros(2),
            fade=np.ones(1),
        )

    def score_and_learn(
        self, rows: NonZeros, columns: int, y: Float, weight: Float, task: Task, forget: float
    ) -> Float:
        """Scores (n, rates, outputs) of rows, each just before it is learned from; `columns` have been seen by now."""
        learn, arguments = self.plan(rows, columns, y, weight, task, forget)
        learn(*arguments)
        scores: Float = arguments[-1]
        return scores

    def plan(
        self, rows: NonZeros, columns: int, y: Float, weight: Float, task: Task, forget: float
    ) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Return the call of the core that `score_and_learn` comes to; its last argument is what takes the scores."""
        self._own()
        self._make_room(columns)
        scores = np.empty((len(y), len(RATES), y.shape[1]))
        where = (rows.starts, rows.places, rows.values)
        return wide_rows, (*self._arrays(), *where, y, weight, int(task), forget, scores)

    def scores(self, rows: NonZeros) -> Float:
        """Scores (n, rates, outputs) of rows."""
        scores = np.empty((len(rows.starts) - 1, len(RATES), self.bias.shape[1]))
        wide_scores(*self._arrays(), rows.starts, rows.places, rows.values, scores)
        return scores

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        return replace(self, owned=False)

    def _own(self) -> None:
        if not self.owned:
            self.w, self.S, self.bias = self.w.copy(), self.S.copy(), self.bias.copy()
            self.bias_sum, self.active, self.fade = self.bias_sum.copy(), self.active.copy(), self.fade.copy()
            self.owned = True

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class, which starts at a constant score."""
        if self.bias.shape[1] == 1:
            self.w = np.concatenate([-0.5 * self.w, 0.5 * self.w], axis=2, dtype=np.float32)
            self.bias = np.hstack([-0.5 * self.bias, 0.5 * self.bias])
        self.w = np.concatenate([self.w, np.zeros((*self.w.shape[:2], 1), dtype=np.float32)], axis=2)
        self.bias = np.hstack([self.bias, np.full((len(RATES), 1), log_odds)])

    def rescale(self, shift: float, factor: float) -> None:
        """Go on with targets that are ``target * factor + shift`` of what they were."""
        self._own()
        factor = min(factor, _LARGEST_FACTOR)
        # in double precision, where a product of single precision is exact: it is rounded once, as there
        w = self.w.astype(np.float64) * np.float32(min(factor, _WEIGHTS.high))
        self.w = _WEIGHTS.clip(w).astype(np.float32)
        self.bias = _WEIGHTS.clip(self.bias * factor + shift)
        with np.errstate(over="ignore"):
            self.S, self.bias_sum = _SQUARES.clip(self.S * factor**2), _SQUARES.clip(self.bias_sum * factor**2)

    def to_state(self, columns: int) -> State:
        """Return what was learned about so many columns, without the room that is not in use yet."""
        return {
            "w": self.w[:, :columns].copy(),
            "S": self.S[:, :columns].copy(),
            "bias": self.bias,
            "bias_sum": self.bias_sum,
            "active": self.active,
            "fade": self.fade,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int, outputs: int) -> Self:
        """Go on where `to_state` was called."""
        rates = len(RATES)
        linear = cls(
            w=saved.array("w", (rates, columns, outputs), np.float32),
            S=saved.array("S", (rates, columns), low=0.0),
            bias=saved.array("bias", (rates, outputs)),
            bias_sum=saved.array("bias_sum", (rates,), low=0.0),
            active=saved.array("active", (2,), low=0.0),
            fade=saved.array("fade", (1,), low=float(np.finfo(np.float64).tiny), high=1.0),
        )
        saved.end()
        return linear

    def _make_room(self, columns: int) -> None:
        """Have room for some columns, growing by half so that time stays linear."""
        missing = columns - self.w.shape[1]
        if missing > 0:
            more = max(missing, self.w.shape[1] // 2)
            room = {"w": np.pad(self.w, ((0, 0), (0, more), (0, 0))), "S": np.pad(self.S, ((0, 0), (0, more)))}
            vars(self).update(room)  # in one step: for want of memory or by an interrupt neither changes

    def _arrays(self) -> tuple[Float, Single, Float, Float, Float, Float, Float]:
        return np.array(RATES), self.w, self.S, self.bias, self.bias_sum, self.active, self.fade

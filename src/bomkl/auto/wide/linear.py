"""The linear components of very wide rows: AdaGrad with implicit steps, in memory of one number a column and output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from bomkl._core import WideModel
from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import FADES, SUMS, WIDE_SQUARES, WIDE_WEIGHTS
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task
from bomkl.auto.wide.sparse_rows import NonZeros

RATES = (1.0, 8.0)  # few informative rows want large steps, noisy ones small; the combination chooses

_LARGEST_FACTOR = 1e150


class WideLinear:
    """Weights and sums of squared gradients of the columns seen so far; one model for each step size."""

    def __init__(self, core: WideModel, columns: int, steps: Sequence[float]) -> None:
        self.core = core
        self.columns = columns
        self.steps = tuple(steps)

    @classmethod
    def of(cls, outputs: int, steps: Sequence[float] = RATES, columns: int = 0) -> Self:
        """Start from zero, with one model for each step size."""
        rates = len(steps)
        return cls.from_arrays(
            steps,
            w=np.zeros((rates, columns, outputs), dtype=np.float32),
            S=np.zeros((rates, columns)),
            bias=np.zeros((rates, outputs)),
            bias_sum=np.zeros(rates),
            active=np.zeros(2),
            fade=1.0,
        )

    @classmethod
    def from_arrays(cls, steps: Sequence[float], w: Any, **arrays: Any) -> Self:
        """Take weights (rates, columns, outputs) and sums, as `arrays` of the core gives them."""
        return cls(WideModel.of(np.array(steps), w, **arrays), w.shape[1], steps)

    @property
    def bias(self) -> Float:
        """Constants, (rates, outputs)."""
        return self.core.bias

    def score_and_learn(
        self, rows: NonZeros, columns: int, y: Float, weight: Float, task: Task, forget: float
    ) -> Float:
        """Scores (n, rates, outputs) of rows, each just before it is learned from; `columns` have been seen by now."""
        self.core.reserve(columns)
        self.columns = columns
        scores = np.empty((len(y), len(self.steps), y.shape[1]))
        self.core.learn(rows.starts, rows.places, rows.values, y, weight, int(task), forget, scores)
        return scores

    def scores(self, rows: NonZeros) -> Float:
        """Scores (n, rates, outputs) of rows."""
        scores = np.empty((len(rows.starts) - 1, *self.bias.shape))
        self.core.score(rows.starts, rows.places, rows.values, scores)
        return scores

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        return type(self)(self.core.fork(), self.columns, self.steps)

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class, which starts at a constant score."""
        arrays = self.core.arrays(self.columns)
        w, bias = arrays["w"], arrays["bias"]
        if bias.shape[1] == 1:
            w = np.concatenate([-0.5 * w, 0.5 * w], axis=2, dtype=np.float32)
            bias = np.hstack([-0.5 * bias, 0.5 * bias])
        w = np.concatenate([w, np.zeros((*w.shape[:2], 1), dtype=np.float32)], axis=2)
        bias = np.hstack([bias, np.full((len(self.steps), 1), log_odds)])
        self.core = self.from_arrays(self.steps, **arrays | {"w": w, "bias": bias}).core

    def rescale(self, shift: float, factor: float) -> None:
        """Go on with targets that are ``target * factor + shift`` of what they were."""
        arrays = self.core.arrays(self.columns)
        factor = min(factor, _LARGEST_FACTOR)
        # in double precision, where a product of single precision is exact: it is rounded once, as there
        w = arrays["w"].astype(np.float64) * np.float32(min(factor, WIDE_WEIGHTS.high))
        scaled = {
            "w": WIDE_WEIGHTS.clip(w).astype(np.float32),
            "bias": WIDE_WEIGHTS.clip(arrays["bias"] * factor + shift),
        }
        with np.errstate(over="ignore"):
            scaled |= {name: WIDE_SQUARES.clip(arrays[name] * factor**2) for name in ("S", "bias_sum")}
        self.core = self.from_arrays(self.steps, **arrays | scaled).core

    def to_state(self) -> State:
        """Return what was learned about the columns seen so far."""
        arrays = self.core.arrays(self.columns)
        return arrays | {"fade": np.array([arrays["fade"]])}

    @classmethod
    def from_state(cls, saved: Saved, columns: int, outputs: int, steps: Sequence[float] = RATES) -> Self:
        """Go on where `to_state` was called."""
        rates = len(steps)
        linear = cls.from_arrays(
            steps,
            w=saved.array("w", (rates, columns, outputs), np.float32),
            S=saved.array("S", (rates, columns), np.float64, *SUMS),
            bias=saved.array("bias", (rates, outputs)),
            bias_sum=saved.array("bias_sum", (rates,), np.float64, *SUMS),
            active=saved.array("active", (2,), np.float64, *SUMS),
            fade=float(saved.array("fade", (1,), np.float64, *FADES)[0]),
        )
        saved.end()
        return linear

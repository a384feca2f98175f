"""Linear models of wide dense rows, such as embeddings: one scale for all columns, and rows of length 1.

A scale for each column would make as much of directions that carry noise as of those that carry the meaning.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import SIZES
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task
from bomkl.auto.wide.linear import WideLinear
from bomkl.auto.wide.sparse_rows import NonZeros

_RATES = (2.0,)  # of the rows in one scale
_UNIT_RATES = (2.0, 8.0)  # of the rows of length 1
FAR = 64.0  # scaled values beyond it tell an outlier, and how far out it is does not matter


class DenseLinear:
    """AdaGrad on the rows in one common scale, and on the rows divided by their lengths."""

    kind: ClassVar[str] = "dense linear"
    names: ClassVar[tuple[str, ...]] = ("linear one scale 2", "linear length one 2", "linear length one 8")

    def __init__(self, scale: float, common: WideLinear, unit: WideLinear) -> None:
        self.scale = scale
        self.common = common
        self.unit = unit

    @classmethod
    def of(cls, scale: float, columns: int, outputs: int) -> Self:
        """Start from zero with rows of such a root mean square."""
        return cls(scale, *(WideLinear.of(outputs, steps, columns) for steps in (_RATES, _UNIT_RATES)))

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return self.common.core.nbytes + self.unit.core.nbytes

    def score_and_learn(self, X: Float, y: Float, weight: Float, task: Task) -> Float:
        """Scores (n, 3, outputs) of rows, each just before it is learned from; y are class numbers."""
        targets = task.targets(y, self.common.bias.shape[1], 0.0, 1.0)
        parts = [
            model.score_and_learn(rows, model.columns, targets, weight, task, 1.0)
            for model, rows in zip((self.common, self.unit), self._rows(X), strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def scores(self, X: Float) -> Float:
        """Scores (n, 3, outputs) of rows."""
        common, unit = self._rows(X)
        return np.concatenate([self.common.scores(common), self.unit.scores(unit)], axis=1)

    def _rows(self, X: Float) -> tuple[NonZeros, NonZeros]:
        n, d = X.shape
        starts = np.arange(n + 1, dtype=np.int64) * d
        places = np.tile(np.arange(d, dtype=np.int32), n)
        largest = np.maximum(np.abs(X).max(axis=1, keepdims=True), SIZES.low)
        relative = X / largest  # so that squares neither overflow nor vanish
        squares = (relative**2).sum(axis=1)
        unit = relative * np.sqrt(d / np.maximum(squares, 1e-300))[:, None]
        with np.errstate(over="ignore"):
            common = np.clip(X / self.scale, -FAR, FAR)
        return (
            NonZeros(starts, places, places, np.ascontiguousarray(common).ravel()),
            NonZeros(starts, places, places, np.ascontiguousarray(np.clip(unit, -FAR, FAR)).ravel()),
        )

    def add_class(self) -> None:
        """Make room for a class that has not been seen before; as steps are small, it begins like the others."""
        self.common.add_class(0.0)
        self.unit.add_class(0.0)

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        return type(self)(self.scale, self.common.fork(), self.unit.fork())

    def column_shares(self) -> Float:
        """Share of each column in the squared weights."""
        weights = [each.core.arrays(each.columns)["w"].astype(np.float64) for each in (self.common, self.unit)]
        shares = sum((w**2).sum(axis=(0, 2)) for w in weights)
        return np.asarray(shares / max(float(shares.sum()), 1e-300))

    def to_state(self) -> State:
        """Everything it has learned, as plain values and arrays."""
        return {"scale": self.scale, "common": self.common.to_state(), "unit": self.unit.to_state()}

    @classmethod
    def from_state(cls, saved: Saved, columns: int, outputs: int) -> Self:
        """Go on where `to_state` was called."""
        scale = saved.number("scale", *SIZES)
        common, unit = (
            WideLinear.from_state(saved.part(name), columns, outputs, steps)
            for name, steps in (("common", _RATES), ("unit", _UNIT_RATES))
        )
        saved.end()
        return cls(scale, common, unit)

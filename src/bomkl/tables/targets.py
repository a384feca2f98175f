"""What rows tell of their targets: the sums that categories are encoded with, each from the rows before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from bomkl._support.limits import LARGEST
from bomkl.tables.cells import taken
from bomkl.tables.errors import TableError
from bomkl.tables.numbers import is_gap
from bomkl.tables.values import Float

TARGETS = {None: 0, "number": 1, "class": 3}  # sums of targets a category


@dataclass(frozen=True)
class Targets:
    """What the targets of a block contribute to the sums, and their means and deviations before each row."""

    places: Sequence[int]  # the sum that each row adds to; -1 for none
    amounts: Sequence[float]  # what it adds
    means: Float  # (n_rows, n_targets): of the rows before it
    deviations: Float

    def of(self, rows: Any) -> Targets:
        parts = (taken(each, rows) for each in (self.places, self.amounts, self.means, self.deviations))
        return Targets(*parts)


@dataclass(frozen=True)
class TargetSums:
    """Sums over the targets learned."""

    target: str | None  # "class", "number": what targets are; None where they are not used
    sums: Float  # (n_targets,): sums of the targets and of their squares
    squares: Float
    rows: int = 0  # how many
    shift: float = 0.0  # the first of them where they are numbers: sums are of differences from it
    labels: list[Any] = field(default_factory=list)  # labels in the order in which they came

    @classmethod
    def none(cls, target: str | None) -> TargetSums:
        """Give those of no rows."""
        return cls(target, np.zeros(TARGETS[target]), np.zeros(TARGETS[target]))

    def over(self, y: Any, learned: NDArray[np.bool_]) -> tuple[Targets, TargetSums]:
        """Give the means and deviations before each row of a block, and the sums after it."""
        places, amounts, labels = self._read(y, learned)
        n, width = len(learned), len(self.sums)
        chosen = learned.tolist()
        shift = self.shift
        if not self.rows and shift == 0.0 and width == 1 and any(chosen):
            shift = amounts[chosen.index(True)]
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        sums, squares = np.zeros((n + 1, width)), np.zeros((n + 1, width))
        sums[0], squares[0] = self.sums, self.squares
        for row, (place, amount) in enumerate(zip(places, amounts, strict=True), 1):
            if place >= 0 and chosen[row - 1]:
                sums[row, place] = amount - shift
                squares[row, place] = (amount - shift) ** 2
        sums, squares = np.cumsum(sums, axis=0), np.cumsum(squares, axis=0)
        rows = self.rows + np.concatenate([[0], np.cumsum(learned)])
        counts = np.maximum(rows[:-1], 1)[:, None]
        means = sums[:-1] / counts
        deviations = np.sqrt(np.maximum(squares[:-1] / counts - means * means, 0.0))
        means = np.where(rows[:-1, None] > 0, means + shift, 0.0)  # the first row does not know its own target
        after = TargetSums(self.target, sums[-1], squares[-1], int(rows[-1]), shift, labels)
        return Targets(places, amounts, means, deviations), after

    def _read(self, y: Any, learned: NDArray[np.bool_]) -> tuple[list[int], list[float], list[Any]]:
        """Give the sum that each target adds to, -1 for none, what it adds, and the labels after the block."""
        n_rows = len(learned)
        if self.target is None or y is None:
            return [-1] * n_rows, [0.0] * n_rows, self.labels
        values = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y)
        if len(values) != n_rows:
            raise TableError(f"X has {n_rows} rows, but y has {len(values)} targets. There must be one for each row.")
        if self.target == "number":
            try:
                numbers = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise TableError("The targets y must be numbers.") from None
            wrong = np.flatnonzero(learned & ~np.isfinite(numbers))
            if len(wrong):
                raise TableError(f"The targets y must be finite. Got {numbers[wrong[0]]} in row {wrong[0]} instead.")
            return [0] * n_rows, np.clip(np.where(learned, numbers, 0.0), -LARGEST, LARGEST).tolist(), []
        known = {label: at for at, label in enumerate(self.labels)}
        places = []
        for row, (label, learn) in enumerate(zip(values.tolist(), learned.tolist(), strict=True)):
            if learn and is_gap(label):
                raise TableError(f"The labels y must be known. Got {label!r} in row {row} instead.")
            code = known.setdefault(label, len(known)) if learn else 0
            places.append((code - 1) % TARGETS["class"] if code else -1)  # the first label is what others leave
        return places, [1.0] * n_rows, list(known)

    def state(self) -> dict[str, Any]:
        """Everything it is but for the labels, as plain values and arrays."""
        return {name: getattr(self, name) for name in ("rows", "shift", "sums", "squares")}

    @classmethod
    def from_state(cls, state: dict[str, Any], target: str | None, labels: list[Any]) -> TargetSums:
        sums, squares = (np.array(state[name], dtype=np.float64) for name in ("sums", "squares"))
        if sums.shape != (TARGETS[target],) or squares.shape != (TARGETS[target],):
            raise TableError("the sums of the targets do not fit")
        return cls(target, sums, squares, int(state["rows"]), float(state["shift"]), labels)

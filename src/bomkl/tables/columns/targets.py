"""What rows tell of their targets: the sums that categories are encoded with, each from the rows before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from bomkl._support.limits import LARGEST
from bomkl.tables.cells import is_gap
from bomkl.tables.errors import TableError
from bomkl.tables.values import Float

TARGETS = {None: 0, "number": 1, "class": 3}  # sums of targets a category


@dataclass(frozen=True)
class Targets:
    """What a block tells of its targets.

    Parameters
    ----------
    places : sequence of int
        The sum that each row adds to; -1 for none.
    amounts : sequence of float
        What it adds.
    means, deviations : ndarray of shape (n_rows, n_targets)
        Of the rows before it.
    """

    places: Sequence[int]
    amounts: Sequence[float]
    means: Float
    deviations: Float

    def of(self, rows: Any) -> Targets:
        """Take some rows, by a slice or by their numbers."""
        numbers = range(len(self.places))[rows] if isinstance(rows, slice) else rows
        places, amounts = [self.places[row] for row in numbers], [self.amounts[row] for row in numbers]
        return Targets(places, amounts, self.means[rows], self.deviations[rows])


@dataclass(frozen=True)
class TargetSums:
    """Sums over the targets learned.

    Parameters
    ----------
    rows : int
        How many.
    shift : float
        The first of them where they are numbers: sums are of differences from it.
    sums, squares : ndarray of shape (n_targets,)
        Sums of the targets and of their squares.
    """

    rows: int
    shift: float
    sums: Float
    squares: Float

    def over(
        self, places: Sequence[int], amounts: Sequence[float], learned: NDArray[np.bool_]
    ) -> tuple[Targets, TargetSums]:
        """Give the means and deviations before each row of a block, and the sums after it."""
        n, width = len(places), len(self.sums)
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
        return Targets(places, amounts, means, deviations), TargetSums(int(rows[-1]), shift, sums[-1], squares[-1])


@dataclass(frozen=True)
class ReadTargets:
    """Targets as sums take them.

    Parameters
    ----------
    places : sequence of int
        The sum that each target adds to; -1 for none.
    amounts : sequence of float
        What it adds.
    new_labels : list
        Labels not seen before.
    """

    places: Sequence[int]
    amounts: Sequence[float]
    new_labels: list[Any]

    @classmethod
    def none(cls, n_rows: int) -> ReadTargets:
        """Give the targets of rows that are not learned from."""
        return cls([-1] * n_rows, [0.0] * n_rows, [])


def read_targets(target: str | None, y: Any, learned: NDArray[np.bool_], labels: list[Any]) -> ReadTargets:
    """Read the targets of rows, where labels are those seen before."""
    n_rows = len(learned)
    if target is None:
        return ReadTargets.none(n_rows)
    if y is None:
        raise TableError(f"TableEncoder(target={target!r}) learns from targets: pass y.")
    values = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y)
    if len(values) != n_rows:
        raise TableError(f"X has {n_rows} rows, but y has {len(values)} targets. There must be one for each row.")
    if target == "number":
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise TableError("The targets y must be numbers.") from None
        wrong = np.flatnonzero(learned & ~np.isfinite(numbers))
        if len(wrong):
            raise TableError(f"The targets y must be finite. Got {numbers[wrong[0]]} in row {wrong[0]} instead.")
        return ReadTargets([0] * n_rows, np.clip(np.where(learned, numbers, 0.0), -LARGEST, LARGEST).tolist(), [])
    known = {label: at for at, label in enumerate(labels)}
    places = []
    for row, (label, learn) in enumerate(zip(values.tolist(), learned.tolist(), strict=True)):
        if learn and is_gap(label):
            raise TableError(f"The labels y must be known. Got {label!r} in row {row} instead.")
        code = known.setdefault(label, len(known)) if learn else 0
        places.append((code - 1) % TARGETS["class"] if code else -1)  # the first label is what others leave
    return ReadTargets(places, [1.0] * n_rows, list(known)[len(labels) :])

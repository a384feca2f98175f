"""What rows add to a model that learns in rounds: sums in whole units, the same in whatever order they are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import BLOCK, add_triangle, round_units
from bomkl.auto.features.geometry import Float
from bomkl.auto.parallel import Mapper, in_order
from bomkl.auto.saved import Saved, State

Whole = NDArray[np.int64]
MOST_LOG_ROWS = 38  # of a round; the core has the same


@dataclass(frozen=True)
class SumsShape:
    """Sizes of the model that a round learns: features of each component, outputs, stacks of the combination."""

    ranks: tuple[int, ...]
    outputs: int
    stacks: int

    def pull_sizes(self) -> list[int]:
        """Numbers that the pull on each component has."""
        return [self.outputs * rank for rank in self.ranks]

    def combination_size(self) -> int:
        """Numbers that the combination has, in the order of `CombinationSums`."""
        m = len(self.ranks)
        return self.stacks * m * (m + 1) + 2 * m + self.stacks + 1 + 2


@dataclass
class Sums:
    """Sums over some rows of one round of at most ``2**log_rows`` rows.

    ``information`` has the lower block triangle of sum h x x' for each component: for each 64 columns the rows from the
    diagonal on. All other numbers, the pulls sum x (y - p) on the components and then those of the combination, are
    the sum of a coarse and a fine part.
    """

    shape: SumsShape
    log_rows: int
    rows: int
    information: list[Whole]
    coarse: Whole
    fine: Whole

    @classmethod
    def zeros(cls, shape: SumsShape, log_rows: int) -> Self:
        """Begin with no rows."""
        numbers = sum(shape.pull_sizes()) + shape.combination_size()
        triangles = [np.zeros(triangle_size(rank), dtype=np.int64) for rank in shape.ranks]
        return cls(shape, log_rows, 0, triangles, np.zeros(numbers, dtype=np.int64), np.zeros(numbers, dtype=np.int64))

    def add(self, *others: Sums, run: Mapper = map) -> None:
        """Add the sums of other rows of the same round."""
        rows = self.rows + sum(other.rows for other in others)
        if any((self.shape, self.log_rows) != (other.shape, other.log_rows) for other in others):
            raise ValueError("Sums of different rounds or models cannot be added.")
        if rows > 1 << self.log_rows:
            raise ValueError(f"These sums have room for {1 << self.log_rows} rows. Got {rows} in all.")

        def add_information(i: int) -> None:
            for other in others:
                self.information[i] += other.information[i]

        in_order(run, add_information, [float(len(each)) for each in self.information])
        for other in others:
            self.coarse += other.coarse
            self.fine += other.fine
        self.rows = rows

    def pull(self, i: int) -> tuple[Whole, Whole]:
        """Coarse and fine part of the pull on one component, (outputs, rank)."""
        begin, end = self.shape.outputs * sum(self.shape.ranks[:i]), self.shape.outputs * sum(self.shape.ranks[: i + 1])
        coarse, fine = (part[begin:end].reshape(self.shape.outputs, -1) for part in (self.coarse, self.fine))
        return coarse, fine

    def combination(self) -> tuple[Whole, Whole]:
        """Coarse and fine part of the numbers of the combination."""
        at = sum(self.shape.pull_sizes())
        return self.coarse[at:], self.fine[at:]

    # ------------------------------------------------------------ as numbers

    def added_to(self, information: Float, i: int) -> Float:
        """Information of component `i` after the round."""
        out = np.empty_like(information)
        add_triangle(information, self.information[i], self.log_rows, out)
        return out

    def component_pulls(self) -> list[Float]:
        """Pull (outputs, rank) on each component."""
        return [self._numbers(*self.pull(i)) for i in range(len(self.shape.ranks))]

    def combination_sums(self) -> CombinationSums:
        """Return what the combination gains."""
        m, stacks = len(self.shape.ranks), self.shape.stacks
        numbers = self._numbers(*self.combination())
        sizes = (stacks * m * m, stacks * m, m, stacks + 1, m, 2)
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        return CombinationSums(
            information=parts[0].reshape(stacks, m, m),
            pull=parts[1].reshape(stacks, m),
            loss=parts[2],
            candidate_loss=parts[3],
            error=parts[4],
            combined_error=float(parts[5][1]),
        )

    def _numbers(self, coarse: Whole, fine: Whole) -> Float:
        _, coarse_unit, fine_unit = round_units(self.log_rows)
        return np.asarray(coarse / coarse_unit + fine / fine_unit)

    # ------------------------------------------------------------ as plain values

    def to_state(self) -> State:
        """Everything but its shape, as plain values and arrays."""
        return {
            "log_rows": self.log_rows,
            "rows": self.rows,
            "information": np.concatenate([*self.information, np.empty(0, dtype=np.int64)]),
            "coarse": self.coarse,
            "fine": self.fine,
        }

    @classmethod
    def from_state(cls, saved: Saved, shape: SumsShape) -> Self:
        """Go on where `to_state` was called; refuse what does not fit the shape."""
        log_rows = saved.integer("log_rows", 0, MOST_LOG_ROWS)
        sums = cls.zeros(shape, log_rows)
        sums.rows = saved.integer("rows", 0, 1 << log_rows)
        sizes = [len(each) for each in sums.information]
        triangles = saved.array("information", (sum(sizes),), np.int64)
        sums.information = np.split(triangles, np.cumsum(sizes)[:-1])
        sums.coarse = saved.array("coarse", sums.coarse.shape, np.int64)
        sums.fine = saved.array("fine", sums.fine.shape, np.int64)
        saved.end()
        return sums


@dataclass(frozen=True)
class CombinationSums:
    """Sums over rows for the combination; losses are weighted, errors are not."""

    information: Float  # (stacks, components, components)
    pull: Float  # (stacks, components)
    loss: Float  # of the components
    candidate_loss: Float  # of the stacks and, last, the mixture
    error: Float  # of the components
    combined_error: float


def triangle_size(rank: int) -> int:
    """Entries of the lower block triangle of a symmetric matrix.

    Examples
    --------
    >>> triangle_size(65)
    4224
    """
    return sum((rank - first) * BLOCK for first in range(0, rank, BLOCK))


def log_rows_of(rows: int) -> int:
    """Smallest power of two that some rows fit into.

    Examples
    --------
    >>> [log_rows_of(n) for n in (1, 2, 3, 512, 513)]
    [0, 1, 2, 9, 10]
    """
    return max(rows - 1, 0).bit_length()


def total(parts: Sequence[Sums], run: Mapper = map) -> Sums:
    """Add up sums of one round, which stay as they are; the order does not matter."""
    counted = [each for each in parts if each.rows]
    if len(counted) == 1:
        return counted[0]
    out = Sums.zeros(parts[0].shape, parts[0].log_rows)
    out.add(*counted, run=run)
    return out

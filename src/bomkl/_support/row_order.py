"""Whether the rows of a stream come in a random order, or sorted by what is to be predicted."""

from __future__ import annotations

import warnings
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

LOOK_EVERY = 256  # rows, at absolute row counts: the split into calls changes nothing
LAST_BY_STEPS = 4096  # rows; from there on only after twice as many, and so on
FEWEST = 50.0  # changes that a random order must lead one to expect before their absence says anything
SHARE = 0.02  # of the changes to be expected: labels with fewer come in long runs
SLACK = 1.05  # of the range of targets: sorted ones do not move farther than that in all


class RowOrder(NamedTuple):
    """What the rows so far tell about their order.

    Labels come in long runs if they change 50 times more seldom than in a random order, where two rows have different
    labels with probability ``1 - sum(shares**2)``. Numbers are sorted if all steps from row to row together are no
    longer than the range of the numbers: a series that goes up and down is not.

    Examples
    --------
    >>> RowOrder().after_labels(np.repeat([0, 1], 200)).told, RowOrder().after_labels(np.arange(400) % 2).told
    (True, False)
    >>> RowOrder().after_numbers(np.arange(300.0)).told, RowOrder().after_numbers(np.sin(np.arange(300.0))).told
    (True, False)
    """

    rows: int = 0  # rows so far
    changes: float = 0.0  # how often the label changed; of numbers, how far they moved
    counts: tuple[int, ...] = ()  # rows of each label; of numbers none
    last: float = 0.0  # the last label, as its place in the order of coming, or the last number
    lowest: float = 0.0  # range of the numbers
    highest: float = 0.0
    told: bool = False  # whether the warning was given

    def after_labels(self, codes: NDArray[Any]) -> Self:
        """Take in labels, as their places in the order of coming."""
        if len(codes) == 1:
            return self.after_label(int(codes[0]))
        order = self
        for part in self._looks(len(codes)):
            some = codes[part]
            changes = int(np.count_nonzero(some[1:] != some[:-1])) + (order.rows > 0 and order.last != some[0])
            counts = np.bincount(some, minlength=len(order.counts)).tolist()
            order = order._replace(
                rows=order.rows + len(some),
                changes=order.changes + changes,
                counts=tuple(before + new for before, new in zip_longest(order.counts, counts, fillvalue=0)),
                last=float(some[-1]),
            )
            if order._is_look and order._runs:
                order = order._replace(told=True)
            if order.told:
                break
        return order

    def after_label(self, code: int) -> Self:
        """Take in one label: `after_labels` for one row."""
        if self.told:
            return self
        rows, changes, known, last, lowest, highest, told = self
        counts = [*known, *[0] * (code + 1 - len(known))]
        counts[code] += 1
        changes += rows > 0 and last != code
        order = type(self)(rows + 1, changes, tuple(counts), float(code), lowest, highest, told)
        return order._replace(told=True) if order._is_look and order._runs else order

    def after_numbers(self, targets: NDArray[np.float64]) -> Self:
        order = self
        for part in self._looks(len(targets)):
            some = targets[part]
            first = order.last if order.rows else float(some[0])
            # in the order of the rows, from where the last call ended: the split changes no bit
            steps = np.abs(np.diff(np.concatenate([[first], some])))
            order = order._replace(
                rows=order.rows + len(some),
                changes=float(np.cumsum(np.concatenate([[order.changes], steps]))[-1]),
                last=float(some[-1]),
                lowest=min(order.lowest if order.rows else first, float(some.min())),
                highest=max(order.highest if order.rows else first, float(some.max())),
            )
            if order._is_look and order._sorted:
                order = order._replace(told=True)
            if order.told:
                break
        return order

    def _looks(self, n: int) -> list[slice]:
        """Cut rows where the counts of all rows are looked at; none once the warning was given."""
        if self.told:
            return []
        ends, look = [], _next_look(self.rows)
        while look < self.rows + n:
            ends.append(look - self.rows)
            look = _next_look(look)
        return [slice(begin, end) for begin, end in zip([0, *ends], [*ends, n], strict=True)] if n else []

    @property
    def _is_look(self) -> bool:
        return self.rows == _next_look(self.rows - 1)

    @property
    def expected(self) -> float:
        """Changes of the label that a random order leads one to expect."""
        shares = np.array(self.counts) / max(self.rows, 1)
        return float(self.rows * (1 - (shares**2).sum()))

    @property
    def _runs(self) -> bool:
        return self.expected >= FEWEST and self.changes < SHARE * self.expected

    @property
    def _sorted(self) -> bool:
        return 0 < self.changes <= SLACK * (self.highest - self.lowest)

    def message(self) -> str:
        """Say what is wrong, and what to do."""
        if self.counts:
            times = "once" if self.changes == 1 else f"{self.changes:.0f} times"
            found = (
                f"The labels come in long runs: they changed {times} in {self.rows} rows, where a random "
                f"order has about {self.expected:.0f} changes."
            )
        else:
            found = f"The targets of the first {self.rows} rows are sorted."
        return (
            f"{found} A model learns from each row once, so it may be wrong about rows like the first. If this is not "
            "the order of time, shuffle the rows first: fit(X, y) and bomkl train --shuffle do."
        )


def _next_look(rows: int) -> int:
    """Row count of the first look after so many rows."""
    if rows < LAST_BY_STEPS:
        return (rows // LOOK_EVERY + 1) * LOOK_EVERY
    return 1 << rows.bit_length()


def note_order(model: Any, values: NDArray[Any], labels: bool) -> None:
    """Take in what rows of a stream are to teach a model, and warn once if their order is not random."""
    before: RowOrder = vars(model).get("_order", RowOrder())
    after = before.after_labels(values) if labels else before.after_numbers(values)
    model._order = after
    if after.told and not before.told:
        warnings.warn(after.message(), UserWarning, stacklevel=7)

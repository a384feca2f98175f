"""Gaps filled by what the other columns of the row say: a linear prediction from running covariances.

It begins with the first row that has a gap. Sums are taken over the rows since then in groups that end at absolute row
counts, and at the ends of those groups the prediction is renewed, so that the split into calls changes no bit. Nothing
is changed in place, only replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.errors import TableError

Float = NDArray[np.float64]
WIDEST = 128  # columns; of wider tables, gaps have the mean of their column
_GROUP = 256  # rows between renewals, after the first ones
_FIRST_GROUPS = (16, 32, 64, 128)
_TOGETHER = 64  # rows whose gaps are filled in one step; the result does not depend on it
_RIDGE = 0.01  # added to variances of 1
_FARTHEST = 4.0  # deviations from the mean that a filled gap may lie


@dataclass(frozen=True)
class Filling:
    """Sums over the rows since the first gap, and the prediction they make.

    Parameters
    ----------
    rows : int
        Rows since the first gap; 0 before it.
    shift : ndarray of shape (d,)
        The first of them, from which sums are taken.
    total, products : ndarray of shape (d,) and (d, d)
        Sums over the closed groups.
    opened : tuple of ndarray
        Rows of the open group.
    mean, deviation, precision : ndarray of shape (d,), (d,) and (d, d)
        Of the closed groups, the precision in units of deviations.
    """

    rows: int = 0
    shift: Float = field(default_factory=lambda: np.empty(0))
    total: Float = field(default_factory=lambda: np.empty(0))
    products: Float = field(default_factory=lambda: np.empty((0, 0)))
    opened: tuple[Float, ...] = ()
    mean: Float = field(default_factory=lambda: np.empty(0))
    deviation: Float = field(default_factory=lambda: np.empty(0))
    precision: Float = field(default_factory=lambda: np.empty((0, 0)))

    def fill(self, out: Float, gaps: NDArray[np.bool_], learned: NDArray[np.bool_]) -> Filling:
        """Fill gaps in place, row after row, and return what learning from the learned rows makes of this."""
        holes: NDArray[np.bool_] = np.asarray(gaps.any(axis=1))
        begin = 0
        if not self.rows:
            starts = np.flatnonzero(holes & learned)
            if not len(starts):
                return self
            begin = int(starts[0])
        now, learned_rows = self, np.flatnonzero(learned)
        learned_rows = learned_rows[learned_rows >= begin]
        while begin < len(out):
            end, closes = len(out), now._rows_to_close() <= len(learned_rows)
            if closes:
                end = int(learned_rows[now._rows_to_close() - 1]) + 1
            now._fill_rows(out[begin:end], gaps[begin:end], holes[begin:end])
            taken = int(np.searchsorted(learned_rows, end))
            now = now._with(out[learned_rows[:taken]], closes)
            begin, learned_rows = end, learned_rows[taken:]
        return now

    def _rows_to_close(self) -> int:
        """Rows until the open group is full."""
        for end in _FIRST_GROUPS:
            if self.rows < end:
                return end - self.rows
        return _GROUP - self.rows % _GROUP

    def _fill_rows(self, out: Float, gaps: NDArray[np.bool_], holes: NDArray[np.bool_]) -> None:
        """Set holes to their means given the rest of their row, under a normal distribution of this precision."""
        if not len(self.mean):
            return
        rows = np.flatnonzero(holes)
        for begin in range(0, len(rows), _TOGETHER):
            some = rows[begin : begin + _TOGETHER]
            at, column = np.nonzero(gaps[some])
            z = np.where(gaps[some], 0.0, (out[some] - self.mean) / self.deviation)
            found = np.clip(_conditional_means(self.precision, z, at, column), -_FARTHEST, _FARTHEST)
            out[some[at], column] = self.mean[column] + self.deviation[column] * found

    def _with(self, rows: Float, closes: bool) -> Filling:
        """Add rows to the open group, and close it where they fill it."""
        if not len(rows):
            return self
        d = rows.shape[1]
        if not self.rows:
            return Filling(0, rows[0].copy(), np.zeros(d), np.zeros((d, d)))._add(rows, closes)
        return self._add(rows, closes)

    def _add(self, rows: Float, closes: bool) -> Filling:
        d, n = rows.shape[1], self.rows + len(rows)
        opened = (*self.opened, *rows.copy())
        if not closes:
            return replace(self, rows=n, opened=opened)
        group = np.vstack(opened) - self.shift
        total = self.total + np.cumsum(group, axis=0)[-1]
        products = self.products + np.einsum("ij,ik->jk", group, group)
        mean = total / n
        variances = products / n - mean[:, None] * mean
        deviation = np.sqrt(np.maximum(np.diagonal(variances), 0.0))
        deviation = np.where(deviation > 1e-9 * np.abs(mean), deviation, 1.0)
        return replace(
            self,
            rows=n,
            total=total,
            products=products,
            opened=(),
            mean=mean + self.shift,
            deviation=deviation,
            precision=_inverse(variances / (deviation[:, None] * deviation) + (_RIDGE + d / (10.0 * n)) * np.eye(d)),
        )

    def state(self) -> dict[str, Any]:
        """Everything it is, as plain values and arrays."""
        opened = np.array(self.opened).reshape(len(self.opened), len(self.shift))
        names = ("rows", "shift", "total", "products", "mean", "deviation", "precision")
        return {name: getattr(self, name) for name in names} | {"opened": opened}

    @classmethod
    def from_state(cls, state: dict[str, Any], columns: int) -> Self:
        """Go on where `state` was taken."""
        rows = int(state["rows"])
        parts = {
            name: np.array(state[name], dtype=np.float64)
            for name in ("shift", "total", "products", "mean", "deviation", "precision", "opened")
        }
        d = columns if rows else 0
        told = d if len(parts["mean"]) else 0
        shapes = {"shift": (d,), "total": (d,), "products": (d, d), "mean": (told,), "deviation": (told,)}
        shapes |= {"precision": (told, told), "opened": (len(parts["opened"]), d)}
        fit = all(parts[name].shape == shape for name, shape in shapes.items())
        if rows < 0 or not fit or len(parts["opened"]) > _GROUP:
            raise TableError("the sums that gaps are filled by do not fit the columns")
        if not all(np.isfinite(part).all() for part in parts.values()) or (parts["deviation"] <= 0).any():
            raise TableError("the sums that gaps are filled by are out of range")
        return cls(rows=rows, opened=tuple(parts.pop("opened")), **parts)


def _conditional_means(precision: Float, z: Float, row: NDArray[np.intp], column: NDArray[np.intp]) -> Float:
    """Means of the cells at (row, column) given the others of their rows, for a mean of zero and this precision.

    One system of equations a row, solved by elimination for all rows at once. Systems are filled up with rows of the
    identity to the size of the largest, which changes no bit of the others. No BLAS: its bits may depend on the number
    of threads.
    """
    n, counts = len(z), np.bincount(row, minlength=len(z))
    size = int(counts.max(initial=0))
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)  # of a cell among those of its row
    columns = np.zeros((n, size), dtype=np.intp)
    columns[row, place] = column
    there = np.arange(size) < counts[:, None]
    system = np.zeros((n, size, size + 1))
    inner = precision[columns[:, :, None], columns[:, None, :]]
    system[:, :, :size] = np.where(there[:, :, None] & there[:, None, :], inner, np.eye(size))
    system[row, place, size] = -(precision[column] * z[row]).sum(axis=1)
    for k in range(size):
        system[:, k, k + 1 :] /= system[:, k, k, None]
        system[:, k + 1 :, k + 1 :] -= system[:, k + 1 :, k, None] * system[:, k, None, k + 1 :]
    for k in range(size - 1, 0, -1):
        system[:, :k, size] -= system[:, :k, k] * system[:, k, size, None]
    found: Float = system[row, place, size]
    return found


def _inverse(matrix: Float) -> Float:
    """Inverse of a positive definite matrix by Gauss-Jordan steps: the same bits with any number of threads.

    Examples
    --------
    >>> _inverse(np.array([[2.0, 1.0], [1.0, 1.0]]))
    array([[ 1., -1.],
           [-1.,  2.]])
    """
    out = matrix.copy()
    for k in range(len(out)):
        pivot = out[k, k]
        row, column = out[k] / pivot, out[:, k].copy()
        out -= column[:, None] * row
        out[k] = row
        out[:, k] = -column / pivot
        out[k, k] = 1 / pivot
    return out

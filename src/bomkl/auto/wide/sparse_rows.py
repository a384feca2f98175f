"""Very wide rows as their non-zeros: the scale of each column, learned once, and a sketch of few columns."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bomkl._core import sketch_rows
from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import CELLS, SIZES
from bomkl.auto.saved import Saved, State

_FARTHEST = 64.0  # scaled values beyond it tell an outlier, and how far out it is does not matter
_USUAL = 8.0  # a column that comes late has the usual scale if its first value is within this factor of it
_TABLE = 2**22  # columns that are found in a table; one of all columns that rows can have would take 8 GB
_NON_ZEROS = 2**20  # worked on at a time; bounds the memory of long calls and changes no result


def canonical_rows(X: Any, begin: int, end: int) -> sp.csr_matrix:
    """Rows of a matrix or CSR matrix as CSR of finite squares, sorted, without explicit zeros.

    Examples
    --------
    >>> canonical_rows(np.array([[0.0, 2.0], [1.0, 0.0]]), 0, 2).indices
    array([1, 0], dtype=int32)
    """
    rows: sp.csr_matrix
    if hasattr(X, "made_canonical") and (begin, end) == (0, X.shape[0]):  # learners within each other ask again
        rows = X
        return rows
    rows = sp.csr_matrix(X[begin:end], dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    np.clip(rows.data, *CELLS, out=rows.data)
    vars(rows)["made_canonical"] = True  # slices and copies do not have it
    return rows


def rows_at_a_time(X: Any, begin: int) -> int:
    """Rows from `begin` on that hold about a million numbers, at least one."""
    if not isinstance(X, np.ndarray):
        end = int(np.searchsorted(X.indptr, X.indptr[begin] + _NON_ZEROS, side="right")) - 1
        return max(end - begin, 1)
    return max(int(_NON_ZEROS // X.shape[1]), 1)


@dataclass(frozen=True)
class NonZeros:
    """Scaled rows: row t has the entries from ``starts[t]`` to ``starts[t + 1]``."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    places: NDArray[np.int32]  # of the columns among those learned; -1 for others
    values: Float

    def sketch(self, seed: int, width: int) -> Float:
        """Rows of `width` columns with about the same distances (a count sketch)."""
        out = np.empty((len(self.starts) - 1, width))
        sketch_rows(self.starts, self.columns, self.values, seed, out)
        return out


class ColumnScales:
    """The columns that had a value so far, in the order of their coming, and their scales.

    Columns are only ever added, and forks share the arrays. What another has added lies beyond the count of this one.
    """

    def __init__(self, usual: float, columns: NDArray[np.int32], scales: Float) -> None:
        self.usual = usual
        self.columns = columns  # the first `count` are in use, as of the scales
        self.scales = scales
        self.count = len(columns)
        self._places = np.empty(0, dtype=np.int32)  # of columns up to _TABLE, those of others by their number
        self._far_places: dict[int, int] = {}
        self._note(columns, 0)

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        return copy.copy(self)

    @classmethod
    def of(cls, rows: sp.csr_matrix) -> Self:
        """Take the scales from the first rows: deviations of columns that are never zero, root mean squares of others.

        Few values say little about a scale, so it is drawn to the usual one, the geometric mean of all.
        """
        unique, place, count = np.unique(rows.indices, return_inverse=True, return_counts=True)
        if len(unique) == 0:
            return cls(1.0, np.empty(0, dtype=np.int32), np.empty(0))
        largest = np.zeros(len(unique))
        np.maximum.at(largest, place, np.abs(rows.data))
        relative = rows.data / largest[place]  # so that squares neither overflow nor vanish
        mean = np.bincount(place, relative) / count
        square = np.bincount(place, relative**2) / count
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
        varies = (count == rows.shape[0]) & (deviation > 1e-6) & (count > 1)
        logs = np.log(largest) + np.log(np.where(varies, deviation, np.sqrt(square)))
        usual = float(logs.mean())
        logs = (count**2 * logs + usual) / (count**2 + 1)
        return cls(float(SIZES.clip(np.exp(usual))), unique.astype(np.int32), SIZES.clip(np.exp(logs)))

    def scaled(self, rows: sp.csr_matrix, learn: bool) -> NonZeros:
        """Scale rows; with `learn`, columns that were not seen before get a place."""
        if learn:
            self._add(rows)
        places = self._find(rows.indices)
        known = places >= 0
        scales = np.where(known, self.scales[places] if len(self.scales) else 1.0, 1.0)
        if not known.all():
            scales[~known] = self._first_scales(rows.data[~known])
        with np.errstate(over="ignore"):
            values = np.clip(rows.data / scales, -_FARTHEST, _FARTHEST)
        return NonZeros(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), places, values)

    def _add(self, rows: sp.csr_matrix) -> None:
        new = np.flatnonzero(self._find(rows.indices) < 0)
        if len(new) == 0:
            return
        first = new[np.sort(np.unique(rows.indices[new], return_index=True)[1])]
        columns, scales = rows.indices[first].astype(np.int32), self._first_scales(rows.data[first])
        begin, end = self.count, self.count + len(first)
        if end > len(self.columns):
            more = max(end, self.count + self.count // 2) - self.count
            self.columns, self.scales = np.pad(self.columns, (0, more)), np.pad(self.scales, (0, more))
        self.columns[begin:end], self.scales[begin:end] = columns, scales
        self._note(columns, begin)
        self.count = end

    def _note(self, columns: NDArray[np.int32], first: int) -> None:
        """Note that columns have the places from `first` on."""
        places = np.arange(first, first + len(columns), dtype=np.int32)
        near = columns < _TABLE
        highest = int(columns[near].max(initial=-1))
        if highest >= len(self._places):
            more = min(max(highest + 1, 2 * len(self._places)), _TABLE) - len(self._places)
            self._places = np.pad(self._places, (0, more), constant_values=-1)
        self._places[columns[near]] = places[near]
        self._far_places.update(zip(columns[~near].tolist(), places[~near].tolist(), strict=True))

    def _first_scales(self, values: Float) -> Float:
        sizes = np.abs(values)
        usual = (sizes <= _USUAL * self.usual) & (sizes * _USUAL >= self.usual)
        return np.where(usual, self.usual, sizes)

    def _find(self, columns: NDArray[Any]) -> NDArray[np.int32]:
        """Places of columns; the table that finds them is derived from `columns`, and so never part of a state."""
        if self.count == 0:
            return np.full(len(columns), -1, dtype=np.int32)
        places = np.full(len(columns), -1, dtype=np.int32)
        near, far = columns < len(self._places), columns >= _TABLE
        places[near] = self._places[columns[near]]
        places[far] = [self._far_places.get(column, -1) for column in columns[far].tolist()]
        own = (places >= 0) & (places < self.count)
        known = own & (self.columns[np.where(own, places, 0)] == columns)  # others may have given a place away
        return np.where(known, places, np.int32(-1))

    def to_state(self) -> State:
        """Return what was learned, as plain values and arrays."""
        return {"usual": self.usual, "columns": self.columns[: self.count], "scales": self.scales[: self.count]}

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns."""
        usual = saved.number("usual", *SIZES)
        seen = saved.array("columns", (None,), np.int32, 0, columns - 1)
        if len(np.unique(seen)) < len(seen):
            raise saved.wrong("columns", "different columns", len(seen))
        scales = saved.array("scales", (len(seen),), np.float64, *SIZES)
        saved.end()
        return cls(usual, seen, scales)


def rows_to_state(rows: sp.csr_matrix) -> State:
    """Sparse rows as plain arrays."""
    return {"starts": rows.indptr.astype(np.int64), "columns": rows.indices.astype(np.int32), "values": rows.data}


def rows_from_state(saved: Saved, n: int, columns: int) -> sp.csr_matrix:
    """Bring n sparse rows of so many columns back."""
    values = saved.array("values", (None,), np.float64, *CELLS)
    starts = saved.array("starts", (n + 1,), np.int64, 0, len(values))
    if starts[0] != 0 or starts[-1] != len(values) or (np.diff(starts) < 0).any():
        raise saved.wrong("starts", f"from 0 to {len(values)} in order", starts.tolist()[:3])
    where = saved.array("columns", (len(values),), np.int32, 0, columns - 1)
    saved.end()
    return canonical_rows(sp.csr_matrix((values, where, starts), shape=(n, columns)), 0, n)

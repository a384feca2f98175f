"""Rows learned last that have a value where a row has a gap: the latest one, and the most similar one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
RECENT = 32  # rows that are looked at
CLOSE = np.array([0.02, 0.05, 0.1, 0.15, 0.2])  # mean distances of a column that part the degrees of likeness
DEGREES = len(CLOSE) + 1
_FAR = 1e6  # deviations


@dataclass(frozen=True)
class Neighbours:
    """For some cells of a table, rows that have a value there; -1 where none of the recent rows has one."""

    latest: Places  # (n,): the row learned last, and the one most like the row of the cell in its other columns
    alike: Places
    degree: Places  # (n,): how much alike, from 0, the most


def neighbours(
    rows: Float, hidden: Mask, pool: Float, pool_hidden: Mask, before: Places, row: Places, column: Places
) -> Neighbours:
    """Find the neighbours of cells at (row, column) among the rows of a pool.

    Rows differ in a column by the distance of its values, in deviations and at most 1, and altogether by the mean of
    that over the columns that both have, that of the cell left out; rows without such a column differ by 1.

    `rows` (n, n_columns) and `pool` (n_pool, n_columns): one number for each column of the table, in deviations.
    `before` (n,): for each row, how many rows of the pool come before it.
    """
    n_columns = rows.shape[1]
    places = before[:, None] - 1 - np.arange(RECENT)
    inside = np.maximum(places, 0)
    apart = _far(pool, pool_hidden, _FAR)[inside]
    apart -= _far(rows, hidden, -_FAR)[:, None, :]
    np.minimum(np.abs(apart, out=apart), np.float32(1.0), out=apart)  # 1 where one of the two has a gap
    shared = np.einsum("ij,kj->ik", (~hidden).astype(np.float32), (~pool_hidden).astype(np.float32))
    candidate = ~pool_hidden[inside[row], column[:, None]] & (places[row] >= 0)
    both = candidate & ~hidden[row, column][:, None]
    shared = np.take_along_axis(shared, inside, axis=1)
    distances = (apart.sum(axis=2) + shared - (n_columns - 1))[row] - apart[row, :, column] - both
    shared = shared[row] - both
    means = np.where(candidate, np.where(shared > 0, distances / np.maximum(shared, 1.0), 1.0), 2.0)
    cell, found = np.arange(len(row)), candidate.any(axis=1)
    latest, alike = candidate.argmax(axis=1), means.argmin(axis=1)
    return Neighbours(
        np.where(found, places[row, latest], -1),
        np.where(found, places[row, alike], -1),
        np.searchsorted(CLOSE, means[cell, alike]),
    )


def _far(cells: Float, hidden: Mask, place: float) -> NDArray[np.float32]:
    """Put gaps far away, and other cells no farther than half of that."""
    far: NDArray[np.float32] = np.where(hidden, place, np.clip(cells, -_FAR / 2, _FAR / 2)).astype(np.float32)
    return far

"""What some columns of a row say about the others, under a normal distribution with a known precision.

No BLAS: its bits may depend on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
_TOGETHER = 32  # rows whose systems are solved in one step; the result does not depend on it


def conditional_means(precision: Float, z: Float, row: NDArray[np.intp], column: NDArray[np.intp]) -> Float:
    """Means of the cells at (row, column) given the others of their rows, for a mean of zero and this precision.

    One system of equations a row, solved by elimination for rows of about the same size at once. Systems are filled
    up with rows of the identity to the size of the largest, which changes no bit of the others.
    """
    n, counts = len(z), np.bincount(row, minlength=len(z))
    size = int(counts.max(initial=0))
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)  # of a cell among those of its row
    columns, right = np.zeros((n, size), dtype=np.intp), np.zeros((n, size))
    columns[row, place] = column
    right[row, place] = -(precision[column] * z[row]).sum(axis=1)
    found = np.zeros((n, size))
    order = np.argsort(counts, kind="stable")
    for begin in range(0, n, _TOGETHER):
        some = order[begin : begin + _TOGETHER]
        size = int(counts[some[-1]])
        some_columns, used = columns[some, :size], np.arange(size) < counts[some, None]
        inner = precision[some_columns[:, :, None], some_columns[:, None, :]]
        inner = np.where(used[:, :, None] & used[:, None, :], inner, np.eye(size))
        found[some, :size] = _solved(np.dstack([inner, right[some, :size]]))
    means: Float = found[row, place]
    return means


def _solved(system: Float) -> Float:
    """Solve systems of equations of shape (n, size, size + 1), whose matrices are positive definite, in place."""
    size = system.shape[1]
    for k in range(size):
        system[:, k, k + 1 :] /= system[:, k, k, None]
        system[:, k + 1 :, k + 1 :] -= system[:, k + 1 :, k, None] * system[:, k, None, k + 1 :]
    for k in range(size - 1, 0, -1):
        system[:, :k, size] -= system[:, :k, k] * system[:, k, size, None]
    return system[:, :, size]


def residuals(precision: Float, z: Float, owner: NDArray[np.intp]) -> Float:
    """Deviations of each cell from its mean given the cells of other owners in its row.

    Columns of one owner are hidden together, as the parts of one cell of a table are: for those columns B, the
    deviations are ``inv(P[B, B]) @ (P @ z)[B]``.
    """
    out: Float = np.einsum("ij,jk->ik", z, precision)
    for each, size in zip(*np.unique(owner, return_counts=True), strict=True):
        own = np.flatnonzero(owner == each)
        if size == 1 or each < 0:
            out[:, own] /= np.diagonal(precision)[own]
        else:
            out[:, own] = np.einsum("ij,jk->ik", out[:, own], inverse(precision[np.ix_(own, own)]))
    return out


def inverse(matrix: Float) -> Float:
    """Inverse of a positive definite matrix by Gauss-Jordan steps: the same bits with any number of threads.

    Examples
    --------
    >>> inverse(np.array([[2.0, 1.0], [1.0, 1.0]]))
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

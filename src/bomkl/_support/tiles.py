"""Matrices in tiles of 64 columns, as products in the core take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._core import BLOCK

Single = NDArray[np.float32]
_LINE = 16  # numbers of single precision in a cache line


def packed(matrix: NDArray[Any]) -> Single:
    """Pack the columns of a matrix in tiles of 64, as products in the core take them."""
    rows, columns = matrix.shape
    tiles = -(-columns // BLOCK)
    padded = np.zeros((rows, tiles * BLOCK), dtype=np.float32)
    padded[:, :columns] = matrix
    return on_cache_lines(padded.reshape(rows, tiles, BLOCK).transpose(1, 0, 2))


def on_cache_lines(array: Single) -> Single:
    """Copy an array to where a cache line begins: a vector that lies on two takes twice as long to load.

    Examples
    --------
    >>> on_cache_lines(np.ones((2, 3), dtype=np.float32)).ctypes.data % 64
    0
    """
    room = np.empty(array.size + _LINE, dtype=np.float32)
    first = -room.ctypes.data % (4 * _LINE) // 4
    out = room[first : first + array.size].reshape(array.shape)
    out[...] = array
    return out


def unpacked(tiles: Single) -> Single:
    """Undo `packed`, but for the zeros that fill the last tile."""
    return tiles.transpose(1, 0, 2).reshape(tiles.shape[1], -1)

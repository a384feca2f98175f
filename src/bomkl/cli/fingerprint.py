"""A fingerprint of the rows a run has learned from, so that it is not resumed on others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from bomkl.streams import Block


class Fingerprint:
    """Checksums of the columns, labels and weights of rows; how the rows are split into blocks changes nothing.

    Parameters
    ----------
    sums : mapping or None, default=None
        What `to_dict` gave; None: of no rows.
    """

    def __init__(self, sums: Mapping[str, int] | None = None) -> None:
        self._sums = dict(sums or {})

    def add(self, block: Block) -> None:
        """Take in some more rows.

        Parameters
        ----------
        block : Block
            The rows.
        """
        for name, values in _series(block):
            self._sums[name] = crc32(_bytes(values), self._sums.get(name, 0))

    def to_dict(self) -> dict[str, int]:
        """Plain values, for a model file."""
        return dict(self._sums)


def _series(block: Block) -> Iterator[tuple[str, Any]]:
    X: Any = block.X
    if isinstance(X, dict):
        yield from ((f"column {name}", cells) for name, cells in X.items())
    elif bool(sparse.issparse(X)):
        yield from (("data", X.data), ("indices", X.indices.astype(np.int64)), ("lengths", np.diff(X.indptr)))
    else:
        yield "X", X
    if block.y is not None:
        yield "y", block.y
    if block.weight is not None:
        yield "weight", block.weight


def _bytes(values: Any) -> bytes:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64).tobytes()
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return values.astype("datetime64[us]").tobytes()
    return "".join(f"{value}\0" for value in (values if isinstance(values, list) else values.tolist())).encode(
        "utf-8", "surrogatepass"
    )

"""Checksums of columns, which tell whether a run that is resumed meets the same rows."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np


def checksum(values: Any, before: int = 0) -> int:
    """Checksum of numbers, dates or other cells, an array or a list, continuing the one of those before.

    Examples
    --------
    >>> checksum([1.5, "a"]) == checksum(["a"], checksum([1.5]))
    True
    """
    return crc32(_bytes(values), before)


def _bytes(values: Any) -> bytes:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64).tobytes()
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return values.astype("datetime64[us]").tobytes()
    return "".join(f"{value}\0" for value in (values if isinstance(values, list) else values.tolist())).encode(
        "utf-8", "surrogatepass"
    )

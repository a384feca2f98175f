"""Labels of different number types, brought to one in which all can be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_EXACT = 2**53  # beyond it, floating-point numbers leave whole numbers out


def alike(parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Arrays of numbers as arrays of one type; others as they are.

    NumPy would turn signed and unsigned integers into floating-point numbers, in which large labels merge.

    Examples
    --------
    >>> alike([np.array([2**53 + 1], dtype=np.int64), np.array([2**53], dtype=np.uint64)])
    [array([9007199254740993]), array([9007199254740992])]
    """
    used = [part for part in parts if part.size]
    if not used or any(part.dtype.kind not in "iuf" for part in used) or len({part.dtype for part in used}) == 1:
        return parts
    whole = [part for part in used if part.dtype.kind in "iu"]
    low = min((int(part.min()) for part in whole), default=0)
    high = max((int(part.max()) for part in whole), default=0)
    kind = np.result_type(*used)
    if kind.kind == "f" and whole:
        if len(whole) < len(used) and max(-low, high) > _EXACT:
            large = high if high > _EXACT else low
            raise ValueError(
                f"y must hold labels of one type. Got both the whole number {large} and floating-point numbers, which "
                "cannot tell it from its neighbours. Convert them first."
            )
        if len(whole) == len(used):
            if low < 0 and high >= 2**63:
                raise ValueError(f"y must hold labels that one type of integers can hold. Got both {low} and {high}.")
            kind = np.dtype(np.int64 if high < 2**63 else np.uint64)
    return [part.astype(kind) for part in parts]

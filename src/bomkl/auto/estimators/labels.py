"""Labels: of one type in which all can be told apart, as numbers in the order of their coming, and new ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EXACT = 2**53  # beyond it, floating-point numbers leave whole numbers out
_FEW_LABELS = 32


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
                raise ValueError(
                    f"y must hold labels that one type of integers can hold. Got both {low} and {high}. Convert them "
                    "to strings."
                )
            kind = np.dtype(np.int64 if high < 2**63 else np.uint64)
    return [part.astype(kind) for part in parts]


def in_order(y: NDArray[Any]) -> NDArray[Any]:
    """Labels in the order of their coming.

    Examples
    --------
    >>> in_order(np.array([3, 1, 3, 2])).tolist()
    [3, 1, 2]
    """
    seen = np.unique(y)
    if len(seen) > _FEW_LABELS:
        seen, places = np.unique(y, return_index=True)
    else:  # without sorting the numbers of all rows
        places = np.array([int((y == label).argmax()) for label in seen], dtype=np.intp)
    return np.asarray(seen[np.argsort(places)])


def label_codes(y: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Place of each label in the order of their coming; -1 where it is in none (a row of weight zero)."""
    if len(labels) > _FEW_LABELS:
        order = np.argsort(labels, kind="stable")
        places = np.minimum(np.searchsorted(labels, y, sorter=order), len(labels) - 1)
        found = order[places]
        return np.where(labels[found] == y, found, -1)
    codes: NDArray[Any] = np.full(len(y), -1, dtype=np.int8)
    for code, label in enumerate(labels):
        codes = codes + (y == label).astype(codes.dtype) * codes.dtype.type(code + 1)
    return codes.astype(np.intp)


def are_plain(y: NDArray[Any], known: NDArray[Any]) -> bool:
    """Tell whether labels are of a type that can be compared with the known ones as they are.

    Examples
    --------
    >>> are_plain(np.array([1], dtype=np.int8), np.array([0, 1])), are_plain(np.array([True]), np.array([0, 1]))
    (True, False)
    """
    kinds = y.dtype.kind + known.dtype.kind
    return (kinds in ("bb", "ff") or set(kinds) <= set("iu")) and np.can_cast(y.dtype, known.dtype)


def pieces(
    codes: NDArray[np.intp], counted: NDArray[np.bool_], known: int, gap: int | None = None
) -> Iterator[tuple[int, int, str]]:
    """Cut rows where a third or later label comes for the first time and where rows of weight zero begin or end.

    `gap`: another row to cut at.
    """
    if len(codes) == 0:
        return
    kinds = (~counted).astype(np.int8)
    places = np.flatnonzero(counted)
    new, first = np.unique(codes[places], return_index=True)
    kinds[places[first[new >= known]]] = 2
    cuts = np.flatnonzero(kinds[1:] != kinds[:-1]) + 1
    cuts = np.unique([0, *cuts, *([] if gap is None else [gap]), len(codes)])
    for begin, end in pairwise(cuts.tolist()):
        if kinds[begin] == 2:
            yield from ((row, row + 1, "new") for row in range(begin, end))
        elif begin < end:
            yield begin, end, ("learn", "skip")[kinds[begin]]

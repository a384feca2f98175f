"""The parameter ``memory``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bomkl._support.validation import parameter_error
from bomkl.auto.task import MEMORY

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_LEAST = 10**6


def memory_bytes(owner: str, memory: Any) -> int:
    """Return a limit in bytes.

    Examples
    --------
    >>> memory_bytes("AutoMKLClassifier", "64 MB")
    64000000
    >>> memory_bytes("AutoMKLClassifier", "much")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: The 'memory' parameter of AutoMKLClassifier must be None, a number of bytes, ... Got 'much' instead.
    """
    if memory is None:
        return MEMORY
    found: float | None = None
    if isinstance(memory, int | np.integer) and not isinstance(memory, bool):
        found = int(memory)
    elif isinstance(memory, str) and (text := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", memory)):
        found = float(text[1]) * _UNITS[text[2].upper()] if text[2].upper() in _UNITS else None
    if found is None or not _LEAST <= found < 2**62:
        rule = "None, a number of bytes, or a string such as '256 MB' (at least 1 MB)"
        raise parameter_error(owner, "memory", rule, memory)
    return int(found)

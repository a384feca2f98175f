"""Reading saved state: every value is checked as it is taken, so that no file can bring a learner out of shape."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bomkl.auto.limits import FLOATS

State = dict[str, Any]


class Saved:
    """One part of a saved state.

    Examples
    --------
    >>> Saved({"open": 2147483647}, "newton").integer("open", 0, 63)
    Traceback (most recent call last):
    ...
    ValueError: 'open' of the saved newton must be an int from 0 to 63. Got 2147483647 instead.
    >>> Saved({"share": -0.5}, "model").number("share", 0.0, 1.0)
    Traceback (most recent call last):
    ...
    ValueError: 'share' of the saved model must be a finite number from 0.0 to 1.0. Got -0.5 instead.
    """

    def __init__(self, state: Any, owner: str) -> None:
        if not isinstance(state, dict):
            raise ValueError(f"The saved {owner} must be a dict. Got a {type(state).__name__} instead.")
        self.owner = owner
        self._left = dict(state)

    def _take(self, name: str) -> Any:
        if name not in self._left:
            raise ValueError(f"The saved {self.owner} has no {name!r}.")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """Tell whether there is such a value, which an earlier version may not have saved."""
        return name in self._left

    def wrong(self, name: str, rule: str, value: object) -> ValueError:
        """Make the error of a value that breaks a rule."""
        return ValueError(f"{name!r} of the saved {self.owner} must be {rule}. Got {value!r} instead.")

    def integer(self, name: str, low: int = 0, high: int = 2**63 - 1) -> int:
        """Take a whole number within limits."""
        value = self._take(name)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(name, f"an int from {low} to {high}", value)
        return value

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Take a finite number within limits."""
        value = self._take(name)
        if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
            raise self.wrong(name, f"a finite number from {low} to {high}", value)
        return float(value)

    def flag(self, name: str, missing: bool | None = None) -> bool:
        """Take True or False; `missing` where an earlier version did not save it."""
        if missing is not None and name not in self._left:
            return missing
        value = self._take(name)
        if type(value) is not bool:
            raise self.wrong(name, "True or False", value)
        return value

    def text(self, name: str, choices: Iterable[str] | None = None) -> str:
        """Take a string, where choices are given one of them."""
        value = self._take(name)
        known = None if choices is None else sorted(choices)
        if type(value) is not str or (known is not None and value not in known):
            raise self.wrong(name, "a string" if known is None else f"one of {known}", value)
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """Take a list of different strings."""
        value = self._take(name)
        if type(value) is not list or len(value) > most or not all(type(each) is str for each in value):
            raise self.wrong(name, f"a list of at most {most} strings", value)
        if len(set(value)) < len(value):
            raise self.wrong(name, "a list of different strings", value)
        return list(value)

    def array(
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtype: DTypeLike = np.float64,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> NDArray[Any]:
        """Take a copy of a finite array of some shape (None: any length) with values within limits."""
        value = self._take(name)
        if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype):
            raise self.wrong(name, f"an array of {np.dtype(dtype)}", getattr(value, "dtype", type(value)))
        if value.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, value.shape, strict=True)):
            raise self.wrong(name, f"an array of shape {shape}", value.shape)
        if value.size:
            least, most = value.min().item(), value.max().item()  # NaN where there is one
            if not (max(low, FLOATS.low) <= least and most <= min(high, FLOATS.high)):
                raise self.wrong(name, f"finite numbers from {low} to {high}", (least, most))
        return np.array(value, order="C")

    def integers(self, name: str, most: int, low: int) -> list[int]:
        """Take a list of whole numbers."""
        value = self._take(name)
        if type(value) is not list or len(value) > most or not all(type(n) is int and low <= n < 2**31 for n in value):
            raise self.wrong(name, f"a list of at most {most} ints from {low} on", value)
        return list(value)

    def unread(self, name: str) -> Any:
        """Take a value of any kind, which the caller has to check."""
        return self._take(name)

    def part(self, name: str) -> Saved:
        """Take a part that has a state of its own."""
        return Saved(self._take(name), name)

    def optional_part(self, name: str) -> Saved | None:
        """Take a part, or None."""
        value = self._take(name)
        return None if value is None else Saved(value, name)

    def parts(self, name: str, most: int) -> list[Saved]:
        """Take a list of parts."""
        value = self._take(name)
        if type(value) is not list or len(value) > most:
            raise self.wrong(name, f"a list of at most {most} parts", value if type(value) is not list else len(value))
        return [Saved(each, f"{name}[{i}]") for i, each in enumerate(value)]

    def load(self, core: Any) -> None:
        """Let a part of the core, which describes its own state, take all values and refuse what does not fit."""
        core.restore(self._left, self.owner)
        self._left = {}

    def end(self) -> None:
        """Refuse what nobody took."""
        if self._left:
            raise ValueError(f"The saved {self.owner} holds what this version does not know: {sorted(self._left)}.")

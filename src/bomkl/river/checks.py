"""What a row and its label may hold; both are looked at before anything is learned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bomkl.tables.numbers import is_gap


def number(name: Any, value: Any, may_miss: bool) -> float:
    """Read the number of a feature; NaN for a missing value where there may be one."""
    if may_miss and is_gap(value):
        return math.nan
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"The feature {name!r} must be a number, as all features of the first row. Got {value!r} instead. A model "
            "takes strings if the first row has one."
        ) from error
    if not math.isfinite(found):
        raise ValueError(f"The feature {name!r} must be a finite number. Got {value!r} instead.")
    return found


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number, rather than a string that an encoder may read as one."""
    try:
        return not isinstance(value, str) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def check_numbers(x: Mapping[Any, Any], may_miss: bool) -> None:
    """Refuse a row before anything is learned from it, its names included."""
    for name, value in x.items():
        number(name, value, may_miss)


def check_frame(X: Any, may_miss: bool) -> None:
    """Refuse rows before anything is learned from them."""
    for name in X.columns:
        for value in X[name]:
            number(name, value, may_miss)


def check_label(label: Any) -> None:
    """Refuse what could never be told from other labels, or be a key of the probabilities."""
    try:
        hash(label)
    except TypeError:
        rule = "hashable, such as a string, a number or a bool"
        raise ValueError(f"The label y must be {rule}. Got {label!r} instead.") from None
    try:
        is_missing = label is None or bool(label != label)
    except TypeError:  # pandas.NA
        is_missing = True
    if is_missing:
        raise ValueError(f"The label y must be known. Got {label!r} instead; leave rows without a label out.")


def number_to_predict(value: Any) -> float:
    """Read the number that is to be predicted."""
    found = _float(value)
    if not math.isfinite(found):
        raise ValueError(f"The target y must be a finite number. Got {value!r} instead; leave such rows out.")
    return found


def weights_of(w: Any, n_rows: int) -> list[float] | None:
    """Read one weight for all rows, or one for each; None for a weight of one."""
    if isinstance(w, float | int) and w == 1:
        return None
    given = [w] * n_rows if np.ndim(w) == 0 else list(w)
    if len(given) != n_rows:
        raise ValueError(f"The weights w must be one for each row. Got {len(given)} for {n_rows} rows instead.")
    return [_weight(each) for each in given]


def _float(value: Any) -> float:
    """Read a number; NaN for what is none, and for strings that look like one."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _weight(value: Any) -> float:
    found = _float(value)
    if not 0 <= found < math.inf:
        raise ValueError(f"The weight w must be a finite number from 0. Got {value!r} instead.")
    return found

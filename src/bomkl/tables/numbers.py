"""Which cells are missing, and the numbers of others and of their texts."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_CODE = re.compile(r"\s*[+-]?0[0-9]+\s*")  # such as a postcode, which a number would change
_INFINITE = re.compile(r"\s*[+-]?inf(inity)?\s*", re.IGNORECASE)
_GAPS = frozenset({"", "?", "NA", "N/A", "null", "NULL", "None"})
_NAN = re.compile(r"\s*[+-]?nan\s*", re.IGNORECASE)


def is_gap(cell: Any) -> bool:
    """Tell whether a cell is missing: None, NaN, NaT, pandas.NA, an empty string or "NA", "?" and the like.

    Examples
    --------
    >>> is_gap("NA"), is_gap(None), is_gap(float("nan")), is_gap("0")
    (True, True, True, False)
    """
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell in _GAPS or cell.strip() in _GAPS or (len(cell) < 9 and _NAN.fullmatch(cell) is not None)
    try:
        return bool(cell != cell)
    except ArithmeticError:  # Decimal("sNaN")
        return True
    except (TypeError, ValueError):  # pandas.NA; arrays, which `kind_of` refuses
        return type(cell).__name__ == "NAType"


def number(cell: Any) -> float:
    """Turn a cell into a number, a gap into NaN; raises ValueError where it is none."""
    if isinstance(cell, float | int | np.floating):
        return float(cell)
    if is_gap(cell):
        return math.nan
    if isinstance(cell, str) and "_" not in cell:  # Python's own spelling of large numbers, nobody else's
        found = float(cell.replace(",", "") if _THOUSANDS.fullmatch(cell.strip()) else cell)
        if math.isinf(found) and not _INFINITE.fullmatch(cell):  # an identifier, such as 12e4567
            raise ValueError(cell)
        return found
    if isinstance(cell, dt.timedelta):
        return cell.total_seconds()
    if isinstance(cell, np.timedelta64):  # before integers: NumPy's are a kind of those
        return float(cell / np.timedelta64(1, "s"))
    if isinstance(cell, np.integer | np.bool_ | Decimal | Fraction):
        return float(cell)
    raise ValueError(cell)


def number_of_text(text: str) -> float | None:
    """Read the number that a text is; None for other texts, and for codes, which only look like numbers.

    Examples
    --------
    >>> [number_of_text(text) for text in ("1,234.5", " -3e2 ", "007", "A7")]
    [1234.5, -300.0, None, None]
    """
    if have_code([text]):
        return None
    try:
        found = number(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def have_code(cells: Iterable[Any]) -> bool:
    """Tell whether a cell is a code, which looks like a number but begins with a zero.

    Examples
    --------
    >>> have_code(["12", "0.5", 7]), have_code(["12", "0150"])
    (False, True)
    """
    return any(type(cell) is str and _CODE.fullmatch(cell) for cell in cells)


def plain_numbers(cells: Any) -> NDArray[np.float64] | None:
    """Numbers of many cells at once, or None if some of them need a closer look."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "O":
        cells = cells.tolist()
    if isinstance(cells, list):
        types = set(map(type, cells))
        if not (types <= {float, int, type(None)} or (types == {str} and "_" not in "".join(cells))):
            return None
    try:
        return np.array(cells, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None

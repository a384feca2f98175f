"""What one cell can be: a missing value, a number, a boolean, a moment or the name of a category."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from bomkl._support.limits import LONGEST_TEXT
from bomkl.tables.errors import TableError

Kind = Literal["number", "boolean", "category", "date"]
KINDS: tuple[Kind, ...] = ("number", "boolean", "category", "date")

_DATE = re.compile(r"\d{4}-?\d\d-?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)?)?")
_PLAIN_DAY = re.compile(r"\d{8}")  # as likely a number as a day
_TRUTH = {"true": 1.0, "false": 0.0}
_LONGEST = 100  # characters of the name of a category
_DIGEST = 16  # characters that stand for the rest of a longer one
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECONDS = 86_400e6  # of a day


def is_gap(cell: Any) -> bool:
    """Tell whether a cell is missing: None, NaN, NaT, pandas.NA or an empty string."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return not cell or cell.isspace()
    try:
        return bool(cell != cell)
    except ArithmeticError:  # Decimal("sNaN")
        return True
    except (TypeError, ValueError):  # pandas.NA; arrays, which `kind_of` refuses
        return type(cell).__name__ == "NAType"


def kind_of(cell: Any) -> Kind | None:
    """Tell what a cell looks like; None for what no column can hold.

    Parameters
    ----------
    cell : object
        A cell that is not a missing value.

    Examples
    --------
    >>> [kind_of(cell) for cell in (1.5, True, "red", "2024-02-29T12:00Z", "1.5")]
    ['number', 'boolean', 'category', 'date', 'category']
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in _TRUTH:
            return "boolean"
        return "date" if _moment_of_text(text) is not None else "category"
    if isinstance(cell, bool | np.bool_):
        return "boolean"
    if isinstance(cell, int | float | np.integer | np.floating | Decimal | Fraction | dt.timedelta | np.timedelta64):
        return "number"
    if isinstance(cell, dt.date | np.datetime64) or _is_period(cell):
        return "date"
    return None


def number(cell: Any) -> float:
    """Turn a cell into a number, a gap into NaN; raises ValueError where it is none."""
    if isinstance(cell, float | int | np.floating):
        return float(cell)
    if is_gap(cell):
        return math.nan
    if isinstance(cell, str):
        value = _number_of_text(cell)
        if value is None:
            raise ValueError(cell)
        return value
    if isinstance(cell, dt.timedelta):
        return cell.total_seconds()
    if isinstance(cell, np.timedelta64):  # before integers: NumPy's are a kind of those
        return float(cell / np.timedelta64(1, "s"))
    if isinstance(cell, np.integer | np.bool_ | Decimal | Fraction):
        return float(cell)
    raise ValueError(cell)


def truth(cell: Any) -> float:
    """Turn a cell into 0 or 1, a gap into NaN; a number stays what it is, and other texts raise ValueError."""
    if isinstance(cell, str) and cell.strip().lower() in _TRUTH:
        return _TRUTH[cell.strip().lower()]
    return number(cell)


def days(cell: Any) -> float:
    """Turn a cell into days since 1970 (UTC), a gap into NaN; raises ValueError where it is no date."""
    if is_gap(cell):
        return math.nan
    if isinstance(cell, str):
        moment = _moment_of_text(cell.strip())
        if moment is None:
            raise ValueError(cell)
        return moment
    if isinstance(cell, np.datetime64):
        return float(days_of_microseconds(cell.astype("datetime64[us]").astype(np.int64)))
    if _is_period(cell):
        cell = cell.to_timestamp()
    if isinstance(cell, dt.date):
        return _days_of(cell if isinstance(cell, dt.datetime) else dt.datetime(cell.year, cell.month, cell.day))
    raise ValueError(cell)


def text(cell: Any) -> str | None:
    """Turn a cell into a text, a gap into None; raises ValueError where it has none.

    Examples
    --------
    >>> text(" red "), text(12.0), text(float("nan"))
    ('red', '12', None)
    """
    if is_gap(cell):
        return None
    if isinstance(cell, str):
        found = cell.strip()
    elif isinstance(cell, float | np.floating) and float(cell).is_integer():
        found = str(int(cell))
    elif kind_of(cell) is None:
        raise ValueError(cell)
    else:
        found = str(cell)
    return found if len(found) <= LONGEST_TEXT else f"{found[:LONGEST_TEXT]}...{_digest(found)}"


def category(text: str) -> str:
    """Give the name of the category that a text is: the text itself, or its beginning and what stands for the rest.

    Examples
    --------
    >>> category("red"), len(category("very " * 50))
    ('red', 99)
    """
    if len(text) <= _LONGEST:
        return text
    digest = _digest(text) if len(text) <= LONGEST_TEXT else text[-_DIGEST:]  # where `text` has left out the rest
    return f"{text[: _LONGEST - 20]}...{digest}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()


def _is_period(cell: Any) -> bool:
    """Tell whether a cell is a pandas.Period, which counts as the moment it begins."""
    return type(cell).__name__ == "Period"


def _number_of_text(text: str) -> float | None:
    if "_" in text:  # Python's own spelling of large numbers, nobody else's
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value


@lru_cache(maxsize=4096)
def _moment_of_text(text: str) -> float | None:
    if not _DATE.fullmatch(text) or _PLAIN_DAY.fullmatch(text):
        return None
    try:
        return _days_of(dt.datetime.fromisoformat(text.replace(" Z", "Z")))
    except ValueError:
        return None


def _days_of(moment: dt.datetime) -> float:
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return float(days_of_microseconds((moment - _EPOCH) // dt.timedelta(microseconds=1)))


def days_of_microseconds(count: Any) -> Any:
    """Turn microseconds since 1970, a number or an array, into days: the same bits for both."""
    return np.asarray(count, dtype=np.float64)[()] / _MICROSECONDS


def check_kinds(types: Any) -> dict[Any, Kind]:
    """Refuse declared types that are not known."""
    if types is None:
        return {}
    if not isinstance(types, dict):
        raise TableError(f"The 'types' must be a dict from columns to one of {list(KINDS)}. Got {types!r} instead.")
    for name, kind in types.items():
        if kind not in KINDS:
            raise TableError(f"The type of the column {name!r} must be one of {list(KINDS)}. Got {kind!r} instead.")
    return dict(types)

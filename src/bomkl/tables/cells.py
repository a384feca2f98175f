"""What a cell can be, and a column of them: missing values, numbers, booleans, dates or categories."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import LARGEST, LONGEST_TEXT
from bomkl.tables.errors import TableError, cell_error
from bomkl.tables.notices import Notices
from bomkl.tables.numbers import have_code, is_gap, number, number_of_text, plain_numbers

Kind = Literal["number", "boolean", "category", "date"]
KINDS: tuple[Kind, ...] = ("number", "boolean", "category", "date")
Known = tuple[Container[str], Container[str]]

_DATE = re.compile(r"\d{4}-?\d\d-?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)?)?")
_PLAIN_DAY = re.compile(r"\d{8}")  # as likely a number as a day
_TRUTH = {"true": 1.0, "false": 0.0}
_NUMBERS = ("number", "boolean")
_MOST_OTHERS = 0.1  # share of the values of a column of numbers that may be texts, of one of whole numbers fractions
_LONGEST = 100  # characters of the name of a category
_DIGEST = 16  # characters that stand for the rest of a longer one
_CATEGORIES = np.dtype(object, metadata={"kind": "category"})
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECONDS = 86_400e6  # of a day
_RULE = "hold numbers, strings, booleans or dates"


def kind_of(cell: Any) -> Kind | None:
    """Tell what a cell looks like; None for what no column can hold.

    `cell`: a cell that is not a missing value.

    Examples
    --------
    >>> [kind_of(cell) for cell in (1.5, True, "red", "2024-02-29T12:00Z", "1.5", "0150")]
    ['number', 'boolean', 'category', 'date', 'number', 'category']
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in _TRUTH:
            return "boolean"
        if number_of_text(text) is not None:
            return "number"
        return "date" if _moment_of_text(text) is not None else "category"
    if isinstance(cell, bool | np.bool_):
        return "boolean"
    if isinstance(cell, int | float | np.integer | np.floating | Decimal | Fraction | dt.timedelta | np.timedelta64):
        return "number"
    if isinstance(cell, dt.date | np.datetime64) or _is_period(cell):
        return "date"
    return None


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


def text_or_number(cell: Any) -> Any:
    """Give the number that a cell or its text is, else its text; None for a gap.

    Any writing of a number gives the same, so that it is one category where a column turns out to hold texts.

    Examples
    --------
    >>> [text_or_number(cell) for cell in ("12.50", 3, "A7 ", "?", True)]
    [12.5, 3.0, 'A7', None, True]
    """
    if is_gap(cell):
        return None
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    found = number_of_text(cell) if isinstance(cell, str) else number(cell) if kind_of(cell) == "number" else None
    return text(cell) if found is None else max(-LARGEST, min(LARGEST, found))


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


def categories(texts: Sequence[str | None]) -> NDArray[Any]:
    """Give texts of a column that is categorical, as a file says, whatever they look like.

    Examples
    --------
    >>> are_categories(categories(["1", None])[:1]), are_categories(np.array(["1", None]))
    (True, False)
    """
    found = np.empty(len(texts), dtype=_CATEGORIES)
    found[:] = texts
    return found


def are_categories(cells: Any) -> bool:
    """Tell whether cells come from `categories`."""
    return isinstance(cells, np.ndarray) and cells.dtype.metadata == _CATEGORIES.metadata


def taken(cells: Any, rows: Any) -> Any:
    """Take some cells of an array or a list, by a slice, a mask or their numbers."""
    if isinstance(cells, np.ndarray) or isinstance(rows, slice):
        return cells[rows]
    return [cells[row] for row in np.arange(len(cells))[rows].tolist()]


@dataclass(frozen=True)
class Cells:
    """The cells of one column."""

    # Numbers, booleans as 0 and 1 or days since 1970, missing values as NaN; where the table does not say what a column
    # holds, or says that it holds strings or categories, the cells as they are
    values: Any
    kind: Kind | None = None  # "number", "boolean", "date", "category": what the table says; None where it does not
    first_row: int = 0  # number of their first row in the table, for messages

    def __getitem__(self, rows: Any) -> Cells:
        return Cells(taken(self.values, rows), self.kind)

    def after(self, begin: int) -> Cells:
        return Cells(self.values[begin:], self.kind, self.first_row + begin) if begin else self

    def after_gaps(self, count: int) -> Cells:
        """Put missing cells before them, of a column that is parsed."""
        if self.kind == "category":
            return Cells([None] * count + self.values, self.kind)
        return Cells(np.concatenate([np.full(count, np.nan), self.values]), self.kind)

    def count(self) -> int:
        return sum(not is_gap(cell) for cell in self.values)

    def first_value(self, rows: Any = None) -> int | None:
        """Find the first cell with a value, of all or of some rows; None where all are missing."""
        rows = range(len(self.values)) if rows is None else rows
        return next((int(row) for row in rows if not is_gap(self.values[row])), None)

    def kind_of(self, name: Any, row: int) -> Kind:
        """Tell what a column holds from its first value, in this row: so all ways to cut rows into calls agree."""
        kind = self.kind or kind_of(self.values[row])
        if kind is None:
            raise cell_error(name, _RULE, self.first_row + row, self.values[row])
        return kind

    def objects(self) -> list[Any]:
        """List the cells as Python values, for a column that is declared to be something else."""
        if self.kind == "date":
            moments = (self.values * _MICROSECONDS).round()
            gaps = np.isnan(moments)
            stamps = np.where(gaps, 0.0, moments).astype(np.int64).astype("datetime64[us]")
            return [None if gap else str(stamp) for gap, stamp in zip(gaps, stamps, strict=True)]
        if self.kind == "boolean":
            return [None if value != value else bool(value) for value in self.values.tolist()]
        return list(self.values.tolist() if isinstance(self.values, np.ndarray) else self.values)

    def parsed(
        self, name: Any, kind: Kind, notices: Notices, known: Known = ((), ()), read: Callable[[Any], Any] | None = None
    ) -> Cells:
        """Give the cells as what their column holds: numbers, booleans and days as floats, categories as whole strings.

        A value of another kind counts as missing, and is noted. What no column can hold, and infinity, is an error.

        `notices`: takes what does not fit. `known`: categories that need no second look. `read`: what comes before
        a cell is taken as a category.
        """
        if kind == "category":
            return Cells(self._texts(name, known, read), kind, self.first_row)
        return Cells(self._numbers(name, kind, notices), kind, self.first_row)

    def either(self) -> Cells:
        """Give cells that were parsed once, of a column that may still turn out to hold numbers or categories."""
        if self.kind in _NUMBERS:
            return Cells(np.clip(self.values, -LARGEST, LARGEST), self.kind)
        return Cells([text_or_number(cell) for cell in self.objects()])

    def hold_numbers(self) -> bool:
        """Tell whether nearly all values are numbers, of cells that `either` gave, and none is a code."""
        if self.kind is not None:
            return True
        texts = [cell for cell in self.values if isinstance(cell, str)]
        few = len(texts) <= _MOST_OTHERS * self.count()
        return few and not have_code(texts)

    def are_mostly_whole(self) -> bool:
        """Tell whether nearly all numbers are whole, of cells that `either` gave."""
        numbers = [cell for cell in self.values if isinstance(cell, float) and cell == cell]
        return sum(each.is_integer() for each in numbers) >= (1 - _MOST_OTHERS) * max(len(numbers), 1)

    def _numbers(self, name: Any, kind: Kind, notices: Notices) -> Any:
        if self.kind == kind or {self.kind, kind} == set(_NUMBERS):
            numbers = self.values
        elif kind == "number" and self.kind is None and (plain := plain_numbers(self.values)) is not None:
            numbers = plain
        else:
            misfits = []
            numbers = np.empty(len(self.values))
            for row, cell in enumerate(self.objects()):
                try:
                    numbers[row] = _CONVERT[kind](cell)
                except OverflowError:
                    raise cell_error(name, "hold finite numbers", self.first_row + row, cell) from None
                except ValueError:
                    if kind_of(cell) is None:
                        raise cell_error(name, _RULE, self.first_row + row, cell) from None
                    numbers[row] = np.nan
                    misfits.append(cell)
            notices.misfits(name, kind, misfits)
        wrong = np.flatnonzero(np.isinf(numbers))
        if len(wrong):
            raise cell_error(name, "hold finite numbers", self.first_row + int(wrong[0]), float(numbers[wrong[0]]))
        return np.clip(numbers, -LARGEST, LARGEST)

    def _texts(self, name: Any, known: Known, read: Callable[[Any], Any] | None) -> list[str | None]:
        texts: list[str | None] = []
        met: dict[str, str | None] = {}
        index, recent = known
        for row, cell in enumerate(self.objects() if self.kind else self.values, self.first_row):
            if type(cell) is str:
                if cell in index or cell in recent:
                    texts.append(cell)
                    continue
                if cell not in met:
                    met[cell] = text(read(cell) if read else cell)
                texts.append(met[cell])
            elif cell is None or (type(cell) is float and cell != cell):
                texts.append(None)
            else:
                try:
                    texts.append(text(read(cell) if read else cell))
                except ValueError:
                    raise cell_error(name, _RULE, row, cell) from None
        return texts


_CONVERT: dict[str, Callable[[Any], float]] = {"number": number, "boolean": truth, "date": days}

"""The error of a table that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_MOST_NAMES = 20


class TableError(ValueError):
    """A table, a column or a cell that cannot be encoded; `row` is the number of its row, where there is one."""

    row: int | None = None


def cell_error(column: Any, rule: str, row: int, value: Any) -> TableError:
    """Make the error of one cell.

    Examples
    --------
    >>> cell_error("age", "hold numbers", 3, "young")
    TableError("The column 'age' must hold numbers. Got 'young' in row 3 instead.")
    """
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    error = TableError(f"The column {column!r} must {rule}. Got {shown} in row {row} instead.")
    error.row = row
    return error


def with_row(error: TableError, numbers: Sequence[int] | Any) -> TableError:
    """Name a row by its number in the whole table rather than by its place among the rows that were passed on.

    Examples
    --------
    >>> with_row(cell_error("age", "hold numbers", 1, "young"), [7, 9])
    TableError("The column 'age' must hold numbers. Got 'young' in row 9 instead.")
    """
    if error.row is None:
        return error
    number = int(numbers[error.row])
    named = TableError(str(error).replace(f"in row {error.row} instead", f"in row {number} instead"))
    named.row = number
    return named


def shown_names(names: Iterable[Any]) -> str:
    """List names of columns, of many the first ones.

    Examples
    --------
    >>> shown_names(["age", "town", 3])
    "'age', 'town', 3"
    >>> shown_names(range(22))[-17:]
    '18, 19 and 2 more'
    """
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return ", ".join(map(repr, listed[:_MOST_NAMES])) + more

"""What a request, or a data folder, is refused with."""

from __future__ import annotations

import reprlib
from typing import Any


class LogError(ValueError):
    """A folder that is not one of ours, is in use, is damaged, or has lost rows."""


class RefusedError(Exception):
    """A request that is not carried out: nothing was learned or stored.

    `message`: what is wrong and what would be right. `field`: the part of the request that is wrong, such as
    ``rows[3].age``. `retry_after`: seconds after which the same request may succeed.
    """

    def __init__(
        self, status: int, message: str, field: str | None = None, retry_after: int | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field, self.retry_after = status, message, field, retry_after
        self.body = {"detail": message, "field": field, **more}
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}


def wrong(field: str, rule: str, got: Any, status: int = 422) -> RefusedError:
    """Make the error of one field.

    Examples
    --------
    >>> str(wrong("row.age", "be a number", "young"))
    "row.age must be a number. Got 'young' instead."
    """
    # all of a large body would take seconds
    shown = reprlib.repr(got) if isinstance(got, list | dict) else repr(got[:80] if isinstance(got, str) else got)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return RefusedError(status, f"{field} must {rule}. Got {shown} instead.", field)


def field_of(row: str, name: str) -> str:
    """Name the field of a row in a request that holds its label or its id.

    Examples
    --------
    >>> field_of("row", "y"), field_of("rows[3]", "y"), field_of("line 3.row", "id"), field_of("labels[3]", "y")
    ('y', 'y[3]', 'line 3.id', 'labels[3].y')
    """
    if row.startswith("rows["):
        return ("ids" if name == "id" else name) + row.removeprefix("rows")
    outer = row.removesuffix("row").removesuffix(".")
    return f"{outer}.{name}" if outer else name

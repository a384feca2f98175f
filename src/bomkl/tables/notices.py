"""What an encoder could not use of a table: cells that do not fit their column, and columns without a place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_SHOWN = 60  # characters of a value
_MOST = 20  # columns that one warning names


class TableWarning(UserWarning):
    """Some of a table could not be used. `notices` lists it, with the number of rows."""

    notices: tuple[Notice, ...] = ()
    ignored: Mapping[Any, int] = MappingProxyType({})  # rows of columns that the model has no place for


@dataclass(frozen=True)
class Notice:
    """One thing that could not be used."""

    column: Any
    text: str  # what happened to the column, as a sentence without its number of rows
    rows: int


@dataclass
class Notices:
    """Notices of one call, each thing once."""

    found: dict[tuple[Any, str], Notice] = field(default_factory=dict)

    def misfits(self, column: Any, kind: str, cells: Iterable[Any]) -> None:
        """Note cells that are not of the kind of their column."""
        cells = list(cells)
        if not cells:
            return
        shown = repr(cells[0])
        shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
        what = {"number": "numbers", "boolean": "booleans", "date": "dates"}[kind]
        declare = f" For strings, declare types={{{column!r}: 'category'}}, or use --strings on the command line."
        advice = declare if isinstance(cells[0], str) else ""
        text = f"The column {column!r} holds {what}. Other values, such as {shown}, count as missing.{advice}"
        self._add("kind", Notice(column, text, len(cells)))

    def unused(self, column: Any, rows: int, reason: str) -> None:
        """Note a column that the model has no place for."""
        if rows:
            self._add("new", Notice(column, f"The column {column!r} is ignored: {reason}.", rows))

    def absent(self, column: Any, rows: int, like: str | None) -> None:
        """Note a column that a table does not have; `like` is one that it has instead and may be the same."""
        hint = f" Is it {like!r}, which is new?" if like else ""
        self._add(
            "absent", Notice(column, f"The column {column!r} is not in the table: its values are missing.{hint}", rows)
        )

    def add(self, other: Notices) -> None:
        for (_, what), notice in other.found.items():
            self._add(what, notice)

    def _add(self, what: str, notice: Notice) -> None:
        before = self.found.get((notice.column, what))
        if before is not None:
            notice = Notice(before.column, before.text, before.rows + notice.rows)
        self.found[notice.column, what] = notice

    def warn(self) -> None:
        """Give one warning of all of them. Its text has no number of rows, so that Python shows it once."""
        if not self.found:
            return
        notices = tuple(self.found.values())
        texts = [each.text for each in notices[:_MOST]]
        if len(notices) > _MOST:
            texts.append(f"{len(notices) - _MOST} more columns have such problems.")
        warning = TableWarning(" ".join(texts))
        warning.notices = notices
        warning.ignored = {each.column: each.rows for (_, what), each in self.found.items() if what == "new"}
        warnings.warn(warning, stacklevel=2)

"""What goes wrong while reading, with the place where it went wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bomkl._support.limits import MOST_CLASSES

_SHOWN = 80  # characters of the offending text that a message repeats


class StreamError(ValueError):
    """A source that cannot be read at all, or not as asked."""


class NoRowsError(StreamError):
    """A source without a row."""


class BadLineError(StreamError):
    """One row that cannot be read.

    Parameters
    ----------
    file : str
        Name of the source; ``<stdin>`` for standard input.
    line : int
        Line of the text, or row of a binary table, counted from 1.
    reason : str
        What is wrong.
    column : str or None, default=None
        Name of the column, or position of the character in the line.
    text : str or None, default=None
        The text that could not be read.
    advice : str, default=""
        What to do about it.

    Examples
    --------
    >>> print(BadLineError("ages.csv", 3, "not a number", column="age", text="old"))
    ages.csv:3: column age: not a number: 'old'
    """

    def __init__(
        self, file: str, line: int, reason: str, column: str | None = None, text: str | None = None, advice: str = ""
    ) -> None:
        self.file, self.line, self.reason, self.column, self.text = file, line, reason, column, text
        place = f"{file}:{line}: " + (f"column {column}: " if column is not None else "")
        shown = "" if text is None else f": {text[:_SHOWN]!r}" + ("..." if len(text) > _SHOWN else "")
        super().__init__(place + reason + shown + (f". {advice}" if advice else ""))


class BadLines:
    """Counts bad lines and skips them, if that is asked for; otherwise the first is raised."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self.first: BadLineError | None = None

    def report(self, bad: BadLineError) -> None:
        """Raise the bad line, or count it."""
        if not self.skip:
            raise bad
        self.count += 1
        self.first = self.first or bad


class KeptRows:
    """Which rows of a file are kept: one that cannot be read is reported, once, and struck.

    `lines` are those of the rows. `missing` says what to do with a row that lacks a value: "error", "skip", "keep", or
    a number to put in its place.
    """

    def __init__(self, file: str, lines: Any, bad: BadLines, missing: str | float = "error") -> None:
        self.file, self.missing, self._lines, self._bad = file, missing, lines, bad
        self.mask = np.ones(len(lines), dtype=bool)

    def refuse(self, row: int, reason: str, column: str | None = None, cells: Any = None) -> None:
        """Strike a row, because of its cell of a column."""
        if self.mask[row]:
            self.mask[row] = False
            text = None if cells is None else str(cells[row])
            self._bad.report(BadLineError(self.file, int(self._lines[row]), reason, column, text))

    def filled(self, row: int, column: str, cells: Any = None) -> float:
        """Treat a missing value as the options say; returns the number to put in its place, NaN to keep it missing."""
        if self.missing == "error":
            self.refuse(row, "the value is missing", column, cells)
        elif self.missing == "skip":
            self.mask[row] = False
        elif self.missing == "keep":
            return math.nan
        return 0.0 if isinstance(self.missing, str) else self.missing


def check_number_of_classes(name: str, n_classes: int) -> None:
    """Refuse so many labels that they are no classes."""
    if n_classes > MOST_CLASSES:
        raise StreamError(
            f"{name}: more than {MOST_CLASSES} different labels; these are not classes. For regression, use "
            "AutoMKLRegressor or --algorithm auto-regression."
        )

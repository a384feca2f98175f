"""What every reader of a format shares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from bomkl._support.stream_options import StreamOptions
from bomkl._support.validation import did_you_mean
from bomkl.streams.errors import BadLineError, BadLines, StreamError
from bomkl.streams.schema import Schema

LONGEST_LINE = 1 << 26  # bytes


@dataclass
class Reading:
    """What a reader needs to know: the name of its file, the settings, and what is known of the columns."""

    file: str
    options: StreamOptions
    known: Callable[[], Schema | None]
    bad: BadLines

    @property
    def schema(self) -> Schema | None:
        """What is known of the columns by now."""
        return self.known()

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a table that names a column twice."""
        if twice := sorted(name for name, times in Counter(names).items() if times > 1):
            raise StreamError(f"{self.file}: the header names {listed(twice, 5)} more than once")

    def label_name(self, names: Sequence[str]) -> str | None:
        """Find the label among the columns of a table; None if there is none and none is needed."""
        wanted: str | int = self.options.label if self.options.label is not None else "label"
        if self.schema is not None and self.schema.label is not None:
            wanted = self.schema.label
        found = _named(wanted, names)
        if found is None and self.options.labels:
            told = self.options.label is not None or wanted != "label"
            hint = "" if told else " The option 'label' names another."
            raise self._no_column(f"label column {wanted!r}", wanted, names, hint)
        return found

    def weight_name(self, names: Sequence[str]) -> str | None:
        """Find the column of weights; None if none is asked for."""
        wanted = self.options.weight if self.schema is None else self.schema.weight
        if wanted is None:
            return None
        found = _named(wanted, names)
        if found is None and self.options.labels:
            raise self._no_column(f"weight column {wanted!r}", wanted, names)
        return found

    def check_named_columns(self, names: Sequence[str], ragged: bool) -> None:
        """Refuse columns to leave out, or to take as strings, that are not there; a ragged table may lack them."""
        known = set(names)
        for purpose, wanted in (("to leave out", self.options.ignore), ("to take as strings", self.options.strings)):
            for name in wanted:
                if name not in known and (not ragged or did_you_mean(name, names)):
                    raise self._no_column(f"column {name!r} {purpose}", name, names)

    def _no_column(self, what: str, wanted: str | int, names: Sequence[str], hint: str = "") -> StreamError:
        hint = _hint(wanted, names) or hint
        return StreamError(f"{self.file}: there is no {what}.{hint} The columns are {listed(names)}.")


def _hint(wanted: str | int, names: Sequence[str]) -> str:
    """Say what may be wrong where a column is not there."""
    if len(names) == 1:  # not what a table looks like
        if re.search(r"(^|\s)\S*\|", names[0]) and wanted not in names[0].split("|"):
            return " This looks like the format of Vowpal Wabbit, which is not read here; write svmlight or JSON lines."
        for delimiter, told in ((";", "';'"), ("\t", "a tab"), ("|", "'|'")):
            if delimiter in names[0]:
                return f" Does {told} separate the columns? The option 'delimiter' says so."
    return did_you_mean(wanted, names) if isinstance(wanted, str) else ""


def _named(wanted: str | int, names: Sequence[str]) -> str | None:
    if isinstance(wanted, int):
        return names[wanted] if -len(names) <= wanted < len(names) else None
    return wanted if wanted in names else None


def listed(names: Sequence[str], most: int = 20) -> str:
    """Show names in a message, the first of them where they are many.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "['a', 'b'] and 1 others"
    """
    return f"{list(names[:most])}" + (f" and {len(names) - most} others" if len(names) > most else "")


Row = TypeVar("Row")


def batches(file: Any, rows: Iterator[Row | None], size: int) -> Iterator[list[Row]]:
    """Gather rows, until there are enough of them or a pipe has no more for now; None stands for a line without one.

    Rows before one that cannot be read are handed on before the error is.
    """
    has_line = getattr(file, "has_line", None)
    batch: list[Row] = []
    try:
        for row in rows:
            if row is not None:
                batch.append(row)
            if len(batch) == size or (has_line is not None and batch and not has_line()):
                yield batch
                batch = []
    except StreamError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def utf8_lines(file: BinaryIO, reading: Reading) -> Iterator[str]:
    """Lines of a text; one that is not UTF-8 is reported, and left blank to keep the count of lines right."""
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise StreamError(f"{reading.file}:{number}: the line is longer than {LONGEST_LINE} bytes")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            text = line.rstrip(b"\r\n").decode("utf-8", "replace")
            encoding = "utf-16" if line.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin1"
            advice = f"Convert the file, for example with: iconv -f {encoding} -t utf-8"
            reading.bad.report(BadLineError(reading.file, number, "not UTF-8", text=text, advice=advice))
            yield "\n"

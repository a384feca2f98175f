"""What every reader of a format shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from bomkl.streams.errors import BadLineError, BadLines, StreamError
from bomkl.streams.options import Options
from bomkl.streams.schema import Schema

LONGEST_LINE = 1 << 26  # bytes


@dataclass
class Reading:
    """What a reader needs to know: the name of its file, the settings, and what is known of the columns."""

    file: str
    options: Options
    schema: Schema | None
    bad: BadLines

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a table that names a column twice."""
        if twice := sorted(name for name, times in Counter(names).items() if times > 1):
            shown = f"{twice[:5]}" + (f" and {len(twice) - 5} others" if len(twice) > 5 else "")
            raise StreamError(f"{self.file}: the header names {shown} more than once")

    def label_name(self, names: Sequence[str]) -> str | None:
        """Find the label among the columns of a table; None if there is none and none is needed."""
        wanted: str | int | None = self.schema.label if self.schema else self.options.label
        if isinstance(wanted, int):
            if -len(names) <= wanted < len(names):
                return names[wanted]
        elif (wanted := "label" if wanted is None else wanted) in names:
            return wanted
        if not self.options.labels:
            return None
        raise StreamError(f"{self.file}: there is no label column {wanted!r}; the columns are {list(names)}")


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
            reading.bad.report(BadLineError(reading.file, number, "not UTF-8", text=text))
            yield "\n"

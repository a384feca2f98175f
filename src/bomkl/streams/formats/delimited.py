"""CSV and TSV."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

from bomkl.streams.cells import Cells
from bomkl.streams.errors import BadLineError
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading, batches, utf8_lines


def read_delimited(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read CSV or TSV, quoted as RFC 4180 says, or as the options say."""
    options = reading.options
    delimiter = options.delimiter or ("\t" if options.format == "tsv" else ";" if options.decimal == "," else ",")
    rows = _delimited_rows(utf8_lines(file, reading), delimiter, reading)
    first = next((row for row in rows if row is not None), None)
    if first is None:
        return
    if options.header:
        names = first[1]
    else:
        names = _positions(len(first[1]), reading)
        rows = chain([first], rows)
    reading.check_names(names)
    label, weight = reading.label_name(names), reading.weight_name(names)
    if reading.schema is None:
        reading.check_named_columns(names, ragged=False)
    for batch in batches(file, _of_width(rows, len(names), delimiter, reading), options.block_rows):
        cells: dict[str, Cells] = dict(zip(names, map(list, zip(*(row for _, row in batch), strict=True)), strict=True))
        if options.decimal == ",":
            texts = set(options.strings)
            cells = {name: column if name in texts else _with_points(column) for name, column in cells.items()}
        yield Table(reading.file, cells, [line for line, _ in batch], label, weight)


def _with_points(cells: Cells) -> Cells:
    """Write numbers that have a decimal comma, and perhaps points between thousands, with a decimal point.

    Examples
    --------
    >>> _with_points(["1,5", "-1.234,5", "12.345", "red, blue", "1,2,3"])
    ['1.5', '-1234.5', '12345', 'red, blue', '1,2,3']
    """
    return [
        cell.replace(".", "").replace(",", ".") if _NUMBER_WITH_COMMA.fullmatch(cell.strip()) else cell
        for cell in cells
    ]


def _of_width(
    rows: Iterator[tuple[int, list[str]] | None], width: int, delimiter: str, reading: Reading
) -> Iterator[tuple[int, list[str]] | None]:
    for each in rows:
        if each is not None and len(each[1]) != width:
            line, row = each
            reason = f"{len(row)} columns instead of {width}"
            reading.bad.report(BadLineError(reading.file, line, reason, text=delimiter.join(row)))
            yield None
        else:
            yield each


def _positions(width: int, reading: Reading) -> list[str]:
    """Names of the columns of a file without a header; one that has no label keeps the names of the others."""
    schema = reading.schema
    if schema is not None and schema.columns is not None and not reading.options.labels:
        features = sorted([*(column.name for column in schema.columns), *schema.ignored], key=int)
        if width == len(features):
            return features
    return [str(position) for position in range(width)]


def _delimited_rows(lines: Iterator[str], delimiter: str, reading: Reading) -> Iterator[tuple[int, list[str]] | None]:
    """Rows and the lines on which they begin; where a quoted string has no end, only its first line is lost."""
    used: list[str] = []  # lines of the row at hand
    again: deque[str] = deque()  # lines to be read once more

    def noted() -> Iterator[str]:
        while (line := again.popleft() if again else next(lines, None)) is not None:
            used.append(line)
            yield line

    def new_reader() -> Iterator[list[str]]:
        options = reading.options
        quotes: dict[str, Any] = {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
        return csv.reader(noted(), delimiter=delimiter, escapechar=options.escape, strict=True, **quotes)

    reader = new_reader()
    start = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = next((better for told, better in _CSV_ERRORS.items() if told in str(error)), str(error))
            text = used[0].rstrip("\r\n")
            escaped = reading.options.escape is None and f"\\{reading.options.quote}" in text
            advice = _ESCAPED if escaped else _LETTERS if "quote" in reason else ""
            reading.bad.report(BadLineError(reading.file, start, reason, text=text, advice=advice))
            row = []
            again.extendleft(reversed(used[1:]))
            del used[1:]
            reader = new_reader()  # the last may have come to its end
        yield (start, row) if row else None
        start += len(used)
        used.clear()


_NUMBER_WITH_COMMA = re.compile(r"[-+]?(\d*|\d{1,3}(\.\d{3})+)(,\d+)?([eE][-+]?\d+)?")
_ESCAPED = r"If quotes in strings have a backslash before them, the option 'escape' reads them"
_LETTERS = "If quotes are letters like others in this file, set the option 'quote' to an empty string"
_CSV_ERRORS = {
    "unexpected end of data": "a quoted string begins here and has no end",
    "field larger than field limit": f"a string of more than {csv.field_size_limit()} characters begins here; is the "
    "quote at its end missing?",
    "expected after": "a quoted string must end where its column ends; write a quote in it twice",
    "new-line character": "lines must end with a line feed; convert this file, which has carriage returns only",
}

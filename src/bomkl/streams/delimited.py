"""CSV and TSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

from bomkl.streams.errors import BadLineError
from bomkl.streams.labels import Cells
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading, batches, utf8_lines


def read_delimited(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read CSV or TSV, quoted as RFC 4180 says."""
    options = reading.options
    delimiter = options.delimiter or ("\t" if options.format == "tsv" else ",")
    reader = csv.reader(utf8_lines(file, reading), delimiter=delimiter, strict=True)
    rows = _delimited_rows(reader, reading)
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
        reading.check_told_columns(names, ragged=False)
    for batch in batches(file, _of_width(rows, len(names), delimiter, reading), options.block_rows):
        cells: dict[str, Cells] = dict(zip(names, map(list, zip(*(row for _, row in batch), strict=True)), strict=True))
        yield Table(reading.file, cells, [line for line, _ in batch], label, weight)


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


def _delimited_rows(reader: Any, reading: Reading) -> Iterator[tuple[int, list[str]] | None]:
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reading.bad.report(BadLineError(reading.file, start, str(error)))
            row = []
        yield (start, row) if row else None

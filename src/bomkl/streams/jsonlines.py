"""JSON lines: one flat object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from bomkl.streams.errors import BadLineError
from bomkl.streams.labels import Cells
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading, utf8_lines


def read_jsonl(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read one flat JSON object a line; a key that is absent is a missing value."""
    rows = _json_rows(file, reading)
    while batch := list(islice(rows, reading.options.block_rows)):
        names = list(dict.fromkeys(name for _, row in batch for name in row))
        cells: dict[str, Cells] = {name: [row.get(name) for _, row in batch] for name in names}
        yield Table(reading.file, cells, [line for line, _ in batch], reading.label_name(names), ragged=True)


def _json_rows(file: BinaryIO, reading: Reading) -> Iterator[tuple[int, dict[str, Any]]]:
    schema = reading.schema
    known: set[str | None] | None = None
    if schema is not None:
        known = {schema.label, *schema.ignored, *(column.name for column in schema.columns or ())}
    for number, line in enumerate(utf8_lines(file, reading), start=1):
        if line.isspace():
            continue
        column = None
        try:
            row = json.loads(line)
            reason = "" if isinstance(row, dict) else "not a JSON object"
        except (ValueError, RecursionError) as error:
            row, reason = {}, f"not JSON ({str(error)[:80]})"
        for name, value in row.items() if not reason else ():
            if isinstance(value, list | dict):
                column, reason = name, "neither a number nor a string"
            elif known is not None and name not in known:
                column, reason = name, "this key was not there before"
        if reason:
            reading.bad.report(BadLineError(reading.file, number, reason, column=column, text=line.rstrip("\r\n")))
        else:
            yield number, row

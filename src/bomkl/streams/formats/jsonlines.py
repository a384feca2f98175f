"""JSON lines: one object a line; objects and lists in it become columns such as ``user.age`` and ``size.0``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, BinaryIO

from bomkl.streams.cells import Cells
from bomkl.streams.errors import BadLineError
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading, batches, utf8_lines
from bomkl.streams.schema import Schema
from bomkl.tables.errors import TableError
from bomkl.tables.frames import flat

_FROM_ARRAY = "Each line must hold one object; turn an array into such lines, for example with: jq -c '.[]'"


def read_jsonl(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read one JSON object a line; a key that is absent is a missing value."""
    first = reading.schema is None
    rows = _json_rows(file, reading)
    if first and reading.options.as_tables:
        # The first row tells the columns, whatever else has come by then
        begin: Iterator[list[Any]] = ([row] for row in islice((row for row in rows if row is not None), 1))
    else:
        begin = iter(())
    for batch in chain(begin, batches(file, rows, reading.options.block_rows)):
        names = list(dict.fromkeys(name for _, row in batch for name in row))
        if first:
            reading.check_named_columns(names, ragged=True)
            first = False
        if (schema := reading.schema) is not None and reading.options.labels:  # a row without them is a bad line
            names += [name for name in (schema.label, schema.weight) if name is not None and name not in names]
        cells: dict[str, Cells] = {name: [row.get(name) for _, row in batch] for name in names}
        lines = [line for line, _ in batch]
        label, weight = reading.label_name(names), reading.weight_name(names)
        yield Table(reading.file, cells, lines, label, weight, ragged=True)


def _json_rows(file: BinaryIO, reading: Reading) -> Iterator[tuple[int, dict[str, Any]] | None]:
    options = reading.options
    fixed = not options.as_tables or options.new_columns == "refuse"
    schema: Schema | None = None
    known: set[str | None] | None = None
    for number, line in enumerate(utf8_lines(file, reading), start=1):
        if line.isspace():
            yield None
            continue
        if fixed and reading.schema is not schema and (schema := reading.schema) is not None:
            known = {schema.label, *schema.left_out, *(column.name for column in schema.columns or ())}
            known.update(options.ignore)
        column = None
        try:
            row = json.loads(line)
            reason = "" if isinstance(row, dict) else "not a JSON object"
            row = row if reason else dict(flat(row, options.ignore))
        except TableError as error:
            row, reason = {}, str(error)
        except (ValueError, RecursionError) as error:
            row, reason = {}, f"not JSON ({str(error)[:80]})"
        advice = _FROM_ARRAY if reason and number == 1 and line.startswith("[") else ""
        if known is not None and not reason and (new := next((name for name in row if name not in known), None)):
            column, reason = new, "this key was not there before"
        if reason:
            reading.bad.report(BadLineError(reading.file, number, reason, column, line.rstrip("\r\n"), advice))
            yield None
        else:
            yield number, row

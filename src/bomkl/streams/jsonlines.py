"""JSON lines: one object a line; objects and lists in it become columns such as ``user.age`` and ``size.0``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO

from bomkl.streams.errors import BadLineError
from bomkl.streams.labels import Cells
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading, batches, utf8_lines
from bomkl.streams.schema import Schema

_MOST_VALUES = 10_000  # of a row with lists or objects
_FROM_ARRAY = "Each line must hold one object; turn an array into such lines, for example with: jq -c '.[]'"


def read_jsonl(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read one JSON object a line; a key that is absent is a missing value."""
    first = reading.schema is None
    rows = _json_rows(file, reading)
    if first and reading.options.as_tables and not file.seekable():
        # The first row of a pipe tells its columns, whatever else has come by then
        begin: Iterator[list[Any]] = ([row] for row in islice((row for row in rows if row is not None), 1))
    else:
        begin = iter(())
    for batch in chain(begin, batches(file, rows, reading.options.block_rows)):
        names = list(dict.fromkeys(name for _, row in batch for name in row))
        if first:
            reading.check_told_columns(names, ragged=True)
            first = False
        cells: dict[str, Cells] = {name: [row.get(name) for _, row in batch] for name in names}
        lines = [line for line, _ in batch]
        yield Table(reading.file, cells, lines, reading.label_name(names), reading.weight_name(names), ragged=True)


def flat(row: dict[str, Any], ignore: Collection[str] = ()) -> dict[str, Any]:
    """Give the values inside objects and lists columns of their own; an empty list or object has none.

    Parameters
    ----------
    row : dict
        A row, which may hold objects and lists.
    ignore : collection of str, default=()
        Keys to leave out, with all that is in them.

    Returns
    -------
    dict

    Examples
    --------
    >>> flat({"y": 1, "user": {"age": 30, "tags": ["new", "vip"]}})
    {'y': 1, 'user.age': 30, 'user.tags.0': 'new', 'user.tags.1': 'vip'}
    """
    found: dict[str, Any] = {}
    left: list[Iterator[tuple[Any, Any]]] = [iter(row.items())]
    names = [""]
    while left:
        for key, value in left[-1]:
            name = f"{names[-1]}{key}"
            if name in ignore and isinstance(value, list | dict):
                continue
            if isinstance(value, list | dict):
                names.append(f"{name}.")
                left.append(iter(value.items()) if isinstance(value, dict) else enumerate(value))
                break
            if name in found:
                raise ValueError(f"two values have the name {name[:80]!r}")
            found[name] = value
            if len(found) > _MOST_VALUES:
                raise ValueError(f"more than {_MOST_VALUES} values")
        else:
            left.pop()
            names.pop()
    return found


def _json_rows(file: BinaryIO, reading: Reading) -> Iterator[tuple[int, dict[str, Any]] | None]:
    schema: Schema | None = None
    known: set[str | None] | None = None
    for number, line in enumerate(utf8_lines(file, reading), start=1):
        if line.isspace():
            yield None
            continue
        if reading.schema is not schema and (schema := reading.schema) is not None:
            known = {schema.label, *schema.left_out, *(column.name for column in schema.columns or ())}
            known.update(reading.options.ignore)
        column = None
        try:
            row = json.loads(line)
            reason = "" if isinstance(row, dict) else "not a JSON object"
        except (ValueError, RecursionError) as error:
            row, reason = {}, f"not JSON ({str(error)[:80]})"
        advice = _FROM_ARRAY if reason and number == 1 and line.startswith("[") else ""
        if not reason and any(isinstance(value, list | dict) for value in row.values()):
            try:
                row = flat(row, reading.options.ignore)
            except ValueError as error:
                reason = str(error)
        for name in row if not reason else ():
            if known is not None and name not in known:
                column, reason = name, "this key was not there before"
        if reason:
            reading.bad.report(BadLineError(reading.file, number, reason, column, line.rstrip("\r\n"), advice))
            yield None
        else:
            yield number, row

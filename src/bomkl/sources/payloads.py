"""What records hold, if not a JSON object: lines of CSV or Arrow IPC streams, turned into rows by name."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

from bomkl._support.extras import install_hint
from bomkl.sources.base import SourceError, SourceUrl

Row = dict[str, Any]
Decode = Callable[[bytes], list[Row]]


def decoder(url: SourceUrl) -> Decode | None:
    """Return what turns a record into rows; it raises ValueError with the reason where that cannot be done.

    None stands for records that are lines of JSON already.
    """
    payload = url.setting("payload", "json", ("json", "csv", "arrow"))
    if payload == "json":
        return None
    if payload == "arrow":
        return _arrow(url)
    if not (columns := tuple(filter(None, url.setting("columns", "").split(",")))):
        raise SourceError(
            f"{url.shown}: records of CSV have no header. Name their columns in the URL, as in columns=age,city,label."
        )
    return lambda value: _csv(value, columns)


def _csv(value: bytes, columns: tuple[str, ...]) -> list[Row]:
    try:
        lines = [line for line in csv.reader(value.decode("utf-8").splitlines(), strict=True) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"not CSV ({str(error)[:80]})") from error
    if not lines:
        raise ValueError("empty")
    for line in lines:
        if len(line) != len(columns):
            raise ValueError(f"{len(line)} columns instead of {len(columns)}")
    return [dict(zip(columns, line, strict=True)) for line in lines]


def _arrow(url: SourceUrl) -> Decode:
    try:
        import pyarrow
        from pyarrow import ipc
    except ImportError as error:
        raise SourceError(f"{url.shown}: payload=arrow needs pyarrow. {install_hint('arrow')}") from error

    def decode(value: bytes) -> list[Row]:
        try:
            with ipc.open_stream(value) as reader:
                table = reader.read_all()
            table.validate(full=True)
            rows: list[Row] = table.to_pylist()
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise ValueError(f"not an Arrow IPC stream ({str(error)[:80]})") from error
        if len(set(table.column_names)) < len(table.column_names):
            raise ValueError("a column is named twice")
        if not rows:
            raise ValueError("empty")
        return rows

    return decode

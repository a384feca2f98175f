"""Arrow IPC streams from clients that are not trusted."""

from __future__ import annotations

import math
from typing import Any

from bomkl._support.extras import install_hint
from bomkl.serve.errors import RefusedError, wrong
from bomkl.serve.formats.bulk import are_plain_cells


def read_arrow(body: bytes, most_rows: int) -> dict[str, list[Any]]:
    """Read an Arrow IPC stream as lists of plain values by column.

    `body`: the stream. Compressed buffers are refused: a small body could take any amount of memory. `most_rows`: rows
    that a table may have.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise RefusedError(415, f"This service reads no Arrow. {install_hint('arrow')}") from None
    try:
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
        first = _next(messages)
        if first is None:
            raise ValueError("it is empty")
        schema = pa.ipc.read_schema(first)
        _check_schema(schema)
        batches, rows = [], 0
        while (message := _next(messages)) is not None:
            if message.type != "record batch":
                raise wrong("body", "hold record batches without dictionaries", message.type)
            if _is_compressed(message.metadata.to_pybytes()):
                raise RefusedError(422, "body must hold buffers that are not compressed.", "body")
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            rows += batch.num_rows
            if rows > most_rows:
                raise wrong("body", f"have 1 to {most_rows} rows", rows, 413)
            batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, TypeError, IndexError, SystemError) as error:
        raise RefusedError(400, f"The body is not an Arrow IPC stream: {_first_line(error)}", "body") from None
    if rows == 0:
        raise wrong("body", f"have 1 to {most_rows} rows", 0)
    table = pa.Table.from_batches(batches, schema)
    return {name: _cells(table.column(at), name) for at, name in enumerate(schema.names)}


def _next(messages: Any) -> Any:
    try:
        return messages.read_next_message()
    except StopIteration:
        return None


def _check_schema(schema: Any) -> None:
    from pyarrow import types

    if not schema.names or len(set(schema.names)) < len(schema.names):
        raise wrong("body", "have columns with different names", schema.names)
    for column in schema:
        kind = column.type
        number = types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind)
        if not (number or types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind)):
            raise wrong(str(column.name)[:80], "be numbers, booleans or strings", str(kind))


def _cells(column: Any, name: str) -> list[Any]:
    cells: list[Any] = column.to_pylist()
    if are_plain_cells(cells):
        return cells
    for at, cell in enumerate(cells):
        if isinstance(cell, float) and not math.isfinite(cell):
            raise wrong(f"rows[{at}].{name[:80]}", "be a finite number, or null", cell)
    return cells


def _is_compressed(metadata: bytes) -> bool:
    """Tell whether the header of a record batch says that its buffers are compressed.

    In the flatbuffer ``Message``, field 2 is the header; in ``RecordBatch``, field 3 is the compression.
    """

    def number(at: int, size: int, signed: bool = False) -> int:
        if not 0 <= at <= len(metadata) - size:
            raise ValueError("the header of a record batch is cut off")
        return int.from_bytes(metadata[at : at + size], "little", signed=signed)

    def field(table: int, index: int) -> int:
        """Position of a field of a table, 0 where it has none."""
        layout = table - number(table, 4, signed=True)
        offset = number(layout + 4 + 2 * index, 2) if 4 + 2 * index < number(layout, 2) else 0
        return table + offset if offset else 0

    # metadata of an encapsulated message may begin with its length
    begin = 8 if metadata[:4] == b"\xff\xff\xff\xff" else 0
    metadata = metadata[begin:]
    header = field(number(0, 4), 2)
    return bool(header and field(header + number(header, 4), 3))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]

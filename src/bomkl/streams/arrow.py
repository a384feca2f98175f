"""Parquet, Arrow IPC and Feather, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from bomkl.streams.errors import StreamError
from bomkl.streams.labels import Cells
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading
from bomkl.streams.sources import require_pyarrow


def read_arrow(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read an Arrow IPC stream or file (Feather version 2)."""
    require_pyarrow(reading.file)
    import pyarrow
    import pyarrow.ipc

    try:
        try:
            source = pyarrow.ipc.open_stream(file)
            batches = iter(source)
        except pyarrow.ArrowInvalid:
            if not file.seekable():
                raise
            file.seek(0)
            source = pyarrow.ipc.open_file(file)
            batches = (source.get_batch(number) for number in range(source.num_record_batches))
        yield from _arrow_parts(batches, reading)
    except pyarrow.ArrowException as error:
        raise StreamError(f"{reading.file}: not readable as Arrow: {error}") from error


def read_parquet(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read Parquet, one batch of rows at a time."""
    require_pyarrow(reading.file)
    import pyarrow
    import pyarrow.parquet

    if not file.seekable():
        raise StreamError(f"{reading.file}: Parquet cannot be read from a pipe; pass the path of a file")
    try:
        table = pyarrow.parquet.ParquetFile(file)
        yield from _arrow_parts(table.iter_batches(batch_size=reading.options.block_rows, use_threads=False), reading)
    except pyarrow.ArrowException as error:
        raise StreamError(f"{reading.file}: not readable as Parquet: {error}") from error


def _arrow_parts(batches: Iterator[Any], reading: Reading) -> Iterator[Part]:
    row = 1
    for whole in batches:
        for start in range(0, whole.num_rows, reading.options.block_rows):
            batch = whole.slice(start, reading.options.block_rows)
            names = batch.schema.names
            ignored = reading.schema.ignored if reading.schema else reading.options.ignore
            cells = {
                name: _arrow_cells(batch.column(at), name, reading.file)
                for at, name in enumerate(names)
                if name not in ignored
            }
            lines = np.arange(row, row + batch.num_rows)
            yield Table(reading.file, cells, lines, reading.label_name(names))
            row += batch.num_rows


def _arrow_cells(column: Any, name: str, file: str) -> Cells:
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_boolean(kind):
        column, kind = column.cast(pyarrow.uint8()), pyarrow.uint8()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers: Cells = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        texts: Cells = column.to_pylist()
        return texts
    raise StreamError(f"{file}: column {name}: {kind} is neither a number nor a string; leave it out with 'ignore'")

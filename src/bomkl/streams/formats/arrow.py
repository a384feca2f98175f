"""Parquet, Arrow IPC and Feather, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from bomkl.streams.cells import Cells
from bomkl.streams.columns import text_of
from bomkl.streams.errors import StreamError
from bomkl.streams.parts import Part, Table
from bomkl.streams.reading import Reading
from bomkl.streams.sources import require_pyarrow
from bomkl.tables.cells import categories


def read_arrow(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read an Arrow IPC stream or file (Feather version 2)."""
    require_pyarrow(reading.file)
    with _readable(reading.file, "Arrow"):
        batches = _arrow_batches(file)
    yield from _arrow_parts(batches, reading, "Arrow")


def read_parquet(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read Parquet, one batch of rows at a time."""
    require_pyarrow(reading.file)
    import pyarrow.parquet

    if not file.seekable():
        raise StreamError(f"{reading.file}: Parquet cannot be read from a pipe; pass the path of a file")
    with _readable(reading.file, "Parquet"):
        table = pyarrow.parquet.ParquetFile(file, pre_buffer=False)  # which would hold all that was read
        batches = table.iter_batches(batch_size=reading.options.block_rows, use_threads=False)
    yield from _arrow_parts(batches, reading, "Parquet")


def _arrow_batches(file: BinaryIO) -> Iterator[Any]:
    import pyarrow
    import pyarrow.ipc

    try:
        return iter(pyarrow.ipc.open_stream(file))
    except pyarrow.ArrowInvalid:
        if not file.seekable():
            raise
        file.seek(0)
        source = pyarrow.ipc.open_file(file)
        return (source.get_batch(number) for number in range(source.num_record_batches))


@contextmanager
def _readable(file: str, format: str) -> Iterator[None]:
    """Turn whatever pyarrow makes of a damaged file into one error: its own exceptions are not the only ones."""
    try:
        yield
    except StreamError:
        raise
    except Exception as error:
        raise StreamError(f"{file}: not readable as {format}: {str(error)[:200] or type(error).__name__}") from error


def _arrow_parts(batches: Iterator[Any], reading: Reading, format: str) -> Iterator[Part]:
    row = 1
    while True:
        with _readable(reading.file, format):
            whole = next(batches, None)
            if whole is None:
                return
            # Offsets and lengths of a damaged file lead anywhere in memory: they are checked before the first use.
            whole.validate(full=True)
            if whole.num_rows > 8 * whole.nbytes:
                raise StreamError(
                    f"{reading.file}: a batch says that it has {whole.num_rows} rows, but holds no values"
                )
            names = whole.schema.names
            reading.check_names(names)
            if reading.schema is None:
                reading.check_named_columns(names, ragged=False)
        for start in range(0, whole.num_rows, reading.options.block_rows):
            with _readable(reading.file, format):
                batch = whole.slice(start, reading.options.block_rows)
                ignored = {*(reading.schema.ignored if reading.schema else ()), *reading.options.ignore}
                cells = {
                    name: _arrow_cells(batch.column(at), name, reading)
                    for at, name in enumerate(names)
                    if name not in ignored
                }
            lines = np.arange(row, row + batch.num_rows)
            yield Table(reading.file, cells, lines, reading.label_name(names), reading.weight_name(names))
            row += batch.num_rows


def _arrow_cells(column: Any, name: str, reading: Reading) -> Cells:
    import pyarrow
    from pyarrow import types

    kind = column.type
    if reading.options.as_tables and (types.is_timestamp(kind) or types.is_date(kind)):
        moments: Cells = column.cast(pyarrow.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
        return moments
    if types.is_boolean(kind) and reading.options.as_tables:
        truths: Cells = column.to_pylist()
        return truths
    if types.is_boolean(kind):
        column, kind = column.cast(pyarrow.uint8()), pyarrow.uint8()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers: Cells = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        texts: list[Any] = column.to_pylist()
        if types.is_null(kind) or not reading.options.as_tables:
            return texts
        if types.is_dictionary(kind):  # of categories, which may be numbers
            return categories([None if cell is None else text_of(cell) for cell in texts])
        return texts
    raise StreamError(
        f"{reading.file}: column {name}: {kind} is neither a number nor a string; the option 'ignore' leaves it out"
    )

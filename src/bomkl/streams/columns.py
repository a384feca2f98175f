"""Columns of a table to columns of a matrix: numbers, recorded vocabularies and hashed strings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import murmurhash3_32

from bomkl._support.stream_options import StreamOptions
from bomkl._support.validation import is_finite_number, nearest
from bomkl.streams.cells import Cells, read_numbers, to_number
from bomkl.streams.errors import KeptRows, StreamError
from bomkl.streams.reading import listed
from bomkl.streams.schema import Column, Kind, Schema
from bomkl.tables.cells import are_categories, categories, kind_of
from bomkl.tables.numbers import have_code, is_gap, plain_numbers


def infer_column(name: str, cells: Cells, options: StreamOptions, file: str) -> Column:
    """Guess what a column holds from some of its cells: numbers, if nearly all of them are numbers."""
    if options.as_tables:
        return Column(name, "unknown")
    if name not in options.strings and _mostly_numbers(cells):
        return Column(name, "number")
    if options.categorical == "hash":
        return Column(name, "hash")
    if options.categorical == "error":
        text = next(str(cell) for cell in cells if not _is_number(cell))
        raise StreamError(
            f"{file}: column {name}: holds strings such as {text!r}, which the option 'categorical' refuses"
        )
    return widen_column(Column(name, "vocabulary"), cells, options, file)


def first_value(cells: Cells) -> int | None:
    """Find the first cell with a value; the first of all where the table itself says what it holds."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return 0
    return next((row for row, cell in enumerate(cells) if not is_gap(cell)), None)


def decide_column(column: Column, cells: Cells, options: StreamOptions) -> Column:
    """Tell from its first value what a column of a table holds: so blocks of any size agree."""
    row = first_value(cells)
    if column.kind != "unknown" or row is None:
        return column
    return replace(column, kind="text" if column.name in options.strings else _kind_of(cells, row))


def _kind_of(cells: Cells, row: int) -> Kind:
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        kinds: dict[str, Kind] = {"f": "number", "M": "date"}
        return kinds.get(cells.dtype.kind, "text")
    kind = None if are_categories(cells) else kind_of(cells[row])
    return "text" if kind is None or kind == "category" else kind


def widen_column(column: Column, cells: Cells, options: StreamOptions, file: str) -> Column:
    """Add the values of some more cells to what is known of a column."""
    if column.kind != "vocabulary":
        return column
    new = sorted({text_of(cell) for cell in cells if not is_gap(cell)} - set(column.values))
    if len(column.values) + len(new) > options.max_values:
        raise StreamError(
            f"{file}: column {column.name}: has more than {options.max_values} different strings; "
            "hash them (the option 'categorical') or leave the column out"
        )
    return replace(column, values=column.values + tuple(new))


def encode_columns(cells: dict[str, Cells], schema: Schema, options: StreamOptions, rows: KeptRows) -> Any:
    """Matrix of a table's rows; dense, or CSR where columns are hashed."""
    columns = _checked_columns(cells, schema, options, rows.file)
    dense = np.zeros((len(rows.mask), schema.n_features - schema.buckets))
    hashed: list[sparse.csr_array] = []
    at = 0
    for column in columns:
        values = cells[column.name]
        if column.kind == "number":
            numbers = read_numbers(values, column.name, "not a number", rows)
            dense[:, at] = _finite(numbers, column.name, values, rows)
            at += 1
        elif column.kind == "vocabulary":
            place = {value: at + position for position, value in enumerate(column.values)}
            for row, cell in enumerate(values):
                if is_gap(cell):
                    rows.filled(row, column.name, values)
                elif (position := place.get(text_of(cell))) is not None:
                    dense[row, position] = 1.0
            at += len(column.values)
        else:
            hashed.append(_hashed(values, column.name, schema.buckets, rows))
    if not hashed:
        return dense
    return sparse.csr_array(sparse.hstack([sparse.csr_array(dense), sum(hashed[1:], hashed[0])], format="csr"))


def table_columns(cells: dict[str, Cells], schema: Schema, rows: KeptRows) -> dict[str, Cells]:
    """Columns of a table's rows: arrays of numbers and dates, and lists of cells with None for those that are missing.

    The model decides what a cell means that is not of the kind of its column.
    """
    found: dict[str, Cells] = {}
    for column in schema.columns or ():
        values = cells.get(column.name)
        if values is None:
            values = [None] * len(rows.mask)
        if isinstance(values, np.ndarray) and values.dtype.kind == "M":
            found[column.name] = values
        elif column.kind == "number" and (numbers := _all_numbers(values)) is not None:
            found[column.name] = _finite(numbers, column.name, values, rows)
        else:
            texts = [_cell(row, column, values, rows) for row in range(len(values))]
            found[column.name] = categories(texts) if are_categories(values) else texts
    return found


def _all_numbers(cells: Cells) -> NDArray[np.float64] | None:
    """Numbers of cells that are all numbers or missing; None where there are others, or codes."""
    if isinstance(cells, list) and have_code(cells):
        return None
    numbers = plain_numbers(cells)
    if numbers is None:
        with suppress(ValueError, TypeError):
            numbers = np.array([to_number(cell) for cell in cells], dtype=np.float64)
    return numbers


def _cell(row: int, column: Column, cells: Cells, rows: KeptRows) -> Any:
    cell = cells[row]
    if is_gap(cell):
        number = rows.filled(row, column.name, cells)
        return None if isinstance(rows.missing, str) or column.kind != "number" else number
    if column.kind == "number" and isinstance(cell, str) and not have_code([cell]):
        with suppress(ValueError):
            cell = to_number(cell)
    if isinstance(cell, int | float) and not isinstance(cell, bool) and not is_finite_number(cell):
        rows.refuse(row, "not a finite number", column.name, cells)
        return None
    return cell.strip() if isinstance(cell, str) else cell


def _checked_columns(cells: dict[str, Cells], schema: Schema, options: StreamOptions, file: str) -> tuple[Column, ...]:
    """Return the columns of the features; refuse a table that lacks one or has others."""
    columns = schema.columns
    if columns is None:
        raise StreamError(f"{file}: is a table, but features without names are needed")
    known = {column.name for column in columns} | schema.left_out | {schema.label, *options.ignore}
    if absent := [column.name for column in columns if column.name not in cells]:
        unknown = [name for name in cells if name not in known]
        near = nearest(absent[0], unknown)
        hint = f" Is {near!r}, which was not there before, the column {absent[0]!r}?" if near else ""
        raise StreamError(f"{file}: the columns {listed(absent)} are missing.{hint}")
    if unknown := [name for name in cells if name not in known]:
        raise StreamError(
            f"{file}: the columns {listed(unknown)} were not there before; the option 'ignore' leaves them out"
        )
    return columns


def _finite(numbers: NDArray[np.float64], name: str, cells: Cells, rows: KeptRows) -> NDArray[np.float64]:
    if not np.isfinite(numbers).all():
        for at in np.flatnonzero(np.isinf(numbers)).tolist():
            rows.refuse(at, "not a finite number", name, cells)
        for at in np.flatnonzero(np.isnan(numbers)).tolist():
            numbers[at] = rows.filled(at, name, cells)
    return numbers


def _hashed(cells: Cells, name: str, buckets: int, kept: KeptRows) -> sparse.csr_array:
    """One signed entry a row, at the bucket of the hash of "name=value" (Weinberger et al., 2009)."""
    places: dict[str, tuple[int, float]] = {}
    rows, columns, signs = [], [], []
    for row, cell in enumerate(cells):
        if is_gap(cell):
            kept.filled(row, name, cells)
            continue
        text = text_of(cell)
        if text not in places:
            code = int(murmurhash3_32(f"{name}={text}".encode(), seed=0))
            places[text] = abs(code) % buckets, 1.0 if code >= 0 else -1.0
        rows.append(row)
        columns.append(places[text][0])
        signs.append(places[text][1])
    return sparse.csr_array((signs, (rows, columns)), shape=(len(cells), buckets))


def text_of(cell: Any) -> str:
    """Give the name of a category: a whole number without a decimal point."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return cell.strip() if isinstance(cell, str) else str(cell)


def _is_number(cell: Any) -> bool:
    try:
        to_number(cell)
    except (ValueError, TypeError):
        return False
    return True


def _mostly_numbers(cells: Cells) -> bool:
    # A stray word among numbers is a bad line to be told about, not a reason to take every number for a name.
    return isinstance(cells, np.ndarray) or sum(map(_is_number, cells)) >= 0.9 * len(cells)

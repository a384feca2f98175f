"""Rows as they come out of a file, before they are blocks: a matrix or a table, and the line each row came from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bomkl._support.stream_options import StreamOptions
from bomkl._support.validation import nearest
from bomkl.streams.columns import (
    decide_column,
    encode_columns,
    first_value,
    infer_column,
    table_columns,
    widen_column,
)
from bomkl.streams.errors import BadLines, KeptRows, StreamError
from bomkl.streams.labels import Cells, Lines, is_missing, label_kind, read_labels, read_weights, whole_if_possible
from bomkl.streams.reading import listed
from bomkl.streams.schema import Column, Schema
from bomkl.tables.errors import shown_names
from bomkl.tables.notices import Notices


class Rows(NamedTuple):
    """Features, labels (None where they are not read) and weights (None where there are none) of some rows."""

    X: Any
    y: NDArray[Any] | None
    weight: NDArray[np.float64] | None = None

    @property
    def n_rows(self) -> int:
        """How many they are."""
        return len(next(iter(self.X.values()))) if isinstance(self.X, dict) else int(self.X.shape[0])

    def between(self, begin: int, end: int) -> Rows:
        """Take some of them, one after the other."""
        if begin == 0 and end == self.n_rows:
            return self
        part = slice(begin, end)
        X = {name: cells[part] for name, cells in self.X.items()} if isinstance(self.X, dict) else self.X[part]
        return Rows(X, None if self.y is None else self.y[part], None if self.weight is None else self.weight[part])


class Part(Protocol):
    """What a reader yields: rows that share a file."""

    @property
    def lines(self) -> Lines:
        """Where in the file each row stands."""

    @property
    def label_cells(self) -> Cells | None:
        """Labels as they stand in the file, or None where there is no such column."""

    def infer(self, options: StreamOptions) -> Schema:
        """Guess the meaning of the columns from these rows alone."""

    def widen(self, schema: Schema, options: StreamOptions) -> Schema:
        """Make room in a schema for what these rows hold: more features, more values."""

    def extend(self, schema: Schema, options: StreamOptions, ignored: Counter[str]) -> Schema:
        """Take columns of a table into a schema that are new, or count the rows in which they are left out."""

    def encode(self, schema: Schema, options: StreamOptions, bad: BadLines) -> Rows:
        """Turn the rows into features and labels; rows that cannot be read are reported and left out."""

    def split(self, row: int) -> tuple[Part | None, Part]:
        """Cut before a row; None where there is nothing before it."""

    def first_to_decide(self, schema: Schema) -> int | None:
        """Find the first row that has a value in a column of which it is not known yet what it holds."""

    def decide(self, schema: Schema, options: StreamOptions) -> Schema:
        """Take the columns that have their first value in the first row for what it is."""


@dataclass
class Matrix:
    """Rows of a format whose features have only positions (svmlight, npz)."""

    file: str
    X: Any
    label_cells: Cells | None
    lines: Lines

    def infer(self, options: StreamOptions) -> Schema:
        """Guess the meaning of the columns."""
        kind = "number" if self.label_cells is None else label_kind(self.label_cells)
        return Schema(options.n_features or self._width(), label_kind=kind)

    def widen(self, schema: Schema, options: StreamOptions) -> Schema:
        """Make room in a schema."""
        return schema if options.n_features else replace(schema, n_features=max(schema.n_features, self._width()))

    def extend(self, schema: Schema, options: StreamOptions, ignored: Counter[str]) -> Schema:
        """Leave the schema as it is."""
        return schema

    def encode(self, schema: Schema, options: StreamOptions, bad: BadLines) -> Rows:
        """Turn the rows into features and labels."""
        if schema.columns is not None:
            names = [column.name for column in schema.columns]
            raise StreamError(f"{self.file}: features have no names here, but the columns {names} are needed")
        for setting in ("label", "weight", "ignore", "strings"):
            if (told := getattr(options, setting)) not in (None, ()):
                raise StreamError(
                    f"{self.file}: columns have no names here. The '{setting}' parameter of open_stream must be left "
                    f"out. Got {told!r} instead."
                )
        rows = KeptRows(self.file, self.lines, bad)
        X = self._sparse(schema, rows) if self._is_sparse else self._dense(schema, options, rows)
        return _finish(X, self.label_cells, None, schema, options, rows)

    def split(self, row: int) -> tuple[Matrix | None, Matrix]:
        """Cut before a row."""
        labels = self.label_cells
        parts = [
            Matrix(self.file, self.X[part], None if labels is None else labels[part], self.lines[part])
            for part in (slice(row), slice(row, None))
        ]
        return (parts[0] if row else None), parts[1]

    def first_to_decide(self, schema: Schema) -> None:
        """Tell that nothing has to be decided: all features are numbers."""

    def decide(self, schema: Schema, options: StreamOptions) -> Schema:
        """Leave the schema as it is."""
        return schema

    def _width(self) -> int:
        return int(self.X.indices.max(initial=0)) + 1 if self._is_sparse else int(self.X.shape[1])

    @property
    def _is_sparse(self) -> bool:
        return bool(sparse.issparse(self.X))

    def _sparse(self, schema: Schema, rows: KeptRows) -> Any:
        keep = rows.mask
        if self._width() > schema.n_features:
            for row in range(self.X.shape[0]):
                largest = self.X.indices[self.X.indptr[row] : self.X.indptr[row + 1]].max(initial=0)
                if largest >= schema.n_features:
                    rows.refuse(row, f"feature {largest + 1} is beyond the {schema.n_features} that were told or found")
            X = self.X[keep]
            # The struck rows stay as empty ones, so that row numbers go on meaning the same.
            starts = np.concatenate([[0], np.cumsum(np.where(keep, np.diff(self.X.indptr), 0))])
            return sparse.csr_array((X.data, X.indices, starts), shape=(len(keep), schema.n_features))
        return sparse.csr_array((self.X.data, self.X.indices, self.X.indptr), shape=(len(keep), schema.n_features))

    def _dense(self, schema: Schema, options: StreamOptions, rows: KeptRows) -> NDArray[np.float64]:
        if self.X.shape[1] != schema.n_features:
            raise StreamError(f"{self.file}: rows have {self.X.shape[1]} features, but {schema.n_features} are needed")
        X = np.array(self.X, dtype=np.float64)
        for row, column in zip(*np.nonzero(~np.isfinite(X)), strict=True):
            missing = np.isnan(X[row, column])
            if missing and not isinstance(options.missing, str):
                X[row, column] = options.missing
            elif missing and options.missing == "skip":
                rows.mask[row] = False
            else:
                rows.refuse(row, "the value is missing" if missing else "not a finite number", str(column))
        return X


@dataclass
class Table:
    """Rows with named columns (CSV, JSON lines, Arrow). A cell is a string, a number, a bool or None.

    `ragged` tables (JSON lines) may lack a column in a whole part; its cells are missing then. In `typed` tables, a
    text is a text, even if it looks like a number.
    """

    file: str
    cells: dict[str, Cells]
    lines: Lines
    label: str | None
    weight: str | None = None
    ragged: bool = False
    typed: bool = False

    @property
    def label_cells(self) -> Cells | None:
        """Labels as they stand in the file."""
        return None if self.label is None else self.cells[self.label]

    def infer(self, options: StreamOptions) -> Schema:
        """Guess the meaning of the columns."""
        other = {self.label, self.weight, *options.ignore}
        features = [name for name in self.cells if name not in other]
        if not features:
            raise StreamError(f"{self.file}: there is no feature column in {listed(list(self.cells))}")
        columns = tuple(infer_column(name, self.cells[name], options, self.file) for name in features)
        labels = self.label_cells if not options.as_tables or self.label_cells is None else self.label_cells[:1]
        kind = "number" if labels is None else label_kind(labels)
        buckets = options.buckets if any(column.kind == "hash" for column in columns) else 0
        return Schema(0, columns, self.label, tuple(options.ignore), buckets, kind, weight=self.weight).sized()

    def widen(self, schema: Schema, options: StreamOptions) -> Schema:
        """Make room in a schema."""
        if options.as_tables:
            return self._decided(schema, options, slice(None))
        known = {column.name: column for column in schema.columns or ()}
        other = {self.label, self.weight, *options.ignore}
        for name in self.cells:
            if name in other:
                continue
            if name in known:
                known[name] = widen_column(known[name], self.cells[name], options, self.file)
            else:
                known[name] = infer_column(name, self.cells[name], options, self.file)
        buckets = options.buckets if any(column.kind == "hash" for column in known.values()) else 0
        return replace(schema, columns=tuple(known.values()), buckets=buckets).sized()

    def _new(self, schema: Schema, options: StreamOptions) -> list[str]:
        known = {column.name for column in schema.columns or ()} | schema.left_out
        known |= {name for name in (schema.label, self.label, self.weight, *options.ignore) if name is not None}
        return [name for name in self.cells if name not in known]

    def extend(self, schema: Schema, options: StreamOptions, ignored: Counter[str]) -> Schema:
        """Take new columns into a schema, or count the rows in which they are left out."""
        new = self._new(schema, options) if options.as_tables and schema.columns is not None else []
        if not new:
            return schema
        columns = schema.columns or ()
        if not options.labels and not self.ragged and columns and not any(each.name in self.cells for each in columns):
            raise StreamError(
                f"{self.file}: must have columns that were learned from: "
                f"{shown_names(each.name for each in columns)}. Got {shown_names(new)} instead"
            )
        if options.new_columns == "refuse":
            raise StreamError(
                f"{self.file}: the columns {listed(new)} were not there before; leave them out with 'ignore'"
            )
        if options.new_columns == "ignore":
            for name in new:
                ignored[name] += sum(not is_missing(cell) for cell in self.cells[name])
            return schema
        return replace(schema, columns=(*columns, *(Column(name, "unknown") for name in new))).sized()

    def encode(self, schema: Schema, options: StreamOptions, bad: BadLines) -> Rows:
        """Turn the rows into features and labels."""
        schema = replace(schema, label=self.label or schema.label, weight=self.weight or schema.weight)
        rows = KeptRows(self.file, self.lines, bad)
        X: Any
        if options.as_tables:
            if schema.columns is None:
                raise StreamError(f"{self.file}: is a table, but features without names are needed")
            if not self.ragged:
                self._note_absent(schema, options)
            X = table_columns(self.cells, schema, options, rows, self.typed)
        else:
            cells = self.cells
            if self.ragged:
                absent: Cells = [None] * len(self.lines)
                cells = cells | {column.name: absent for column in schema.columns or () if column.name not in cells}
            X = encode_columns(cells, schema, options, rows)
        weights = None if self.weight is None else self.cells[self.weight]
        return _finish(X, self.label_cells, weights, schema, options, rows)

    def _note_absent(self, schema: Schema, options: StreamOptions) -> None:
        """Warn of columns that a file does not have, whose values are missing then."""
        notices = Notices()
        for column in schema.columns or ():
            if column.name not in self.cells:
                like = nearest(column.name, self._new(schema, options))
                notices.absent(column.name, len(self.lines), like)
        notices.warn()

    def split(self, row: int) -> tuple[Table | None, Table]:
        """Cut before a row."""
        parts = [
            replace(self, cells={name: cells[part] for name, cells in self.cells.items()}, lines=self.lines[part])
            for part in (slice(row), slice(row, None))
        ]
        return (parts[0] if row else None), parts[1]

    def first_to_decide(self, schema: Schema) -> int | None:
        """Find the first row with the first value of a column."""
        open_columns = [column.name for column in schema.columns or () if column.kind == "unknown"]
        rows = [first_value(self.cells[name]) for name in open_columns if name in self.cells]
        return min((row for row in rows if row is not None), default=None)

    def decide(self, schema: Schema, options: StreamOptions) -> Schema:
        """Take columns for what their value in the first row is."""
        return self._decided(schema, options, slice(1))

    def _decided(self, schema: Schema, options: StreamOptions, rows: slice) -> Schema:
        columns = tuple(
            decide_column(each, self.cells[each.name][rows], options, self.typed) if each.name in self.cells else each
            for each in schema.columns or ()
        )
        return replace(schema, columns=columns)


def _finish(
    X: Any, cells: Cells | None, weights: Cells | None, schema: Schema, options: StreamOptions, rows: KeptRows
) -> Rows:
    """Read labels and weights, and leave out the rows that were struck."""
    y, weight, keep = None, None, rows.mask
    if options.labels:
        if cells is None:
            raise StreamError(f"{rows.file}: there are no labels")
        y = read_labels(cells, schema, rows)
        if weights is not None:
            weight = read_weights(weights, schema, rows)
    if not keep.all():
        y, weight = (None if each is None else each[keep] for each in (y, weight))
        X = {name: _kept(column, keep) for name, column in X.items()} if isinstance(X, dict) else X[keep]
    return Rows(X, y if y is None or options.target == "number" else whole_if_possible(y), weight)


def _kept(column: Cells, keep: NDArray[np.bool_]) -> Cells:
    return column[keep] if isinstance(column, np.ndarray) else list(compress(column, keep))

"""Rows as they come out of a file, a matrix or a table with the line of each row, and the blocks made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bomkl._support.stream_options import StreamOptions
from bomkl._support.validation import nearest
from bomkl.streams.cells import Cells, Lines
from bomkl.streams.columns import decide_column, encode_columns, first_value, infer_column, table_columns, widen_column
from bomkl.streams.errors import BadLines, KeptRows, StreamError
from bomkl.streams.labels import first_label, label_kind, read_labels, read_weights, whole_if_possible
from bomkl.streams.reading import listed
from bomkl.streams.schema import Column, Schema
from bomkl.tables.cells import are_categories, categories, taken
from bomkl.tables.errors import shown_names
from bomkl.tables.notices import Notices
from bomkl.tables.numbers import is_gap


class Block(tuple[Any, Any]):
    """Some rows: features and labels, as a pair."""

    weight: NDArray[np.float64] | None

    def __new__(cls, X: Any, y: NDArray[Any] | None, weight: NDArray[np.float64] | None = None) -> Self:
        """Make the pair.

        Parameters
        ----------
        X : ndarray, csr_array or dict
            A dense or CSR matrix; with ``as_tables``, a dict of columns.
        y : ndarray or None
            Labels; None where they are not read.
        weight : ndarray or None, default=None
            Weights of the rows; None where there is no such column.
        """
        block = super().__new__(cls, (X, y))
        block.weight = weight
        return block

    @property
    def X(self) -> Any:  # noqa: N802
        """Features."""
        return self[0]

    @property
    def y(self) -> Any:
        """Labels."""
        return self[1]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.X.values()))) if isinstance(self.X, dict) else int(self.X.shape[0])

    def between(self, begin: int, end: int) -> Block:
        """Take some rows, one after the other.

        Parameters
        ----------
        begin, end : int
            The first of them, and the one after the last.

        Returns
        -------
        Block
        """
        return self if begin == 0 and end == self.n_rows else self.take(slice(begin, end))

    def take(self, rows: Any) -> Block:
        """Take some rows, by a slice, a mask or their numbers."""
        X: Any = self.X
        X = {name: taken(cells, rows) for name, cells in X.items()} if isinstance(X, dict) else X[rows]
        return Block(X, *(None if each is None else each[rows] for each in (self.y, self.weight)))


def joined(blocks: list[Block]) -> Block:
    """Put rows together, one after the other; a column that some do not have is missing there."""
    if len(blocks) == 1:
        return blocks[0]
    X: Any
    if isinstance(blocks[0].X, dict):
        names = dict.fromkeys(name for each in blocks for name in each.X)
        X = {name: _joined_cells([each.X.get(name, [None] * each.n_rows) for each in blocks]) for name in names}
    elif sparse.issparse(blocks[0].X):
        X = sparse.csr_array(sparse.vstack([each.X for each in blocks]))
    else:
        X = np.concatenate([each.X for each in blocks])
    labels = [each.y for each in blocks if each.y is not None]
    weights = [each.weight for each in blocks if each.weight is not None]
    return Block(X, np.concatenate(labels) if labels else None, np.concatenate(weights) if weights else None)


def _joined_cells(columns: list[Any]) -> Any:
    if any(map(are_categories, columns)):
        return categories([cell for column in columns for cell in column])
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns)
    return [cell for column in columns for cell in column]


@dataclass
class Matrix:
    """Rows of a format whose features have only positions (svmlight, npz)."""

    file: str
    X: Any
    label_cells: Cells | None
    lines: Lines

    def infer(self, options: StreamOptions) -> Schema:
        kind = "number" if self.label_cells is None else label_kind(self.label_cells)
        return Schema(options.n_features or self._width(), label_kind=kind)

    def widen(self, schema: Schema, options: StreamOptions) -> Schema:
        return schema if options.n_features else replace(schema, n_features=max(schema.n_features, self._width()))

    def extend(self, schema: Schema, options: StreamOptions, ignored: Counter[str]) -> Schema:
        """Leave the schema as it is."""
        return schema

    def encode(self, schema: Schema, options: StreamOptions, bad: BadLines) -> Block:
        if schema.columns is not None:
            names = [column.name for column in schema.columns]
            raise StreamError(f"{self.file}: features have no names here, but the columns {names} are needed")
        for setting in ("label", "weight", "ignore", "strings"):
            if (told := getattr(options, setting)) not in (None, ()):
                raise StreamError(
                    f"{self.file}: columns have no names here. The option '{setting}' must be left out. "
                    f"Got {told!r} instead."
                )
        rows = KeptRows(self.file, self.lines, bad, "error" if options.missing == "keep" else options.missing)
        X = self._sparse(schema, rows) if self._is_sparse else self._dense(schema, rows)
        return _finish(X, self.label_cells, None, schema, options, rows)

    def __getitem__(self, rows: slice) -> Matrix:
        labels = None if self.label_cells is None else self.label_cells[rows]
        return Matrix(self.file, self.X[rows], labels, self.lines[rows])

    def pieces(self, schema: Schema, options: StreamOptions) -> Iterator[tuple[Schema, Matrix]]:
        """Leave the rows together: all features are numbers."""
        yield schema, self

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

    def _dense(self, schema: Schema, rows: KeptRows) -> NDArray[np.float64]:
        if self.X.shape[1] != schema.n_features:
            raise StreamError(f"{self.file}: rows have {self.X.shape[1]} features, but {schema.n_features} are needed")
        X = np.array(self.X, dtype=np.float64)
        for row, column in zip(*np.nonzero(~np.isfinite(X)), strict=True):
            if np.isnan(X[row, column]):
                X[row, column] = rows.filled(row, str(column))
            else:
                rows.refuse(row, "not a finite number", str(column))
        return X


@dataclass
class Table:
    """Rows with named columns (CSV, JSON lines, Arrow). A cell is a string, a number, a bool or None.

    `ragged` tables (JSON lines) may lack a column in a whole part; its cells are missing then.
    """

    file: str
    cells: dict[str, Cells]
    lines: Lines
    label: str | None
    weight: str | None = None
    ragged: bool = False

    @property
    def label_cells(self) -> Cells | None:
        """Labels as they stand in the file."""
        return None if self.label is None else self.cells[self.label]

    def _features(self, options: StreamOptions) -> list[str]:
        other = {self.label, self.weight, *options.ignore}
        return [name for name in self.cells if name not in other]

    def infer(self, options: StreamOptions) -> Schema:
        """Guess the meaning of the columns from these rows alone."""
        features = self._features(options)
        if not features:
            raise StreamError(f"{self.file}: there is no feature column in {listed(list(self.cells))}")
        columns = [infer_column(name, self.cells[name], options, self.file) for name in features]
        labels = self.label_cells
        if options.as_tables and labels is not None:
            labels = first_label(labels)
        kind = "number" if labels is None else label_kind(labels)
        schema = Schema(0, (), self.label, tuple(options.ignore), label_kind=kind, weight=self.weight)
        return schema.with_columns(columns, options.buckets)

    def widen(self, schema: Schema, options: StreamOptions) -> Schema:
        """Make room in a schema for what these rows hold."""
        if options.as_tables:
            return self._decided(schema, options, slice(None))
        known = {column.name: column for column in schema.columns or ()}
        for name in self._features(options):
            told = self.cells[name], options, self.file
            known[name] = widen_column(known[name], *told) if name in known else infer_column(name, *told)
        return schema.with_columns(known.values(), options.buckets)

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
                f"{self.file}: the columns {listed(new)} were not there before; the option 'ignore' leaves them out"
            )
        if options.new_columns == "ignore":
            for name in new:
                ignored[name] += sum(not is_gap(cell) for cell in self.cells[name])
            return schema
        return schema.with_columns([*columns, *(Column(name, "unknown") for name in new)])

    def encode(self, schema: Schema, options: StreamOptions, bad: BadLines) -> Block:
        """Turn the rows into features and labels; rows that cannot be read are reported and left out."""
        schema = replace(schema, label=self.label or schema.label, weight=self.weight or schema.weight)
        rows = KeptRows(self.file, self.lines, bad, options.missing)
        X: Any
        if options.as_tables:
            if schema.columns is None:
                raise StreamError(f"{self.file}: is a table, but features without names are needed")
            if not self.ragged:
                self._note_absent(schema, options)
            X = table_columns(self.cells, schema, rows)
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

    def __getitem__(self, rows: slice) -> Table:
        return replace(self, cells={name: cells[rows] for name, cells in self.cells.items()}, lines=self.lines[rows])

    def pieces(self, schema: Schema, options: StreamOptions) -> Iterator[tuple[Schema, Table]]:
        """Cut the rows where a column shows what it holds, with its first value; each piece has a schema of its own."""
        part = self
        while (row := part._first_to_decide(schema)) is not None:
            if row:
                yield schema, part[:row]
            part = part[row:]
            schema = part._decided(schema, options, slice(1))
        yield schema, part

    def _first_to_decide(self, schema: Schema) -> int | None:
        open_columns = [column.name for column in schema.columns or () if column.kind == "unknown"]
        rows = [first_value(self.cells[name]) for name in open_columns if name in self.cells]
        return min((row for row in rows if row is not None), default=None)

    def _decided(self, schema: Schema, options: StreamOptions, rows: slice) -> Schema:
        columns = tuple(
            decide_column(each, self.cells[each.name][rows], options) if each.name in self.cells else each
            for each in schema.columns or ()
        )
        return replace(schema, columns=columns)


Part = Matrix | Table  # what a reader yields: rows that share a file


def _finish(
    X: Any, cells: Cells | None, weights: Cells | None, schema: Schema, options: StreamOptions, rows: KeptRows
) -> Block:
    """Read labels and weights, and leave out the rows that were struck."""
    y, weight = None, None
    if options.labels:
        if cells is None:
            raise StreamError(f"{rows.file}: there are no labels")
        y = read_labels(cells, schema, rows)
        if weights is not None:
            weight = read_weights(weights, schema, rows)
    block = Block(X, y, weight)
    block = block if rows.mask.all() else block.take(rows.mask)
    if y is None or options.target == "number":
        return block
    return Block(block.X, whole_if_possible(block.y), block.weight)

"""Rows as they come out of a file, before they are blocks: a matrix or a table, and the line each row came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bomkl.streams.columns import encode_columns, infer_column, widen_column
from bomkl.streams.errors import BadLineError, BadLines, StreamError
from bomkl.streams.labels import Cells, Lines, label_kind, read_labels, whole_if_possible
from bomkl.streams.options import Options
from bomkl.streams.schema import Schema

Rows = tuple[Any, NDArray[Any] | None]


class Part(Protocol):
    """What a reader yields: rows that share a file."""

    @property
    def label_cells(self) -> Cells | None:
        """Labels as they stand in the file, or None where there is no such column."""

    def infer(self, options: Options) -> Schema:
        """Guess the meaning of the columns from these rows alone."""

    def widen(self, schema: Schema, options: Options) -> Schema:
        """Make room in a schema for what these rows hold: more features, more values."""

    def encode(self, schema: Schema, options: Options, bad: BadLines) -> Rows:
        """Turn the rows into features and labels; rows that cannot be read are reported and left out."""


@dataclass
class Matrix:
    """Rows of a format whose features have only positions (svmlight, npz)."""

    file: str
    X: Any
    label_cells: Cells | None
    lines: Lines

    def infer(self, options: Options) -> Schema:
        """Guess the meaning of the columns."""
        kind = "number" if self.label_cells is None else label_kind(self.label_cells)
        return Schema(options.n_features or self._width(), label_kind=kind)

    def widen(self, schema: Schema, options: Options) -> Schema:
        """Make room in a schema."""
        return schema if options.n_features else replace(schema, n_features=max(schema.n_features, self._width()))

    def encode(self, schema: Schema, options: Options, bad: BadLines) -> Rows:
        """Turn the rows into features and labels."""
        if schema.columns is not None:
            names = [column.name for column in schema.columns]
            raise StreamError(f"{self.file}: features have no names here, but the columns {names} are needed")
        keep = np.ones(self.X.shape[0], dtype=bool)
        X = self._sparse(schema, keep, bad) if self._is_sparse else self._dense(schema, keep, options, bad)
        return _finish(X, self.label_cells, schema, keep, self.file, self.lines, options, bad)

    def _width(self) -> int:
        return int(self.X.indices.max(initial=0)) + 1 if self._is_sparse else int(self.X.shape[1])

    @property
    def _is_sparse(self) -> bool:
        return bool(sparse.issparse(self.X))

    def _sparse(self, schema: Schema, keep: NDArray[np.bool_], bad: BadLines) -> Any:
        if self._width() > schema.n_features:
            for row in range(self.X.shape[0]):
                largest = self.X.indices[self.X.indptr[row] : self.X.indptr[row + 1]].max(initial=0)
                if largest >= schema.n_features:
                    keep[row] = False
                    reason = f"feature {largest + 1} is beyond the {schema.n_features} that were told or found"
                    bad.report(BadLineError(self.file, int(self.lines[row]), reason))
            X = self.X[keep]
            # The struck rows stay as empty ones, so that row numbers go on meaning the same.
            starts = np.concatenate([[0], np.cumsum(np.where(keep, np.diff(self.X.indptr), 0))])
            return sparse.csr_array((X.data, X.indices, starts), shape=(len(keep), schema.n_features))
        return sparse.csr_array((self.X.data, self.X.indices, self.X.indptr), shape=(len(keep), schema.n_features))

    def _dense(self, schema: Schema, keep: NDArray[np.bool_], options: Options, bad: BadLines) -> NDArray[np.float64]:
        if self.X.shape[1] != schema.n_features:
            raise StreamError(f"{self.file}: rows have {self.X.shape[1]} features, but {schema.n_features} are needed")
        X = np.array(self.X, dtype=np.float64)
        for row, column in zip(*np.nonzero(~np.isfinite(X)), strict=True):
            missing = np.isnan(X[row, column])
            if missing and not isinstance(options.missing, str):
                X[row, column] = options.missing
            elif keep[row]:
                keep[row] = False
                if not (missing and options.missing == "skip"):
                    reason = "the value is missing" if missing else "not a finite number"
                    bad.report(BadLineError(self.file, int(self.lines[row]), reason, column=str(column)))
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
    ragged: bool = False

    @property
    def label_cells(self) -> Cells | None:
        """Labels as they stand in the file."""
        return None if self.label is None else self.cells[self.label]

    def infer(self, options: Options) -> Schema:
        """Guess the meaning of the columns."""
        ignored = set(options.ignore)
        features = [name for name in self.cells if name != self.label and name not in ignored]
        if not features:
            raise StreamError(f"{self.file}: there is no feature column in {list(self.cells)}")
        columns = tuple(infer_column(name, self.cells[name], options, self.file) for name in features)
        kind = "number" if self.label_cells is None else label_kind(self.label_cells)
        buckets = options.buckets if any(column.kind == "hash" for column in columns) else 0
        return Schema(0, columns, self.label, options.ignore, buckets, kind).sized()

    def widen(self, schema: Schema, options: Options) -> Schema:
        """Make room in a schema."""
        known = {column.name: column for column in schema.columns or ()}
        ignored = set(options.ignore)
        for name in self.cells:
            if name == self.label or name in ignored:
                continue
            if name in known:
                known[name] = widen_column(known[name], self.cells[name], options, self.file)
            else:
                known[name] = infer_column(name, self.cells[name], options, self.file)
        buckets = options.buckets if any(column.kind == "hash" for column in known.values()) else 0
        return replace(schema, columns=tuple(known.values()), buckets=buckets).sized()

    def encode(self, schema: Schema, options: Options, bad: BadLines) -> Rows:
        """Turn the rows into features and labels."""
        keep = np.ones(len(self.lines), dtype=bool)
        cells = self.cells
        if self.ragged:
            absent: Cells = [None] * len(self.lines)
            cells = cells | {column.name: absent for column in schema.columns or () if column.name not in cells}
        X = encode_columns(cells, schema, keep, self.file, self.lines, options, bad)
        return _finish(X, self.label_cells, schema, keep, self.file, self.lines, options, bad)


def _finish(
    X: Any,
    cells: Cells | None,
    schema: Schema,
    keep: NDArray[np.bool_],
    file: str,
    lines: Lines,
    options: Options,
    bad: BadLines,
) -> Rows:
    """Read the labels and leave out the rows that were struck."""
    if not options.labels:
        return (X if keep.all() else X[keep]), None
    if cells is None:
        raise StreamError(f"{file}: there are no labels")
    y = read_labels(cells, schema, keep, file, lines, bad)
    if not keep.all():
        X, y = X[keep], y[keep]
    return X, y if options.target == "number" else whole_if_possible(y)

"""Rows that have some columns of one row and some of another: what importances and contributions are measured with."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bomkl.auto.insight.copies import leaders
from bomkl.auto.limits import CELLS
from bomkl.auto.rows.arrays import array_bytes
from bomkl.auto.saved import Saved, State
from bomkl.auto.wide.sparse_rows import rows_from_state, rows_to_state
from bomkl.tables.encoded import EncodedRows, numbers_of

Int = NDArray[np.intp]

_TEXTS = (0, 1)  # kinds of cells: none seen yet, and strings; others are numbers


class RowMixer:
    """How the columns of the user lie in the rows of a learner.

    `of_places`: the column that each column of numbers belongs to; None for one not in use. `of_cells`: the columns
    whose cells rows have as well; none of a matrix.

    Examples
    --------
    >>> mixer = RowMixer(["a", "b"], ["a", "b", "b"], [])
    >>> mixer.mixed(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[0, 1]]))
    array([[1., 5., 6.]])
    """

    def __init__(self, names: Sequence[Any], of_places: Sequence[Any], of_cells: Sequence[Any]) -> None:
        number = {name: at for at, name in enumerate(names)}
        self.names = list(names)
        # A place not in use holds the same in all rows, so it may go with any column
        self._of_places: Int = np.array([number.get(name, 0) for name in of_places], dtype=np.intp)
        self._of_cells = [number[name] for name in of_cells]
        present = {number[name] for name in of_places if name in number}
        self.columns: Int = np.array(sorted(present), dtype=np.intp)  # those that rows have
        self.leaders: Int = np.arange(len(names))  # the column that each goes with

    def places_of(self, column: int) -> Int:
        """Columns of numbers that belong to a column of the user."""
        return np.flatnonzero(self._of_places == column)

    def cells_of(self, rows: EncodedRows, column: int) -> Any:
        """Cells of a column of the user, if rows have them."""
        return rows.cells[self._of_cells.index(column)][1] if column in self._of_cells else None

    def mixed(self, rows: Any, source: Int) -> Any:
        """Put rows together.

        `rows`: rows as the learner takes them. `source` (n_mixed, n_columns): the row that each column of each new row
        comes from.
        """
        of_places = np.take(source, self._of_places, axis=1)  # in C order, which what it picks then has, too
        if not isinstance(rows, EncodedRows):
            return np.take_along_axis(np.asarray(rows), of_places, axis=0)
        numbers = np.take_along_axis(rows.numbers, of_places, axis=0)
        cells = [
            (kind, None if values is None else taken(values, source[:, column]))
            for (kind, values), column in zip(rows.cells, self._of_cells, strict=True)
        ]
        return EncodedRows(numbers, cells)

    def differ(self, rows: Any, some: Int, others: Int) -> NDArray[np.bool_]:
        """Tell for pairs of rows which columns, or others that they lead, differ, (n_pairs, n_columns)."""
        numbers = numbers_of(rows)
        unequal = numbers[some] != numbers[others]
        found = np.zeros((len(some), len(self.names)), dtype=bool)
        for place in np.flatnonzero(unequal.any(axis=0)):
            found[:, self._of_places[place]] |= unequal[:, place]
        if isinstance(rows, EncodedRows):
            for (_, values), column in zip(rows.cells, self._of_cells, strict=True):
                if values is not None:
                    found[:, column] |= [values[i] != values[j] for i, j in zip(some, others, strict=True)]
        for led in np.flatnonzero(self.leaders != np.arange(len(self.names))):
            found[:, self.leaders[led]] |= found[:, led]
        return found

    def group(self, parts: list[Any]) -> Int:
        """Group columns whose ranks agree over all `parts`; return the leader of each group. Texts stay alone."""
        numbers, last = np.vstack([numbers_of(part) for part in parts]), parts[-1]
        cells = zip(last.cells, self._of_cells, strict=True) if isinstance(last, EncodedRows) else ()
        places = ~np.isin(self._of_places, [column for (kind, _), column in cells if kind in _TEXTS])
        self.leaders = leaders(numbers[:, places], self._of_places[places], len(self.names))
        return np.unique(self.leaders[self.columns])


class WideRowMixer:
    """How the columns of one very wide row lie in rows: each that it has a value of, and all others as one.

    `columns`: columns of the row that have a value, in order.
    """

    def __init__(self, columns: Int) -> None:
        self._own = columns
        self.names: list[Any] = [*columns.tolist(), None]  # None stands for all others
        self.columns: Int = np.arange(len(self.names))

    def mixed(self, rows: sp.csr_matrix, source: Int) -> sp.csr_matrix:
        """Put rows together; as for `RowMixer`."""
        own = rows[:, self._own].toarray()
        others = rows.copy()
        others.data = np.where(np.isin(rows.indices, self._own), 0.0, rows.data)
        others.eliminate_zeros()
        n, k = source.shape[0], len(self._own)
        values = np.take_along_axis(own, source[:, :-1], axis=0).ravel()
        places = np.tile(self._own, n), np.arange(n + 1) * k
        mixed = sp.csr_matrix((values, *places), shape=(n, rows.shape[1])) + others[source[:, -1]]
        mixed.eliminate_zeros()
        return sp.csr_matrix(mixed)


def taken(values: Any, rows: Int) -> Any:
    """Give the values of some rows, of an array or of a list of texts."""
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows.tolist()]


def stacked(parts: list[Any]) -> Any:
    """Put rows of a learner below each other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if sp.issparse(first):
        return sp.vstack(parts, format="csr")
    if not isinstance(first, EncodedRows):
        return np.vstack(parts)
    numbers = np.vstack([part.numbers for part in parts])
    sizes = [part.shape[0] for part in parts]
    return EncodedRows(numbers, [_stacked_cells(each, sizes) for each in zip(*(p.cells for p in parts), strict=True)])


def _stacked_cells(cells: tuple[Any, ...], sizes: list[int]) -> Any:
    """Cells of one column from several parts; one that had shown no value is missing in all rows of its part."""
    kind = max(kind for kind, _ in cells)
    if kind == 0:
        return 0, None
    if kind == 1:
        texts: list[Any] = []
        for (_, values), size in zip(cells, sizes, strict=True):
            texts += [None] * size if values is None else list(values)
        return 1, texts
    parts = [np.full(n, np.nan) if values is None else values for (_, values), n in zip(cells, sizes, strict=True)]
    return kind, np.concatenate(parts)


def copied(rows: Any) -> Any:
    """Rows that stay what they are when the caller's change, on the processor."""
    if isinstance(rows, EncodedRows):
        cells = [(k, None if v is None else v.copy() if isinstance(v, np.ndarray) else list(v)) for k, v in rows.cells]
        return EncodedRows(CELLS.clip(rows.numbers), cells)  # an estimate of a gap may be a rounding too large
    if hasattr(rows, "indptr"):
        return rows.copy()
    dense = rows.toarray() if hasattr(rows, "toarray") else rows
    return CELLS.clip(np.array(dense, dtype=np.float64))


def row_bytes(rows: Any) -> int:
    """Memory of rows of a learner, in bytes; their texts count as well."""
    cells = rows.cells if isinstance(rows, EncodedRows) else ()
    texts = (text for kind, values in cells if kind == 1 for text in values or ())
    return array_bytes(rows) + sum(map(getsizeof, texts))


def mixed_state(rows: Any) -> State:
    """Rows of a learner as plain values and arrays."""
    if hasattr(rows, "indptr"):
        return {"sparse": rows_to_state(rows)}
    if not isinstance(rows, EncodedRows):
        return {"numbers": rows}
    cells: list[State] = []
    for kind, values in rows.cells:
        if values is None or kind == 1:
            cells.append({"kind": kind, "texts": None if values is None else list(values)})
        else:
            missing = np.isnan(values)
            cells.append({"kind": kind, "values": np.where(missing, 0.0, values), "missing": missing})
    return {"numbers": rows.numbers, "cells": cells}


def mixed_from_state(saved: Saved, rows: int, columns: int, cells: int | None) -> Any:
    """Bring rows of so many columns back, with the cells of so many columns; refuse what does not fit."""
    if saved.has("sparse"):
        found: Any = rows_from_state(saved.part("sparse"), rows, columns)
    elif cells is None:
        found = saved.array("numbers", (rows, columns), np.float64, *CELLS)
    else:
        numbers = saved.array("numbers", (rows, columns), np.float64, *CELLS)
        parts = saved.parts("cells", cells)
        if len(parts) != cells:
            raise saved.wrong("cells", f"those of {cells} columns", len(parts))
        found = EncodedRows(numbers, [_cells_from_state(part, rows) for part in parts])
    saved.end()
    return found


def _cells_from_state(saved: Saved, rows: int) -> Any:
    kind = saved.integer("kind", 0, 3)
    if kind in _TEXTS:
        texts = saved.unread("texts")
        right = isinstance(texts, list) and all(text is None or type(text) is str for text in texts)
        if texts is not None if kind == 0 else not right or len(texts) != rows:
            raise saved.wrong("texts", f"{rows} texts, or none without a kind", type(texts))
        cells: Any = (kind, texts)
    else:
        values = saved.array("values", (rows,), np.float64, *CELLS)
        cells = (kind, np.where(saved.array("missing", (rows,), dtype=np.bool_), np.nan, values))
    saved.end()
    return cells

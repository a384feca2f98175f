"""Missing values of matrices: NaN is filled in by the encoder of tables, from the first row on that has one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.tables import TableEncoder
from bomkl.tables.encoded import EncodedRows
from bomkl.tables.frames import read_table

MISSING = ("learn", "refuse")


def has_missing(X: Any) -> bool:
    """Whether a matrix of numbers without infinite ones has a NaN.

    Examples
    --------
    >>> has_missing(np.array([[1.0, np.nan]])), has_missing(np.array([[1.0, 2.0]]))
    (True, False)
    """
    values = X.data if hasattr(X, "tocsr") else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(values.sum()) and np.isnan(values).any())


def first_missing(X: Any) -> int:
    """Row of the first NaN of a matrix that has one.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> first_missing(np.array([[1.0], [np.nan]])), first_missing(csr_matrix([[0.0, 0.0], [1.0, np.nan]]))
    (1, 1)
    """
    if hasattr(X, "tocsr"):
        return int(np.searchsorted(X.indptr, int(np.isnan(X.data).argmax()), side="right")) - 1
    return int(np.isnan(X).any(axis=1).argmax())


def rows_before_filler(X: Any, learned: NDArray[np.bool_]) -> int:
    """How many rows to take before what fills NaN begins; 0 where it begins with the first row, or never.

    It begins with the first row to learn from that has NaN, and with what was learned by then. Rows with NaN before,
    which are not learned from, are taken one by one.

    Examples
    --------
    >>> X = np.array([[1.0], [np.nan], [2.0]])
    >>> rows_before_filler(X, np.array([True, True, True])), rows_before_filler(X[1:], np.array([False, True]))
    (1, 1)
    """
    return (first_missing(X) or int(not learned[0])) if has_missing(X) else 0


def without_missing(X: Any) -> Any:
    """Very wide rows with zeros for NaN: there, a zero stands for whatever a row does not have."""
    if not hasattr(X, "tocsr"):
        return np.where(np.isnan(X), X.dtype.type(0), X)
    rows: Any = X.copy()
    rows.data[np.isnan(rows.data)] = 0
    return rows


def new_filler(columns: int, stored: Float) -> TableEncoder:
    """Make what fills NaN, with what the rows in the memory of a model show."""
    filler = TableEncoder(types=dict.fromkeys(range(columns), "number"), one_hot=0)
    if not len(stored):
        return filler.begin(np.zeros((1, columns)))
    return filler.fit(stored)


def filler_from_state(state: dict[str, Any], columns: int) -> TableEncoder:
    """Restore the filler of a saved model; refuse that of other columns."""
    filler = TableEncoder(types=dict.fromkeys(range(columns), "number"), one_hot=0)
    filler.restore(state)
    if list(filler.kinds_.items()) != [(at, "number") for at in range(columns)] or filler.n_features_out_ != columns:
        raise ValueError("'_filler' of the saved model does not have the columns of its rows.")
    return filler


def filled(filler: TableEncoder, X: Any) -> EncodedRows:
    """Rows without NaN, to predict; NaN stays in their cells."""
    return filler.encode_with_cells(dense(X))


def filled_and_learned(filler: TableEncoder, X: Any, learned: NDArray[np.bool_]) -> tuple[EncodedRows, TableEncoder]:
    """Rows likewise, each filled by what came before it, and the filler that has learned from some of them."""
    rows, update = filler.prepare(read_table(dense(X)), None, learned)
    after = filler.fork()
    after.apply(update)
    return EncodedRows(rows, update.cells), after


def dense(X: Any) -> NDArray[Any]:
    """Rows of a matrix of any kind as an array."""
    rows: NDArray[Any] = X.toarray() if hasattr(X, "toarray") else X
    return rows

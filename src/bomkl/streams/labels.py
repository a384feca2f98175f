"""Labels: numbers or strings, checked against the classes that may occur."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.streams.cells import Cells, read_numbers, to_number
from bomkl.streams.errors import KeptRows
from bomkl.streams.schema import LabelKind, Schema
from bomkl.tables.numbers import is_gap


def has_labels(cells: Cells | None) -> bool:
    """Tell whether some row has a label, or rows have no labels at all."""
    return cells is None or not all(map(is_gap, cells))


def first_label(cells: Cells) -> Cells:
    """Give the first label that is there, alone; nothing where there is none."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return cells[:1]
    return next(([cell] for cell in cells if not is_gap(cell)), [])


def label_kind(cells: Cells) -> LabelKind:
    """Tell numbers from strings: labels are strings as soon as one of them is no number."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return "number" if cells.dtype.kind in "biuf" else "string"
    for cell in set(map(str, cells)):
        try:
            to_number(cell)
        except ValueError:
            return "string"
    return "number"


def read_labels(cells: Cells, schema: Schema, rows: KeptRows) -> NDArray[Any]:
    """Labels of all rows; those whose label cannot be used are refused."""
    y: NDArray[Any]
    if schema.label_kind == "string":
        y = np.array(["" if is_gap(cell) else str(cell) for cell in cells])
        present = y != ""
    else:
        y = read_numbers(cells, schema.label, "the label is not a number", rows)
        present = ~np.isnan(y)
        for row in np.flatnonzero(np.isinf(y)).tolist():
            rows.refuse(row, "the label is not a finite number", schema.label, cells)
    for row in np.flatnonzero(~present).tolist():
        rows.refuse(row, "the label is missing", schema.label, cells)
    if schema.classes is not None:
        for row in np.flatnonzero(~np.isin(y, np.array(schema.classes)) & rows.mask).tolist():
            rows.refuse(row, f"the label is none of the classes {list(schema.classes)}", schema.label, cells)
    return y


def read_weights(cells: Cells, schema: Schema, rows: KeptRows) -> NDArray[np.float64]:
    """Weights of all rows; those whose weight cannot be used are refused."""
    weights = read_numbers(cells, schema.weight, "the weight is not a number", rows)
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0))).tolist():
        rows.refuse(row, "the weight must be a finite number >= 0", schema.weight, cells)
    return weights


def whole_if_possible(y: NDArray[Any]) -> NDArray[Any]:
    """Labels such as 1.0 and -1.0 as the integers they are written as."""
    if y.dtype.kind == "f" and np.all(np.abs(y) < 2**53) and np.all(y == np.floor(y)):
        return y.astype(np.int64)
    return y

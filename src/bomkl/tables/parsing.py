"""Cells of a column as what it holds: the one place that decides what fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bomkl._support.limits import LARGEST
from bomkl.tables import cells as cell_types
from bomkl.tables.cells import Kind, is_gap, kind_of
from bomkl.tables.errors import cell_error
from bomkl.tables.frames import Cells
from bomkl.tables.notices import Notices
from bomkl.tables.values import Float, Values

_RULE = "hold numbers, strings, booleans or dates"
_CONVERT: dict[str, Callable[[Any], float]] = {
    "number": cell_types.number,
    "boolean": cell_types.truth,
    "date": cell_types.days,
}


def kind_of_first(name: Any, cells: Cells, row: int) -> Kind:
    """Tell what a column holds from its first value: so all ways to cut rows into calls agree."""
    if cells.kind is not None:
        return cells.kind
    kind = kind_of(cells.values[row])
    if kind is None:
        raise cell_error(name, _RULE, cells.first_row + row, cells.values[row])
    return kind


def first_value(cells: Cells, rows: Any = None) -> int | None:
    """Find the first cell with a value, of all or of some rows; None where all are missing."""
    if rows is None:
        rows = range(len(cells.values))
    return next((int(row) for row in rows if not is_gap(cells.values[row])), None)


def parsed(name: Any, kind: Kind, cells: Cells, notices: Notices, known: Values | None = None) -> Cells:
    """Give cells as what their column holds: numbers, booleans and days as floats, categories as whole strings.

    A value of another kind counts as missing, and is noted. What no column can hold, and infinity, is an error.

    Parameters
    ----------
    name : str or int
        The column.
    kind : {"number", "boolean", "date", "category"}
        What it holds.
    cells : Cells
        Its cells.
    notices : Notices
        Takes what does not fit.
    known : Values or None, default=None
        Categories that need no second look.
    """
    if kind == "category":
        return Cells(_categories(name, cells, known), kind, cells.first_row)
    return Cells(_numbers(name, kind, cells, notices), kind, cells.first_row)


def _numbers(name: Any, kind: Kind, cells: Cells, notices: Notices) -> Float:
    if cells.kind == kind or (cells.kind is not None and {cells.kind, kind} == {"number", "boolean"}):
        numbers: Float = cells.values
    else:
        convert, misfits = _CONVERT[kind], []
        numbers = np.empty(len(cells.values))
        for row, cell in enumerate(cells.objects()):
            try:
                numbers[row] = convert(cell)
            except OverflowError:
                raise cell_error(name, "hold finite numbers", cells.first_row + row, cell) from None
            except ValueError:
                if kind_of(cell) is None:
                    raise cell_error(name, _RULE, cells.first_row + row, cell) from None
                numbers[row] = np.nan
                misfits.append(cell)
        notices.misfits(name, kind, misfits)
    wrong = np.flatnonzero(np.isinf(numbers))
    if len(wrong):
        raise cell_error(name, "hold finite numbers", cells.first_row + int(wrong[0]), float(numbers[wrong[0]]))
    return np.clip(numbers, -LARGEST, LARGEST)


def _categories(name: Any, cells: Cells, known: Values | None) -> list[str | None]:
    texts: list[str | None] = []
    met: dict[str, str | None] = {}
    index: Any = {} if known is None else known.index
    recent: Any = {} if known is None else known.recent_index
    for row, cell in enumerate(cells.objects() if cells.kind else cells.values, cells.first_row):
        if type(cell) is str:
            if cell in index or cell in recent:
                texts.append(cell)
            else:
                if cell not in met:
                    met[cell] = cell_types.text(cell)
                texts.append(met[cell])
        elif cell is None or (type(cell) is float and cell != cell):
            texts.append(None)
        else:
            try:
                texts.append(cell_types.text(cell))
            except ValueError:
                raise cell_error(name, _RULE, row, cell) from None
    return texts

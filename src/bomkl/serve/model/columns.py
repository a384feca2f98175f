"""Columns, types and labels of the rows: taken from the first rows that come, and kept to from then on.

They are stored in the log beside the rows, so that a restart and a replay read the rows in the same way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import LARGEST, LONGEST_NAME, MOST_CLASSES, MOST_COLUMNS_OF_REQUEST, MOST_NEW_COLUMNS
from bomkl.serve.errors import RefusedError, wrong
from bomkl.tables.cells import kind_of
from bomkl.tables.numbers import is_gap

_MOST_NAMES = 100  # of ignored columns
OTHERS = "(others)"
_LABELS = {bool: "boolean", int: "integer", str: "string", float: "number"}
_LABEL_RULES = {
    "boolean": "be true or false, as the labels before",
    "integer": "be a whole number, as the labels before",
    "string": "be a string, as the labels before",
    "number": f"be a number within {LARGEST:g}",
}


@dataclass(frozen=True)
class Columns:
    """What is known of the rows."""

    # Kind of each column by name, in order: "number", "boolean", "category", "date", or None while only missing values
    # have come
    kinds: dict[str, str | None]
    # "boolean", "integer", "string", "number": what labels are, "number" for regression; None while none has come
    labels: str | None = None
    classes: list[Any] = field(default_factory=list)  # labels that have come, unless they are targets of a regression
    closed: bool = False  # whether no other classes may come: the model was made for these
    numbers: bool = True  # whether a first label such as 1.5 or 2.0 says that labels are targets of a regression
    # Whether the model takes strings, dates and missing values; otherwise all cells must be numbers
    tables: bool = False
    new_columns: str = "learn"  # "learn", "ignore", "refuse": what to do with columns that were not in the first row

    @classmethod
    def of(cls, row: Mapping[str, Any], where: str, task: str, tables: bool, new_columns: str = "learn") -> Columns:
        """Take the columns from the first row; `task` is "auto", "classify" or "regress"."""
        if not 0 < len(row) <= MOST_COLUMNS_OF_REQUEST:
            raise wrong(where, f"have 1 to {MOST_COLUMNS_OF_REQUEST} columns", len(row))
        kinds: dict[str, str | None] = {_checked_name(name, where): None for name in row}
        labels = "number" if task == "regress" else None
        return cls(kinds, labels, numbers=task == "auto", tables=tables, new_columns=new_columns)

    def cells(
        self, rows: Sequence[Mapping[str, Any]], where: Sequence[str], learn: bool = True
    ) -> tuple[list[list[Any]], Columns]:
        """Check rows and put their cells in order; also returns what is known of the columns afterwards.

        What a cell means that is not of the kind of its column, the model decides.

        `learn`: whether to take new columns in; otherwise they are left out.
        """
        known = self.kinds.keys()
        if all(row.keys() == known for row in rows) and None not in self.kinds.values():
            ordered = [[row[name] for name in known] for row in rows]
            if self._are_plain({type(cell) for row in ordered for cell in row}):
                return ordered, self
        kinds = dict(self.kinds)
        if self.tables and not learn and any(rows) and all(known.isdisjoint(row) for row in rows):
            _refuse_unknown(next(row for row in rows if row), list(known), where[0])
        for row, place in zip(rows, where, strict=True):
            if row.keys() == known:
                continue
            if not self.tables and (absent := [name for name in self.kinds if name not in row]):
                _refuse_absent(absent[0], list(self.kinds), place)
            for name in row:
                if name not in kinds:
                    if self.new_columns == "refuse":
                        _refuse_new(name, list(self.kinds), place)
                    if learn and self.tables and self.new_columns == "learn" and len(kinds) < MOST_NEW_COLUMNS:
                        kinds[_checked_name(name, place)] = None
        by_column = []
        for name in kinds:
            cells = [row.get(name) for row in rows]
            if kinds[name] is None:
                kinds[name] = next((kind_of(cell) for cell in cells if not is_gap(cell)), None)
            self._check_column(cells, name, where)
            by_column.append(cells)
        ordered = [list(row) for row in zip(*by_column, strict=True)]
        return ordered, self if kinds == self.kinds else replace(self, kinds=kinds)

    def check_labels(self, labels: Sequence[Any], where: Sequence[str]) -> tuple[list[Any], Columns]:
        """Check labels; also returns what is known of them afterwards."""
        kind = self.labels or _LABELS[type(labels[0])]
        if kind == "number" and self.labels is None and not self.numbers:
            kind = "integer"
        checked = []
        for label, place in zip(labels, where, strict=True):
            if kind == "number" and type(label) is int:
                label = _float(label)
            if kind == "integer" and type(label) is float and label.is_integer():
                label = int(label)
            fits = _LABELS.get(type(label)) == kind
            if not fits or (kind == "number" and not abs(label) <= LARGEST):
                raise wrong(place, _LABEL_RULES[kind], label)
            if kind == "integer" and not -(2**53) <= label <= 2**53:
                raise wrong(place, "be between -2**53 and 2**53", label)
            if kind == "string" and not 0 < len(label) <= LONGEST_NAME:
                raise wrong(place, f"have 1 to {LONGEST_NAME} characters", label)
            if kind == "string" and "\0" in label:  # arrays of strings drop it
                raise wrong(place, "have no NUL character", label)
            checked.append(label)
        new = [] if kind == "number" else [label for label in dict.fromkeys(checked) if label not in self.classes]
        if new and (self.closed or len(self.classes) + len(new) > MOST_CLASSES):
            rule = "be one of the classes of the model" if self.closed else f"be one of at most {MOST_CLASSES} classes"
            first = new[0 if self.closed else MOST_CLASSES - len(self.classes)]
            raise wrong(where[checked.index(first)], rule, first)
        if self.labels and not new:
            return checked, self
        return checked, replace(self, labels=kind, classes=[*self.classes, *new])

    def _are_plain(self, types: set[type]) -> bool:
        """Whether cells of these types are right: floats are finite, as others do not get past the body."""
        return types == {float} or (self.tables and int not in types)

    def _check_column(self, cells: list[Any], name: str, where: Sequence[str]) -> None:
        if self._are_plain(set(map(type, cells))):
            return
        for cell, place in zip(cells, where, strict=True):
            if type(cell) is int and not math.isfinite(_float(cell)):
                raise wrong(f"{place}.{name}", "be a finite number, or null", cell)
            if not self.tables and (cell is None or isinstance(cell, str)):
                raise wrong(f"{place}.{name}", "be a number", cell)

    def input(self, rows: Sequence[Sequence[Any]]) -> Any:
        """Turn checked cells into what the estimator takes: a matrix, or columns by name.

        Columns are lists of plain values: what a column holds must follow from the cells alone, so that the first rows
        give the same model in whatever groups they come. Where all are numbers, an array of floats says the same.
        """
        if self.tables:
            width = len(self.kinds)
            columns = zip(*(_padded(row, width) for row in rows), strict=True)
            return {
                name: np.array(cells, np.float64) if set(map(type, cells)) <= {float, int} else list(cells)
                for name, cells in zip(self.kinds, columns, strict=True)
            }
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.kinds))

    def targets(self, labels: Sequence[Any]) -> NDArray[Any]:
        """Turn checked labels into what the estimator takes."""
        dtypes = {"boolean": np.bool_, "integer": np.int64, "number": np.float64}
        return np.array(labels, dtype=dtypes.get(self.labels or ""))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _padded(row: Sequence[Any], width: int) -> Sequence[Any]:
    """Give a row that came before some of the columns as many cells as there are columns."""
    return row if len(row) == width else [*row, *[None] * (width - len(row))]


def _checked_name(name: str, where: str) -> str:
    if not 0 < len(name) <= LONGEST_NAME:
        raise wrong(where, f"have names of 1 to {LONGEST_NAME} characters", name)
    return name


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _refuse_absent(name: str, names: list[str], place: str) -> None:
    text = f"{place}.{name} is missing. Every row must have the columns {_list(names)}."
    raise RefusedError(422, text, f"{place}.{name}")


def _refuse_unknown(row: Mapping[str, Any], names: list[str], place: str) -> None:
    text = f"{place} must have columns that were learned from: {_list(names)}. Got {_list(list(row))} instead."
    raise RefusedError(422, text[:2000], place)


def _refuse_new(name: str, names: list[str], place: str) -> None:
    text = f"{place}.{name[:80]} was not there before. The columns are {_list(names)}."
    raise RefusedError(422, text, f"{place}.{name[:80]}")


def _list(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


class IgnoredColumns:
    """Counts rows by columns that the model has no place for, in bounded memory, since the service started.

    Examples
    --------
    >>> ignored = IgnoredColumns()
    >>> ignored.add(without_place([{"a": 1}, {"a": 2, "new": 3}], Columns({"a": "number"})))
    >>> ignored.rows
    {'new': 1}
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def add(self, rows: Mapping[str, int]) -> None:
        """Add rows of columns; once many columns are named, new ones are counted together."""
        for name, count in rows.items():
            known = name if name in self.rows or len(self.rows) < _MOST_NAMES else OTHERS
            self.rows[known] = self.rows.get(known, 0) + count


def without_place(rows: Collection[Mapping[str, object]], columns: Columns) -> Counter[str]:
    """Count the rows of columns that are not among those of the service."""
    known = columns.kinds.keys()
    if all(row.keys() == known for row in rows):
        return Counter()
    return Counter(name for row in rows if not row.keys() <= known for name in row.keys() - known)


def total_ignored(*ignored: IgnoredColumns) -> dict[str, int]:
    """Add up what several have counted; each may go on meanwhile in a thread of its own."""
    return dict(sum((Counter(dict(each.rows)) for each in ignored), Counter()))

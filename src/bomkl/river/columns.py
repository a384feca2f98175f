"""Columns of features by name, which may appear, vanish and come in any order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.river.checks import number

_FIRST_WIDTH = 8


class Columns:
    """Columns of feature names, in the order in which names were first seen."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def learn(self, names: Iterable[Any]) -> None:
        """Give new names their columns; names that are new together are sorted, so their order has no effect."""
        for name in sorted(
            (name for name in names if name not in self.places), key=lambda name: (str(name), repr(name))
        ):
            self.places[name] = len(self.places)

    @property
    def width(self) -> int:
        """Number of columns, with room to grow."""
        return max(_FIRST_WIDTH, 1 << (len(self.places) - 1).bit_length()) if self.places else _FIRST_WIDTH

    def row(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """One row as a matrix; names without a column are left out."""
        row = np.zeros((1, self.width))
        for name, value in x.items():
            place = self.places.get(name)
            if place is not None:
                row[0, place] = number(name, value)
        return row

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows of a DataFrame as a matrix; names without a column are left out."""
        rows = np.zeros((len(X), self.width))
        for name in X.columns:
            place = self.places.get(name)
            if place is not None:
                rows[:, place] = [number(name, value) for value in X[name]]
        return rows


class FixedColumns(Columns):
    """Columns of a model whose width is fixed by its first row, with room to grow.

    Names that come when all columns are taken share one by their hash, so that endless new names need no more memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self._width = 0

    def learn(self, names: Iterable[Any]) -> None:
        """Give new names their columns, while there are any."""
        names = list(names)
        if not self._width:
            self._width = max(_FIRST_WIDTH, 1 << len(names).bit_length())
        new = sorted((name for name in names if name not in self.places), key=lambda name: (str(name), repr(name)))
        for name in new[: self._width - len(self.places)]:
            self.places[name] = len(self.places)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self._width

    def place(self, name: Any) -> int:
        """Column of a name."""
        place = self.places.get(name)
        if place is None:
            full = len(self.places) == self._width
            return zlib.crc32(repr(name).encode()) % self._width if full else -1
        return place

    def row(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """One row; names without a column are left out."""
        row = np.zeros(self._width)
        for name, value in x.items():
            if (place := self.place(name)) >= 0:
                row[place] += number(name, value)
        return row

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows of a DataFrame as a matrix; names without a column are left out."""
        rows = np.zeros((len(X), self._width))
        for name in X.columns:
            if (place := self.place(name)) >= 0:
                rows[:, place] += [number(name, value) for value in X[name]]
        return rows

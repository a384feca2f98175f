"""Columns of features by name, which may appear, vanish and come in any order."""

from __future__ import annotations

import copy
import warnings
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._support.limits import MOST_COLUMNS_OF_RIVER
from bomkl.river.checks import check_numbers, is_number, number

_FIRST_WIDTH = 8


class Columns:
    """Columns of feature names, in the order in which names were first seen.

    Names that come when all columns are taken share one by their hash, so that endless new names need no more memory.
    """

    may_miss = False  # whether a later row may have missing values

    grows = False  # whether a table may gain columns after its first row
    absent = "zero"  # what a feature is that a row lacks, if the first row has numbers only

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def ready_for(self, x: Mapping[Any, Any]) -> Columns | TableColumns:
        """Columns that can learn a row, or the first row of a DataFrame.

        The first row of all begins a table if it has strings or missing values, or if absent features are missing
        values. If it does not, anything but numbers in a later row is refused.
        """
        if not self.places and (self.absent == "missing" or not all(map(is_number, x.values()))):
            return TableColumns(x, self.grows)
        check_numbers(x, self.may_miss)
        return self

    def learn(self, names: Iterable[Any]) -> None:
        """Give new names their columns, while there are any; names that are new together are sorted."""
        new = sorted((name for name in names if name not in self.places), key=lambda name: (str(name), repr(name)))
        for name in new[: max(0, self.most - len(self.places))]:
            self.places[name] = len(self.places)

    def knows(self, names: Iterable[Any]) -> bool:
        """Whether `learn` would change nothing."""
        return len(self.places) >= self.most or all(name in self.places for name in names)

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        fork = copy.copy(self)
        fork.places = dict(self.places)
        return fork

    @property
    def most(self) -> int:
        return MOST_COLUMNS_OF_RIVER

    @property
    def width(self) -> int:
        """Number of columns, with room to grow."""
        return max(_FIRST_WIDTH, 1 << (len(self.places) - 1).bit_length()) if self.places else _FIRST_WIDTH

    def place(self, name: Any) -> int:
        place = self.places.get(name)
        if place is None:
            full = len(self.places) >= self.most
            return zlib.crc32(repr(name).encode()) % self.most if full else -1
        return place

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows of a DataFrame as a matrix; names without a column are left out."""
        rows = np.zeros((len(X), self.width))
        for name in X.columns:
            if (place := self.place(name)) >= 0:
                rows[:, place] += [number(name, value, self.may_miss) for value in X[name]]
        return rows

    def row(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """One row; names without a column are left out."""
        row = np.zeros(self.width)
        for name, value in x.items():
            if (place := self.place(name)) >= 0:
                row[place] += number(name, value, self.may_miss)
        return row


class FixedColumns(Columns):
    """Columns of a model whose width is fixed: `told`, or that of its first row with room to grow.

    `absent`: what a feature is that a row lacks, "zero" or "missing".
    """

    may_miss = True
    grows = True
    _told: int | None = None  # in pickles of earlier versions
    _warned = False

    def __init__(self, told: int | None = None, absent: str = "zero") -> None:
        super().__init__()
        self._told, self._width, self.absent = told, 0, absent

    def learn(self, names: Iterable[Any]) -> None:
        names = list(names)
        if not self._width:
            self._width = self._told or max(_FIRST_WIDTH, 1 << len(names).bit_length())
        super().learn(names)
        if not self._warned and any(name not in self.places for name in names):
            self._warned = True
            warnings.warn(
                f"There is room for {self._width} features, and further ones share columns. To make room for more, "
                "pass features=... to a new model.",
                UserWarning,
                stacklevel=6,
            )

    def knows(self, names: Iterable[Any]) -> bool:
        names = list(names)
        return self._width > 0 and (
            all(name in self.places for name in names) or (self._warned and super().knows(names))
        )

    @property
    def most(self) -> int:
        return self._width

    @property
    def width(self) -> int:
        return self._width


class TableColumns:
    """Columns of rows with strings, missing values or dates, which the model encodes itself.

    What a row lacks is a missing value. A model that grows takes names in that were not in the first row; others
    leave them out.
    """

    grows = False  # in pickles of earlier versions

    def __init__(self, names: Iterable[Any], grows: bool = False) -> None:
        self.names, self.grows = list(names), grows

    def ready_for(self, x: Mapping[Any, Any]) -> TableColumns:
        """Return itself: the encoder checks the cells."""
        return self

    def knows(self, names: Iterable[Any]) -> bool:
        return True

    def learn(self, names: Iterable[Any]) -> None:
        """Do nothing: the columns are fixed."""

    def row(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(x) if self.grows else {name: x.get(name) for name in self.names}

    def rows(self, X: Any) -> list[dict[Any, Any]]:
        """Rows of a DataFrame as a table."""
        names = list(X.columns) if self.grows else self.names
        gaps = [None] * len(X)
        cells = [list(X[name]) if name in X.columns else gaps for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

"""What rows add to the categories of an encoder, in whole numbers: the same in whatever order they are added up.

An encoder that learned from the first rows of a table is sent to many workers. Each encodes its rows with it and counts
them; the counts of all, added up, make the encoder of the next round. So a row is encoded with rows of earlier rounds,
never with its own target. Places of the columns, means that fill gaps and columns of zeros and ones stay what the first
rows made them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.encoder import TableEncoder
from bomkl.tables.frames import cells_of, read_table
from bomkl.tables.notices import Notices
from bomkl.tables.targets import TARGETS, TargetSums
from bomkl.tables.values import Float, Values

_FINE = 2.0**-16  # units of targets that are numbers, in deviations
_MOST = 2**30  # units that one target counts at most
_HALF = 30  # bits of the lower half of a square

Key = int | str  # the code of a value, or the text of a category that the encoder does not know
Whole = NDArray[np.int64]


@dataclass
class Amounts:
    """Rows, and sums of their targets by label; of targets that are numbers, one sum and one of squares, in units."""

    rows: int = 0
    sums: dict[int, int] = field(default_factory=dict)
    squares: int = 0

    def add(self, other: Amounts) -> None:
        self.rows += other.rows
        self.squares += other.squares
        for label, amount in other.sums.items():
            self.sums[label] = self.sums.get(label, 0) + amount


@dataclass
class Counts:
    """What some rows add to an encoder."""

    whole: Amounts  # of all rows
    columns: list[dict[Key, Amounts]]  # of each value of each column that holds categories

    @classmethod
    def of(cls, encoder: TableEncoder, X: Any, y: NDArray[Any]) -> Counts:
        """Count rows of a table; y are numbers of labels, or targets."""
        table = read_table(X)
        whole = _units(encoder, y) if encoder.target == "number" else np.asarray(y, dtype=np.int64)
        found: list[dict[Key, Amounts]] = []
        for column in encoder._learned.columns:
            if not column.in_use or column.kind != "category":
                found.append({})
                continue
            cells = cells_of(table, column.name).parsed(column.name, "category", Notices(), column.values.known)
            codes, new = column.values.codes(cells.values, [True] * table.n_rows)
            texts = {code: text for text, code in new.items()}
            found.append({texts.get(code, code): each for code, each in _by_code(codes, whole, encoder.target).items()})
        of_all = _by_code([0] * len(whole), whole, encoder.target).get(0, Amounts())
        return cls(of_all, found)

    def add(self, other: Counts) -> None:
        """Add those of other rows that were counted with the same encoder."""
        self.whole.add(other.whole)
        for own, more in zip(self.columns, other.columns, strict=True):
            for key, amounts in more.items():
                own.setdefault(key, Amounts()).add(amounts)

    def learned(self, encoder: TableEncoder) -> TableEncoder:
        """Make the encoder that has learned from all rows counted."""
        before, seen = encoder._learned, encoder._learned.targets
        labels = list(seen.labels)
        if encoder.target == "class":
            labels += sorted(self.whole.sums.keys() - set(labels))
        columns = [
            replace(column, values=_counted(column.values, counts, encoder, labels)) if counts else column
            for column, counts in zip(before.columns, self.columns, strict=True)
        ]
        unit = _unit(seen) if encoder.target == "number" else 1.0
        sums = _sums(self.whole, encoder.target, labels)
        squares = np.array([self.whole.squares * unit * unit]) if encoder.target == "number" else sums
        targets = replace(
            seen,
            rows=seen.rows + self.whole.rows,
            sums=seen.sums + sums * unit,
            squares=seen.squares + squares,
            labels=labels,
        )
        after = encoder.fork()
        after._learned = replace(before, columns=columns, targets=targets, n_rows=before.n_rows + self.whole.rows)
        return after


def _unit(seen: TargetSums) -> float:
    """Give the unit of targets that are numbers: a power of two, so that multiplying by it rounds nothing."""
    rows = max(seen.rows, 1)
    variance = float(seen.squares[0]) / rows - (float(seen.sums[0]) / rows) ** 2
    deviation = math.sqrt(variance) if variance > 0 else 1.0
    return math.ldexp(_FINE, math.frexp(deviation)[1])


def _units(encoder: TableEncoder, y: Any) -> Whole:
    seen = encoder._learned.targets
    relative = (np.asarray(y, dtype=np.float64) - seen.shift) / _unit(seen)
    return np.clip(np.rint(relative), -_MOST, _MOST).astype(np.int64)


def _by_code(codes: list[int], whole: Whole, target: str | None) -> dict[int, Amounts]:
    values, places = np.unique(np.array(codes, dtype=np.int64), return_inverse=True)
    rows = np.bincount(places, minlength=len(values)).tolist()
    found = [Amounts(count) for count in rows]
    if target == "number":
        sums, high, low = (np.zeros(len(values), dtype=np.int64) for _ in range(3))
        square = whole * whole
        for out, part in ((sums, whole), (high, square >> _HALF), (low, square & ((1 << _HALF) - 1))):
            np.add.at(out, places, part)
        for each, total, a, b in zip(found, sums.tolist(), high.tolist(), low.tolist(), strict=True):
            each.sums, each.squares = {0: total}, (a << _HALF) + b
    elif target == "class" and len(whole):
        wide = int(whole.max()) + 1
        pairs, counts = np.unique(places * wide + whole, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            found[pair // wide].sums[pair % wide] = count
    return dict(zip(values.tolist(), found, strict=True))


def _sums(amounts: Amounts, target: str | None, labels: list[Any]) -> Float:
    """Give sums of targets as `Values` has them: labels share places, and the first is what the others leave."""
    sums = np.zeros(TARGETS[target])
    for label, amount in amounts.sums.items():
        code = labels.index(label) if target == "class" else 1
        if code:
            sums[(code - 1) % len(sums)] += amount
    return sums


def _counted(values: Values, counts: dict[Key, Amounts], encoder: TableEncoder, labels: list[Any]) -> Values:
    """Values after the rows counted; categories that came up most often get the places that are left."""
    texts = sorted((key for key in counts if isinstance(key, str)), key=lambda text: (-counts[text].rows, text))
    codes, new = values.codes(texts, [True] * len(texts))
    known: list[tuple[Key, int]] = [(key, key) for key in counts if isinstance(key, int)]
    seen = encoder._learned.targets
    unit, shift = (_unit(seen), seen.shift) if encoder.target == "number" else (1.0, 0.0)
    touched: dict[int, list[Any]] = {}
    for key, code in [*known, *zip(texts, codes, strict=True)]:
        amounts = counts[key]
        entry = touched.setdefault(code, list(values.entry(code)))
        entry[0] += amounts.rows
        sums = _sums(amounts, encoder.target, labels) * unit + amounts.rows * shift
        entry[1:] = [before + float(more) for before, more in zip(entry[1:], sums, strict=True)]
    return values.after({code: tuple(each) for code, each in touched.items()}, new)

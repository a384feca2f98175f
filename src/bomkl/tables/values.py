"""The values of a column that are counted: the gap, categories, and shared places for categories beyond the limit.

What a row is encoded with are the counts of the rows before it. A block is worked through in the order of its rows, and
what it changes is held apart until `Values.apply`, so that an error changes nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.errors import TableError

Float = NDArray[np.float64]
GAP = 0  # code of the gap
UNKNOWN = -1  # code of a category that was never learned
_SHARED = 255  # places that categories beyond the limit share; their codes come next
_FIRST = 1 + _SHARED
CLAIM = 2  # rows after which a value is worth a column of its own


@dataclass
class Tally:
    """What a block does to the values of a column.

    Attributes
    ----------
    before : ndarray of shape (n_rows, 1 + n_targets)
        Count and sums of targets of the value of each row, from the rows before it.
    touched : dict of int to list
        Count and sums after the block, by code.
    new : list of str
        Categories that the block brought.
    claims : list of (int, int)
        Rows at which a value has been seen often enough for a column of its own, and its code.
    """

    before: Float
    touched: dict[int, list[Any]]
    new: list[str]
    claims: list[tuple[int, int]]


@dataclass
class Values:
    """Counts, sums of targets and one-hot places of the values of one column.

    Parameters
    ----------
    n_targets : int
        Sums of targets a value.
    named : bool
        Whether it counts categories, or gaps only.
    limit : int
        Most categories that are told apart.
    """

    n_targets: int
    named: bool
    limit: int
    names: list[str] = field(default_factory=list)
    counts: array[int] = field(init=False)
    sums: array[float] = field(init=False)
    places: array[int] = field(init=False)

    def __post_init__(self) -> None:
        """Make room for the codes that have no names."""
        n = _FIRST if self.named else 1
        self.counts = array("q", bytes(8 * n))
        self.sums = array("d", bytes(8 * n * self.n_targets))
        self.places = array("q", [-1]) * n
        self.index = {name: _FIRST + at for at, name in enumerate(self.names)}
        self.n_placed = 0

    def codes(self, texts: Iterable[str | None], learned: Sequence[bool]) -> tuple[list[int], list[str]]:
        """Codes of categories, and the new ones among those of learned rows."""
        index, new = self.index, dict[str, int]()
        codes = []
        for text, learn in zip(texts, learned, strict=True):
            if text is None:
                codes.append(GAP)
                continue
            code = index.get(text)
            if code is None:
                code = new.get(text, UNKNOWN)
                if code == UNKNOWN:
                    if len(index) + len(new) >= self.limit:
                        code = 1 + crc32(text.encode("utf-8", "surrogatepass")) % _SHARED
                    elif learn:
                        code = new[text] = _FIRST + len(index) + len(new)
            codes.append(code)
        return codes, list(new)

    def tally(
        self,
        codes: Sequence[int],
        new: list[str],
        learned: Sequence[bool],
        places: Sequence[int],
        amounts: Sequence[float],
    ) -> Tally:
        """Count a block.

        Parameters
        ----------
        codes : sequence of int
            The value of each row.
        new : list of str
            Categories that the block brings.
        learned : sequence of bool
            Rows that count.
        places : sequence of int
            The sum that the target of each row adds to; -1 for none.
        amounts : sequence of float
            What it adds.
        """
        width, known = self.n_targets, len(self.counts)
        counts, sums = self.counts, self.sums
        touched: dict[int, list[Any]] = {UNKNOWN: [0] + [0.0] * width}
        before, claims = [], []
        for row, code in enumerate(codes):
            entry = touched.get(code)
            if entry is None:
                entry = (
                    [counts[code], *sums[code * width : (code + 1) * width]] if code < known else [0] + [0.0] * width
                )
                touched[code] = entry
            before.append(tuple(entry))
            if learned[row]:
                entry[0] += 1
                if (place := places[row]) >= 0:
                    entry[1 + place] += amounts[row]
                if entry[0] == CLAIM:
                    claims.append((row, code))
        del touched[UNKNOWN]
        return Tally(np.array(before, dtype=np.float64).reshape(len(before), 1 + width), touched, new, claims)

    def apply(self, tally: Tally) -> None:
        """Take over what a block does."""
        width = self.n_targets
        for name in tally.new:
            self.names.append(name)
            self.index[name] = len(self.counts)
            self.counts.append(0)
            self.sums.extend([0.0] * width)
            self.places.append(-1)
        for code, (count, *sums) in tally.touched.items():
            self.counts[code] = count
            for at, total in enumerate(sums):
                self.sums[code * width + at] = total

    def place(self, code: int, place: int) -> None:
        """Give a value a column of its own."""
        self.places[code] = place
        self.n_placed += 1

    def entries(self, tally: Tally) -> tuple[int, int, list[tuple[int, int, list[float], int]]]:
        """Note what `apply` and `place` are going to change: lengths, and the entries of the codes touched."""
        width, known = self.n_targets, len(self.counts)
        old = [
            (code, self.counts[code], list(self.sums[code * width : (code + 1) * width]), self.places[code])
            for code in tally.touched
            if code < known
        ]
        return known, self.n_placed, old

    def restore_entries(self, entries: tuple[int, int, list[tuple[int, int, list[float], int]]]) -> None:
        """Take `apply` and `place` back, even where they were broken off in the middle."""
        known, self.n_placed, old = entries
        width = self.n_targets
        first = known - _FIRST if self.named else 0
        for name in self.names[first:]:
            self.index.pop(name, None)
        del self.names[first:]
        del self.counts[known:], self.sums[known * width :], self.places[known:]
        for code, count, sums, place in old:
            self.counts[code], self.places[code] = count, place
            self.sums[code * width : (code + 1) * width] = array("d", sums)

    def text(self, code: int) -> str:
        """Say what a code stands for."""
        if code == GAP:
            return "(missing)"
        return self.names[code - _FIRST] if code >= _FIRST else f"(others {code})"

    def state(self) -> dict[str, Any]:
        """Everything it is, as plain values and arrays."""
        return {
            "names": list(self.names),
            "counts": np.array(self.counts, dtype=np.int64),
            "sums": np.array(self.sums, dtype=np.float64),
            "places": np.array(self.places, dtype=np.int64),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_targets: int, named: bool, limit: int, n_places: int) -> Self:
        """Go on where `state` was taken."""
        names = list(state["names"])
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names) or len(names) > limit:
            raise TableError("the categories of a column must be different texts, no more than its limit")
        values = cls(n_targets, named, limit, names)
        n = (_FIRST if named else 1) + len(names)
        counts, places = (np.asarray(state[name], dtype=np.int64) for name in ("counts", "places"))
        sums = np.asarray(state["sums"], dtype=np.float64)
        if counts.shape != (n,) or places.shape != (n,) or sums.shape != (n * n_targets,) or (names and not named):
            raise TableError("the counts of a column do not fit its categories")
        if (counts < 0).any() or (places < -1).any() or (places >= n_places).any() or not np.isfinite(sums).all():
            raise TableError("the counts of a column are out of range")
        values.counts, values.places = array("q", counts.tolist()), array("q", places.tolist())
        values.sums = array("d", sums.tolist())
        values.n_placed = int((places >= 0).sum())
        return values

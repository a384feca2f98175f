"""The values of a column that are counted: the gap, categories, and shared places for categories beyond the limit.

What a row is encoded with are the counts of the rows before it. A block is worked through in the order of its rows, and
learning from it makes new `Values`: those of before stay as they are, for readers and for the case of an error.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bomkl.tables.cells import category
from bomkl.tables.errors import TableError

Float = NDArray[np.float64]
Entries = dict[int, tuple[Any, ...]]  # count and sums of targets, by code
GAP = 0  # code of the gap
UNKNOWN = -1  # code of a category that was never learned
CLAIM = 2  # rows after which a category is worth a column of its own
_SHARED = 255  # places that categories beyond the limit share; their codes come next
_FIRST = 1 + _SHARED
_RECENT = 64  # changed entries that are held apart, and one for each eight in all


@dataclass(frozen=True)
class Values:
    """Counts, sums of targets and one-hot places of the values of one column."""

    n_targets: int  # sums of targets a value
    named: bool  # whether it counts categories, or gaps only
    limit: int  # most categories that are told apart
    index: dict[str, int] = field(default_factory=dict)  # codes of categories
    # Count and sums of each code, one after the other
    entries: array[float] = field(default_factory=lambda: array("d"))
    # What came or changed since `index` and `entries` were made: a small part, so that a change copies little
    recent_index: dict[str, int] = field(default_factory=dict)
    recent: Entries = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)  # columns of their own, by code

    @property
    def n_codes(self) -> int:
        """Codes in use."""
        return (_FIRST if self.named else 1) + len(self.index) + len(self.recent_index)

    @property
    def known(self) -> tuple[dict[str, int], dict[str, int]]:
        """Categories that have a code."""
        return self.index, self.recent_index

    def entry(self, code: int) -> tuple[Any, ...]:
        """Count and sums of a code."""
        found = self.recent.get(code)
        if found is not None:
            return found
        width = 1 + self.n_targets
        return tuple(self.entries[code * width : (code + 1) * width]) or (0.0,) * width

    def codes(self, texts: Iterable[str | None], learned: Sequence[bool]) -> tuple[list[int], dict[str, int]]:
        """Codes of categories, and the new ones among those of learned rows."""
        index, recent, new = self.index, self.recent_index, dict[str, int]()
        known = len(index) + len(recent)
        codes = []
        for text, learn in zip(texts, learned, strict=True):
            if text is None:
                codes.append(GAP)
                continue
            code = index.get(text)
            if code is None:
                code = recent.get(text)
            if code is None:
                name = category(text)
                if name is not text:
                    text, code = name, index.get(name, recent.get(name))
            if code is None:
                code = new.get(text, UNKNOWN)
                if code == UNKNOWN:
                    if known + len(new) >= self.limit:
                        code = 1 + crc32(text.encode("utf-8", "surrogatepass")) % _SHARED
                    elif learn:
                        code = new[text] = _FIRST + known + len(new)
            codes.append(code)
        return codes, new

    def tally(
        self, codes: Sequence[int], learned: Sequence[bool], places: Sequence[int], amounts: Sequence[float]
    ) -> tuple[Float, Entries, list[tuple[int, int]]]:
        """Count a block.

        `places`: the sum that the target of each row adds to; -1 for none. Returns `before`: count and sums of targets
        of the value of each row, from the rows before it. Returns `touched`: count and sums after the block, by code.
        Returns `claims`: rows at which a value has been seen often enough for a column of its own, and its code.
        """
        touched: dict[int, list[Any]] = {UNKNOWN: [0.0] * (1 + self.n_targets)}
        before, claims = [], []
        for row, code in enumerate(codes):
            entry = touched.get(code)
            if entry is None:
                entry = touched[code] = list(self.entry(code))
            before.append(tuple(entry))
            if learned[row]:
                entry[0] += 1
                if (place := places[row]) >= 0:
                    entry[1 + place] += amounts[row]
                if entry[0] == CLAIM and code != GAP:
                    claims.append((row, code))
        del touched[UNKNOWN]
        counts = np.array(before, dtype=np.float64).reshape(len(before), 1 + self.n_targets)
        return counts, {code: tuple(entry) for code, entry in touched.items()}, claims

    def tally_gaps(
        self, learned: NDArray[np.bool_], places: Sequence[int], amounts: Sequence[float]
    ) -> tuple[Float, Entries]:
        """Count a block whose rows are all gaps: the same bits as `tally`, all at once."""
        running = np.zeros((len(learned) + 1, 1 + self.n_targets))
        running[0] = self.entry(GAP)
        running[1:, 0] = learned
        place = np.asarray(places)
        rows = np.flatnonzero(learned & (place >= 0))
        running[1 + rows, 1 + place[rows]] = np.asarray(amounts)[rows]
        running = np.cumsum(running, axis=0)
        return running[:-1], {GAP: tuple(running[-1].tolist())}

    def after(self, touched: Entries, new: dict[str, int]) -> Values:
        """Take over what a block does: counts and sums by code, and the categories that it brought."""
        if not (touched or new):
            return self
        values = replace(
            self, recent_index=self.recent_index | new if new else self.recent_index, recent=self.recent | touched
        )
        if len(values.recent) <= _RECENT + values.n_codes // 8:
            return values
        return replace(
            values, index=values.index | values.recent_index, entries=values._all(), recent_index={}, recent={}
        )

    def _all(self) -> array[float]:
        width = 1 + self.n_targets
        entries = self.entries[:]
        entries.frombytes(bytes(8 * (self.n_codes * width - len(entries))))
        for code, entry in self.recent.items():
            entries[code * width : (code + 1) * width] = array("d", entry)
        return entries

    def names(self) -> list[str]:
        """Categories in the order of their codes."""
        return [*self.index, *self.recent_index]

    def text(self, code: int) -> str:
        """Say what a code stands for."""
        if code == GAP:
            return "(missing)"
        return self.names()[code - _FIRST] if code >= _FIRST else f"(others {code})"

    def state(self) -> dict[str, Any]:
        places = np.array(sorted(self.places.items()), dtype=np.int64).reshape(-1, 2)
        return {"names": self.names(), "entries": np.array(self._all(), dtype=np.float64), "places": places}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_targets: int, named: bool, limit: int, n_places: int) -> Self:
        names = list(state["names"])
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise TableError("the categories of a column must be different texts")
        if len(names) > (limit if named else 0):
            raise TableError("a column has more categories than its limit")
        values = cls(n_targets, named, limit, {name: _FIRST + at for at, name in enumerate(names)})
        entries = np.asarray(state["entries"], dtype=np.float64)
        places = np.asarray(state["places"], dtype=np.int64).reshape(-1, 2)
        if entries.shape != (values.n_codes * (1 + n_targets),) or not np.isfinite(entries).all():
            raise TableError("the counts of a column do not fit its categories")
        if (entries[:: 1 + n_targets] < 0).any() or (places < 0).any():
            raise TableError("the counts of a column are out of range")
        if (places[:, 0] >= values.n_codes).any() or (places[:, 1] >= n_places).any():
            raise TableError("the columns of zeros and ones of a column are out of range")
        return replace(values, entries=array("d", entries.tolist()), places=dict(zip(*places.T.tolist(), strict=True)))

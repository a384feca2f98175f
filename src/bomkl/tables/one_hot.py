"""Columns of zeros and ones, which the values of all columns share: first come, first served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bomkl.tables.column import Change, Column
from bomkl.tables.values import Float

PER_CATEGORY = 8  # places that the values of one column may take, and that it adds
PER_OTHER = 1  # what any other column adds, for its gap


class Claim(NamedTuple):
    """A value that takes a place after a row: the column of the table, and the code of its value."""

    row: int
    column: int
    code: int
    place: int


@dataclass(frozen=True)
class OneHot:
    """Where the columns of zeros and ones are."""

    at: int  # the first of them
    size: int  # how many there are, and how many of them values have taken
    used: int = 0

    def write(self, out: Float, changes: Sequence[Change]) -> list[Claim]:
        """Set the ones of a block, and give the places that its values take."""
        claims = self._claims(changes)
        if not self.size:
            return claims
        for change in changes:
            for code, place in change.after.values.places.items():
                out[change.codes == code, self.at + place] = 1.0
        for claim in claims:
            rows = np.flatnonzero(changes[claim.column].codes == claim.code)
            out[rows[rows > claim.row], self.at + claim.place] = 1.0
        return claims

    def _claims(self, changes: Sequence[Change]) -> list[Claim]:
        wishes = sorted((row, at, code) for at, change in enumerate(changes) for row, code in change.claims)
        given: list[Claim] = []
        served = [set(change.after.values.places) for change in changes]
        for row, at, code in wishes:  # a gap may wish again, as long as it goes on telling something
            place = self.used + len(given)
            if place < self.size and code not in served[at] and len(served[at]) < PER_CATEGORY:
                served[at].add(code)
                given.append(Claim(row, at, code, place))
        return given

    def names(self, columns: Sequence[Column]) -> list[tuple[Any, str]]:
        """Column of the table and name of each; those that no value has taken have a number."""
        found: list[tuple[Any, str]] = [(None, f"one_hot{at}") for at in range(self.size)]
        for column in columns:
            for code, place in column.values.places.items():
                found[place] = (column.name, f"{column.name}={column.values.text(code)}")
        return found


def places_for(kinds: Sequence[Any]) -> int:
    """Places that columns of these kinds add."""
    return sum(PER_CATEGORY if kind in (None, "category") else PER_OTHER for kind in kinds)

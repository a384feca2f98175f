"""Columns that the model has no place for: in how many rows each came, since the service started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from bomkl.serve.model.columns import Columns

_MOST_NAMES = 100
OTHERS = "(others)"


class IgnoredColumns:
    """Counts rows by column, in bounded memory.

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


def total(*ignored: IgnoredColumns) -> dict[str, int]:
    """Add up what several have counted; each may go on meanwhile in a thread of its own."""
    return dict(sum((Counter(dict(each.rows)) for each in ignored), Counter()))

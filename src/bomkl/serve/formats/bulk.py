"""Bulk bodies whose rows are all alike: checked column by column, which is much faster than value by value.

What passes here, the models of the bodies accept, with the same values. The rest may be right or wrong: they tell.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from pydantic_core import from_json

from bomkl._support.limits import LONGEST_NAME, LONGEST_TEXT

_LABELS = {bool, int, float, str}
_CELLS = {*_LABELS, type(None)}


def plain_lines(lines: Sequence[bytes], needed: set[str], allowed: Collection[str]) -> dict[str, list[Any]] | None:
    r"""Read JSON lines; None where they need a closer look.

    `needed` and `allowed`: fields that an object must and may have. Returns the values of each field.

    Examples
    --------
    >>> plain_lines([b'{"id": "a", "y": 1}', b'{"id": "b", "y": 2}'], {"id", "y"}, {"id", "y"})
    {'id': ['a', 'b'], 'y': [1, 2]}
    >>> plain_lines([b'{"id": "a", "y": 1}', b'{"id": "b"}'], {"id", "y"}, {"id", "y"})
    """
    # Each line becomes an array with one item. A line that is not whole cannot lend itself to the next: a newline must
    # not be in a string, a bracket must not close an object, and an open array would hold another array, which no field
    # may be.
    try:
        items = from_json(b"[[" + b"],\n[".join(lines) + b"]]", allow_inf_nan=False)
    except ValueError:
        return None
    if len(items) != len(lines) or set(map(len, items)) != {1}:
        return None
    objects = [item for (item,) in items]
    if not _have_one_shape(objects) or not needed <= objects[0].keys() <= set(allowed):
        return None
    fields = {name: [each[name] for each in objects] for name in objects[0]}
    checks = {"row": _plain_rows, "y": _plain_labels, "id": _plain_ids}
    return fields if all(checks[name](values) for name, values in fields.items()) else None


def is_plain_body(content: dict[str, Any], needed: set[str], allowed: Collection[str], most_rows: int) -> bool:
    """Tell whether a JSON body with lists of equal length is right; False where it needs a closer look.

    Examples
    --------
    >>> is_plain_body({"rows": [{"a": 1.5}, {"a": None}], "y": [0, 1]}, {"rows", "y"}, {"rows", "y"}, 10)
    True
    >>> is_plain_body({"rows": [{"a": 1.5}, {"a": [2]}], "y": [0, 1]}, {"rows", "y"}, {"rows", "y"}, 10)
    False
    """
    checks = {"rows": _plain_rows, "y": _plain_labels, "ids": _plain_ids}
    if not needed <= content.keys() <= checks.keys() & allowed:
        return False
    if set(map(type, content.values())) != {list} or len(set(map(len, content.values()))) > 1:
        return False
    return 0 < len(content["rows"]) <= most_rows and all(checks[name](values) for name, values in content.items())


def are_plain_cells(cells: list[Any]) -> bool:
    """Tell whether the cells of a column are right; False where they need a closer look.

    Examples
    --------
    >>> are_plain_cells([1.5, None, True]), are_plain_cells([1.5, float("nan")]), are_plain_cells([1.5, []])
    (True, False, False)
    """
    return _are_plain(cells, _CELLS, 0, LONGEST_TEXT)


def _plain_rows(rows: list[Any]) -> bool:
    if not _have_one_shape(rows) or not rows[0]:
        return False
    return all(are_plain_cells([row[name] for row in rows]) for name in rows[0])


def _plain_labels(labels: list[Any]) -> bool:
    return _are_plain(labels, _LABELS, 1, LONGEST_NAME)


def _plain_ids(ids: list[Any]) -> bool:
    return _are_plain(ids, {str}, 1, LONGEST_NAME)


def _have_one_shape(objects: list[Any]) -> bool:
    if set(map(type, objects)) != {dict}:
        return False
    names = objects[0].keys()
    return all(each.keys() == names for each in objects)


def _are_plain(values: list[Any], types: set[type], shortest: int, longest: int) -> bool:
    found = set(map(type, values))
    if not found <= types:
        return False
    if float in found:
        numbers = values if len(found) == 1 else [value for value in values if type(value) is float]
        if not math.isfinite(sum(numbers)):  # also where finite numbers have too large a sum
            return False
    if str in found:
        lengths = [len(value) for value in values if type(value) is str]
        return shortest <= min(lengths) and max(lengths) <= longest
    return True

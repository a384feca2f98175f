"""What the words of texts add to scores: how much a score changes where a word is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.explanations import Explanations
from bomkl.auto.insight.mixing import taken
from bomkl.auto.insight.shapley import Score
from bomkl.tables.encoded import EncodedRows

_MOST_OF_A_TEXT = 128  # words; others count with the rest of the text
_MOST_LISTED = 200  # words of a column
_AT_ONCE = 4096  # predictions


class Word(NamedTuple):
    """A word of a text, and what it added to each score."""

    row: int
    text: str
    parts: Float


def text_columns(rows: Any, names: Sequence[Any]) -> dict[Any, int]:
    """Columns of which some cell has several words, and their places among the cells; `names` are those of the cells.

    Examples
    --------
    >>> rows = EncodedRows(np.zeros((2, 0)), [(1, ["late again", None]), (1, ["x", "y"]), (2, np.zeros(2))])
    >>> text_columns(rows, ["note", "kind", "size"])
    {'note': 0}
    """
    if not isinstance(rows, EncodedRows):
        return {}
    return {
        name: place
        for place, (name, (kind, cells)) in enumerate(zip(names, rows.cells, strict=True))
        if kind == 1 and any(len(cell.split()) > 1 for cell in cells if cell)
    }


def words_of(score: Score, rows: EncodedRows, place: int) -> list[Word]:
    """Leave each word of the texts of a column out, and note how much the scores fall by that."""
    whole, cells = score(rows), rows.cells[place][1]
    left_out = [
        (row, word, " ".join(each for each in cell.split() if each.lower() != word))
        for row, cell in enumerate(cells)
        for word in list(dict.fromkeys((cell or "").lower().split()))[:_MOST_OF_A_TEXT]
    ]
    found: list[Word] = []
    for begin in range(0, len(left_out), _AT_ONCE):
        some = left_out[begin : begin + _AT_ONCE]
        at = np.array([row for row, _, _ in some])
        changed = [(kind, None if values is None else taken(values, at)) for kind, values in rows.cells]
        changed[place] = (1, [text for _, _, text in some])
        parts = whole[at] - score(EncodedRows(rows.numbers[at], changed))
        found += [Word(row, word, part) for (row, word, _), part in zip(some, parts, strict=True)]
    return found


def by_words(found: Explanations, words: dict[str, list[Word]]) -> Explanations:
    """Split texts up by words; what the words of a text do not explain is its rest, so the sums stay what they are."""
    values = found.values if found.values.ndim == 3 else found.values[:, :, None]
    names, columns, data = list(found.feature_names), [values.copy()], [found.data.astype(object)]
    for name, of_column in words.items():
        size: dict[str, float] = {}
        for word in of_column:
            size[word.text] = size.get(word.text, 0.0) + float(np.abs(word.parts).sum())
        listed = {text: at for at, text in enumerate(sorted(size, key=lambda text: -size[text])[:_MOST_LISTED])}
        parts, present = np.zeros((len(values), len(listed), values.shape[2])), np.zeros((len(values), len(listed)))
        for word in of_column:
            if word.text in listed:
                parts[word.row, listed[word.text]] = word.parts
                present[word.row, listed[word.text]] = 1
        at = found.feature_names.index(name)
        columns[0][:, at] -= parts.sum(axis=1)
        names[at] = f"{name}: the rest"
        names += [f"{name}: {text}" for text in listed]
        columns.append(parts)
        data.append(present.astype(object))
    split = np.concatenate(columns, axis=1)
    return Explanations(
        split if found.values.ndim == 3 else split[:, :, 0],
        found.base_values,
        np.concatenate(data, axis=1),
        names,
        found.output_names,
    )

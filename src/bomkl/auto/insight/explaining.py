"""Explaining several rows at once, by the columns of the user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.explanations import Explanations
from bomkl.auto.insight.mixing import WideRowMixer, taken
from bomkl.auto.insight.shapley import Score, background_size, shapley_values
from bomkl.auto.insight.words import by_words, text_columns, words_of
from bomkl.auto.wide.sparse_rows import canonical_rows
from bomkl.tables.encoded import EncodedRows, numbers_of
from bomkl.tables.frames import is_table, read_table


def explain_rows(model: Any, X: Any, rows: Any) -> Explanations:
    """Take the scores of rows apart.

    `model`: a fitted model, as of one moment. `X`: the rows, as the user gave them. `rows`: the same, as the learner
    takes them.
    """
    score = model._scores_of_rows
    sample = model._sample()
    mixer, seed = model._mixer(), model._learner.settings.seed
    if mixer is None:
        rows = canonical_rows(rows, 0, rows.shape[0])
        values, base, data, names = _of_wide(score, rows, rows if sample is None else sample, seed)
    else:
        rows, names = _dense(rows), model._column_names()
        background = _spread(rows if sample is None else _dense(sample), background_size(len(mixer.columns)))
        values, base = shapley_values(score, mixer, rows, background, seed)
        base, data = np.repeat(base[None], rows.shape[0], axis=0), _data(X, names, numbers_of(rows))
    several = values.shape[2] > 1
    found = Explanations(
        values if several else values[:, :, 0],
        base if several else base[:, 0],
        data,
        [_shown(name) for name in names],
        [str(label) for label in model.classes_.tolist()] if several else None,
    )
    texts = text_columns(rows, model._hashed_names())
    if not texts:
        return found
    return replace(
        found, words=by_words(found, {_shown(name): words_of(score, rows, at) for name, at in texts.items()})
    )


def _of_wide(
    score: Score, rows: sp.csr_matrix, sample: sp.csr_matrix, seed: int
) -> tuple[Float, Float, Float, list[Any]]:
    """Take scores of very wide rows apart, each by the columns that have a value in it, and all others as one.

    Returns as `Explanations` has them, of all columns that have a value in some row.
    """
    columns = np.unique(rows.indices)
    parts, bases = [], []
    for at in range(rows.shape[0]):
        row = rows[at]
        mixer = WideRowMixer(np.sort(row.indices))
        background = _spread(sample, background_size(len(mixer.columns)))
        found, base = shapley_values(score, mixer, row, background, seed)
        part = np.zeros((len(columns) + 1, found.shape[2]))
        part[np.append(np.searchsorted(columns, mixer.names[:-1]), -1).astype(np.intp)] = found[0]
        parts.append(part)
        bases.append(base)
    data = np.column_stack([rows[:, columns].toarray(), np.full(rows.shape[0], np.nan)])
    return np.array(parts), np.array(bases), data, [*columns.tolist(), "all other columns"]


def _shown(name: Any) -> str:
    return name if isinstance(name, str) else f"column {name}"


def _dense(rows: Any) -> Any:
    if isinstance(rows, EncodedRows):
        return rows
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def _spread(rows: Any, n: int) -> Any:
    """Rows from all over a sample; some of them twice where there are fewer than asked for."""
    at = np.linspace(0, rows.shape[0] - 1, n).round().astype(np.intp)
    if isinstance(rows, EncodedRows):
        return EncodedRows(rows.numbers[at], [(k, None if v is None else taken(v, at)) for k, v in rows.cells])
    return rows[at]


def _data(X: Any, names: list[Any], numbers: Any) -> NDArray[Any]:
    """Cells of the rows as the user gave them."""
    if not is_table(X):
        return np.asarray(numbers)
    table = read_table(X)
    data = np.full((table.n_rows, len(names)), None, dtype=object)
    for at, name in enumerate(names):
        if name in table.columns:
            data[:, at] = list(table.columns[name].values)
    return data

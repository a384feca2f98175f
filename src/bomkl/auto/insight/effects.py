"""How predictions change along a column, the other columns being as in rows of the stream (Friedman, 2001)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.mixing import RowMixer
from bomkl.tables.encoded import EncodedRows

POINTS = 24  # values of a column
ROWS = 48  # rows whose other columns are used


@dataclass(frozen=True)
class Effect:
    """What a model predicts along a column."""

    name: Any
    values: Any  # in the units of the table
    means: Float  # (n_values, n_outputs): mean prediction, and what lies below and above 80 % of the rows
    low: Float
    high: Float

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return isinstance(self.values, np.ndarray)


def effect_of(predict: Any, mixer: RowMixer, rows: Any, column: int, kind: str | None) -> Effect | None:
    """Predictions along one column; None where its values are not known or all the same.

    `predict`: gives predictions, (n, outputs), of rows as the learner takes them. `kind`: what the column of a table
    holds; None of a matrix.
    """
    cells = _cells(mixer, rows, column, kind)
    chosen = None if cells is None else _chosen(cells)
    if cells is None or chosen is None or len(chosen) < 2:
        return None
    others = np.linspace(0, rows.shape[0] - 1, min(ROWS, rows.shape[0])).round().astype(np.intp)
    source = np.repeat(np.tile(others, len(chosen))[:, None], len(mixer.names), axis=1)
    source[:, column] = np.repeat(chosen, len(others))
    found = predict(mixer.mixed(rows, source)).reshape(len(chosen), len(others), -1)
    values: Any = cells[chosen]
    if values.dtype.kind == "f" and kind == "date":
        values = np.round(values * 86400).astype("datetime64[s]")
    elif values.dtype.kind != "f":
        values = ["missing" if text is None else str(text) for text in values.tolist()]
    low, high = np.quantile(found, [0.1, 0.9], axis=1)
    return Effect(mixer.names[column], values, found.mean(axis=1), low, high)


def _cells(mixer: RowMixer, rows: Any, column: int, kind: str | None) -> NDArray[Any] | None:
    """Values of a column in the units of the table; None where rows do not tell them."""
    if isinstance(rows, EncodedRows):
        cells = mixer.cells_of(rows, column)
        if cells is not None:
            return np.array(cells, dtype=np.float64 if isinstance(cells, np.ndarray) else object)
    places = mixer.places_of(column)
    if kind in ("category", "date") or not len(places):
        return None
    return np.asarray((rows.numbers if isinstance(rows, EncodedRows) else rows)[:, places[0]], dtype=np.float64)


def _chosen(cells: NDArray[Any]) -> NDArray[np.intp]:
    """Rows whose values stand for all: spread over the quantiles of numbers, the commonest of texts."""
    if cells.dtype.kind == "f":
        known = np.flatnonzero(~np.isnan(cells))
        order = known[np.argsort(cells[known], kind="stable")]
        picked = order[np.linspace(0, len(order) - 1, POINTS).round().astype(np.intp)] if len(order) else order
        _, first = np.unique(cells[picked], return_index=True)
        return np.asarray(picked[first])
    texts, first, count = np.unique([str(each) for each in cells], return_index=True, return_counts=True)
    if len(texts) > len(cells) // 2:  # free texts: their words tell more
        return np.empty(0, dtype=np.intp)
    return np.asarray(first[np.argsort(-count, kind="stable")[:12]], dtype=np.intp)

"""Shapley values of the columns: what each added to a score, against other rows (Strumbelj and Kononenko, 2014).

The score of a row and that of a background row are the two ends of a walk: one column after the other takes the value
of the row, and what the score changes by is the part of that column. The mean over all orders is the Shapley value. A
walk and the same walk backwards are averaged, for many background rows. Every walk ends at the score of the row, so the
parts add up to it, however few walks there are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.mixing import RowMixer, WideRowMixer, stacked

EXACT = 4  # columns up to which all subsets are tried
WALKS = 32  # for each row
_FEWEST_WALKS = 8
_STEPS = 800  # predictions for a row beyond which there are fewer walks
_AT_ONCE = 16384  # predictions

Score = Callable[[Any], Float]


def background_size(columns: int) -> int:
    """Background rows to use: each is a walk there and one back; of few columns, all subsets are tried for each.

    Examples
    --------
    >>> background_size(3), background_size(10), background_size(500)
    (32, 16, 4)
    """
    if columns <= EXACT:
        return WALKS
    return int(np.clip(_STEPS // (2 * columns), _FEWEST_WALKS // 2, WALKS // 2))


def shapley_values(
    score: Score, mixer: RowMixer | WideRowMixer, rows: Any, background: Any, seed: int
) -> tuple[Float, Float]:
    """Parts of the columns in the scores of rows, and the mean score of the background.

    `score`: gives the scores, (n, outputs), of rows as the learner takes them. `rows` and `background`: what is
    explained, and what it is compared with. `seed`: of the orders of the columns. Returns `values`: parts of all
    columns; zero of those that rows do not have. Returns `base`: the mean score of the background. A row of `values`
    adds up to the score less this.
    """
    n, m, columns = rows.shape[0], background.shape[0], mixer.columns
    pool = stacked([rows, background])
    of_rows, of_background = score(rows), score(background)
    if not mixer.names:  # no row of the table had a value
        return np.zeros((n, 0, of_rows.shape[1])), of_background.mean(axis=0)
    steps, weights = _subsets(len(columns), m) if len(columns) <= EXACT else _walks(len(columns), m, seed)
    outputs = of_rows.shape[1]
    values = np.zeros((n, len(mixer.names), outputs))
    at_once = max(_AT_ONCE // max(steps.shape[0] * steps.shape[1], 1), 1)
    for begin in range(0, n, at_once):
        some = np.arange(begin, min(begin + at_once, n))
        inner = _scores_between(score, mixer, pool, some, n + np.arange(m), steps)
        ends = np.broadcast_to(of_background[None, :, None], (len(some), m, 1, outputs))
        whole = np.broadcast_to(of_rows[some, None, None], (len(some), m, 1, outputs))
        scores = np.concatenate([ends, inner, whole], axis=2)
        values[np.ix_(some, columns)] = np.einsum("bks,nbso->nko", weights, scores) / m
    return values, of_background.mean(axis=0)


def _scores_between(
    score: Score,
    mixer: RowMixer | WideRowMixer,
    pool: Any,
    rows: NDArray[Any],
    others: NDArray[Any],
    steps: NDArray[np.bool_],
) -> Float:
    """Scores of rows that have some columns of a background row, (rows, background, steps, outputs)."""
    m, n_steps, _ = steps.shape
    taken = np.zeros((m, n_steps, len(mixer.names)), dtype=bool)
    taken[:, :, mixer.columns] = steps
    source = np.where(taken[None], rows[:, None, None, None], others[None, :, None, None])
    found = score(mixer.mixed(pool, source.reshape(-1, len(mixer.names))))
    return found.reshape(len(rows), m, n_steps, found.shape[1])


def _walks(columns: int, m: int, seed: int) -> tuple[NDArray[np.bool_], Float]:
    """Give the steps of a walk there and one back for each background row, and the weight of each score in each part.

    Steps are (m, steps, columns): whether a column has the value of the row. Weights are (m, columns, 1 + steps + 1).
    """
    random = np.random.default_rng([seed, columns, m])
    inner = columns - 1
    steps = np.zeros((m, 2 * inner, columns), dtype=bool)
    weights = np.zeros((m, columns, 2 + 2 * inner))
    for each in range(m):
        rank = random.permutation(columns)
        for walk, place in enumerate((rank, columns - 1 - rank)):
            first = 1 + walk * inner
            steps[each, walk * inner : (walk + 1) * inner] = place[None] < np.arange(1, columns)[:, None]
            # the column at a place brings the score from that of the step before to that of its step
            path = np.array([0, *range(first, first + inner), 1 + 2 * inner])
            np.add.at(weights[each], (np.arange(columns), path[place + 1]), 0.5)
            np.add.at(weights[each], (np.arange(columns), path[place]), -0.5)
    return steps, weights


def _subsets(columns: int, m: int) -> tuple[NDArray[np.bool_], Float]:
    """All subsets but the empty and the whole one, and the weight of the score of each in the part of each column."""
    subsets = [each for size in range(columns + 1) for each in combinations(range(columns), size)]
    taken = np.array([[column in each for column in range(columns)] for each in subsets], dtype=bool)
    weights = np.zeros((1, columns, len(subsets)))
    for at, each in enumerate(subsets):
        for column in range(columns):
            # a subset counts for the columns in it, and against the others, by how many orders begin with it
            size = len(each) - (column in each)
            share = 1 / (columns * comb(columns - 1, size))
            weights[0, column, at] = share if column in each else -share
    return np.repeat(taken[None, 1:-1], m, axis=0), np.repeat(weights, m, axis=0)

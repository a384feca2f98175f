"""Which columns tell the same: those whose values come in nearly the same order, or in the opposite one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

from bomkl.auto.features.geometry import Float

Int = NDArray[np.intp]

_ALIKE = 0.9  # rank correlation of columns that tell the same
_LEAST = 7 / 64  # sum of squared ranks, over the cube of the rows, where 7/8 of them have one value and 1/8 another


def leaders(rows: Float, of_places: Int, n_columns: int) -> Int:
    """First of the columns that tell the same as each column does; a column that tells it alone leads itself.

    `of_places`: the column that each place of the rows belongs to. Two columns tell the same if each place of one has
    a place of the other with the same ranks, or if a third stands between them. Places with one value in nearly all
    rows do not count: those of few rows may agree by chance.

    Examples
    --------
    >>> rows = np.arange(64)[:, None] * [1.0, 0.0, -2.0]
    >>> leaders(rows, np.arange(3), 3).tolist()
    [0, 1, 0]
    """
    n = len(rows)
    ranks = 2 * rankdata(rows, axis=0) - (n + 1)  # whole numbers: their products are exact, in any order of adding
    places = (ranks**2).sum(axis=0) >= _LEAST * n**3
    ranks, of_places = ranks[:, places], of_places[places]
    products = ranks.T @ ranks
    same = products**2 >= _ALIKE**2 * np.outer(products.diagonal(), products.diagonal())
    paired = np.flatnonzero(same.sum(axis=0) > 1)
    if not len(paired):
        return np.arange(n_columns)
    found, column_of = np.unique(of_places[paired], return_inverse=True)
    of = np.arange(len(found)) == column_of[:, None]
    partners = (same[np.ix_(paired, paired)].astype(np.float32) @ of.astype(np.float32)) > 0  # of a place, in a column
    matches = np.zeros((len(found), len(found)), dtype=np.intp)  # places of a column with one of another
    np.add.at(matches, column_of, partners)
    matched = matches == np.bincount(of_places)[found][:, None]
    _, group = connected_components(matched & matched.T, directed=False)
    _, first, of_group = np.unique(group, return_index=True, return_inverse=True)
    leading = np.arange(n_columns)
    leading[found] = found[first[of_group]]
    return leading

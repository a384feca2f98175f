"""Normal scores of ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

_TAIL = 1e-3  # scores stay within this quantile and its mirror


def rank_scores(n: int) -> NDArray[np.float64]:
    """Scores of values among n others: the i-th is that of a value above i / 2 of them, where ties count half.

    Examples
    --------
    >>> rank_scores(1)
    array([-0.67448975,  0.        ,  0.67448975])
    """
    table: NDArray[np.float64] = ndtri(np.clip((np.arange(2 * n + 1) / 2 + 0.5) / (n + 1), _TAIL, 1 - _TAIL))
    return table

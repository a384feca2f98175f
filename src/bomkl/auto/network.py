"""The online network: what its inputs are, and how it is saved. The core learns (``cpp/auto/growth/network.hpp``)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bomkl._core import Network
from bomkl.auto.features.coding import Coding, Float
from bomkl.auto.limits import NETWORK_SQUARES, NETWORK_WEIGHTS, STANDARDISED, SUMS
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

Single = NDArray[np.float32]

HIDDEN = (128, 64)  # units of the hidden layers; the core has the same
_MOST_OPEN = 31  # rows that wait for their step


def code_values(coding: Coding, sorted_columns: Float) -> Single:
    """Values that the codes of each column stand for, (columns, 256): the middle between two cuts, standardised.

    Examples
    --------
    >>> columns = np.array([[0.0, 1.0, 2.0, 3.0]])
    >>> code_values(Coding.of(columns), columns)[0, :5].round(2)
    array([-1.12, -0.45,  0.45,  1.12,  1.12], dtype=float32)
    """
    out = np.zeros((len(sorted_columns), 256), dtype=np.float32)
    for j, column in enumerate(sorted_columns):
        largest = max(abs(column[0]), abs(column[-1]), float(np.finfo(np.float64).tiny))
        values = column / largest  # so that no sum or square overflows
        cuts = coding.cuts[coding.starts[j] : coding.starts[j + 1]] / largest
        if len(cuts):
            ends = np.concatenate([values[:1], cuts, values[-1:]])
            middles = (ends[:-1] + ends[1:]) / 2
            scaled = STANDARDISED.clip((middles - values.mean()) / values.std())
            out[j] = scaled[-1]  # of codes that no value has
            out[j, : len(scaled)] = scaled
    return out


def network_state(network: Network) -> State:
    """Everything it is, as arrays that are nobody else's."""
    return {"steps": network.steps, **network.arrays()}


def network_from_state(saved: Saved, columns: int, outputs: int, task: Task, seed: int) -> Network:
    """Go on where `network_state` was called."""
    values: Single = saved.array("values", (columns, 256), np.float32, *STANDARDISED)
    network = Network.of(values, outputs, int(task), seed)
    sizes = (columns, *HIDDEN, outputs)
    numbers = (sum((a + 1) * b for a, b in pairwise(sizes)),)
    weights = saved.array("weights", numbers, np.float32, *NETWORK_WEIGHTS)
    means = saved.array("means", numbers, np.float32, *NETWORK_WEIGHTS)
    squares = saved.array("squares", numbers, np.float32, *NETWORK_SQUARES)
    steps, codes = saved.integer("steps"), saved.array("codes", (None, columns), np.uint8)
    if len(codes) > _MOST_OPEN:
        raise saved.wrong("codes", f"an array of at most {_MOST_OPEN} rows", len(codes))
    low, high = (-np.inf, np.inf) if task.is_regression else (0.0, max(outputs, 2) - 1.0)
    y, weight = (
        saved.array("y", (len(codes),), low=low, high=high),
        saved.array("weight", (len(codes),), np.float64, *SUMS),
    )
    saved.end()
    network.restore(weights, means, squares, steps, codes, y, weight)
    return network

"""The online network: what its inputs are, and how it is saved. The core learns (``cpp/auto/growth/network.hpp``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bomkl._core import Network
from bomkl.auto.features.coding import Coding, Float
from bomkl.auto.limits import STANDARDISED
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

Single = NDArray[np.float32]

HIDDEN = (128, 64)  # units of the hidden layers; the core has the same


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
    """Everything it is, as copies of its arrays."""
    return {"steps": network.steps, "values": network.values, **network.state()}


def network_from_state(saved: Saved, columns: int, outputs: int, task: Task, seed: int) -> Network:
    """Go on where `network_state` was called."""
    values: Single = saved.array("values", (columns, 256), np.float32, *STANDARDISED)
    network = Network.of(values, outputs, int(task), seed)
    saved.load(network)
    return network

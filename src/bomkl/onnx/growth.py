"""Trees and a network that grow with the stream (see `bomkl.auto.growth`), as operators."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from onnx import TensorProto

from bomkl._core import Network
from bomkl.auto.growth.growth_learner import GrowthLearner
from bomkl.auto.limits import SCALED_TARGETS
from bomkl.auto.network import HIDDEN, network_state
from bomkl.auto.task import Task
from bomkl.onnx.combining import means, scores_of_means
from bomkl.onnx.graph import Graph, Result
from bomkl.onnx.trees import boosted_scores
from bomkl.onnx.views import codes_of

_CLIP = 10.0  # as in cpp/auto/growth/growth_model.hpp


def growth_scores(graph: Graph, rows: Result, learner: GrowthLearner, inner: Result) -> Result:
    """Scores (rows, outputs), given those of the learner within."""
    core, task = learner.core, learner.task
    if core is None or learner.coding is None or not core.awake:
        return inner
    centre, spread = learner.scale
    codes, (of_inner, of_trees, of_network, constant) = codes_of(rows, learner.coding), core.weights
    if task.is_regression:
        inner = (inner + -centre) / spread
    base = _limited(inner, task)
    total = base * of_inner
    if learner.trees is not None:
        total += _limited(boosted_scores(graph, codes, learner.trees), task) * of_trees
    if core.network is not None and core.rehearsal[1] == 0:
        total += _limited(_network(codes, core.network), task) * of_network
    if task is not Task.MULTICLASS:
        total += constant
    mixed = means(base, task) * (1 - core.share) + means(total, task) * core.share
    scores = scores_of_means(mixed, task)
    return scores * spread + centre if task.is_regression else scores


def _limited(scores: Result, task: Task) -> Result:
    """Scores as the stack takes them."""
    if task is Task.MULTICLASS:
        scores -= scores.mean(axis=1)
    far = SCALED_TARGETS.high if task.is_regression else _CLIP
    return scores.clip(-far, far)


def _network(codes: Result, network: Network) -> Result:
    arrays = network_state(network)
    columns = len(arrays["values"])
    places = codes + (256 * np.arange(columns)).tolist()
    units = places.select_from(arrays["values"].ravel())
    sizes, begin = (columns, *HIDDEN, network.outputs), 0
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        weights = arrays["weights"][begin : begin + (n_in + 1) * n_out].reshape(n_in + 1, n_out)
        begin += weights.size
        units = units @ weights[:-1] + weights[-1]
        if layer < len(HIDDEN):  # runtimes have no other than in single precision
            units = units.cast(TensorProto.FLOAT).add("Tanh").cast(TensorProto.DOUBLE)
    return units

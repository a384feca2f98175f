"""Trees and a network that grow with the stream (see `bomkl.auto.growth`), as operators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from bomkl._core import Network
from bomkl.auto.growth.growth_learner import GrowthLearner
from bomkl.auto.limits import SCALED_TARGETS
from bomkl.auto.network import HIDDEN
from bomkl.auto.task import Task
from bomkl.onnx.graph import Graph
from bomkl.onnx.trees import boosted_scores
from bomkl.onnx.views import codes_of

_CLIP = 10.0  # as in cpp/auto/growth/growth_model.hpp

Form = Callable[[Graph, str, Task], str]


def growth_scores(graph: Graph, rows: str, learner: GrowthLearner, inner: str, means: Form, inverse: Form) -> str:
    """Scores (rows, outputs), given those of the learner within."""
    core, task = learner.core, learner.task
    if core is None or learner.coding is None or not core.awake:
        return inner
    centre, spread = learner.scale
    codes, (of_inner, of_trees, of_network, constant) = codes_of(graph, rows, learner.coding), core.weights
    if task.is_regression:
        inner = graph.add("Div", graph.plus(inner, -centre), graph.number(spread))
    base = _limited(graph, inner, task)
    total = graph.add("Mul", base, graph.number(of_inner))
    if learner.trees is not None:
        trees = _limited(graph, boosted_scores(graph, codes, learner.trees), task)
        total = graph.add("Add", total, graph.add("Mul", trees, graph.number(of_trees)))
    if core.network is not None and core.rehearsal[1] == 0:
        network = _limited(graph, _network(graph, codes, core.network), task)
        total = graph.add("Add", total, graph.add("Mul", network, graph.number(of_network)))
    if task is not Task.MULTICLASS:
        total = graph.plus(total, constant)
    plain = graph.add("Mul", means(graph, base, task), graph.number(1 - core.share))
    mixed = graph.add("Add", plain, graph.add("Mul", means(graph, total, task), graph.number(core.share)))
    scores = inverse(graph, mixed, task)
    return graph.plus(graph.add("Mul", scores, graph.number(spread)), centre) if task.is_regression else scores


def _limited(graph: Graph, scores: str, task: Task) -> str:
    """Scores as the stack takes them."""
    if task is Task.MULTICLASS:
        scores = graph.add("Sub", scores, graph.add("ReduceMean", scores, axes=[1], keepdims=1))
    far = SCALED_TARGETS.high if task.is_regression else _CLIP
    return graph.clip(scores, -far, far)


def _network(graph: Graph, codes: str, network: Network) -> str:
    """Scores (rows, outputs) of coded rows."""
    arrays = network.arrays()
    columns = len(arrays["values"])
    places = graph.add("Add", graph.whole(codes), graph.integers((256 * np.arange(columns)).tolist()))
    units = graph.add("Gather", graph.number(arrays["values"].ravel()), places)
    sizes, begin = (columns, *HIDDEN, network.outputs), 0
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        weights = arrays["weights"][begin : begin + (n_in + 1) * n_out].reshape(n_in + 1, n_out)
        begin += weights.size
        units = graph.add("Add", graph.add("MatMul", units, graph.number(weights[:-1])), graph.number(weights[-1]))
        if layer < len(HIDDEN):
            units = graph.double(graph.add("Tanh", graph.single(units)))  # runtimes have no other
    return units

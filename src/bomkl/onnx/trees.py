"""Scores of tree experts (see `bomkl.auto.trees.trees`), as operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from bomkl.auto.task import Task
from bomkl.auto.trees.trees import BoostedTrees, Forest, Numbers
from bomkl.onnx.graph import Graph, Result

_PRIOR_WEIGHT = 0.2  # as in cpp/auto/trees/forest.hpp
_TINY = 1e-12


def leaves(graph: Graph, codes: Result, nodes: Numbers, roots: Numbers) -> Result:
    """Find the number of the leaf that each row reaches in each tree, (rows, trees).

    The operator adds up values of leaves in single precision; numbers of leaves are exact there.
    """
    tree = np.searchsorted(roots, np.arange(len(nodes)), side="right") - 1
    within = np.arange(len(nodes)) - roots[tree]
    is_leaf = nodes[:, 0] < 0
    next_within = np.where(is_leaf, 0, nodes[:, 1] - roots[tree])
    ends: dict[str, Any] = {
        "target_treeids": tree[is_leaf],
        "target_nodeids": within[is_leaf],
        "target_ids": tree[is_leaf],
        "target_weights": nodes[is_leaf, 1].astype(np.float32),
    }
    splits: dict[str, Any] = {
        "nodes_treeids": tree,
        "nodes_nodeids": within,
        "nodes_featureids": np.where(is_leaf, 0, nodes[:, 0] >> 8),
        "nodes_values": np.where(is_leaf, 0, nodes[:, 0] & 255).astype(np.float32),
        "nodes_truenodeids": next_within,
        "nodes_falsenodeids": np.where(is_leaf, 0, next_within + 1),
    }
    attributes = {name: value.tolist() for name, value in (ends | splits).items()}
    modes = ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf]
    numbers = graph.add_of_trees(
        codes.cast(TensorProto.FLOAT), n_targets=len(roots), nodes_modes=modes, aggregate_function="SUM", **attributes
    )
    return numbers.cast(TensorProto.INT64)


def boosted_scores(graph: Graph, codes: Result, trees: BoostedTrees) -> Result:
    """Scores (rows, outputs): the base and the values of the leaves."""
    values = leaves(graph, codes, trees.nodes, trees.roots).select_from(trees.values)
    parts = (trees.outputs[:, None] == np.arange(len(trees.base))).astype(np.float64)
    return values @ parts + trees.base


def forest_scores(graph: Graph, codes: Result, forest: Forest) -> Result:
    """Scores (rows, outputs): of the mean over the trees of what their leaves say."""
    arrays = forest.arrays()
    table, prior = arrays["table"].astype(np.float64), arrays["prior"]
    if forest.task.is_regression:
        values = (table[:, 1:] + _PRIOR_WEIGHT * prior[1]) / (table[:, :1] + _PRIOR_WEIGHT)
    else:
        values = (table + _PRIOR_WEIGHT * prior) / (table.sum(axis=1, keepdims=True) + _PRIOR_WEIGHT)
    means = leaves(graph, codes, arrays["nodes"], arrays["roots"]).select_from(values).mean(axis=1, keepdims=0)
    if forest.task.is_regression:
        return means
    logs = means.at_least(_TINY).add("Log")
    if forest.task is Task.MULTICLASS:
        return logs
    return logs.columns([1]) - logs.columns([0])

"""Class means, and linear models of one scale, as operators."""

from __future__ import annotations

import numpy as np

from bomkl.auto.simple.class_means import FAR, LEAST_LOG_PROBABILITY, ClassMeans
from bomkl.auto.simple.dense_linear import FAR as FAR_CELL
from bomkl.auto.simple.dense_linear import DenseLinear
from bomkl.onnx.graph import Graph


def class_means_scores(graph: Graph, rows: str, model: ClassMeans) -> list[str]:
    """Log probabilities of the classes, by each shape of the clouds."""
    origin, per_unit = model.units
    units = graph.add("Mul", graph.add("Sub", rows, graph.number(origin)), graph.number(per_unit))
    units = graph.clip(units, -FAR, FAR)
    found = []
    for cloud in model.clouds():
        z = graph.add("MatMul", units, graph.number(cloud.whiten))
        squares = graph.add("ReduceSumSquare", z, axes=[1], keepdims=1)
        products = graph.add("MatMul", z, graph.number(2 * cloud.centres.T))
        distance = graph.plus(graph.add("Sub", squares, products), (cloud.centres**2).sum(axis=1))
        above = graph.add("Max", distance, graph.number(0.0))
        density = graph.plus(graph.add("Mul", above, graph.number(-0.5 / cloud.widths)), cloud.constants)
        relative = graph.add("Sub", density, graph.add("ReduceMax", density, axes=[1], keepdims=1))
        found.append(graph.add("LogSoftmax", graph.add("Max", relative, graph.number(LEAST_LOG_PROBABILITY)), axis=1))
    return found


def dense_linear_scores(graph: Graph, rows: str, model: DenseLinear) -> list[str]:
    """Scores by each linear model."""
    common = graph.add("Div", rows, graph.number(model.scale))
    largest = graph.add("ReduceMax", graph.add("Abs", rows), axes=[1], keepdims=1)
    relative = graph.add("Div", rows, graph.add("Max", largest, graph.number(5e-324)))
    squares = graph.add("ReduceSumSquare", relative, axes=[1], keepdims=1)
    length = graph.add("Sqrt", graph.add("Max", squares, graph.number(1e-300)))
    unit = graph.add("Mul", graph.add("Div", relative, length), graph.number(np.sqrt(model.common.columns)))
    found = []
    for scaled, linear in ((common, model.common), (unit, model.unit)):
        arrays = linear.core.arrays(linear.columns)
        for w, bias in zip(arrays["w"], arrays["bias"], strict=True):
            products = graph.add("MatMul", graph.clip(scaled, -FAR_CELL, FAR_CELL), graph.number(w))
            found.append(graph.plus(products, bias))
    return found

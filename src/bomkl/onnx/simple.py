"""Class means, and linear models of one scale, as operators."""

from __future__ import annotations

import numpy as np

from bomkl.auto.simple.class_means import FAR, LEAST_LOG_PROBABILITY, ClassMeans
from bomkl.auto.simple.dense_linear import FAR as FAR_CELL
from bomkl.auto.simple.dense_linear import DenseLinear
from bomkl.onnx.graph import Result


def class_means_scores(rows: Result, model: ClassMeans) -> list[Result]:
    """Log probabilities of the classes, by each shape of the clouds."""
    origin, per_unit = model.units
    units = ((rows - origin) * per_unit).clip(-FAR, FAR)
    found = []
    for cloud in model.clouds():
        z = units @ cloud.whiten
        squares = z.add("ReduceSumSquare", axes=[1], keepdims=1)
        distance = squares - z @ (2 * cloud.centres.T) + (cloud.centres**2).sum(axis=1)
        density = distance.at_least(0.0) * (-0.5 / cloud.widths) + cloud.constants
        relative = density - density.largest(axis=1)
        found.append(relative.at_least(LEAST_LOG_PROBABILITY).add("LogSoftmax", axis=1))
    return found


def dense_linear_scores(rows: Result, model: DenseLinear) -> list[Result]:
    """Scores by each linear model."""
    relative = rows / rows.add("Abs").largest(axis=1).at_least(5e-324)
    squares = relative.add("ReduceSumSquare", axes=[1], keepdims=1)
    unit = relative / squares.at_least(1e-300).add("Sqrt") * np.sqrt(model.common.columns)
    found = []
    for scaled, linear in ((rows / model.scale, model.common), (unit, model.unit)):
        arrays = linear.core.arrays(linear.columns)
        for w, bias in zip(arrays["w"], arrays["bias"], strict=True):
            found.append(scaled.clip(-FAR_CELL, FAR_CELL) @ w + bias)
    return found

"""More columns and more classes for what an engine has learned, which stays as it is."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Model = TypeVar("Model", bound=Any)


def widened(model: Model, width: int) -> Model:
    """Give a model with more columns, all zero in the rows it has stored, so that it predicts as before."""
    if not hasattr(model, "_engine") or model.n_features_in_ == width:
        return model
    state = model.__getstate__()
    learned = copy.deepcopy(state["_engine"])
    if "rows" in learned["engine"]:  # rows without their zeros stay as they are
        learned["engine"]["rows"] = np.pad(learned["engine"]["rows"], ((0, 0), (0, width - model.n_features_in_)))
    return _revived(model, {**state, "_engine": learned, "n_features_in_": width})


def with_another_class(model: Model) -> Model:
    """Give a classifier with one more class, for which every row so far was an example of what it is not.

    Classes are numbers from 0 on, and the new one is the next.
    Two classes share one function, whose negative is the function of the first; from three on each has its own.
    """
    state = model.__getstate__()
    learned = copy.deepcopy(state["_engine"])
    engine, n_kernels = learned["engine"], len(model.kernels_)
    n_classes = len(model.classes_)
    if n_classes == 2:
        engine = _doubled(engine)
    engine["term_starts"] = _lengthened(engine["term_starts"], n_kernels)
    engine["gram_starts"] = _lengthened(engine["gram_starts"], n_kernels)
    fresh = {"scales": np.ones(n_kernels), "forgetron": np.zeros(2 * n_kernels)}
    fresh["log_weights"] = np.full(n_kernels, -np.log(n_kernels))
    fresh["kernel_mistakes"] = np.zeros(n_kernels, dtype=np.int64)
    if "feature_weights" in engine:
        fresh["feature_weights"] = np.zeros(n_kernels * 2 * model.learner.n_frequencies)
    for name, values in fresh.items():
        engine[name] = np.concatenate([engine[name], values.astype(engine[name].dtype)])
    learned |= {"engine": engine, "task": "multiclass", "n_outputs": n_classes + 1}
    return _revived(model, {**state, "_engine": learned, "classes_": np.arange(n_classes + 1)})


def _doubled(engine: dict[str, Any]) -> dict[str, Any]:
    """Turn the function of two classes into one for each: the negative for the first, then the function itself."""
    twice = dict(engine)
    for name in ("term_rows", "scales", "forgetron", "inverse_gram", "log_weights", "kernel_mistakes"):
        twice[name] = np.tile(engine[name], 2)
    for name in {"term_coefs", "feature_weights"} & set(engine):
        twice[name] = np.concatenate([-engine[name], engine[name]])
    for name in ("term_starts", "gram_starts"):
        starts = engine[name]
        twice[name] = np.concatenate([starts, starts[1:] + starts[-1]])
    return twice


def _lengthened(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.concatenate([starts, np.full(count, starts[-1], dtype=starts.dtype)])


def _revived(model: Model, state: dict[str, Any]) -> Model:
    changed = object.__new__(type(model))
    changed.__setstate__(state)
    return changed

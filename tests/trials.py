"""Models that try a new learner, which began at a sudden change, for the tests of files and interrupts."""

import functools

import numpy as np

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto.drift.challenged import ChallengedLearner


def challenged(model):
    """The layer that holds the new learner."""
    layer = model._learner
    while not isinstance(layer, ChallengedLearner):
        layer = layer.inner
    return layer


@functools.cache
def in_a_trial(kind, columns):
    """The file of a model in a trial; kind is "two", "several" (classes) or "numbers"."""
    X = np.random.default_rng(3).normal(size=(400, columns))
    target = np.where(np.arange(400) < 300, 3 * X[:, 0] + X[:, 1], -3 * X[:, 0] - 2 * X[:, 1])
    y = {"two": target > 0, "several": np.digitize(target, [-1, 1]), "numbers": target}[kind]
    y = y if kind == "numbers" else y.astype(int)
    model = (AutoMKLRegressor if kind == "numbers" else AutoMKLClassifier)(16, random_state=0)
    model.partial_fit(X[:300], y[:300])
    for at in range(300, 400):
        if challenged(model).challenger is not None:
            return modelfile.to_bytes(modelfile.Model(model))
        model.partial_fit(X[at : at + 1], y[at : at + 1])
    raise AssertionError(f"no new learner began for {kind}")

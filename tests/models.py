"""A small model, and how two are compared."""

from __future__ import annotations

import io
import pickle

import numpy as np

from bomkl import BudgetMKLClassifier
from bomkl.kernels import Gaussian
from bomkl.modelfile import Model


def rows(n=120, n_classes=2):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    return X, (np.abs(X).sum(axis=1) * 1.3).astype(int) % n_classes


def small_model(**notes):
    X, y = rows(12)
    return Model(BudgetMKLClassifier(kernels=[Gaussian()], random_state=0).fit(X, y), notes)


def content(model):
    """Return all that a model is; unlike a plain pickle, equal strings may be one object or several."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out)
    pickler.fast = True
    pickler.dump(model)
    return out.getvalue()


def layer(model, *kinds):
    """Return the learner of one of some kinds that an Auto model holds."""
    learner = model._learner
    while learner.kind not in kinds:
        learner = learner.inner
    return learner


def saved_layer(state, kind):
    """Return what the state of an Auto model has of the learner of a kind."""
    saved = state["_learner"]
    while saved["kind"] != kind:
        saved = saved["learner"]["inner"]
    return saved["learner"]

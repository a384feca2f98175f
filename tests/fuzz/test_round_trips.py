"""Whatever a model has learned can be saved and loaded: the loaded one predicts, and is saved, with the same bits.

Numbers at the edges of what a float can hold, after every kind of call. ``make fuzz`` says how many comparisons there
were; so does ``BOMKL_FUZZ_SECONDS=600 pytest tests/fuzz/test_round_trips.py -k budget``.
"""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.modelfile import Model

DENORMAL, LARGEST = 5e-324, float(np.finfo(np.float64).max)
EDGES = [0.0, -0.0, DENORMAL, 1e-320, 2.3e-308, 1e-300, 1e-160, 1e-150, 1e-20, 1.0, 3.0]
EDGES += [1e15, 1e75, 1e149, 1e150, 1.1e150, 1e200, 1e300, LARGEST]
WEIGHTS = [0.0, DENORMAL, 1e-300, 1e-12, 0.5, 1.0, 2.0, 1000.0, 1e15, 1e300, LARGEST]
AUTO = {
    "rows": {},
    "treeless": {"trees": False},
    "rounds": {"update": "rounds"},
    "drift": {"drift": "adapt"},
    "wide": {},
    "widedrift": {"drift": "adapt"},
}


def numbers(rng, n):
    """Numbers of one kind: constant, of one size, of all sizes, with outliers, or ordinary."""
    kind, size = int(rng.integers(8)), float(rng.choice(EDGES))
    ordinary, edges = rng.normal(size=n), rng.choice(EDGES, size=n)
    if kind == 0:
        return np.full(n, size)
    if kind == 1:
        return rng.integers(-3, 4, size=n) * min(size, 1e307)
    if kind == 2:
        return edges * rng.choice([-1.0, 1.0], size=n)
    if kind < 5:
        return np.where(rng.random(n) < 0.1, edges, size if kind == 3 else ordinary)
    return ordinary * min(size, 1e307) if kind == 5 else ordinary


def weights(rng, n):
    kind = int(rng.integers(4))
    return [None, rng.choice(WEIGHTS, size=n), np.full(n, rng.choice(WEIGHTS)), rng.exponential(size=n)][kind]


class Rows:
    """Rows for one model: each column, and the target, stays of one kind of numbers."""

    def __init__(self, rng, kind, regression):
        self.rng, self.kind, self.regression = rng, kind, regression
        self.columns, self.classes, self.taken = int(rng.integers(1, 4)), 2, 0
        self.seeds = rng.integers(2**32, size=self.columns + 1).tolist()
        self.width = int(rng.choice([513, 600, 600, 600, 1_000_000]))
        self.used = rng.integers(self.width, size=4)  # of very wide rows, the columns that are not empty

    def _numbers(self, column, n):
        return numbers(np.random.default_rng(self.seeds[column]), self.taken + n)[self.taken :]

    def take(self, n):
        """The next n rows as this kind of model takes them, and their targets."""
        X = np.column_stack([self._numbers(j, n) for j in range(self.columns)])
        y = self._numbers(-1, n) if self.regression else self.rng.integers(self.classes, size=n)
        self.taken = (self.taken + n) % 100
        if self.kind == "tables":
            X = pd.DataFrame(X, columns=[f"x{j}" for j in range(self.columns)])
            return X.assign(word=self.rng.choice(["a", "b", "c", None], size=n)), y
        if self.kind.startswith("wide"):
            places = self.rng.permuted(np.tile(self.used, (n, 1)), axis=1)[:, : self.columns]
            X = sp.csr_matrix((X.ravel(), places.ravel(), np.arange(n + 1) * self.columns), shape=(n, self.width))
            with np.errstate(over="ignore"):
                X.sum_duplicates()
            np.clip(X.data, -LARGEST, LARGEST, out=X.data)
        return X, y


def saved(model):
    return modelfile.to_bytes(Model(model))


def loaded(data):
    return modelfile.from_bytes(data).estimator


def answer(model, X):
    """What a model says about rows: bits, or an error."""
    try:
        return np.asarray(model.predict(X)).tobytes()
    except ValueError as error:
        return str(error)


def learn(rng, model, X, y, given):
    """Call the model in one of all the ways to learn."""
    way = int(rng.integers(4))
    if given is None and len(y) == 1 and way and hasattr(model, "n_features_in_"):
        model.learn_one(X.iloc[0] if hasattr(X, "iloc") else X if sp.issparse(X) else X[0], y[0])
    elif way == 0:
        model.score_and_learn(X, y, sample_weight=given)
    elif way == 1 and rng.integers(8) == 0:
        model.fit(X, y, sample_weight=given)
        return False
    else:
        model.partial_fit(X, y, sample_weight=given)
    return True


def step(rng, model, rows):
    """Learn from a few rows, then save and load; returns the model to go on with and the number of comparisons."""
    before = saved(model) if hasattr(model, "n_features_in_") else None
    n = int(rng.choice([1, 1, 1, 1, 2, 3, 8, 20]))
    X, y = rows.take(n)
    given = weights(rng, n) if rng.integers(2) else None
    try:
        goes_on = learn(rng, model, X, y, given)
    except ValueError as error:
        assert str(error)
        assert before is None or saved(model) == before, "a call that failed changed the model"
    else:
        if before is not None and goes_on and rng.integers(8) == 0:
            check_split(rng, loaded(before), model, X, y, given)
    if not hasattr(model, "n_features_in_"):
        return model, 0
    after = saved(model)
    other = loaded(after)
    assert saved(other) == after, "a loaded model is saved as another one"
    assert answer(other, X) == answer(model, X), "a loaded model predicts something else"
    copied = [model, other, other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))][int(rng.integers(5))]
    if not rows.regression and rows.classes < 4 and rng.integers(20) == 0 and not hasattr(model, "kernels"):
        rows.classes += 1
    return copied, 1


def check_split(rng, other, model, X, y, given):
    """The same rows in two calls."""
    cut = int(rng.integers(len(y) + 1))
    for part in (slice(0, cut), slice(cut, None)):
        if len(y[part]):
            other.partial_fit(X[part], y[part], sample_weight=None if given is None else given[part])
    assert answer(other, X) == answer(model, X), "the same rows in other calls gave another model"
    if getattr(model, "update", "rows") == "rows":  # in rounds, a model knows where it was loaded
        assert saved(other) == saved(model), "the same rows in other calls gave another file"


def auto(rng, choose, kind):
    regression = bool(rng.integers(2))
    settings = {"budget": int(choose(rng, [2, 8, 9, 16, 20])), "random_state": int(rng.integers(100))} | AUTO[kind]
    if regression:
        return AutoMKLRegressor(loss=choose(rng, ["squared", "huber"]), **settings), True
    return AutoMKLClassifier(**settings), False


@pytest.mark.parametrize("kind", [*AUTO, "budget", "tables"])
def test_round_trips(kind, cases, choose, new_model, request):
    compared = 0
    for rng in cases(1 if kind.startswith("wide") else 3):
        model, regression = auto(rng, choose, kind) if kind in AUTO else new_model(rng)
        while kind == "budget" and hasattr(model, "drift"):
            model, regression = new_model(rng)
        rows = Rows(rng, kind, regression)
        for _ in range(int(rng.integers(1, 40))):
            model, comparisons = step(rng, model, rows)
            compared += comparisons
    request.node.user_properties.append(("comparisons", f"{compared:,}"))

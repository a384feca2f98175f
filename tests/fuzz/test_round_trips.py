"""Whatever a model has learned can be saved and loaded: the loaded one predicts, and is saved, with the same bits.

Numbers at the edges of what a float can hold, after every kind of call. ``make fuzz`` says how many comparisons there
were; so does ``BOMKL_FUZZ_SECONDS=600 pytest tests/fuzz/test_round_trips.py -k budget``.
"""

import contextlib
import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tests.slow import slow_but
from tests.trials import challenged, in_a_trial

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.modelfile import Model
from bomkl.tables import TableEncoder

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

    def __init__(self, rng, kind, regression, columns=None, classes=2):
        self.rng, self.kind, self.regression = rng, kind, regression
        self.columns, self.classes, self.taken = columns or int(rng.integers(1, 4)), classes, 0
        self.seeds = rng.integers(2**32, size=self.columns + 1).tolist()
        self.width = 1_000_000 if rng.integers(40) == 0 else int(rng.choice([513, 600]))
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


def continued(way, model, other):
    """The model to go on with: itself, the one that was loaded, or a copy."""
    if way == 0:
        return copy.deepcopy(model)
    if way == 1:
        return pickle.loads(pickle.dumps(model))
    return other if way < 4 else model


def step(rng, model, rows, before):
    """Learn from a few rows, then save and load.

    Returns the model to go on with, its file (None while it has none) and the number of comparisons.
    """
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
        return model, None, 0
    after = saved(model)
    other = loaded(after)
    assert saved(other) == after, "a loaded model is saved as another one"
    assert answer(other, X) == answer(model, X), "a loaded model predicts something else"
    way = int(rng.integers(6))
    new = continued(way, model, other)
    if way < 2:
        assert saved(new) == after, "a copied model is saved as another one"
    if not rows.regression and rows.classes < 4 and rng.integers(20) == 0 and not hasattr(model, "kernels"):
        rows.classes += 1
    return new, after, 1 + (way < 2)


def check_split(rng, other, model, X, y, given):
    """The same rows in two calls."""
    cut = int(rng.integers(len(y) + 1))
    for part in (slice(0, cut), slice(cut, None)):
        if len(y[part]):
            other.partial_fit(X[part], y[part], sample_weight=None if given is None else given[part])
    check_alike(other, model, X)


def check_alike(other, model, X):
    """Two models, one of them loaded at some time, have learned the same rows."""
    assert answer(other, X) == answer(model, X), "the same rows gave another model"
    if getattr(model, "update", "rows") == "rows":  # in rounds, a model knows where it was loaded
        assert saved(other) == saved(model), "the same rows gave another file"


def auto(rng, choose, kind):
    regression = bool(rng.integers(2))
    settings = {"budget": int(choose(rng, [2, 8, 9, 16, 20])), "random_state": int(rng.integers(100))} | AUTO[kind]
    if regression:
        return AutoMKLRegressor(loss=choose(rng, ["squared", "huber"]), **settings), True
    return AutoMKLClassifier(**settings), False


def same(one, other):
    """Whether two states are the same values of the same types with the same bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        if one.dtype.kind == "O":
            return one.tolist() == other.tolist()
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, TableEncoder):
        return same(one.__getstate__(), other.__getstate__())
    return repr(one) == repr(other) if isinstance(one, float) else bool(one == other)


def short_step(rng, model, twin, X, y):
    """Learn from one row or two, then save and load in memory, in one step of 8 as a file that goes on as a twin.

    Returns the model to go on with, its twin (None in most steps) and the number of comparisons.
    """
    given, seed = weights(rng, len(y)) if rng.integers(4) == 0 else None, int(rng.integers(2**32))
    for each in [model] if twin is None else [model, twin]:
        with contextlib.suppress(ValueError):  # other cases compare what a refused call leaves
            learn(np.random.default_rng(seed), each, X, y, given)
    if not hasattr(model, "n_features_in_"):
        return model, None, 0
    state, other = model.__getstate__(), type(model)()
    other.__setstate__(state)
    assert same(other.__getstate__(), state), "a loaded model has another state"
    if twin is not None:
        check_alike(twin, model, X)
        twin = None
    if rng.integers(8) == 0:
        file = saved(model)
        twin = loaded(file)
        assert saved(twin) == file, "a loaded model is saved as another one"
        assert answer(twin, X) == answer(model, X), "a loaded model predicts something else"
    return other if rng.integers(4) == 0 else model, twin, 1


@pytest.mark.parametrize("kind", slow_but(["budget", "rounds"], [*AUTO, "budget", "tables"]))
def test_short_round_trips(kind, cases, choose, new_model, use_kernels, request):
    compared = 0
    for rng in cases(1):
        use_kernels(rng, all_of_them=False)
        model, regression = auto(rng, choose, kind) if kind in AUTO else new_model(rng)
        while kind == "budget" and hasattr(model, "drift"):
            model, regression = new_model(rng)
        X, y = Rows(rng, kind, regression).take(int(choose(rng, [4, 8, 12, 24])))
        cuts, twin = np.cumsum(rng.choice([1, 1, 1, 2], size=len(y))), None
        for part in map(slice, [0, *cuts[cuts < len(y)]], cuts[: np.searchsorted(cuts, len(y)) + 1]):
            model, twin, comparisons = short_step(rng, model, twin, X[part], y[part])
            compared += comparisons
    request.node.user_properties.append(("comparisons", f"{compared:,}"))


@pytest.mark.parametrize("kind", slow_but(["numbers"], ["two", "several", "numbers"]))
def test_round_trips_in_a_trial(kind, cases, choose, request):
    compared = won = 0
    for rng in cases(1):
        model = loaded(in_a_trial(kind, columns=2))
        rows = Rows(rng, "trial", kind == "numbers", columns=2, classes={"two": 2, "several": 3}.get(kind))
        file, end = None, int(choose(rng, [4, 12, 24, 60]))
        for _ in range(end):
            model, file, comparisons = step(rng, model, rows, file)
            compared += comparisons
        won += bool(challenged(model).past)
    request.node.user_properties += [("comparisons", f"{compared:,}"), ("won", won)]


@pytest.mark.parametrize("kind", slow_but(["rows", "rounds", "budget"], [*AUTO, "budget", "tables"]))
def test_round_trips(kind, cases, choose, new_model, use_kernels, request):
    compared = 0
    for rng in cases(1 if kind.startswith("wide") else 3):
        use_kernels(rng)
        model, regression = auto(rng, choose, kind) if kind in AUTO else new_model(rng)
        while kind == "budget" and hasattr(model, "drift"):
            model, regression = new_model(rng)
        rows, file = Rows(rng, kind, regression), None
        for _ in range(int(rng.integers(1, 40))):
            model, file, comparisons = step(rng, model, rows, file)
            compared += comparisons
    request.node.user_properties.append(("comparisons", f"{compared:,}"))

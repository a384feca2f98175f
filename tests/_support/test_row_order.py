"""`fit` takes a table, whose order has no meaning; streams are learned from as they come."""

import inspect
import pickle
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine, make_classification
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor
from bomkl._support import drawn_rows
from bomkl._support.row_order import RowOrder
from bomkl.kernels import Gaussian
from bomkl.learners import RBP
from bomkl.paper import BestKernelPerceptron

N = 500
X, CLASSES = make_classification(N, 6, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
NUMBERS = X[:, 0] * X[:, 1] + CLASSES
FRAME = pd.DataFrame(X, columns=list("abcdef")).assign(
    colour=np.array(["red", "blue", None], dtype=object)[np.arange(N) % 3], f=np.where(X[:, 0] > 1, np.nan, X[:, 5])
)
MODELS = {
    "auto classes": (AutoMKLClassifier(40, random_state=0), CLASSES),
    "auto rounds": (AutoMKLClassifier(40, update="rounds", random_state=0), CLASSES),
    "auto numbers": (AutoMKLRegressor(40, random_state=0), NUMBERS),
    "budget classes": (BudgetMKLClassifier(learner=RBP(), budget=30, random_state=0), CLASSES),
    "budget numbers": (BudgetMKLRegressor(budget=30, random_state=0), NUMBERS),
}
ROWS = {"64": X, "32": X.astype(np.float32), "sparse": sp.csr_matrix(X), "table": FRAME}


def drawn(model, weights):
    seed = model._seed if hasattr(model, "_seed") else model._learner.settings.seed
    return drawn_rows.drawn_order(seed, weights)


def outputs(model, rows):
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def rows_of(rows, places):
    return rows.iloc[places] if hasattr(rows, "iloc") else rows[places]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", slow_but(["64", "table"], ROWS))
def test_fit_learns_from_the_rows_in_a_drawn_order(name, kind, monkeypatch):
    rows = ROWS[kind]
    monkeypatch.setattr(drawn_rows, "_CELLS_AT_ONCE", 100 * X.shape[1])  # several blocks
    model, y = MODELS[name]
    weights = np.where(np.arange(N) % 7 == 3, 0.0, 1.0)
    order = drawn(clone(model).fit(X, y, sample_weight=weights), weights)
    assert sorted(order) == np.flatnonzero(weights).tolist()
    if rows is FRAME:  # the first row of a table decides the layout: make that of the first drawn row the same
        rows = FRAME.copy()
        rows.iloc[order[0]] = rows.iloc[0]
    model = clone(model).fit(rows, y, sample_weight=weights)
    by_hand = clone(model)
    if "drift" in by_hand.get_params():
        by_hand.set_params(drift=None)  # shuffled rows have no order of time
    by_hand.fit(rows_of(rows, order), y[order], shuffle=False)
    assert_array_equal(outputs(model, rows), outputs(by_hand, rows))
    assert model.n_seen_ == len(order)
    assert_array_equal(outputs(pickle.loads(pickle.dumps(model)), rows), outputs(model, rows))


@pytest.mark.parametrize("name", MODELS)
def test_streams_are_never_reordered_and_random_state_decides_the_order(name):
    model, y = MODELS[name]
    more = {"classes": range(4)} if name.endswith(("classes", "rounds")) else {}
    stream = clone(model).partial_fit(X[:100], y[:100], **more).partial_fit(X[100:], y[100:])
    straight = clone(model)
    straight.score_and_learn(X, y, **more)
    assert_array_equal(outputs(stream, X), outputs(straight, X))
    if "classes" not in more or name.startswith("budget"):
        assert_array_equal(outputs(clone(model).fit(X, y, shuffle=False), X), outputs(straight, X))
    fits = [clone(model).set_params(random_state=seed).fit(X, y) for seed in (1, 1, 2)]
    assert_array_equal(outputs(fits[0], X), outputs(fits[1], X))
    assert (outputs(fits[0], X) != outputs(fits[2], X)).any()


@pytest.mark.parametrize("name", MODELS)
def test_only_true_and_false_say_whether_to_shuffle(name):
    model, y = MODELS[name]
    assert inspect.signature(model.fit).parameters["shuffle"].default in (True, None)
    with pytest.raises(ValueError, match=r"'shuffle' parameter of \w+.fit must be True or False. Got 'yes'"):
        clone(model).fit(X, y, shuffle="yes")


def test_fit_takes_less_memory_than_its_table():
    rows = np.random.default_rng(0).normal(size=(20_000, 40))
    model = AutoMKLClassifier(16, trees=False, random_state=0)
    model.fit(rows[:100], rows[:100, 0] > 0)
    tracemalloc.start()
    try:
        model.fit(rows, rows[:, 0] > 0)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * rows.nbytes
    finally:
        tracemalloc.stop()


def test_rows_of_a_stream_that_drifts_stay_in_the_order_of_time():
    adaptive = AutoMKLClassifier(40, drift="adapt", random_state=0)
    in_order = clone(adaptive).fit(X, CLASSES, shuffle=False).decision_function(X)
    assert_array_equal(clone(adaptive).fit(X, CLASSES).decision_function(X), in_order)
    with pytest.raises(ValueError, match="order of the rows"):
        adaptive.fit(X, CLASSES, shuffle=True)


@pytest.mark.parametrize("name", MODELS)
def test_errors_name_rows_by_their_place_in_the_table(name, monkeypatch):
    monkeypatch.setattr(drawn_rows, "_CELLS_AT_ONCE", 100 * X.shape[1])
    model, y = MODELS[name]
    endless = FRAME.copy()
    endless.loc[321, "f"] = np.inf
    with pytest.raises(ValueError, match="Got inf in row 321 instead"):
        clone(model).fit(endless, y)
    if name.startswith("budget"):
        large = np.where(np.arange(N)[:, None] == 321, 1e150, X)
        with pytest.raises(ValueError, match=r"\brow 321\b"):
            clone(model).set_params(kernels="paper").fit(large, y)


def test_the_best_kernel_of_the_paper_does_not_depend_on_a_table_being_shuffled():
    model = BestKernelPerceptron(kernels=[Gaussian(1e-6), Gaussian(2.0)], random_state=0)
    for settings in ({}, {"shuffle": False}):
        assert clone(model).fit(X, CLASSES > 1, **settings).kernels_ == [Gaussian(2.0)]


def scores(model, rows, y, by):
    """Mean score on rows held out, learned from a sorted table and from one in a random order."""
    test = np.random.default_rng(0).permutation(len(y)) % 4 == 0
    train = np.flatnonzero(~test)
    return [
        np.mean(
            [
                make_pipeline(StandardScaler(), clone(model).set_params(random_state=seed))
                .fit(rows[places], y[places])
                .score(rows[test], y[test])
                for seed in range(4)
            ]
        )
        for places in (train[np.argsort(by[train], kind="stable")], train)
    ]


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
@pytest.mark.parametrize("model", [AutoMKLClassifier(60, trees=False), BudgetMKLClassifier()])
def test_labels_that_are_sorted_cost_nothing(load, model):
    rows, y = (each[:700] for each in load(return_X_y=True))
    ordered, mixed = scores(model, rows, y, y)
    assert ordered > mixed - 0.05
    assert mixed > 0.5


@pytest.mark.parametrize("model", [AutoMKLRegressor(60, trees=False), BudgetMKLRegressor()])
def test_targets_that_are_sorted_cost_nothing(model):
    rows, y = load_diabetes(return_X_y=True)
    y = (y - y.mean()) / y.std()
    ordered, mixed = scores(model, rows, y, y)
    assert ordered > mixed - 0.05


def test_cross_validation_on_a_sorted_table():
    rows, y = load_iris(return_X_y=True)
    assert cross_val_score(AutoMKLClassifier(random_state=0), rows, y, cv=5).min() >= 0.9


@pytest.mark.parametrize("name", [name for name in MODELS if name != "auto rounds"])
def test_a_sorted_stream_is_warned_about_once_however_it_is_split(name):
    model, y = MODELS[name]
    order = np.argsort(y, kind="stable")
    more = {"classes": range(4)} if name.endswith("classes") else {}
    for cuts in ([0, N], [0, 1, 70, 127, 128, 129, 300, N]):
        stream, told = clone(model), []
        for begin, end in pairwise(cuts):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                stream.partial_fit(X[order[begin:end]], y[order[begin:end]], **more)
            told += [str(each.message) for each in caught]
        assert len(told) == 1
        assert "256 rows" in told[0]
        assert "shuffle the rows first" in told[0]
    with pytest.warns(UserWarning, match="shuffle the rows"):
        clone(model).fit(X[order], y[order], shuffle=False)


def test_runs_that_end_between_two_powers_of_two_are_noticed():
    for rows in (2 * 500, 2 * 1000):  # by 512 or 1,024 rows the second label is still rare
        halves = np.repeat([0, 1], rows // 2)
        order = RowOrder().after_labels(halves)
        assert order.told
        assert order.rows % 256 == 0
        by_rows = RowOrder()
        for cut in range(0, rows, 100):
            by_rows = by_rows.after_labels(halves[cut : cut + 100])
        assert by_rows == order
    late = np.repeat([0, 1], [5000, 4000])  # from 4,096 rows on at powers of two
    assert RowOrder().after_labels(late).rows == 8192


def test_streams_that_change_slowly_or_have_rare_labels_are_not_warned_about():
    rng = np.random.default_rng(0)
    runs = np.repeat(rng.integers(0, 2, 100), rng.integers(1, 20, 100))  # of ten rows on average
    rare = (np.arange(2000) % 400 > 396).astype(int)  # three of four hundred, together
    wave = np.sin(np.arange(2000) / 100)
    for labels in (runs, rare, rng.integers(0, 3, 2000)):
        assert not RowOrder().after_labels(labels).told
    for targets in (wave, np.where(np.arange(2000) == 5, 1.0, 0.0), np.zeros(2000), rng.normal(size=2000)):
        assert not RowOrder().after_numbers(targets).told
    assert RowOrder().after_numbers(-np.sort(rng.exponential(size=300))).told

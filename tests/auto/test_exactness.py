"""However the rows come, and whatever happens between calls, not a bit of the result changes."""

import pickle
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, _core

N = 420
X, Y = make_classification(N, 7, n_informative=5, n_redundant=0, n_classes=4, random_state=0)


def flipping(y):
    """Labels that change their meaning, so that alarms ring."""
    return np.where(np.arange(len(y)) < len(y) // 2, y, 1 - y)


CASES = {
    "binary": (lambda **k: AutoMKLClassifier(40, random_state=0, **k), Y % 2),
    "multiclass": (lambda **k: AutoMKLClassifier(40, random_state=0, **k), Y),
    "regression": (lambda **k: AutoMKLRegressor(40, random_state=0, **k), X[:, 0] * X[:, 1] + Y),
    "huber": (lambda **k: AutoMKLRegressor(40, loss="huber", random_state=0, **k), X[:, 0] * X[:, 1] + Y),
    "late models": (lambda **k: AutoMKLClassifier(380, random_state=0, **k), Y % 2),
    "late models of numbers": (lambda **k: AutoMKLRegressor(300, loss="huber", random_state=0, **k), X[:, 0] + Y),
    "drift": (lambda **k: AutoMKLClassifier(40, drift="adapt", random_state=0, **k), flipping(Y % 2)),
}


def learn(case, cuts=(), rows=X, pickled=False, **settings):
    make, y = CASES[case]
    model, scores = make(**settings), []
    places = [0, *sorted(cuts), N]
    for begin, end in pairwise(places):
        if begin == end:
            continue
        extra = {"classes": range(4)} if case == "multiclass" else {}
        scores.append(model.score_and_learn(rows[begin:end], y[begin:end], **extra))
        if pickled:
            model = pickle.loads(pickle.dumps(model))
    return np.concatenate(scores), model


@cache
def whole(case):
    """Scores of all rows in one call."""
    return learn(case)[0]


@pytest.mark.parametrize("case", slow_but(("binary",), CASES))
@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=12), pickled=st.booleans(), n_jobs=st.sampled_from([None, 1, 2]))
def test_any_split_pickling_and_threads_give_the_same_bits(case, cuts, pickled, n_jobs):
    assert_array_equal(learn(case, cuts, pickled=pickled, n_jobs=n_jobs)[0], whole(case))


@pytest.mark.parametrize("case", CASES)
def test_row_by_row_gives_the_same_bits(case):
    assert_array_equal(learn(case, range(1, N))[0], whole(case))


@pytest.mark.parametrize("case", CASES)
def test_sparse_and_single_precision_rows_give_the_same_bits(case):
    single = X.astype(np.float32)
    scores = learn(case, rows=single)[0]
    assert_array_equal(learn(case, rows=single.astype(np.float64))[0], scores)
    assert_array_equal(learn(case, (100, 130), rows=sp.csr_matrix(single))[0], scores)


def test_late_classes_come_in_any_split():
    y = np.where(np.arange(N) < 150, Y % 2, np.where(np.arange(N) < 300, Y % 3, Y))
    whole = AutoMKLClassifier(40, random_state=0).partial_fit(X, y)
    assert_array_equal(whole.classes_, range(4))
    for cuts in ([150], [10, 149, 151, 299, 301], range(1, N)):
        model = AutoMKLClassifier(40, random_state=0)
        for begin, end in zip([0, *cuts], [*cuts, N], strict=True):
            model.partial_fit(X[begin:end], y[begin:end])
        assert_array_equal(model.decision_function(X), whole.decision_function(X))
        assert model.mistakes_ == whole.mistakes_


@pytest.mark.parametrize("case", ["binary", "multiclass", "regression", "drift"])
def test_scores_are_those_just_before_learning(case):
    make, y = CASES[case]
    model = make()
    name = "predict" if case == "regression" else "decision_function"
    for t in range(250):
        if t > 0 and t % 7 == 0:
            now = getattr(model, name)(X[t : t + 1])[0]
            np.testing.assert_allclose(now, whole(case)[t], rtol=1e-4, atol=1e-4)
        extra = {"classes": range(4)} if case == "multiclass" else {}
        model.partial_fit(X[t : t + 1], y[t : t + 1], **extra)


def test_random_state_alone_decides_the_draws():
    one, same, other = (AutoMKLClassifier(40, random_state=s).fit(X, Y % 2).decision_function(X) for s in (1, 1, 2))
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_no_score_depends_on_its_own_label_or_later_rows():
    y = Y % 2
    changed = y.copy()
    changed[300:] = 1 - changed[300:]
    one = AutoMKLClassifier(40, random_state=0).score_and_learn(X, y, classes=[0, 1])
    other = AutoMKLClassifier(40, random_state=0).score_and_learn(X, changed, classes=[0, 1])
    assert_array_equal(one[:301], other[:301])
    assert not np.array_equal(one[301:], other[301:])


@pytest.mark.parametrize("name", _core.instruction_sets())
def test_every_instruction_set(name, monkeypatch):
    monkeypatch.setenv("BOMKL_INSTRUCTION_SET", name)
    scores = learn("binary")[0]
    assert_array_equal(learn("binary", (1, 63, 70, 333))[0], scores)
    np.testing.assert_allclose(scores, whole("binary"), rtol=0.02, atol=0.02)

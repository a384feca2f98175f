"""Very wide rows: exact for any split, dense or sparse; time and memory by non-zeros; safe with any numbers."""

import copy
import pickle
import tracemalloc
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, merge, modelfile
from bomkl._support.limits import WIDEST
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.task import Task
from bomkl.auto.wide.linear import WideLinear
from bomkl.auto.wide.sparse_rows import ColumnScales, NonZeros, canonical_rows
from bomkl.auto.wide.wide_learner import WideLearner, learner_type
from bomkl.onnx import to_onnx

N, D = 300, 2000
_rng = np.random.default_rng(0)
X = sp.random(N, D, 0.02, format="csr", random_state=1, data_rvs=lambda n: _rng.normal(size=n))
F = X @ _rng.normal(size=D)
CLASSES = np.digitize(F, [-4, 0, 4])
CASES = {
    "binary": (AutoMKLClassifier, CLASSES // 2, {}),
    "multiclass": (AutoMKLClassifier, CLASSES, {"classes": range(4)}),
    "drift": (AutoMKLClassifier, np.where(np.arange(N) < N // 2, F > 0, F < 0), {}),
    "regression": (AutoMKLRegressor, F, {}),
}


def learn(case, cuts=(), rows=X, pickled=False):
    kind, y, extra = CASES[case]
    model = kind(budget=30, random_state=0, drift="adapt" if case == "drift" else None)
    scores = []
    for begin, end in pairwise([0, *sorted(set(cuts)), N]):
        scores.append(model.score_and_learn(rows[begin:end], y[begin:end], **extra))
        if pickled:
            model = pickle.loads(pickle.dumps(model))
    return np.concatenate(scores), model


@cache
def whole(case):
    """Scores of all rows in one call, and the model."""
    return learn(case)


@pytest.mark.parametrize("case", slow_but(["binary", "multiclass"], CASES))
@settings(max_examples=3)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=8), dense=st.booleans())
def test_any_split_dense_or_sparse_gives_the_same_bits(case, cuts, dense):
    scores, _ = learn(case, cuts, X.toarray() if dense else X, pickled=True)
    assert_array_equal(scores, whole(case)[0])


@pytest.mark.parametrize("case", CASES)
def test_a_model_file_holds_all_of_it(case, tmp_path):
    learned = learn(case, [3, 17, 150])[1]
    for name, model in (("whole", whole(case)[1]), ("cut", learned)):
        modelfile.save(model, tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "cut").read_bytes()
    assert_array_equal(modelfile.load(tmp_path / "cut").predict(X), whole(case)[1].predict(X.toarray()))


def test_a_model_of_less_than_eight_rows_goes_on_after_a_file(tmp_path):
    model = AutoMKLClassifier(random_state=0).partial_fit(X[:5], CLASSES[:5], classes=range(4))
    modelfile.save(model, tmp_path / "model")
    again = modelfile.load(tmp_path / "model").partial_fit(X[5:60], CLASSES[5:60])
    assert_array_equal(again.predict_proba(X), model.partial_fit(X[5:60], CLASSES[5:60]).predict_proba(X))


@pytest.mark.parametrize(("part", "value"), [("S", -1.0), ("w", np.nan), ("bias", np.inf)])
def test_a_file_that_does_not_fit_is_refused(part, value):
    state = pickle.loads(pickle.dumps(whole("binary")[1])).__getstate__()
    array = state["_learner"]["learner"]["inner"]["learner"]["linear"][part]
    array.flat[0] = value
    with pytest.raises(ValueError, match=f"'{part}' of the saved linear"):
        AutoMKLClassifier().__setstate__(state)


def test_a_restarted_twin_survives_a_file():
    _, model = learn("drift")
    model._learner._challenge()
    model._learner._restart()
    again = pickle.loads(pickle.dumps(model))
    y = CASES["drift"][1]
    assert_array_equal(again.score_and_learn(X, y), model.score_and_learn(X, y))


def test_new_classes_may_come_at_any_time():
    model = AutoMKLClassifier(budget=30, random_state=0)
    for begin in range(0, N, 20):
        model.partial_fit(X[begin : begin + 20], CLASSES[begin : begin + 20])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_it_learns_a_sparse_linear_function_and_words_of_classes():
    rng = np.random.default_rng(0)
    rows = sp.random(4000, 600, 0.02, format="csr", random_state=2)
    target = rows @ rng.normal(size=600) + 5
    scores = AutoMKLRegressor(budget=50, random_state=0).score_and_learn(rows, target)
    assert np.mean((scores - target)[2000:] ** 2) < 0.2 * target.var()
    y = rng.integers(0, 5, 2000)
    words = np.column_stack([100 * y + rng.integers(0, 100, 2000), rng.integers(500, 5000, (2, 2000)).T])
    texts = sp.csr_matrix((np.ones(6000), words.ravel(), np.arange(0, 6001, 3)), shape=(2000, 5000))
    model = AutoMKLClassifier(budget=50, random_state=0)
    model.score_and_learn(texts, y)
    assert model.mistakes_ < 0.4 * 2000  # 0.8 by chance, and most words of a class come a few times only


def test_narrow_rows_have_the_learner_they_had():
    assert learner_type(WIDEST) is RowLearner
    assert learner_type(WIDEST + 1) is WideLearner


def test_memory_follows_the_columns_seen_and_not_those_declared():
    narrow = X[:, :600].tocsr()
    wide = sp.csr_matrix((narrow.data, narrow.indices * 1700, narrow.indptr), shape=(N, 2**20))
    tracemalloc.start()
    model = AutoMKLClassifier(budget=30, random_state=0).fit(wide, CLASSES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.nbytes_ < 14e6  # of which at most 8 MB find the places of columns
    assert peak < 60e6


def test_rows_without_values_and_extreme_values():
    rows = np.zeros((60, 700))
    rows[20:, 3] = np.resize([1e300, -1e300, 1e-300, 0.0], 40)
    rows[30:, 699] = np.arange(30)
    y = np.arange(60) % 3
    for drift in (None, "adapt"):
        model = AutoMKLClassifier(budget=20, drift=drift, random_state=0)
        assert np.isfinite(model.score_and_learn(rows, y, sample_weight=np.resize([1e-3, 1, 1000], 60))).all()
        numbers = AutoMKLRegressor(budget=20, drift=drift, random_state=0)
        assert np.isfinite(numbers.score_and_learn(rows, 1e100 * rows[:, 699], sample_weight=np.full(60, 500.0))).all()


def test_a_forgetting_model_stays_finite_on_a_long_stream():
    """Sums of gradients are kept in fading units, which are renewed before they vanish."""
    learner = WideLearner(whole("binary")[1]._learner.settings.__class__(10, 0, False, False, 0.5))
    y = CLASSES[:50] // 2
    for _ in range(10):  # 500 rows at a half each: a fade of 2^-500 is renewed at 1e-100
        scores = learner.score_and_learn(X[:50], y.astype(float), np.ones(50))
    assert np.isfinite(scores).all()
    assert learner.linear.to_state()["fade"][0] >= 1e-100


@pytest.mark.parametrize("case", CASES)
def test_a_fork_learns_while_the_original_stays(case):
    model = whole(case)[1]
    before, fork = model._learner.scores(X), model._learner.fork()
    shifted = sp.csr_matrix((X.data, (X.indices + 7) % D, X.indptr), X.shape)
    fork.score_and_learn(shifted, np.asarray(CASES[case][1], dtype=float), np.ones(N))
    assert_array_equal(model._learner.scores(X), before)
    assert (fork.scores(X) != before).any()


def learned(linear, rows, rng):
    """A fork that has learned rows."""
    fork, y = linear.fork(), rng.integers(0, 2, (len(rows.starts) - 1, 1)).astype(float)
    fork.score_and_learn(rows, 200, y, np.ones(len(y)), Task.BINARY, 0.9)
    return fork


@pytest.mark.parametrize("seed", range(8))
def test_forks_that_share_columns_stay_what_they_were(seed):
    """What few rows change is written to shared arrays as soon as nobody needs what was there."""
    rng = np.random.default_rng(seed)
    living = [(WideLinear.of(1), 0)]  # each with how many rows it has seen, by which its twin is found
    twins = {0: living[0][0].to_state()}
    for number in range(1, 120):
        linear, _ = living[rng.integers(len(living)) if rng.random() < 0.2 else -1]
        entries = np.sort(rng.choice(200, rng.choice([1, 5, 30]), replace=False)).astype(np.int32)
        rows = NonZeros(np.array([0, len(entries)]), entries, entries, rng.normal(size=len(entries)))
        alone = WideLinear.from_arrays(linear.steps, **linear.core.arrays(linear.columns))
        again = np.random.default_rng([seed, number])
        twins[number] = learned(alone, rows, again).to_state()
        fork = learned(linear, rows, np.random.default_rng([seed, number]))
        if rng.random() < 0.8:  # others are given up, as after an interrupt
            living.append((fork, number))
        living = [each for each in living[:-1] if rng.random() < 0.7] + living[-1:]
        for each, known in living:
            assert_equal(each.to_state(), twins[known])


def test_explanations_add_up():
    for case in CASES:
        model = whole(case)[1]
        explanation = model.explain(X[7])
        assert list(explanation.kernels) == model.kernels_
        assert_allclose(sum(explanation.kernels.values()) + explanation.remainder, explanation.margin)
        assert len(explanation.rows) == len(model.support_vectors_)
    assert_allclose(whole("regression")[1].explain(X[7]).margin, whole("regression")[1].predict(X[7])[0])


def test_to_onnx_says_that_it_takes_no_wide_models():
    with pytest.raises(ValueError, match="at most 512 columns"):
        to_onnx(whole("binary")[1])


def test_scales_of_columns_do_not_depend_on_their_units():
    rows = canonical_rows(np.random.default_rng(0).normal(size=(8, 40)) * np.logspace(-6, 6, 40), 0, 8)
    scaled = ColumnScales.of(rows).scaled(rows, learn=True)
    sizes = np.abs(scaled.values.reshape(8, 40)).mean(axis=0)
    assert sizes.max() / sizes.min() < 5


def test_explicit_zeros_duplicates_and_unsorted_columns_count_as_what_they_mean():
    plain = sp.csr_matrix(([3.0, 1.0], [1, 5], [0, 2]), shape=(1, 900))
    odd = sp.csr_matrix(([1.0, 2.0, 0.0, 1.0], [5, 1, 7, 1], [0, 4]), shape=(1, 900))
    model = whole("binary")[1]
    wide = AutoMKLClassifier(budget=30, random_state=0).fit(X[:, :900], CLASSES // 2)
    assert model.n_features_in_ == D
    assert_array_equal(wide.decision_function(plain), wide.decision_function(odd))


def test_rounds_are_refused():
    with pytest.raises(ValueError, match="'update' parameter of AutoMKLClassifier must be 'rows' for more than 512"):
        AutoMKLClassifier(update="rounds").fit(X, CLASSES)


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier])
def test_memory_does_not_grow_with_the_width(kind, tmp_path):
    rows = sp.csr_array((np.ones(80), [2**31 - 2, 0] * 40, range(81)), shape=(80, 2**31 - 1))
    y = np.tile([1, -1], 40)
    tracemalloc.start()
    try:
        model = kind(budget=10, random_state=0).fit(rows, y)
        modelfile.save(model, tmp_path / "model.bomkl")
        model = pickle.loads(pickle.dumps(modelfile.load(tmp_path / "model.bomkl"))).partial_fit(rows, y)
        assert_array_equal(model.predict(rows) > 0, y > 0)
        if kind is BudgetMKLClassifier:
            assert_allclose(merge([model, copy.deepcopy(model)]).predict(rows), y)
        else:
            model.explain(rows[:1])
            assert len(model.feature_importances_) == 2**31 - 1
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_columns_of_any_number_are_found_again():
    rng = np.random.default_rng(0)
    near, far = rng.integers(0, 1000, size=400), rng.integers(2**21, 2**31 - 1, size=400)
    columns = np.unique(np.concatenate([near, far]))
    rows = sp.csr_matrix((np.ones(len(columns)), columns, [0, len(columns)]), shape=(1, 2**31 - 1))
    scales = ColumnScales.of(rows[:, :0])
    scales.scaled(rows, learn=True)
    found = scales.scaled(rows, learn=False).places
    assert_array_equal(np.sort(found), np.arange(len(columns)))
    assert_array_equal(scales.columns[found], columns)

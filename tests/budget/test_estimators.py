"""The Budget estimators: what they store, and that pickles and threads change nothing."""

import contextlib
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from tests.budget.examples import LEARNERS, X0, Y0, moons, snapshot

from bomkl import AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor
from bomkl._core import NotFiniteError
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, PA, SPA, Forgetron, Perceptron

NATIVE = [Linear(), Polynomial(2, 0.5, 1.0), Gaussian(0.7), Exponential(0.7), Cauchy(0.7), Cosine(), Laplacian(0.7)]


class TestLearning:
    def test_margins_are_those_just_before_learning(self):
        X, y = moons(150)
        whole = BudgetMKLClassifier(random_state=0).score_and_learn(X, y)
        model = BudgetMKLClassifier(random_state=0)
        for t in range(len(y)):
            if t > 0:
                assert model.decision_function(X[t : t + 1])[0] == whole[t]
            model.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        assert model.mistakes_ == np.sum(whole * y <= 0)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_unit_norm_stops_coefficients_that_grow(self, dtype):
        X, y = moons()
        kernels = [Polynomial(3), Gaussian(1.0)]
        model = BudgetMKLClassifier(kernels, BPAS(unit_norm=True), selection_delta=None, budget=20)
        margins = model.score_and_learn((30 * X).astype(dtype), y)
        assert np.isfinite(margins).all()
        polynomial, gaussian = np.abs(model.dual_coef_).max(axis=0)
        assert polynomial == 1e6
        assert gaussian < 1e3

    def test_fitted_attributes_describe_the_function(self):
        X, y = moons()
        model = BudgetMKLClassifier(kernels=NATIVE, learner=PA(0.5), random_state=0).fit(X, y)
        assert model.support_vectors_.shape == (len(np.unique(model.support_vectors_, axis=0)), 2)
        assert_array_equal((model.dual_coef_ != 0).sum(axis=0), model.n_support_)
        assert model.kernel_weights_.sum() == pytest.approx(1)
        scores = sum(
            w * kernel(X, model.support_vectors_) @ coef
            for w, kernel, coef in zip(model.kernel_weights_, NATIVE, model.dual_coef_.T, strict=True)
        )
        np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-9, atol=1e-12)

    def test_multiclass_is_one_vs_rest_over_one_pool(self):
        X, y = make_classification(600, 6, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
        model = BudgetMKLClassifier(learner=Perceptron(), combiner=Uniform(), selection_delta=None, random_state=0)
        scores = model.score_and_learn(X, y)
        for c in range(4):
            alone = BudgetMKLClassifier(learner=Perceptron(), combiner=Uniform(), selection_delta=None)
            np.testing.assert_allclose(alone.score_and_learn(X, y == c), scores[:, c], rtol=1e-12, atol=1e-12)
        assert model.n_support_.shape == (4, 16)
        assert model.dual_coef_.shape == (4, len(model.support_vectors_), 16)
        assert len(model.support_vectors_) <= 600
        assert model.mistakes_ == np.sum(scores.argmax(axis=1) != y)

    def test_string_labels_and_data_frames(self):
        X, y = moons()
        frame = pd.DataFrame(X, columns=["left", "right"])
        model = BudgetMKLClassifier(random_state=0).fit(frame, np.where(y > 0, "yes", "no"))
        assert list(model.feature_names_in_) == ["left", "right"]
        assert_array_equal(model.predict(frame) == "yes", BudgetMKLClassifier(random_state=0).fit(X, y).predict(X) == 1)

    @pytest.mark.parametrize(("learner", "budget"), LEARNERS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_csr_rows_give_the_same_model_as_dense_ones(self, learner, budget, dtype):
        rng = np.random.default_rng(0)
        X = np.where(rng.random((300, 30)) < 0.2, rng.integers(1, 4, (300, 30)), 0).astype(dtype)
        y = rng.integers(0, 2, 300)
        dense, sparse = (BudgetMKLClassifier(learner=learner, budget=budget, random_state=0) for _ in range(2))
        assert_array_equal(dense.score_and_learn(X, y), sparse.score_and_learn(sp.csr_matrix(X), y))
        assert_array_equal(dense.dual_coef_, sparse.dual_coef_)

    def test_zero_weight_rows_are_as_good_as_absent(self):
        X, y = moons()
        weight = np.tile([1.0, 0.0, 2.0], 200)[: len(y)]
        kept = weight > 0
        one = BudgetMKLClassifier(random_state=0).fit(X, y, sample_weight=weight)
        other = BudgetMKLClassifier(random_state=0).fit(X[kept], y[kept], sample_weight=weight[kept])
        assert_array_equal(one.decision_function(X), other.decision_function(X))
        assert one.n_seen_ == kept.sum()

    def test_class_weight_is_sample_weight_by_class(self):
        X, y = moons()
        one = BudgetMKLClassifier(class_weight={-1: 1.0, 1: 3.0}, random_state=0).fit(X, y)
        other = BudgetMKLClassifier(random_state=0).fit(X, y, sample_weight=np.where(y > 0, 3.0, 1.0))
        assert_array_equal(one.decision_function(X), other.decision_function(X))
        with pytest.raises(ValueError, match=r"balanced.* works with fit only"):
            BudgetMKLClassifier(class_weight="balanced").partial_fit(X, y)

    def test_selection_delta_may_depend_on_the_round(self):
        X, y = moons()
        rounds = []
        model = BudgetMKLClassifier(selection_delta=lambda t: rounds.append(t) or 0.001, random_state=0)
        model.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
        assert rounds == list(range(1, len(y) + 1))
        constant = BudgetMKLClassifier(selection_delta=0.001, random_state=0).fit(X, y, shuffle=False)
        assert_array_equal(model.dual_coef_, constant.dual_coef_)

    def test_random_state_alone_decides_the_draws(self):
        X, y = moons()
        one, same, other = (BudgetMKLClassifier(random_state=s).fit(X, y).decision_function(X) for s in (1, 1, 2))
        assert_array_equal(one, same)
        assert not np.array_equal(one, other)

    def test_normalize_step_divides_by_the_kernel_of_the_row_with_itself(self):
        X, y = np.array([[2.0, 0.0]]), [1]
        for normalize, step in ((False, 1.0), (True, 0.25)):
            model = BudgetMKLClassifier([Linear()], PA(C=10.0), normalize_step=normalize)
            model.partial_fit(X, y, classes=[-1, 1])
            assert model.dual_coef_[0, 0] == step


class TestBudget:
    @pytest.mark.parametrize(("learner", "budget"), [(kind, b) for kind, b in LEARNERS if b is not None])
    def test_budget_holds_after_every_row_of_every_learner(self, learner, budget):
        X, y = moons(600)
        y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, -y, y)
        model = BudgetMKLClassifier(learner=learner, budget=budget, normalize_step=True, random_state=0)
        for start in range(0, len(y), 5):
            model.partial_fit(X[start : start + 5], y[start : start + 5], classes=[-1, 1])
            assert model.n_support_.max() <= budget
        assert model.n_support_.max() == budget
        assert len(model.support_vectors_) <= budget * len(model.kernels_)

    def test_memory_stays_flat_on_a_long_stream(self):
        rng = np.random.default_rng(0)
        model = BudgetMKLClassifier(learner=SPA(beta=1.0), budget=30, random_state=0)
        sizes = []
        for _ in range(20):
            X = rng.normal(size=(1000, 4))
            model.partial_fit(X, rng.integers(0, 2, 1000), classes=[0, 1])
            sizes.append(model.nbytes_)
        assert max(sizes[5:]) <= 1.1 * sizes[5]


class TestCallables:
    def test_a_callable_gives_the_same_as_the_native_kernel(self):
        X, y = moons()
        native = [Gaussian(0.5), Polynomial(2)]
        calls = [lambda A, B: Gaussian(0.5)(A, B), lambda A, B: Polynomial(2)(A, B)]
        for learner, budget in LEARNERS:
            one = BudgetMKLClassifier(native, learner, budget=budget, random_state=0)
            other = BudgetMKLClassifier(calls, learner, budget=budget, random_state=0)
            np.testing.assert_allclose(one.score_and_learn(X, y), other.score_and_learn(X, y), rtol=1e-6, atol=1e-9)
            assert_array_equal(one.n_support_, other.n_support_)

    @pytest.mark.parametrize(
        ("kernel", "message"),
        [
            (lambda A, B: np.ones((len(A), len(B) + 1)), r"must return a matrix of shape \(\d+, \d+\). Got shape"),
            (lambda A, B: np.full((len(A), len(B)), np.nan), "must return finite numbers"),
            (lambda A, B: 1 / 0, "division by zero"),
        ],
    )
    def test_a_callable_that_fails_leaves_the_model_as_it_was(self, kernel, message):
        X, y = moons()
        switch = {"bad": False}
        model = BudgetMKLClassifier([lambda A, B: kernel(A, B) if switch["bad"] else A @ B.T], random_state=0).fit(X, y)
        before = model.decision_function(X)
        switch["bad"] = True
        with pytest.raises((ValueError, ZeroDivisionError), match=message):
            model.partial_fit(X, y)
        switch["bad"] = False
        assert_array_equal(model.decision_function(X), before)
        assert model.n_seen_ == len(y)


@pytest.mark.parametrize(("learner", "budget"), LEARNERS)
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.where(np.arange(2) == 1, np.nan, X0[:5]), Y0[:5], "NaN"),
        (np.where(np.arange(2) == 1, np.inf, X0[:5]), Y0[:5], "Got inf in row"),
        (np.ones((5, 3)), Y0[:5], "3 features, but .* expecting 2"),
        (X0[:5], [1, 1, 1, 1, 7], "never declared: .*7.* in row 4. Known classes: .-1, 1."),
        (np.empty((0, 2)), [], "0 sample"),
        (np.array([["1", 2]] * 4 + [[3, "b"]], dtype=object), Y0[:5], "Got 'b' in row 4, column 1 .* may have strings"),
        (X0[:5], Y0[:4], "5 rows, but y has 4"),
        (X0[:5] * 1e200, Y0[:5], "squared norm of row 0"),
        (X0[:5] * np.array([[1.0]] * 4 + [[1e60]]), Y0[:5], r"Polynomial\(degree=3.* overflows float64 on row 4"),
    ],
)
def test_bad_input_is_named_and_leaves_the_model_as_it_was(learner, budget, X, y, message):
    model = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0).fit(X0, Y0)
    before = snapshot(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y)
    assert snapshot(model) == before
    fresh = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0)
    if len(np.shape(X)) == 2 and np.shape(X)[1] == 2:
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(X, y, classes=[-1, 1])
        assert vars(fresh) == vars(clone(fresh))


@pytest.mark.parametrize(("learner", "budget"), [(SPA(), None), (Perceptron(), None), (BPAS(), 400)])
def test_threads_change_nothing(learner, budget):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)).astype(np.float32)
    y = (np.sin(3 * X[:, 0]) + X[:, 1] > 0).astype(int)
    one, two = (
        BudgetMKLClassifier(learner=learner, budget=budget, n_jobs=n, random_state=0).score_and_learn(X, y)
        for n in (1, 2)
    )
    assert_array_equal(one, two)


def test_many_threads_may_predict_at_once():
    X, y = moons(600)
    model = BudgetMKLClassifier(random_state=0).fit(X, y)
    expected = model.decision_function(X)
    results = [None] * 4

    def work(i):
        results[i] = [np.array_equal(model.decision_function(X), expected) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(all(r) for r in results)


def test_long_close_rows_do_not_lose_their_distance_in_float32():
    rng = np.random.default_rng(0)
    X = (1000 + 0.1 * rng.normal(size=(300, 5))).astype(np.float32)
    y = rng.integers(0, 2, 300)
    model = BudgetMKLClassifier([Gaussian(0.2)], Perceptron(), Uniform(), selection_delta=None).fit(X, y)
    exact = Gaussian(0.2)(X, model.support_vectors_) @ model.dual_coef_[:, 0]
    np.testing.assert_allclose(model.decision_function(X), exact, rtol=1e-4, atol=1e-4)


class TestRegressor:
    def test_it_learns_a_sine(self):
        X = np.random.default_rng(0).uniform(-3, 3, size=(3000, 1))
        y = np.sin(2 * X[:, 0])
        for learner, budget in [(PA(), None), (SPA(), None), (SPA(), 50), (BPAS(), 50), (BOGD(0.5, 0.001), 100)]:
            model = BudgetMKLRegressor([Gaussian(0.5)], learner, budget=budget, random_state=0).fit(X, y)
            assert model.score(X, y) > 0.9, learner
            assert budget is None or model.n_support_.max() <= budget

    def test_divergence_is_refused_and_taken_back(self):
        X = np.random.default_rng(0).normal(size=(400, 3)) * 30
        model = BudgetMKLRegressor([Polynomial(2)], BOGD(), budget=50)
        with pytest.raises(ValueError, match=r"Polynomial\(degree=2.*overflows float64.*diverge"):
            model.fit(X, X[:, 0])
        assert not hasattr(model, "n_features_in_")

    def test_rules_without_a_loss_for_numbers_are_refused(self):
        with pytest.raises(
            ValueError, match=r"'learner' parameter of BudgetMKLRegressor must be one of PA, SPA, BOGD, BPAS"
        ):
            BudgetMKLRegressor(learner=Perceptron()).fit(X0, Y0)
        with pytest.raises(ValueError, match="'epsilon' parameter"):
            BudgetMKLRegressor(epsilon=-1).fit(X0, Y0)
        with pytest.raises(ValueError, match="epsilon_insensitive"):
            BudgetMKLRegressor(combiner=Hedge(loss="hinge")).fit(X0, Y0)


@pytest.mark.parametrize("kind", [AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor])
def test_large_cells_of_both_signs_give_no_warning(kind):
    rows = np.zeros((64, 8))
    rows[::2, 0], rows[1::2, 0] = 1.7e308, -1.7e308
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with contextlib.suppress(NotFiniteError):
            kind(random_state=0).fit(rows, np.arange(64) % 2)


def test_the_forgetron_only_shrinks_whatever_rounding_does_to_huge_sums():
    rng = np.random.default_rng(229)
    X = rng.normal(size=(60, 2))
    X[rng.random(60) < 0.1] *= 1e75
    y = rng.integers(2, size=60)
    y[:2] = 0, 1
    model = BudgetMKLClassifier([Linear()], Forgetron(), budget=5, random_state=0)
    model.partial_fit(X, y, sample_weight=np.where(np.arange(60) < 20, 1000.0, 1.0))
    assert np.abs(model.dual_coef_[0]).max() <= 1000

"""Bad input of Budget estimators: named, and the model is as it was."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.budget.examples import LEARNERS, X0, Y0, moons, snapshot

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Exponential, Gaussian, Linear, Polynomial
from bomkl.learners import BOGD, RBP, Perceptron


def test_rows_learned_before_the_bad_one_are_taken_back():
    for learner, budget in LEARNERS:
        model = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0).fit(X0, Y0)
        before = snapshot(model)
        many = np.vstack([moons(700, seed=1)[0], [[1e60, 0.0]]])
        with pytest.raises(ValueError, match="on row 700"):
            model.partial_fit(many, np.append(moons(700, seed=1)[1], 1))
        assert snapshot(model) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learner": "SPA"}, "'learner' parameter of BudgetMKLClassifier .* Got 'SPA'"),
        ({"combiner": 0.99}, "'combiner' parameter"),
        ({"combiner": Hedge(loss="squared")}, "'combiner.loss' parameter .*hinge.* Got 'squared'"),
        ({"kernels": "papers"}, "'kernels' parameter .* Got 'papers'"),
        ({"kernels": []}, "'kernels' parameter"),
        ({"kernels": [1.0]}, "'kernels' parameter"),
        ({"combination": "mean"}, "'combination' parameter .* Got 'mean'"),
        ({"selection_delta": 0.0}, "'selection_delta' parameter .* Got 0.0"),
        ({"selection_delta": lambda t: 2.0}, "'selection_delta' .* Got 2.0 for round 1"),
        ({"selection_scope": "none"}, "'selection_scope' parameter"),
        ({"normalize_step": 1}, "'normalize_step' parameter"),
        ({"budget": 0}, "'budget' parameter .* Got 0"),
        ({"budget": 2.5}, "'budget' parameter .* Got 2.5"),
        ({"learner": RBP()}, "'budget' parameter .* an int >= 1 for RBP. Got None"),
        ({"dtype": "float16"}, "'dtype' parameter .* Got 'float16'"),
        ({"n_jobs": 0}, "'n_jobs' parameter"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_any_work(settings, message):
    model = BudgetMKLClassifier(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X0, Y0)
    assert not hasattr(model, "classes_")


def test_settings_may_not_change_in_mid_stream():
    model = BudgetMKLClassifier(random_state=0).fit(X0, Y0)
    model.set_params(budget=5)
    with pytest.raises(ValueError, match=r"'budget' .* changed from None to 5 after learning had begun"):
        model.partial_fit(X0, Y0)
    assert model.fit(X0, Y0).n_support_.max() <= 5


def test_one_class_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"only one class.*classes="):
        BudgetMKLClassifier().partial_fit(X0, np.ones(len(X0)))


def test_negative_weights_are_refused():
    with pytest.raises(ValueError, match=r"'sample_weight' parameter .* Got -1.0"):
        BudgetMKLClassifier().fit(X0, Y0, sample_weight=np.where(np.arange(len(Y0)) == 3, -1.0, 1.0))


def test_a_row_of_weight_zero_may_come_alone():
    model = BudgetMKLClassifier(random_state=0).fit(X0, Y0)
    before = snapshot(model)
    model.partial_fit(X0[:1], Y0[:1], sample_weight=[0.0])
    assert snapshot(model) == before


@pytest.mark.parametrize(
    ("weight", "message"),
    [([1.0], "of shape"), ([np.nan] * len(Y0), "NaN"), (["a"] * len(Y0), "'sample_weight'.* must be numbers. Got 'a'")],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        BudgetMKLClassifier().fit(X0, Y0, sample_weight=weight)


@pytest.mark.parametrize("weight", [-1.0, np.inf, np.nan, 1e200])
def test_bad_class_weights_are_refused_and_change_nothing(weight):
    model = BudgetMKLClassifier(random_state=0).fit(X0, Y0)
    model.set_params(class_weight={Y0[0]: weight})
    before = snapshot(model)
    with pytest.raises(ValueError, match="'class_weight' parameter of BudgetMKLClassifier"):
        model.partial_fit(X0, Y0)
    with pytest.raises(ValueError, match="'class_weight' parameter of BudgetMKLClassifier"):
        model.learn_one(X0[0], Y0[0])
    assert snapshot(model) == before


def test_class_weight_of_another_type_is_refused():
    with pytest.raises(ValueError, match=r"'class_weight' parameter .* must be None, 'balanced' or a dict"):
        BudgetMKLClassifier(class_weight=np.ones(2)).fit(X0, Y0)


@pytest.mark.parametrize(("learner", "budget"), LEARNERS)
def test_weights_that_would_overflow_are_refused(learner, budget):
    model = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0).fit(X0.astype(np.float32), Y0)
    before = snapshot(model)
    with pytest.raises(ValueError, match=r"'sample_weight' parameter .* must be at most 1e\+06. Got 1e\+40"):
        model.partial_fit(X0[:1], Y0[:1], sample_weight=[1e40])
    assert snapshot(model) == before
    model.partial_fit(X0[:1], Y0[:1], sample_weight=[1e6])
    assert np.isfinite(model.decision_function(X0)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_that_are_none_or_too_large_are_refused(dtype):
    X = X0.astype(dtype)
    model = BudgetMKLRegressor(learner=BOGD(), budget=20, random_state=0).fit(X, X0[:, 0])
    before = model.predict(X)
    for target, message in (
        (None, "Got None in row"),
        (1e-6 * np.finfo(dtype).max, "y must be smaller than"),
        (np.inf, "infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X[:1], np.array([target], dtype=object))
        with pytest.raises(ValueError, match=message):
            model.learn_one(X[0], target)
    assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_that_overflows_by_its_constant_alone_is_refused(dtype):
    with pytest.raises(ValueError, match=r"Polynomial\(.*\) overflows .* coef0"):
        BudgetMKLClassifier([Polynomial(2, coef0=1e160)]).fit(X0.astype(dtype), Y0)


@pytest.mark.parametrize("kernel", [Gaussian(1e-30), Exponential(1e-100), Cauchy(1e-30)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_too_narrow_for_the_precision_tell_rows_apart(kernel, dtype):
    X = X0.astype(dtype)
    model = BudgetMKLClassifier([kernel], Perceptron(), selection_delta=None).fit(X, Y0, shuffle=False)
    stored = (X[:, None] == model.support_vectors_).all(axis=2).any(axis=1)
    assert stored.sum() >= 10
    labels = np.where(model.classes_[1] == Y0, 1.0, -1.0)
    assert_allclose(model.decision_function(X), np.where(stored, labels, 0.0), atol=1e-6)


@pytest.mark.parametrize("kernels", [None, Gaussian(1.0), [], 3])
def test_kernels_that_are_no_list_are_refused(kernels):
    with pytest.raises(ValueError, match="'kernels' parameter of BudgetMKLClassifier"):
        BudgetMKLClassifier(kernels).fit(X0, Y0)


def test_a_callable_that_returns_no_numbers_is_refused():
    def words(X, Z):
        return "abc"

    with pytest.raises(ValueError, match=r"The kernel words must return an array of numbers. Got str"):
        BudgetMKLClassifier([words]).fit(X0, Y0)


def test_a_malformed_csr_matrix_is_refused():
    X = sp.csr_matrix(X0)
    model = BudgetMKLClassifier(random_state=0).fit(X, Y0)
    broken = X.copy()
    broken.indices = broken.indices.copy()
    broken.indices[3] = 99
    with pytest.raises(ValueError, match="column numbers"):
        model.partial_fit(broken, Y0)


@pytest.mark.parametrize(("learner", "budget"), LEARNERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pickling_in_mid_stream_changes_nothing(learner, budget, dtype):
    X, y = moons(500)
    X = X.astype(dtype)
    straight = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0).fit(X, y, shuffle=False)
    model = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0)
    for start in range(0, len(y), 93):
        model.partial_fit(X[start : start + 93], y[start : start + 93], classes=[-1, 1])
        model = pickle.loads(pickle.dumps(model))
    assert_array_equal(model.decision_function(X), straight.decision_function(X))
    assert model.mistakes_ == straight.mistakes_


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_rows_that_cost_the_same_the_oldest_is_replaced(dtype):
    rows = np.eye(20)  # no row tells of another, so a row costs its squared coefficient
    model = BudgetMKLClassifier([Linear()], Perceptron(), Uniform(), selection_delta=None, budget=19, dtype=dtype)
    weights = np.where(np.arange(20) == 0, 2.0, 1.0)
    model.partial_fit(rows, np.arange(20) % 2, classes=[0, 1], sample_weight=weights)
    assert sorted(model.support_vectors_.argmax(axis=1)) == [0, *range(2, 20)]

"""Covariances stay positive definite and scores finite, whatever the rows, ranks and weights."""

import numpy as np
import pytest
from tests.models import layer, saved_layer
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl._core import NotFiniteError
from bomkl._support.tiles import unpacked
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import NewtonComponent
from bomkl.auto.components.newton import fitted_regression, repair
from bomkl.auto.task import Task

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 4))
NUMBERS = X[:, 0] + 0.1 * RNG.normal(size=1500)


def learners(model):
    return layer(model, "adaptive").models if model.drift == "adapt" else [model._learner.leader]


def assert_stable(model):
    for learner in learners(model):
        for regression in (each.regression for each in learner.components if isinstance(each, NewtonComponent)):
            P = unpacked(regression.P)[:, : regression.rank].astype(np.float64)
            assert np.linalg.eigvalsh(P).min() > 0
            assert np.trace(P) <= regression.trace[0] * (1 + 1e-4)


@pytest.mark.parametrize("weight", slow_but([1000.0], [0.1, 5.0, 1000.0]))
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_forgetting_numbers_stays_bounded(weight, loss):
    model = AutoMKLRegressor(200, loss=loss, drift="adapt", random_state=0)
    scores = model.score_and_learn(X, NUMBERS, sample_weight=np.full(len(X), weight))
    assert np.mean((scores - NUMBERS)[500:] ** 2) < 0.03
    assert_stable(model)


def test_forgetting_with_a_large_rank_stays_bounded():
    rows = RNG.normal(size=(700, 260))
    model = AutoMKLRegressor(40, drift="adapt", random_state=0)
    scores = model.score_and_learn(rows, rows[:, 0], sample_weight=np.full(700, 10.0))
    assert np.abs(scores).max() < 20
    assert_stable(model)


@pytest.mark.parametrize("weight", [0.1, 1000.0])
def test_forgetting_classes_stays_bounded(weight):
    model = AutoMKLClassifier(60, drift="adapt", random_state=0)
    scores = model.score_and_learn(X, X[:, 0] * X[:, 1] > 0, sample_weight=np.full(len(X), weight))
    assert np.isfinite(scores).all()
    assert_stable(model)


def test_one_direction_again_and_again():
    model = AutoMKLRegressor(30, drift="adapt", random_state=0).partial_fit(X[:60], NUMBERS[:60])
    model.partial_fit(np.tile(X[:1], (3000, 1)), RNG.normal(size=3000), sample_weight=np.full(3000, 100.0))
    assert np.abs(model.predict(X)).max() < 100
    assert_stable(model)


@pytest.mark.parametrize("weight", [1.0, 1000.0])
def test_a_covariance_that_rounding_has_spoilt_is_repaired(weight):
    rank = 70
    P = np.eye(rank)
    P[:5, :5] = 1 - 1e-6 * np.eye(5)  # four eigenvalues of -1e-6
    regression = fitted_regression(np.zeros((rank, 1)), P, 128, 1.0)
    rows = np.zeros((1024, 128), dtype=np.float32)
    rows[:, :rank] = RNG.normal(size=(1024, rank))
    for seen in range(0, 16 * 1024, 1024):
        regression.score_and_learn(rows, rows[:, :1].astype(float), np.full(1024, weight), Task.SQUARED, 1.0, seen)
        repair(regression)
    repaired = unpacked(regression.P)[:, :rank].astype(np.float64)
    assert np.linalg.eigvalsh(repaired).min() > 0


@pytest.mark.parametrize(("rank", "rows"), [(5, 61_440), (70, 15_360)])
def test_a_covariance_follows_the_exact_one_on_a_long_stream(rank, rows):
    rng = np.random.default_rng(0)
    ridge, weight, call, width = 0.01, 100.0, 3072, -(-rank // 64) * 64
    mixing = np.linalg.qr(rng.normal(size=(rank, rank)))[0] * np.geomspace(1, 0.05, rank)
    regression = fitted_regression(np.zeros((rank, 1)), np.eye(rank) / ridge, width, ridge)
    information = ridge * np.eye(rank)
    for seen in range(0, rows, call):
        F = np.zeros((call, width), dtype=np.float32)
        F[:, :rank] = rng.normal(size=(call, rank)) @ mixing
        regression.score_and_learn(F, F[:, :1].astype(float), np.full(call, weight), Task.SQUARED, 1.0, seen)
        repair(regression)
        exact = F[:, :rank].astype(float)
        information += weight * exact.T @ exact
    P = unpacked(regression.P)[:, :rank]
    np.testing.assert_array_equal(P, P.T)
    least, largest = np.linalg.eigvalsh(information)[[0, -1]]
    assert np.linalg.eigvalsh(P.astype(float))[[0, -1]] == pytest.approx([1 / largest, 1 / least], rel=0.01)


def test_covariances_of_the_combination_are_symmetric_to_the_bit():
    combination = Combination.of(5)
    scores = X[:, :1] + 0.01 * RNG.normal(size=(len(X), 5))
    combination.score_and_learn(scores[:, :, None], NUMBERS[:, None], np.full(len(X), 7.0), Task.SQUARED)
    for P in combination.stack_covariance:
        np.testing.assert_array_equal(P, P.T)


def test_a_healthy_covariance_is_left_alone():
    regression = fitted_regression(np.zeros((3, 1)), np.diag([1.0, 2.0, 0.01]), 64, 1.0)
    before = regression.P
    regression.restore(regression.state() | {"unchecked": 1e9}, "regression")
    repair(regression)
    np.testing.assert_array_equal(regression.P, before)
    assert regression.unchecked == 0


@pytest.mark.parametrize("learn", [True, False])
def test_a_score_that_is_not_finite_is_an_error_and_changes_nothing(learn):
    model = AutoMKLRegressor(30, random_state=0).partial_fit(X[:100], NUMBERS[:100])
    first, *others = model._learner.leader.components
    known = first.regression
    huge = known.fork()
    huge.restore(known.state() | {"w": np.full_like(known.w, 1e308)}, "regression")
    model._learner.leader.components = [first.at(huge), *others]
    before = model.__getstate__()
    with pytest.raises(NotFiniteError, match="not finite"):
        model.partial_fit(X, NUMBERS) if learn else model.predict(X)
    assert model.n_seen_ == saved_layer(before, "growth")["seen"]


def test_columns_of_two_tiny_values_matter():
    # the squares of their differences are no numbers
    rows = np.column_stack([X[:400, 0], 1e-300 * (X[:400, 1] > 0)])
    with np.errstate(all="raise", under="ignore"):
        model = AutoMKLClassifier(50, random_state=0).fit(rows, rows[:, 1] > 0)
        importances = model.feature_importances_
    assert importances[1] > 0.4
    assert model.score(rows, rows[:, 1] > 0) > 0.95

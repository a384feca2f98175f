"""Numbers: both losses, scale, weights."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_friedman1

from bomkl import AutoMKLRegressor


def model(**settings):
    return AutoMKLRegressor(**{"budget": 150, "random_state": 0} | settings)


def friedman(n=1500):
    return make_friedman1(n, noise=1.0, random_state=0)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_learns_a_function(loss):
    X, y = friedman()
    auto = model(loss=loss)
    predictions = auto.score_and_learn(X, y)
    assert np.mean((predictions - y)[750:] ** 2) < 0.2 * y.var()
    assert auto.component_errors_[-1] > 1.2 * np.mean((predictions - y) ** 2)  # that of the linear component


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_scale_and_place_of_the_target_do_not_matter(loss):
    X, y = friedman(500)
    plain = model(loss=loss).score_and_learn(X, y)
    scaled = model(loss=loss).score_and_learn(X, 1e6 + 1e3 * y)
    np.testing.assert_allclose((scaled[1:] - 1e6) / 1e3, plain[1:], rtol=1e-3, atol=1e-3)


def test_huber_bears_outliers():
    X, y = friedman()
    spoiled = y + np.where(np.random.default_rng(0).random(len(y)) < 0.05, 500.0, 0.0)
    error = {loss: np.mean((model(loss=loss).fit(X, spoiled).predict(X) - y) ** 2) for loss in ("squared", "huber")}
    assert error["huber"] < 0.2 * y.var() < error["squared"]


def test_constant_target():
    X, _ = friedman(300)
    assert_array_equal(model().fit(X, np.full(300, 7.0)).predict(X), 7.0)


def test_rows_of_weight_zero_are_as_good_as_absent():
    X, y = friedman(400)
    weight = np.tile([1.0, 0.0, 2.0, 1.0], 100)
    kept = weight > 0
    one, other = model(budget=50), model(budget=50)
    predictions = one.score_and_learn(X, y, sample_weight=weight)
    assert_array_equal(predictions[kept], other.score_and_learn(X[kept], y[kept], sample_weight=weight[kept]))
    assert_array_equal(one.predict(X), model(budget=50).partial_fit(X, y, sample_weight=weight).predict(X))


def test_explain_adds_up_in_units_of_the_target():
    X, y = friedman(400)
    auto = model(budget=60).fit(X, 100 + 10 * y)
    explanation = auto.explain(X[3])
    assert explanation.margin == pytest.approx(auto.predict(X[3:4])[0])
    assert explanation.margin == pytest.approx(sum(explanation.kernels.values()) + explanation.remainder)
    assert 0.5 < explanation.remainder / 100 < 4  # the centre of the target

"""The component of numbers that learns the target on a curved scale."""

import numpy as np
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto.components.component import Shape
from bomkl.auto.components.curved import CurvedComponent, bent, curve_of, slope
from bomkl.auto.features.pool_kernels import CURVED
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.saved import Saved
from bomkl.auto.task import Task


def prices(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.exp(X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n))


def curved(model):
    (component,) = [each for each in model._learner.leader.components if isinstance(each, CurvedComponent)]
    return component


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_curve_is_logarithmic_along_the_longer_tail_and_can_be_undone(sign):
    targets = sign * np.exp(np.random.default_rng(0).normal(size=(500, 1)))
    curve = curve_of(targets)
    bent_targets = bent(curve, targets)
    start, unit, mean, deviation, low, high = curve
    np.testing.assert_allclose([bent_targets.mean(), bent_targets.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(start + unit * np.sinh(mean + deviation * bent_targets), targets)
    assert low < bent_targets.min()
    assert bent_targets.max() < high
    far = sign * np.array([[20.0], [200.0], [2000.0]])
    steps = np.diff(bent(curve, far)[:, 0])
    np.testing.assert_allclose(steps[0], steps[1], rtol=0.01)  # equal factors are equal distances


def test_the_curve_of_equal_targets_has_a_unit():
    curve = curve_of(np.zeros((8, 1)))
    assert (curve[[1, 3]] == 1).all()
    assert (bent(curve, np.zeros((8, 1))) == 0).all()


def test_slope_is_that_of_the_straightened_score():
    X, y = prices()
    component = curved(AutoMKLRegressor(budget=50, trees=False, random_state=0).fit(X, y))
    start, unit, mean, deviation, *_ = component.curve
    straight = lambda score: start + unit * np.sinh(mean + deviation * score)  # noqa: E731
    assert slope(component.curve, 0.3) == pytest.approx((straight(0.3 + 1e-6) - straight(0.3 - 1e-6)) / 2e-6, rel=1e-6)


def test_targets_that_differ_by_factors_are_learned_with_a_lower_error(monkeypatch):
    X, y = prices(1000)
    model = AutoMKLRegressor(budget=100, trees=False, random_state=0)
    with_curve = np.mean((model.score_and_learn(X, y) - y)[200:] ** 2)
    assert CURVED.name in model.kernels_
    monkeypatch.setattr(RowLearner, "curves_targets", False)
    without = AutoMKLRegressor(budget=100, trees=False, random_state=0)
    assert with_curve < 0.8 * np.mean((without.score_and_learn(X, y) - y)[200:] ** 2)
    assert CURVED.name not in without.kernels_


def test_neither_classes_nor_rounds_have_it():
    X, y = prices(100)
    assert CURVED.name not in AutoMKLClassifier(budget=20, random_state=0).fit(X, y > 1).kernels_
    assert CURVED.name not in AutoMKLRegressor(budget=20, update="rounds", random_state=0).fit(X, y).kernels_


def test_an_explanation_of_one_kernel_is_its_score_to_first_order():
    X, y = prices()
    model = AutoMKLRegressor(budget=50, trees=False, random_state=0).fit(X, y)
    component, learner = curved(model), model._learner.leader
    score = float(component.inner.scorer()(learner.views(X[:1]))[0, 0])
    constant = component.inner.regression.means()[0, component.inner.regression.rank - 1]
    per_score = learner.combination.slopes()[learner.components.index(component)] * learner.spread
    expected = per_score * slope(component.curve, score) * (score - constant)
    assert model.explain(X[0]).kernels[CURVED.name] == pytest.approx(expected, rel=1e-4)


def test_it_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path):
    X, y = prices()
    expected = AutoMKLRegressor(budget=40, random_state=0).score_and_learn(X, y)
    modelfile.save(AutoMKLRegressor(budget=40, random_state=0).partial_fit(X[:333], y[:333]), tmp_path / "model.bomkl")
    again = modelfile.load(tmp_path / "model.bomkl")
    np.testing.assert_array_equal(again.score_and_learn(X[333:], y[333:]), expected[333:])


@pytest.mark.parametrize(
    "changed",
    [
        {1: 0.0},
        {1: -1.0},
        {3: 0.0},
        {4: 2.0, 5: 1.0},
        {2: 1e6},
        {5: np.inf},
        {0: np.nan},
    ],
    ids=str,
)
def test_a_damaged_curve_is_refused(changed):
    X, y = prices(200)
    model = AutoMKLRegressor(budget=40, trees=False, random_state=0).fit(X, y)
    component = curved(model)
    state = component.to_state()
    shape = Shape(4, 1, len(model.support_vectors_), 63, Task.SQUARED)
    assert (
        CurvedComponent.from_state(CURVED.name, Saved(state, "component"), shape).curve.tolist()
        == component.curve.tolist()
    )
    state["curve"] = component.curve.copy()
    for place, value in changed.items():
        state["curve"][place] = value
    with pytest.raises(ValueError, match="curve"):
        CurvedComponent.from_state(CURVED.name, Saved(state, "component"), shape)
    state["curve"] = component.curve
    with pytest.raises(ValueError, match="curve"):
        CurvedComponent.from_state(
            CURVED.name, Saved(state, "component"), Shape(4, 1, len(model.support_vectors_), 63, Task.BINARY)
        )

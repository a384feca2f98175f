"""Streams that change."""

import numpy as np
import pytest
from tests.models import layer, saved_layer
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor


def changing(n):
    """Half-way, other columns begin to decide."""
    X = np.random.default_rng(0).normal(size=(n, 6))
    before = np.arange(n) < n // 2
    return X, (np.where(before, X[:, 0] * X[:, 1], X[:, 3] * X[:, 4]) > 0).astype(int)


@pytest.mark.parametrize("n_classes", slow_but([2], [2, 3]))
def test_recovers_after_an_abrupt_change(n_classes):
    X, y = changing(3000)
    y = y + (n_classes == 3) * (X[:, 2] > 0.5)
    errors = {}
    for drift in (None, "adapt"):
        model = AutoMKLClassifier(100, drift, random_state=0)
        scores = model.score_and_learn(X, y, classes=range(n_classes))
        predicted = scores > 0 if n_classes == 2 else scores.argmax(axis=1)
        errors[drift] = np.mean((predicted != y)[2000:])
    assert errors["adapt"] < 0.75 * errors[None]
    assert layer(model, "adaptive").restarts[0] > 1500


def test_recovers_in_regression():
    X, _ = changing(3000)
    target = np.where(np.arange(3000) < 1500, X[:, 0] * X[:, 1], -3 * X[:, 0])
    errors = {}
    for drift in (None, "adapt"):
        predictions = AutoMKLRegressor(100, drift=drift, random_state=0).score_and_learn(X, target)
        errors[drift] = np.mean((predictions - target)[2000:] ** 2)
    assert errors["adapt"] < 0.5 * errors[None]


def test_costs_little_where_nothing_drifts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=3000) > 0).astype(int)
    mistakes = {}
    for drift in (None, "adapt"):
        model = AutoMKLClassifier(100, drift, random_state=0).fit(X, y)
        mistakes[drift] = model.mistakes_ / 3000
    assert mistakes["adapt"] < mistakes[None] + 0.01


def test_classes_that_come_later_are_added():
    X, y = changing(800)
    model = AutoMKLClassifier(60, "adapt", random_state=0).partial_fit(X[:400], y[:400])
    scores = model.score_and_learn(X[400:], np.where(X[400:, 2] > 0.5, 5, y[400:]))
    assert scores.shape == (400, 3)
    assert np.isfinite(scores).all()
    assert model.predict_proba(X).shape == (800, 3)


def test_recent_labels_are_used_where_labels_come_in_runs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    for n_classes in (2, 3):
        y = np.cumsum(rng.random(2000) < 0.05) % n_classes  # the rows say nothing, the label before nearly all
        model = AutoMKLClassifier(40, "adapt", random_state=0, trees=False).fit(X, y)
        assert model.mistakes_ < 0.15 * len(y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_run_of_labels_costs_little_more_than_its_first_row(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    changes = rng.random(1500) < 0.04
    y = np.cumsum(changes) % n_classes
    model = AutoMKLClassifier(40, "adapt", random_state=0, trees=False)
    scores = model.score_and_learn(X, y, classes=range(n_classes))
    wrong = (scores > 0 if n_classes == 2 else scores.argmax(axis=1)) != y
    assert wrong[200:].sum() <= 1.15 * changes[200:].sum()


def test_recent_targets_are_used_in_a_series_without_a_level():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 2)), np.cumsum(rng.normal(size=1500))
    predictions = AutoMKLRegressor(40, drift="adapt", random_state=0, trees=False).score_and_learn(X, y)
    assert np.mean((predictions - y)[300:] ** 2) < 2.0  # the innovations have variance 1


def test_the_place_of_a_series_does_not_matter():
    """The first error is as large as the level; it must not be what later errors are measured by."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.cumsum(rng.normal(size=600))
    errors = []
    for level in (0.0, 1e4):
        model = AutoMKLRegressor(40, drift="adapt", random_state=0, trees=False)
        errors.append(np.mean((model.score_and_learn(X, level + y) - level - y)[100:] ** 2))
    assert errors[1] < 1.2 * errors[0] < 2.0


def test_a_series_that_jumps_is_followed_from_the_next_row_on():
    """A jump is hundreds of errors wide: what recent targets say must not be cut off."""
    rng = np.random.default_rng(0)
    X, level = rng.normal(size=(500, 2)), np.repeat(rng.permutation(9)[:5] * 10.0, 100)
    y = level + 0.02 * rng.normal(size=500)
    model = AutoMKLRegressor(40, drift="adapt", random_state=0, trees=False)
    errors = np.abs(model.score_and_learn(X, y) - y)
    assert errors[[200, 300, 400]].min() > 5.0
    assert np.mean([errors[jump + 1 : jump + 20] for jump in (200, 300, 400)]) < 0.3
    ahead = model.predict(X[:5])
    np.testing.assert_allclose(ahead, level[-1], atol=0.2)


def test_an_error_after_many_rows_without_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    model = AutoMKLRegressor(40, drift="adapt", random_state=0, trees=False).fit(X, np.zeros(100))
    layer(model, "adaptive").error_size = np.array([1e-320, 1e5])
    model.partial_fit(X[:1], [1.0])
    layer(model, "adaptive").error_size = np.array([1e-320, 1e5])
    model.learn_one(X[1], 1.0)
    assert 0 < model.predict_one(X[2]) <= 1


def test_the_leading_learner_may_be_one_that_forgets_fast():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    angle = np.arange(1500) / 40
    y = (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] > 0).astype(int)
    model = AutoMKLClassifier(60, "adapt", random_state=0, trees=False).fit(X, y)
    assert model._learner.leader in layer(model, "adaptive").fast.twins
    assert len(model.explain(X[0]).rows) == len(model.support_vectors_)


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
def test_models_without_fast_experts_go_on_with_new_ones(kind):
    X, y = changing(400)
    model = kind(40, drift="adapt", random_state=0, trees=False).partial_fit(X, y)
    old = model.__getstate__()
    saved_layer(old, "adaptive")["fast"] = None  # as read from a file of version 0.1.0
    again = kind.__new__(kind)
    again.__setstate__(old)
    assert len(layer(again, "adaptive").fast.twins) == 2
    predict = "predict_proba" if kind is AutoMKLClassifier else "predict"
    learner = layer(again, "adaptive")
    parts = [w * each.scores(X) for w, each in zip(learner.weights(), learner.models, strict=True)]
    if kind is AutoMKLRegressor:
        np.testing.assert_allclose(again.predict(X), sum(parts)[:, 0], rtol=1e-12)
    assert np.isfinite(getattr(again.partial_fit(X, y), predict)(X)).all()

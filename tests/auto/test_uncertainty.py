"""Deviations and intervals: calibrated, wide where errors are large, exact for any split, saved."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto.estimators.uncertainty import WINDOW, ErrorModel

N = 1500
_rng = np.random.default_rng(0)
X = _rng.uniform(-3, 3, size=(N, 2))
NOISE = 0.05 + 0.3 * np.abs(X[:, 1])
Y = np.sin(X[:, 0]) + NOISE * _rng.normal(size=N)


def progressive(model, coverage=0.9, x=X, y=Y, first=50, block=25):
    model.partial_fit(x[:first], y[:first])
    found = []
    for begin in range(first, len(y), block):
        found.append(model.predict_interval(x[begin : begin + block], coverage))
        model.partial_fit(x[begin : begin + block], y[begin : begin + block])
    return np.vstack(found), y[first:]


@pytest.mark.parametrize(("drift", "coverage"), [(None, 0.9), (None, 0.7), ("adapt", 0.9)])
def test_coverage_holds_and_widths_follow_the_noise(drift, coverage):
    model = AutoMKLRegressor(budget=60, drift=drift, random_state=0)
    found, y = progressive(model, coverage)
    inside = (found[:, 0] <= y) & (y <= found[:, 1])
    assert abs(inside.mean() - coverage) < 0.025
    widths = np.diff(found, axis=1)[:, 0]
    constant = 2 * np.quantile(np.abs(y - found.mean(axis=1)), inside.mean())
    if coverage == 0.9:  # of the bulk of the errors alone, not of their tails, constant intervals are hard to beat
        assert widths[300:].mean() < 0.97 * constant
    assert np.corrcoef(widths[300:], NOISE[350:])[0, 1] > 0.5


def test_coverage_comes_back_after_a_change():
    y = np.where(np.arange(N) < N // 2, Y, 5 * Y[::-1])
    found, y = progressive(AutoMKLRegressor(budget=40, drift="adapt", random_state=0), x=X, y=y)
    inside = (found[:, 0] <= y) & (y <= found[:, 1])
    assert inside[-400:].mean() > 0.85


def test_deviations_match_the_errors():
    model = AutoMKLRegressor(budget=60, random_state=0).fit(X, Y, shuffle=False)
    predictions, deviations = model.predict(X, return_std=True)
    assert_array_equal(predictions, model.predict(X))
    assert_allclose(np.mean(((Y - predictions) / deviations) ** 2), 1, atol=0.25)
    assert np.corrcoef(deviations, NOISE)[0, 1] > 0.7


@pytest.mark.parametrize("drift", [None, "adapt"])
def test_any_split_and_a_file_give_the_same_bits(drift, tmp_path):
    whole = AutoMKLRegressor(budget=30, drift=drift, random_state=0).fit(X[:400], Y[:400], shuffle=False)
    cut = AutoMKLRegressor(budget=30, drift=drift, random_state=0)
    for begin, end in pairwise([0, 1, 2, 7, 64, 130, 131, 300, 400]):
        cut.partial_fit(X[begin:end], Y[begin:end])
        modelfile.save(cut, tmp_path / "cut")
        cut = modelfile.load(tmp_path / "cut")
    modelfile.save(whole, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "cut").read_bytes()
    assert_array_equal(whole.predict_interval(X, 0.8), cut.predict_interval(X, 0.8))


def test_one_row_at_a_time_gives_the_same_intervals():
    whole = AutoMKLRegressor(budget=30, random_state=0).fit(X[:300], Y[:300], shuffle=False)
    one = AutoMKLRegressor(budget=30, random_state=0)
    for i in range(300):
        one.learn_one(X[i], Y[i])
        if i in (100, 201):
            one.predict_interval(X[:3])  # changes nothing
    assert_array_equal(one.predict_interval(X), whole.predict_interval(X))
    assert_array_equal(pickle.loads(pickle.dumps(one)).predict_interval(X), whole.predict_interval(X))


def test_predictions_are_those_without_intervals():
    model = AutoMKLRegressor(budget=30, random_state=0)
    scores = model.score_and_learn(X[:300], Y[:300])
    plain = type(model._learner.leader)(model._learner.settings)
    plain.follow_drift()
    assert_array_equal(scores, plain.score_and_learn(X[:300], Y[:300], np.ones(300))[:, 0])


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setitem(WINDOW, False, 150)
    model = AutoMKLRegressor(budget=10, random_state=0).fit(X, Y)
    assert len(model._errors.recent) == len(model._errors.ordered) == 150


def test_a_failed_call_leaves_the_calibration_as_it_was(monkeypatch):
    model = AutoMKLRegressor(budget=30, random_state=0).fit(X[:200], Y[:200], shuffle=False)
    before = model.predict_interval(X)

    def broken(self, *arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ErrorModel, "_judge", broken)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[200:300], Y[200:300])
    assert_array_equal(model.predict_interval(X), before)
    again = AutoMKLRegressor(budget=30, random_state=0).fit(X[:300], Y[:300], shuffle=False)
    assert_array_equal(model.partial_fit(X[200:300], Y[200:300]).predict_interval(X), again.predict_interval(X))


@pytest.mark.parametrize("y", [np.zeros(N), np.full(N, 1e150), np.where(np.arange(N) % 50 == 0, 1e30, Y)])
def test_intervals_are_finite_whatever_the_targets(y):
    model = AutoMKLRegressor(budget=20, random_state=0)
    for begin, end in pairwise([0, 1, 2, 10, 200]):
        model.partial_fit(X[begin:end], y[begin:end])
        assert np.isfinite(model.predict_interval(X[:5], 0.99)).all()
        assert np.isfinite(model.predict(X[:5], return_std=True)[1]).all()


def test_very_wide_sparse_rows_have_intervals_too():
    rows = sp.random(200, 1000, 0.02, format="csr", random_state=0)
    model = AutoMKLRegressor(budget=20, random_state=0).fit(rows, np.arange(200.0))
    model = pickle.loads(pickle.dumps(model))
    found = model.predict_interval(rows)
    assert found.shape == (200, 2)
    assert (found[:, 0] < found[:, 1]).all()


@pytest.mark.parametrize("coverage", [0.4, 1.0, "wide", True, np.nan])
def test_a_coverage_that_is_none_is_refused(coverage):
    model = AutoMKLRegressor(budget=20, random_state=0).fit(X[:20], Y[:20])
    with pytest.raises(ValueError, match="coverage of predict_interval must be a number"):
        model.predict_interval(X, coverage)


def test_rounds_say_why_they_have_none():
    model = AutoMKLRegressor(budget=20, update="rounds", random_state=0).fit(X[:100], Y[:100])
    assert not hasattr(model, "predict_interval")
    with pytest.raises(AttributeError, match="need update='rows'"):
        model.predict(X, return_std=True)


def test_a_damaged_state_is_refused():
    state = AutoMKLRegressor(budget=20, random_state=0).fit(X[:50], Y[:50]).__getstate__()
    state["_errors"]["recent"][3] = -1.0
    with pytest.raises(ValueError, match="'recent' of the saved errors"):
        AutoMKLRegressor().__setstate__(state)


@pytest.mark.parametrize("classes", [2, 3])
def test_log_probabilities(classes):
    y = np.digitize(Y, np.quantile(Y, np.arange(1, classes) / classes))
    model = AutoMKLClassifier(budget=30, random_state=0).fit(X, y)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), atol=1e-12)
    only = AutoMKLClassifier(random_state=0).partial_fit(X[:5], np.ones(5))
    assert_array_equal(only.predict_log_proba(X), np.zeros((N, 1)))

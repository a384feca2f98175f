"""Growth: trees and a network that come as they pay; the same bits however rows come."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.auto.growing import grow_soon, let_win
from tests.models import layer

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.growth import growth_learner
from bomkl.auto.growth.growth_learner import NETWORK, TREES
from bomkl.auto.growth.pace import Pace

ROWS = 1800
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 4))
X[:, 3] = 1.0  # a constant column
STEPS = np.sign(X[:, 0] - 0.3) * np.sign(X[:, 1]) + (X[:, 2] > 0.5)
WEIGHT = RNG.choice([0.5, 1.0, 2.0], ROWS)


@pytest.fixture(autouse=True)
def small_pace(monkeypatch):
    grow_soon(monkeypatch)


def data(task):
    if task == "two":
        return AutoMKLClassifier(budget=40, random_state=1), (STEPS > 0).astype(int)
    if task == "several":
        return AutoMKLClassifier(budget=40, random_state=1), np.where(STEPS > 1, "c", np.where(STEPS > 0, "b", "a"))
    loss = "huber" if task == "huber" else "squared"
    return AutoMKLRegressor(budget=40, loss=loss, random_state=1), 100 + 7 * STEPS + RNG.normal(size=ROWS)


def learned(model, y, cuts):
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, ROWS], strict=True):
        if end == begin + 1:
            parts.append([model.learn_one(X[begin], y[begin])])
        else:
            parts.append(model.score_and_learn(X[begin:end], y[begin:end]))
    return np.concatenate(parts)


@pytest.mark.parametrize("task", ["two", "several", "squared", "huber"])
def test_the_split_and_a_save_midway_do_not_matter(task):
    model, y = data(task)
    whole = learned(copy.deepcopy(model), y, [])
    assert_array_equal(learned(copy.deepcopy(model), y, range(17, ROWS, 17)), whole)
    parts, was = [], set()
    for begin in range(0, ROWS, 75):
        parts.append(model.score_and_learn(X[begin : begin + 75], y[begin : begin + 75]))
        model = pickle.loads(pickle.dumps(model))
        was |= {(number, each.phase) for number, each in layer(model, "growth").switches.items()}
    assert_array_equal(np.concatenate(parts), whole)
    phases = {"off", "warming", "trial"}
    assert was >= {(number, phase) for number in (TREES, NETWORK) for phase in phases}


@pytest.mark.parametrize("number", [TREES, NETWORK])
def test_single_rows_give_the_same_bits(number, monkeypatch):
    let_win(monkeypatch, number)
    model, y = data("two")
    other = copy.deepcopy(model)
    assert_array_equal(learned(other, y, range(1, ROWS)), learned(model, y, []))
    assert layer(other, "growth").awake
    assert_array_equal(other.decision_function(X[:100]), model.decision_function(X[:100]))
    assert other.predict_one(X[0]) == model.predict(X[:1])[0]
    assert_allclose(other.predict_proba_one(X[5]), model.predict_proba(X[5:6])[0], rtol=1e-6)
    assert other.n_seen_ == ROWS


def test_it_says_what_the_learner_within_says_until_the_first_trial(monkeypatch):
    model, y = data("several")
    plain = copy.deepcopy(model)
    before = model.score_and_learn(X[:256], y[:256])
    monkeypatch.setattr(growth_learner, "PACE", Pace())
    assert_array_equal(plain.score_and_learn(X[:256], y[:256]), before)
    learner = layer(plain, "growth")
    assert_array_equal(learner.scores(X[:9]), learner.inner.scores(X[:9]))
    assert learner.core is None


def test_trees_come_where_they_pay_and_lower_the_error():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 6))
    y = (np.sign(np.sin(6 * rows[:, :3])).sum(axis=1) > 0).astype(int)  # too many steps for 40 landmarks
    model = AutoMKLClassifier(budget=40, random_state=0)
    scores, plain = model.score_and_learn(rows, y), AutoMKLClassifier(budget=40, random_state=0, memory="1 MB")
    without = plain.score_and_learn(rows, y)
    assert layer(model, "growth").switches[TREES].phase == "on"
    assert not layer(plain, "growth").awake
    last = slice(-1000, None)
    wrong, wrong_without = (np.mean((each[last] > 0) != (y[last] == 1)) for each in (scores, without))
    assert wrong < 0.8 * wrong_without


def test_what_does_not_pay_goes_and_scores_are_those_of_the_learner_within_again():
    rng = np.random.default_rng(1)
    model, y = AutoMKLClassifier(budget=40, random_state=0), rng.integers(0, 2, ROWS)
    model.score_and_learn(X, y)
    learner = layer(model, "growth")
    while learner.awake:
        model.score_and_learn(X[:64], y[:64])
        learner = layer(model, "growth")
    assert_array_equal(learner.scores(X), learner.inner.scores(X))
    assert all(each.due > learner.seen for each in learner.switches.values())


@pytest.mark.parametrize("number", [TREES, NETWORK])
@pytest.mark.parametrize("at", [700, 1500])
def test_a_new_class_may_come_at_any_time(number, at, monkeypatch):
    let_win(monkeypatch, number)
    y = (STEPS > 0).astype(int)
    y[at:] += 2 * (X[at:, 2] > 1)
    model = AutoMKLClassifier(budget=40, random_state=0)
    whole = copy.deepcopy(model)
    split = [model.score_and_learn(X[a : a + 90], y[a : a + 90]) for a in range(0, ROWS, 90)]
    whole.score_and_learn(X[:at], y[:at])
    out = [whole.learn_one(X[i], y[i]) for i in range(at, ROWS)]
    assert_array_equal(out[-1], split[-1][-1])
    assert np.shape(out[-1]) == (4,)
    probability = whole.predict_proba(X)
    assert_allclose(probability.sum(axis=1), 1)
    assert np.mean(whole.predict(X[-500:]) == y[-500:]) > 0.7


def test_forks_share_the_sample_and_leave_each_other_alone(monkeypatch):
    let_win(monkeypatch, TREES)
    model, y = data("two")
    model.score_and_learn(X[:1500], y[:1500])
    twin = copy.deepcopy(model)
    scores, state = model.decision_function(X), layer(model, "growth").to_state()["grown"]["core"]
    for _ in range(2):  # a call that fails after it has learned something changes nothing
        with pytest.raises(ValueError, match=r"NaN|finite|inf"):
            model.score_and_learn(np.vstack([X[1500:1800], np.full((1, 4), np.inf)]), y[1500:1801])
        fork = layer(model, "growth").fork()
        fork.score_and_learn(X[1500:], y[1500:].astype(float), np.ones(ROWS - 1500))
    assert_array_equal(model.decision_function(X), scores)
    for name, value in layer(model, "growth").to_state()["grown"]["core"].items():
        assert_array_equal(value, state[name])
    after = model.score_and_learn(X[1500:], y[1500:])
    assert_array_equal(twin.score_and_learn(X[1500:], y[1500:]), after)


def test_memory_limits_the_sample(monkeypatch):
    monkeypatch.setattr(growth_learner, "rows_within", lambda *rest: 500)
    let_win(monkeypatch, TREES)
    model, y = data("two")
    other = copy.deepcopy(model)
    sizes = []
    for begin in range(0, ROWS, 100):
        model.score_and_learn(X[begin : begin + 100], y[begin : begin + 100])
        sizes.append(layer(model, "growth").core.rows if begin else 0)
    assert 400 < sizes[-1] <= 700
    assert max(sizes) < 900
    assert_array_equal(learned(copy.deepcopy(other), y, [1, 2, 1000, 1001]), learned(other, y, []))

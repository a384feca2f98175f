"""A new learner takes over after a sudden change: whatever the split, and across files."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.build import follow_drift
from bomkl.auto.drift import challenged
from bomkl.auto.drift.challenged import ChallengedLearner
from bomkl.auto.growth.pace import pool_bytes


def changed(kind: str):
    """Rows whose target is another function of other columns after 900 rows."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 6))
    early, late = X[:, 0] * X[:, 1] + X[:, 2], np.abs(X[:, 3]) * 3 - X[:, 4] ** 2 - 1
    if kind == "numbers":  # so far from the late ones that the experts do not suffice
        early = 2 * early
    target = np.where(np.arange(1500) < 900, early, late)
    if kind == "numbers":
        return X, target
    return X, (target > 0).astype(int) if kind == "two" else np.digitize(target, [-1, 1])


def fresh(kind: str):
    return (AutoMKLRegressor if kind == "numbers" else AutoMKLClassifier)(budget=100, random_state=0)


def layer(model):
    learner = model._learner
    while not isinstance(learner, ChallengedLearner):
        learner = learner.inner
    return learner


def learned(kind, sizes, reload=False, n_jobs=None, **rows):
    X, y = changed(kind)
    classes = {} if kind == "numbers" else {"classes": np.unique(y)}
    model, out, begin, trial = fresh(kind).set_params(n_jobs=n_jobs), [], 0, False
    while begin < len(y):
        end = begin + sizes[len(out) % len(sizes)]
        weight = {"sample_weight": rows["weight"][begin:end]} if rows else {}
        out.append(model.score_and_learn(X[begin:end], y[begin:end], **classes, **weight))
        trial |= layer(model).challenger is not None
        begin = end
        if reload:
            model = pickle.loads(pickle.dumps(model))
    return model, np.concatenate(out), trial


@pytest.mark.parametrize("kind", slow_but(["two"], ["two", "several", "numbers"]))
def test_a_challenger_takes_over_after_the_same_row_however_rows_are_split(kind):
    whole, scores, _ = learned(kind, [1500])
    assert layer(whole).inner.seen < 1500
    assert [event.row for event in whole.drift_] == sorted(event.row for event in whole.drift_)
    assert any(event.sudden and 900 < event.row < 1200 for event in whole.drift_)
    split, others, trial = learned(kind, [7, 5, 1, 3], reload=True, n_jobs=2)
    assert trial
    assert_array_equal(others, scores)
    assert split.drift_ == whole.drift_
    assert_array_equal(split.predict(changed(kind)[0]), whole.predict(changed(kind)[0]))


def test_single_rows_give_the_same_model():
    X, y = changed("two")
    whole, _, _ = learned("two", [1500])
    single = fresh("two").partial_fit(X[:880], y[:880], classes=[0, 1])
    for row, label in zip(X[880:], y[880:].tolist(), strict=True):
        single.learn_one(row, label)
    assert_array_equal(single.decision_function(X), whole.decision_function(X))


@pytest.mark.slow
def test_extreme_weights_and_targets_do_not_spoil_the_trial():
    weight = np.tile([0.0, 1.0, 1e300], 500)
    _, scores, _ = learned("several", [1500], weight=weight)
    assert np.isfinite(scores).all()
    _, split, _ = learned("several", [100], reload=True, weight=weight)
    assert_array_equal(split, scores)


def test_a_new_class_may_come_while_a_challenger_learns():
    X, y = changed("two")
    model, trial = fresh("two").partial_fit(X[:900], y[:900]), 0
    for end in range(901, 1100):
        model.partial_fit(X[end - 1 : end], y[end - 1 : end])
        trial = trial + 1 if layer(model).challenger is not None else 0
        if trial == 3:
            break
    assert trial == 3
    model.partial_fit(X[end : end + 1], [2])
    beside = layer(model).challenger
    assert beside is None or beside.n_classes == 3
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(X[end + 1 :], y[end + 1 :])
    assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert set(model.classes_) == {0, 1, 2}


def test_it_learns_a_new_concept_as_a_new_model_would():
    X, y = changed("two")
    model = fresh("two")
    model.score_and_learn(X[:1300], y[:1300], classes=[0, 1])
    late = AutoMKLClassifier(budget=100, drift=None, random_state=0).partial_fit(X[900:1300], y[900:1300])
    never = AutoMKLClassifier(budget=100, drift=None, random_state=0).partial_fit(X[:1300], y[:1300])
    errors = [np.mean(each.predict(X[1300:]) != y[1300:]) for each in (model, late, never)]
    assert errors[0] <= errors[1] + 0.05
    assert errors[0] < errors[2] - 0.05


@pytest.mark.parametrize(
    ("name", "value"), [("age", -1), ("seen", 3), ("losses", np.array([np.nan, 0.0])), ("past", [{"row": 1}])]
)
def test_damaged_states_are_refused(name, value):
    model, _, _ = learned("two", [1500])
    with pytest.raises(ValueError, match=name):
        ChallengedLearner.from_state(saved_state(layer(model).to_state() | {name: value}), 6)


def saved_state(state):
    from bomkl.auto.saved import Saved

    return Saved(state, "learner")


@pytest.mark.parametrize("kind", ["two", "several", "numbers"])
def test_a_model_saved_at_the_very_row_of_a_change_goes_on_as_if_it_had_not_been(kind):
    X, y = changed(kind)
    model, at = fresh(kind).partial_fit(X[:900], y[:900]), 900
    while layer(model).challenger is None:
        model.partial_fit(X[at : at + 1], y[at : at + 1])
        at += 1
    assert layer(model).challenger.seen == layer(model).events()[-1]["age"] < 100
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.score_and_learn(X[at:], y[at:]), model.score_and_learn(X[at:], y[at:]))
    assert copy.drift_ == model.drift_


@pytest.mark.parametrize("size", [1500, 37])
def test_after_each_challenger_that_lost_there_is_none_for_twice_as_long(monkeypatch, size):
    begun = []  # row counts after which challengers began
    next_change = ChallengedLearner._next_change

    def noted(self, n, at):
        found = next_change(self, n, at)
        begun.extend([] if found is None else [self.seen - n + found[0]])
        return found

    monkeypatch.setattr(ChallengedLearner, "_next_change", noted)
    monkeypatch.setattr(challenged, "PATIENCE", 20)
    monkeypatch.setattr(challenged, "REST", 50)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = (X[:, 0] > 0).astype(int)
    noise = np.arange(6000) % 300 > 200  # of which nothing can be learned
    y[noise] = rng.integers(2, size=noise.sum())
    model = AutoMKLClassifier(budget=50, random_state=0)
    for begin in range(0, 6000, size):
        model.partial_fit(X[begin : begin + size], y[begin : begin + size], classes=[0, 1])
    assert layer(model).lost == len(begun) > 3
    for losses, (one, next_one) in enumerate(itertools.pairwise(begun), 1):
        assert next_one - one >= (20 >> min(losses - 1, 3)) + 50 * 2**losses


@pytest.mark.parametrize(
    ("lost", "wins_after", "rows"), [(0, 5, 2000), (1, 9, 1000), (2, 13, 500), (3, 18, 250), (9, 44, 250)]
)
def test_after_each_that_lost_a_challenger_must_win_by_more_and_sooner(lost, wins_after, rows):
    X = np.zeros((3000, 6))
    one, y = layer(fresh("two").partial_fit(X[:2], [0, 1])), np.ones(3000)
    one.lost = lost
    nothing, sure = np.zeros((3000, 1)), np.full((3000, 1), 50.0)  # log 2 nats a row apart
    assert one._judge(nothing, sure, y, y, 0) == (wins_after, True)
    assert one._judge(nothing, nothing, y, y, 0) == (rows, False)


def test_a_challenger_that_won_makes_up_for_one_that_lost():
    X, y = changed("two")
    model = fresh("two").partial_fit(X[:900], y[:900])
    layer(model).lost = 2
    model.partial_fit(X[900:], y[900:])
    assert layer(model).inner.seen < layer(model).seen - 800  # it is the challenger
    assert layer(model).lost == 1


def test_a_change_in_the_first_call_after_fit():
    X, y = changed("two")
    one, split = (layer(fresh("two").fit(X[:500], y[:500])) for _ in range(2))
    for each in (one, split):
        follow_drift(each)
    scores = one.score_and_learn(X[500:], y[500:].astype(float), np.ones(1000))  # experts begin with this call
    assert any(event["sudden"] for event in one.events())
    parts = [slice(begin, begin + 50) for begin in range(500, 1500, 50)]
    others = [split.score_and_learn(X[part], y[part].astype(float), np.ones(50)) for part in parts]
    assert_array_equal(np.concatenate(others), scores)


def test_the_change_that_a_challenger_began_with_is_the_one_that_is_marked(monkeypatch):
    one = layer(fresh("two").partial_fit(X := changed("two")[0][:50], X[:, 0] > 0))
    events = [{"row": row, "restarted": False, "weights": np.ones(2)} for row in (30, 40)]
    monkeypatch.setattr(one, "events", lambda: events)
    one.challenger = one.inner.fork()
    one._take_over(50, 30)
    assert [event["restarted"] for event in one.past] == [True, False]


def test_a_challenger_far_behind_goes_at_once():
    learner, y = layer(learned("two", [1500])[0]), np.ones(100)
    sure, unsure = np.full((100, 1), 5.0), np.zeros((100, 1))  # each row costs the unsure one about .69 nats more
    learner.age, learner.losses = 0, np.zeros(2)
    assert learner._judge(sure, unsure, y, np.ones(100), 0) == (11, False)


def test_none_begins_without_room_for_two():
    X, y = changed("two")
    model = fresh("two").set_params(memory=2 * pool_bytes(100, 6, "rows") - 1)
    for begin in range(0, len(y), 50):
        model.partial_fit(X[begin : begin + 50], y[begin : begin + 50])
        assert layer(model).challenger is None
    assert layer(model).inner.seen == 1500
    assert any(event.sudden for event in model.drift_)

"""Growth in files, explanations, ONNX, tables, under drift, with threads and interrupts."""

import copy
import pickle
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from tests.auto.growing import SMALL, grow_soon, let_win
from tests.auto.test_saved_state import leaves, spoilt, with_value
from tests.models import layer, saved_layer

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.growth import grown_trees, growth_learner
from bomkl.auto.growth.growth_learner import NETWORK, TREES
from bomkl.auto.growth.pace import pool_bytes, rows_within

ROWS = 1400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3))
STEPS = np.sign(np.sin(4 * X[:, 0])) + np.sign(np.sin(4 * X[:, 1]))
TASKS = {
    "two": (AutoMKLClassifier, (STEPS > 0).astype(int)),
    "several": (AutoMKLClassifier, (STEPS > 0) + (STEPS > 1) * 1),
    "numbers": (AutoMKLRegressor, 100 + 7 * STEPS),
}


@pytest.fixture(autouse=True)
def small_pace(monkeypatch):
    grow_soon(monkeypatch)


def growth(model):
    return layer(model, "growth", "round growth")


def grown(name, rows=ROWS, **how):
    kind, y = TASKS[name]
    model = kind(budget=30, random_state=0, **how).partial_fit(X[:rows], y[:rows])
    assert growth(model).awake
    return model, y


def scores(model, rows):
    return (model.predict if hasattr(model, "loss") else model.decision_function)(rows)


@pytest.mark.parametrize("update", ["rows", "rounds"])
@pytest.mark.parametrize("name", TASKS)
def test_onnx(name, update, monkeypatch):
    pytest.importorskip("onnxruntime")
    from tests.test_onnx import assert_same

    let_win(monkeypatch, TREES, NETWORK)
    assert_same(grown(name, update=update)[0], X[:200], 1e-4, tolerance=1e-4)


@pytest.mark.parametrize("update", ["rows", "rounds"])
@pytest.mark.parametrize("name", TASKS)
def test_explanations_name_what_growth_added(name, update, monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    model, _ = grown(name, update=update)
    explanation = model.explain(X[0])
    assert {"growing trees", "network"} <= set(explanation.kernels)
    assert explanation.margin == pytest.approx(sum(explanation.kernels.values()) + explanation.remainder)
    assert list(explanation.columns) == [0, 1, 2]
    assert max(explanation.columns, key=lambda j: abs(explanation.columns[j])) in (0, 1)
    if name == "two":
        assert explanation.margin == pytest.approx(model.decision_function(X[:1])[0])
    importances = model.feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert importances[2] < max(importances[:2])


@pytest.mark.parametrize("rows", [350, 500, ROWS])  # a network that rehearses, trees being grown, both in
def test_no_value_can_be_replaced_by_nonsense(rows, monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    model = AutoMKLClassifier(budget=10, random_state=0).partial_fit(X[:rows], TASKS["several"][1][:rows])
    whole = model.__getstate__()
    state = whole["_learner"]
    within = ("learner", "inner", "learner", "grown")
    for path in leaves(saved_layer(whole, "growth")["grown"], within):
        original = state
        for key in path:
            original = original[key]
        for wrong in spoilt(original, path[-1] in ("codes", "cuts", "waiting_scores")):
            with pytest.raises(ValueError, match="saved"):
                AutoMKLClassifier().__setstate__({**whole, "_learner": with_value(state, path, wrong)})


def test_a_column_of_the_largest_cells_can_be_saved(monkeypatch):
    monkeypatch.setattr(growth_learner, "PACE", replace(SMALL, coded=80))  # the mean of so many is a little larger
    model = AutoMKLClassifier(budget=30, random_state=0).partial_fit(np.full((100, 2), 1e150), np.arange(100) % 2)
    assert pickle.loads(pickle.dumps(model)).n_seen_ == 100


def test_under_drift_and_on_tables_the_split_does_not_matter(monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    names = np.array(["ann", "bob", "cleo"])[(X[:, 2] > 0).astype(int) + (X[:, 2] > 1)]
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "name": names})
    y = TASKS["two"][1]
    for rows, how in ((table, {}), (X, {"drift": "adapt"})):
        whole = AutoMKLClassifier(budget=20, random_state=0, **how)
        split = copy.deepcopy(whole)
        expected = whole.score_and_learn(rows[:1000], y[:1000])
        parts = []
        for begin in range(0, 1000, 125):
            parts.append(split.score_and_learn(rows[begin : begin + 125], y[begin : begin + 125]))
            split = pickle.loads(pickle.dumps(split))
        assert_array_equal(np.concatenate(parts), expected)
        assert whole.explain(rows[:1]).kernels["network"] != 0
        assert whole.feature_importances_.sum() == pytest.approx(1)


def test_rows_without_weight_change_nothing(monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    model, y = grown("two", 900)
    other = copy.deepcopy(model)
    model.score_and_learn(X[900:950], y[900:950], sample_weight=np.zeros(50))
    assert_array_equal(model.score_and_learn(X[900:], y[900:]), other.score_and_learn(X[900:], y[900:]))


@pytest.mark.parametrize(("after", "n_jobs"), [(1, None), (1, 2), (40, None), (200, None)])
def test_an_interrupt_while_trees_grow_takes_the_call_back(after, n_jobs, monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    model, y = grown("two", 400, n_jobs=n_jobs)
    other, steps = copy.deepcopy(model), [0]
    original = grown_trees.Growing.advance

    def interrupted(self, share):
        steps[0] += 1
        if steps[0] == after:
            raise KeyboardInterrupt
        original(self, share)

    monkeypatch.setattr(grown_trees.Growing, "advance", interrupted)
    before = model.decision_function(X)

    def learn():
        for i in range(400, 1200):
            model.score_and_learn(X[400:1200], y[400:1200]) if after == 1 else model.learn_one(X[i], y[i])

    with pytest.raises(KeyboardInterrupt):
        learn()
    seen = model.n_seen_
    if after == 1:
        assert_array_equal(model.decision_function(X), before)
    monkeypatch.undo()
    grow_soon(monkeypatch)
    let_win(monkeypatch, TREES, NETWORK)
    other.score_and_learn(X[400:seen], y[400:seen]) if seen > 400 else None
    assert_array_equal(model.score_and_learn(X[seen:], y[seen:]), other.score_and_learn(X[seen:], y[seen:]))


def test_others_may_read_while_one_learns(monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    model, y = grown("two", 700)
    failed = []

    def read():
        try:
            for _ in range(60):
                assert np.isfinite(model.decision_function(X[:50])).all()
                assert pickle.loads(pickle.dumps(model)).n_seen_ <= ROWS
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    for begin in range(700, ROWS, 20):
        model.score_and_learn(X[begin : begin + 20], y[begin : begin + 20])
    for each in readers:
        each.join()
    assert not failed
    assert_array_equal(model.decision_function(X), grown("two")[0].decision_function(X))


def test_threads_give_the_same_bits(monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    (one, _), (two, _) = grown("several"), grown("several", n_jobs=2)
    assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_memory_stays_within_its_limit():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 5))
    model = AutoMKLClassifier(budget=20, memory="6 MB", random_state=0)
    y = (np.sin(5 * rows[:, 0]) + rows[:, 1] > 0).astype(int)
    for begin in range(0, len(y), 500):
        model.partial_fit(rows[begin : begin + 500], y[begin : begin + 500])
        assert model.nbytes_ < 6_000_000
    assert 5000 < growth(model).core.rows < 19_000
    assert rows_within(2**20, pool_bytes(1000, 5, "rows"), 5, 1) == 0


def test_a_large_budget_leaves_room_for_growth():
    for update in ("rows", "rounds"):
        model = AutoMKLClassifier(budget=8000, update=update, random_state=0).partial_fit(X[:20], TASKS["two"][1][:20])
        assert growth(model).capacity > 100_000
        small = AutoMKLClassifier(budget=8000, update=update, memory="256 MB").partial_fit(X[:20], TASKS["two"][1][:20])
        assert growth(small).capacity == 0


def test_trees_beside_a_small_budget_are_few(monkeypatch):
    monkeypatch.setattr(grown_trees, "_ROUNDS", 400)
    wide = np.hstack([X, RNG.normal(size=(ROWS, 9))])
    trees = []
    for budget in (10, 200):
        model = AutoMKLClassifier(budget=budget, random_state=0).partial_fit(wide, TASKS["two"][1])
        learner = growth(model)
        work = grown_trees.GrowthJob(0, 1, learner.core.rows, 2, trial=False).start(learner.core, learner.settings)
        trees.append(len(grown_trees.Growing(work).finish(2, 0).roots))
    assert trees == [960 // 12, 4000 // 12]


@pytest.mark.parametrize("wrong", ["much", "5", 0, -1, 1.5, True, "3 XB", "1 KB"])
def test_wrong_memory_is_refused(wrong):
    with pytest.raises(ValueError, match=r"'memory' parameter of AutoMKLRegressor must be None, a number of bytes"):
        AutoMKLRegressor(memory=wrong).fit(X, X[:, 0])


def test_many_classes_have_no_trees_and_the_model_goes_on(monkeypatch):
    monkeypatch.setattr(growth_learner, "MOST_CLASSES", 2)
    let_win(monkeypatch, TREES)
    y = TASKS["two"][1].copy()
    y[900:] += 2
    model = AutoMKLClassifier(budget=20, random_state=0).partial_fit(X, y)
    for _ in range(2):  # until they would be grown anew
        model.partial_fit(X, y)
    assert growth(model).trees is None
    assert np.isfinite(model.decision_function(X)).all()

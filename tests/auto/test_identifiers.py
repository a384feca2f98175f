"""Columns of whole numbers that act like categories: found without being told, and the same bits however rows come."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.hashed.identifiers import BLOCK, IdentifierLearner, hashed_columns
from bomkl.auto.versions import learner_of_any_version, versioned_state
from bomkl.modelfile import load, save

N = 1100


def user_rows(n=N, users=70, seed=0):
    """A column of noise, and users of whom each has an effect that says nothing of the next."""
    rng = np.random.default_rng(seed)
    effect, user = 3 * rng.normal(size=users), rng.integers(users, size=n)
    return np.column_stack([rng.normal(size=n), 1000 + 7 * user]), effect[user] + rng.normal(size=n) * 0.3


def model_and_rows(kind, n=N, seed=0):
    X, score = user_rows(n, seed=seed)
    if kind == "numbers":
        return AutoMKLRegressor(budget=40, random_state=0), X, 1000 + 50 * score
    if kind == "two":
        return AutoMKLClassifier(budget=40, random_state=0), X, (score > 0).astype(int)
    return AutoMKLClassifier(budget=40, random_state=0), X, np.digitize(score, [-2, 0.5, 3])


def stage(model):
    """How far the layer is: looking, on trial, joined or over."""
    layer = model._learner
    assert isinstance(layer, IdentifierLearner)
    if layer.has_joined:
        return "joined"
    return "looking" if layer.cells is None else "over" if layer.trial is None else "trial"


KINDS = pytest.mark.parametrize("kind", ["two", "several", "numbers"])


@KINDS
def test_any_split_across_saving_gives_the_same_bits(kind, tmp_path):
    model, X, y = model_and_rows(kind)
    whole = copy.deepcopy(model)
    extra = {} if kind == "numbers" else {"classes": np.unique(y)}
    expected = whole.score_and_learn(X, y, **extra)
    rng = np.random.default_rng(5)
    begin, parts, stages = 0, [], []
    while begin < len(y):
        end = min(begin + int(rng.integers(1, 90)), len(y))
        parts.append(np.asarray(model.score_and_learn(X[begin:end], y[begin:end], **extra)))
        stages.append(stage(model))
        if end % 3 == 0:
            save(model, tmp_path / "model.bomkl")
            model = load(tmp_path / "model.bomkl")
        elif end % 3 == 1:
            model = pickle.loads(pickle.dumps(model))
        begin = end
    assert_array_equal(np.concatenate(parts), expected)
    assert list(dict.fromkeys(stages)) == ["looking", "trial", "joined"]
    assert_array_equal(model.predict(X), whole.predict(X))


@KINDS
def test_single_rows_tables_sparse_rows_and_threads_give_the_same_bits(kind):
    model, X, y = model_and_rows(kind, 600)
    one, named, table, sparse = (copy.deepcopy(model) for _ in range(4))
    model.partial_fit(X, y)
    assert stage(model) == "joined"
    for x, target in zip(X, y, strict=True):
        one.learn_one(x, target)
        named.learn_one({"noise": x[0], "user": int(x[1])}, target)
    sparse.partial_fit(sp.csr_matrix(X[:300]), y[:300]).partial_fit(X[300:], y[300:])
    table.set_params(n_jobs=2).partial_fit(pd.DataFrame(X, columns=["noise", "user"]), y)
    expected = model.predict(X)
    assert_array_equal(one.predict(X), expected)
    assert_array_equal(sparse.predict(sp.csr_matrix(X)), expected)
    assert_array_equal(table.predict(pd.DataFrame(X, columns=["noise", "user"])), expected)
    assert model.predict_one(X[3]) == expected[3]
    assert named.predict_one({"noise": X[3, 0], "user": int(X[3, 1])}) == expected[3]


def test_a_class_that_comes_during_the_trial():
    _, X, y = model_and_rows("several")
    y[:400] = np.minimum(y[:400], 1)  # the other two come when hashed models are on trial
    whole, parts = (AutoMKLClassifier(budget=40, random_state=0) for _ in range(2))
    whole.partial_fit(X, y)
    for begin in range(0, N, 23):
        parts.partial_fit(X[begin : begin + 23], y[begin : begin + 23])
    assert stage(whole) == "joined"
    assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))
    assert np.mean(whole.predict(X) == y) > 0.7


@pytest.mark.parametrize(("kind", "most"), [("two", 0.7), ("numbers", 0.5)])
def test_users_are_learned(kind, most):
    model, X, y = model_and_rows(kind, 2500)
    plain = copy.deepcopy(model).partial_fit(X[:1], y[:1], **({"classes": [0, 1]} if kind == "two" else {}))
    plain._learner = plain._learner.inner
    scores, without = (
        np.asarray(each.score_and_learn(X[1:], y[1:], **({"classes": [0, 1]} if kind == "two" else {})))[1000:]
        for each in (model, plain)
    )

    def error(scores):
        return np.mean((scores > 0) != y[1001:]) if kind == "two" else np.mean((scores - y[1001:]) ** 2)

    assert error(scores) < most * error(without)


def test_where_nothing_is_gained_no_bit_changes():
    rng = np.random.default_rng(1)
    age, price = rng.integers(18, 90, 1500), rng.integers(100_000, size=1500)
    X = np.column_stack([age, price, np.arange(1500), rng.integers(16, size=1500)]).astype(float)
    y = (np.sin(age / 12) + price / 5e4 - 1 + rng.normal(size=1500) > 0).astype(int)
    model = AutoMKLClassifier(budget=40, random_state=0).partial_fit(X[:1], y[:1], classes=[0, 1])
    without = copy.deepcopy(model)
    without._learner = without._learner.inner
    assert_array_equal(model.score_and_learn(X[1:], y[1:]), without.score_and_learn(X[1:], y[1:]))
    assert stage(model) == "trial"
    assert model._learner.cells == {0: 4, 1: 4, 2: 4, 3: 2}


def test_the_trial_ends_and_is_over_at_once_without_columns(monkeypatch):
    monkeypatch.setattr("bomkl.auto.hashed.identifiers.END", 3 * BLOCK)
    rng = np.random.default_rng(1)
    X, y = rng.integers(1000, size=(800, 2)).astype(float), rng.integers(2, size=800)
    model = AutoMKLClassifier(budget=40, random_state=0).partial_fit(X[:767], y[:767])
    assert stage(model) == "trial"
    assert stage(model.partial_fit(X[767:768], y[767:768])) == "over"
    assert_array_equal(load_again(model).partial_fit(X, y).predict(X), model.partial_fit(X, y).predict(X))
    few = AutoMKLClassifier(budget=40, random_state=0).partial_fit(X[:300] % 12, y[:300])
    assert stage(few) == "over"
    assert not len(few._learner.held)


def load_again(model):
    return pickle.loads(pickle.dumps(model))


def test_columns_of_codes():
    rng = np.random.default_rng(0)
    user, shop = rng.integers(50_000, size=BLOCK), rng.integers(16, size=BLOCK)
    filled = np.where(rng.random(BLOCK) < 0.05, 250.7, user)  # as estimates for missing values are
    rows = np.column_stack([user, shop, rng.normal(size=BLOCK), filled, 1e300 * user])
    assert hashed_columns(rows) == {0: 4, 1: 2, 2: 2, 3: 4, 4: 2}
    assert hashed_columns(rows[:, [1, 2, 4]]) == {}
    assert len(hashed_columns(rng.integers(256, size=(BLOCK, 100)).astype(float))) == 16


@KINDS
def test_explanations_and_importances_name_users(kind):
    model, X, y = model_and_rows(kind)
    table = pd.DataFrame(X, columns=["noise", "user"])
    model.partial_fit(table, y)
    explanation = model.explain(table[:1])
    assert np.isclose(sum(explanation.kernels.values()) + explanation.remainder, explanation.margin)
    assert set(explanation.columns) == {"noise", "user"}
    assert f"user={int(X[0, 1])}" in explanation.values
    before = copy.deepcopy(model)
    del before._importance  # as before the first rows were measured
    for importances in (model.feature_importances_, before.feature_importances_):
        assert np.isclose(importances.sum(), 1)
        assert importances[1] > 0.6
    assert len(model.explain(table[:5]).values) == 5


def test_rounds_and_very_wide_rows_have_none():
    _, X, y = model_and_rows("two", 300)
    rounds = AutoMKLClassifier(budget=40, update="rounds", random_state=0).fit(X, y)
    wide = AutoMKLClassifier(budget=40, random_state=0).fit(np.tile(X, 300), y)
    assert not any(isinstance(each._learner, IdentifierLearner) for each in (rounds, wide))


def test_rows_held_and_errors():
    model, X, y = model_and_rows("two", 700)
    model.partial_fit(X[:400], y[:400])
    before = pickle.dumps(model)
    bad = X[400:].copy()
    bad[-1, 0] = np.inf
    with pytest.raises(ValueError, match="finite"):
        model.partial_fit(bad, y[400:])
    assert pickle.dumps(model) == before
    reader, expected = model._now(), model.predict(X)
    model.partial_fit(X[400:], y[400:])
    assert isinstance(model._learner.inner, HashedLearner)
    assert_array_equal(reader.predict(X), expected)


@pytest.mark.parametrize("part", ["cells", "held", "gains", "trial"])
def test_files_whose_parts_do_not_fit_are_refused(part):
    model, X, y = model_and_rows("two", 400)
    state = versioned_state(model.partial_fit(X, y)._learner)
    assert learner_of_any_version(state, 2).seen == 400
    own = state["learner"]
    if part == "held":
        own["held"]["X"] = own["held"]["X"][:, :1]
    else:
        few = {"columns": np.array([0]), "kinds": np.array([4])}
        own[part] = {"cells": few, "gains": np.zeros(3), "trial": {}}[part]
    with pytest.raises(ValueError, match="saved"):
        learner_of_any_version(state, 2)


def test_a_file_of_hashed_models_that_no_rows_are_given_is_refused():
    model, X, y = model_and_rows("two", 600)
    state = model.partial_fit(X, y).__getstate__()
    state["_learner"] = {"version": state["_learner"]["version"], **state["_learner"]["learner"]["inner"]}
    with pytest.raises(ValueError, match="learner"):
        AutoMKLClassifier().__setstate__(state)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("size", [1e-308, 1e-160, 1e145])
def test_targets_of_any_size_leave_a_model_that_can_be_saved(loss, size, tmp_path):
    _, X, y = model_and_rows("numbers", 700)
    model = AutoMKLRegressor(budget=16, loss=loss, random_state=0)
    for end in (10, 300, 480, 700):
        model.partial_fit(X[max(end - 300, 0) : end], (y * size)[max(end - 300, 0) : end])
        save(model, tmp_path / "model.bomkl")
        assert_array_equal(load(tmp_path / "model.bomkl").predict(X), model.predict(X))


def test_onnx_is_refused_only_once_values_are_hashed():
    onnx = pytest.importorskip("bomkl.onnx")
    pytest.importorskip("onnx")
    model, X, y = model_and_rows("two", 600)
    onnx.to_onnx(model.partial_fit(X[:500], y[:500]))
    with pytest.raises(ValueError, match="hashed values"):
        onnx.to_onnx(model.partial_fit(X[500:], y[500:]))

"""River's own checks, and that growing never changes what was learned."""

from __future__ import annotations

import math
import pickle
import random
import warnings

import numpy as np
import pytest

pytest.importorskip("river")
import pandas as pd
from river import checks, stream

from bomkl import auto, budget, river
from bomkl.budget.growth import with_another_class
from bomkl.kernels import Gaussian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, NOGD, PA, RBP, SPA, Forgetron, Perceptron, Projectron
from bomkl.tables.notices import TableWarning

LEARNERS = [Perceptron(), PA(), SPA(), RBP(), Forgetron(), BOGD(), BPAS(), Projectron(), NOGD()]
KERNELS = [Gaussian(), Polynomial(2), Linear()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [river.BudgetMKLClassifier, river.BudgetMKLRegressor], ids=["classifier", "regressor"])
def test_rivers_checks(kind):
    checks.check_estimator(kind([Gaussian(), Linear()], budget=10))


def rows(n=150, n_classes=2):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, (np.abs(X).sum(axis=1) * 1.5).astype(int) % n_classes


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_two_classes_learn_as_the_estimator_does(learner):
    X, y = rows()
    model = river.BudgetMKLClassifier(KERNELS, learner, budget=12, seed=5)
    for x, label in stream.iter_array(X, y, feature_names=["a", "b", "c"]):
        model.learn_one(x, label)
    numbers = np.where(y == y[0], 0, 1)
    expected = budget.BudgetMKLClassifier(KERNELS, learner, budget=12, random_state=5)
    expected.partial_fit(np.pad(X, ((0, 0), (0, 5))), numbers, classes=[0, 1])
    names = [model.predict_one(dict(zip("abc", row, strict=True))) for row in X]
    assert names == [(y[0], 1 - y[0])[number] for number in expected.predict(np.pad(X, ((0, 0), (0, 5))))]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_new_class_changes_nothing_that_was_learned(learner):
    X, y = rows(n_classes=2)
    model = river.BudgetMKLClassifier(KERNELS, learner, budget=12, seed=5)
    model.learn_many(pd.DataFrame(X), pd.Series(y))
    frame = pd.DataFrame(X)
    before = model._model.decision_function(model._columns.rows(frame))
    for label in ("third", "fourth"):
        model.learn_one({0: 9.0, 1: 9.0, 2: 9.0}, label)
        after = model._model.decision_function(model._columns.rows(frame))
        assert after.shape[1] == len(model._labels)
    grown = river.BudgetMKLClassifier(KERNELS, learner, budget=12, seed=5)
    grown.learn_many(frame, pd.Series(y))
    margins = with_another_class(grown._model).decision_function(grown._columns.rows(frame))
    np.testing.assert_allclose(margins, np.column_stack([-before, before, np.zeros(len(X))]), rtol=1e-9, atol=1e-9)


def test_many_new_features_change_nothing_that_was_learned():
    X, y = rows()
    model = river.BudgetMKLClassifier(KERNELS, budget=12, seed=1)
    model.learn_many(pd.DataFrame(X, columns=list("abc")), pd.Series(y))
    query = dict(zip("abc", X[0], strict=True))
    before = model.predict_proba_one(query)
    model._columns.learn([f"new{i}" for i in range(40)])
    assert model.predict_proba_one(query) == pytest.approx(before)
    model.learn_one({f"new{i}": 1.0 for i in range(40)}, 0)
    assert model._model.n_features_in_ == 64


def test_endless_new_features_need_no_more_memory(monkeypatch):
    monkeypatch.setattr("bomkl.river.columns.MOST_COLUMNS_OF_RIVER", 16)
    model = river.BudgetMKLClassifier(KERNELS, budget=12, seed=1)
    frame = pd.DataFrame([{f"f{name}": float(name == row) for name in range(40)} for row in range(40)])
    for row in range(40):
        model.learn_one({f"f{row}": 1.0, "g": 2.0}, row % 2)
        assert len(model._columns.places) <= 16
    assert model._model.n_features_in_ == 16
    one = [model.predict_proba_one(row) for row in frame.to_dict("records")]
    pd.testing.assert_frame_equal(pd.DataFrame(one), model.predict_proba_many(frame))


def test_auto_models_make_room_for_features_to_come():
    model = river.AutoMKLClassifier(budget=20, seed=0, features=100)
    narrow = river.AutoMKLClassifier(budget=20, seed=0)
    told = []
    for row in range(60):
        x = {f"word{row % 30}": 1.0, "of": 1.0}
        model.learn_one(x, row % 30 < 15)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            narrow.learn_one(x, row % 30 < 15)
        told += [(row, str(each.message), each.filename) for each in caught]
    assert told == [(7, told[0][1], __file__)]
    assert "There is room for 8 features, and further ones share columns" in told[0][1]
    assert model.clone().features == 100
    assert (model._model.n_features_in_, narrow._model.n_features_in_) == (100, 8)
    assert len(model._columns.places) == 31
    with pytest.raises(ValueError, match=r"'features' parameter of AutoMKLClassifier must be an int >= 1. Got 0"):
        river.AutoMKLClassifier(features=0)
    with pytest.raises(ValueError, match="'features' parameter of AutoMKLRegressor"):
        river.AutoMKLRegressor(features="many")


def test_classes_of_any_kind_in_any_order_one_by_one_and_at_once():
    X, _ = rows(200)
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    labels = [["b", True, 7, ("a", 1)][number] for number in y]
    frame = pd.DataFrame(X, columns=list("xyz"))
    one, many = (river.BudgetMKLClassifier(KERNELS, budget=15, seed=2) for _ in range(2))
    for x, label in zip(frame.to_dict("records"), labels, strict=True):
        one.learn_one(x, label)
    for start in range(0, 200, 17):
        many.learn_many(frame[start : start + 17], labels[start : start + 17])
    np.testing.assert_allclose(one.predict_proba_many(frame), many.predict_proba_many(frame), rtol=1e-9)
    assert list(many.predict_many(frame)) == [one.predict_one(x) for x in frame.to_dict("records")]
    accuracy = np.mean([one.predict_one(x) == label for x, label in zip(frame.to_dict("records"), labels, strict=True)])
    assert accuracy > 0.5


def test_regression_as_the_estimator_does_it():
    X, _ = rows()
    model = river.BudgetMKLRegressor(KERNELS, budget=12, seed=5)
    for x, target in stream.iter_array(X, X[:, 0], feature_names=["a", "b", "c"]):
        model.learn_one(x, target)
    padded = np.pad(X, ((0, 0), (0, 5)))
    expected = budget.BudgetMKLRegressor(KERNELS, budget=12, random_state=5).partial_fit(padded, X[:, 0])
    np.testing.assert_allclose(
        model.predict_many(pd.DataFrame(X, columns=list("abc"))), expected.predict(padded), rtol=1e-9
    )


def test_before_any_row_and_with_one_label():
    model = river.BudgetMKLClassifier()
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    assert (model.predict_one({"a": 1}), model.predict_proba_one({"a": 1})) == (None, {})
    assert list(model.predict_many(frame)) == [None, None]
    assert model.predict_proba_many(frame).shape == (2, 0)
    model.learn_one({"a": 1.0}, "spam")
    assert model.predict_proba_one({"a": 1}) == {"spam": 1.0}
    assert list(model.predict_many(frame)) == ["spam", "spam"]
    model.learn_many(frame[:0], [])
    for learner in (model, river.AutoMKLClassifier()):
        with pytest.raises(ValueError, match="targets"):
            learner.learn_many(frame, ["spam"])
    regressor = river.BudgetMKLRegressor()
    assert regressor.predict_one({"a": 1}) == 0.0
    regressor.learn_many(frame[:0], [])


def test_strings_are_refused_by_name_after_a_first_row_of_numbers():
    model = river.BudgetMKLClassifier()
    model.learn_one({"city": 3}, True)
    frame = pd.DataFrame({"city": [1, "Bonn"]}, dtype=object)
    for learn in (lambda: model.learn_one({"city": "Bonn"}, True), lambda: model.learn_many(frame, [True, False])):
        with pytest.raises(ValueError, match=r"The feature 'city' must be a number, .* Got 'Bonn' instead"):
            learn()


MODELS = [river.AutoMKLClassifier, river.BudgetMKLClassifier, river.AutoMKLRegressor, river.BudgetMKLRegressor]


def table_rows(n, numbers):
    rng = random.Random(0)
    rows = [
        {
            "city": rng.choice(["Oslo", "Bonn", "Lima", None]),
            "size": rng.choice([rng.gauss(0, 1), math.nan]),
            "day": f"2024-03-{1 + i // 24:02d}T{i % 24:02d}:00",
        }
        for i in range(n)
    ]
    targets = [float(row["city"] == "Lima") for row in rows]
    labels = [["no", "yes", "maybe"][int(t) + (i > 30) * (i % 3 == 0)] for i, t in enumerate(targets)]
    return rows, targets if numbers else labels


@pytest.mark.parametrize("kind", MODELS)
def test_rows_with_texts_gaps_and_dates(kind):
    rows, targets = table_rows(80, "Regressor" in kind.__name__)
    one, many = kind(budget=30, seed=0), kind(budget=30, seed=0)
    assert one.predict_one(rows[0]) in (None, 0.0)
    for row, target in zip(rows, targets, strict=True):
        one.learn_one(row, target)
    frame = pd.DataFrame(rows, dtype=object)
    for begin in range(0, 80, 17):
        many.learn_many(frame[begin : begin + 17], targets[begin : begin + 17])
    shown = [one.predict_one(row) for row in rows]
    assert shown == many.predict_many(frame).tolist()
    assert [pickle.loads(pickle.dumps(one)).predict_one(row) for row in rows[:5]] == shown[:5]
    if "Classifier" in kind.__name__:
        assert [one.predict_proba_one(row) for row in rows] == many.predict_proba_many(frame).to_dict("records")
        assert sum(a == b for a, b in zip(shown, targets, strict=True)) > 50
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        assert one.predict_one(rows[0] | {"late": "?"}) == shown[0]  # not one of the first row
    assert one.predict_one({"city": None}) == one.predict_one({"city": None, "size": math.nan, "day": None})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        one.learn_one({"late": 3}, targets[0])


@pytest.mark.parametrize("kind", MODELS)
def test_a_table_that_is_refused_leaves_no_trace(kind):
    rows, targets = table_rows(40, "Regressor" in kind.__name__)
    model = kind(budget=30, seed=0)
    new = 0.5 if "Regressor" in kind.__name__ else "never seen"
    fresh = pickle.dumps(model)
    for learn in (
        lambda: model.learn_one({"city": b"bytes"}, new),
        lambda: model.learn_many(pd.DataFrame({"city": ["Oslo", b"bytes"]}), [targets[0], new]),
    ):
        with pytest.raises(ValueError, match="The column 'city' must hold"):
            learn()
        assert pickle.dumps(model) == fresh
    for row, target in zip(rows, targets, strict=True):
        model.learn_one(row, target)
    before = pickle.dumps(model)
    bad = rows[0] | {"size": math.inf}
    for learn in (
        lambda: model.learn_one(bad, new),
        lambda: model.learn_many(pd.DataFrame([*rows[:5], bad], dtype=object), [*targets[:4], new, new]),
    ):
        with pytest.raises(ValueError, match="The column 'size' must hold finite numbers"):
            learn()
        assert pickle.dumps(model) == before


def test_values_that_are_not_finite_are_refused_and_learned_nothing_from():
    for model in (river.BudgetMKLClassifier(seed=0), river.BudgetMKLRegressor(seed=0)):
        for value in (1.0, 2.0):
            model.learn_one({"a": value}, value > 1)
        before = model.predict_one({"a": 3.0})
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=r"The feature 'a' must be a finite number\. Got (nan|inf) instead"):
                model.learn_one({"a": value}, True)
        assert model.predict_one({"a": 3.0}) == before


def labelled(kind):
    model = kind(seed=0)
    for value in (1.0, 2.0, 3.0):
        model.learn_one({"a": value}, value > 1)
    return model


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (float("nan"), r"The label y must be known\. Got nan instead"),
        (np.float64("nan"), r"The label y must be known"),
        (None, r"The label y must be known\. Got None instead"),
        (pd.NA, r"The label y must be known\. Got <NA> instead"),
        (pd.NaT, r"The label y must be known\. Got NaT instead"),
        (["spam"], r"The label y must be hashable, .*\. Got \['spam'\] instead"),
        ({"spam": 1}, r"The label y must be hashable"),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused(label, message):
    model = labelled(river.BudgetMKLClassifier)
    before = model.predict_proba_one({"a": 3.0})
    with pytest.raises(ValueError, match=message):
        model.learn_one({"a": 1.0, "new": 2.0}, label)
    with pytest.raises(ValueError, match=message):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0], "new": [1.0, 2.0]}), [False, label])
    assert (model._labels, list(model._columns.places), model._model.n_seen_) == ([False, True], ["a"], 3)
    assert model.predict_proba_one({"a": 3.0}) == before


@pytest.mark.parametrize(
    "target", [float("nan"), float("inf"), -np.inf, None, "3.5", pd.NA, 1j, [1.0], 10**400], ids=lambda t: repr(t)[:9]
)
def test_targets_that_are_no_finite_numbers_are_refused(target):
    model = labelled(river.BudgetMKLRegressor)
    before = model.predict_one({"a": 3.0})
    for learn in (
        lambda: model.learn_one({"a": 1.0, "new": 2.0}, target),
        lambda: model.learn_many(pd.DataFrame({"a": [1.0, 2.0], "new": [1.0, 2.0]}), [0.5, target]),
    ):
        with pytest.raises(ValueError, match=r"The target y must be a finite number\. Got .* instead"):
            learn()
    assert (list(model._columns.places), model._model.n_seen_) == (["a"], 3)
    assert model.predict_one({"a": 3.0}) == before


AUTO = [river.AutoMKLClassifier, river.AutoMKLRegressor]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", AUTO, ids=["classifier", "regressor"])
def test_rivers_checks_of_auto_models(kind):
    checks.check_estimator(kind(budget=16, seed=0))


@pytest.mark.parametrize("kind", AUTO, ids=["classifier", "regressor"])
def test_auto_models_learn_many_as_one_by_one(kind):
    X, y = rows(120, 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    one, many = kind(budget=30, seed=0), kind(budget=30, seed=0)
    for x, label in stream.iter_array(X, y, feature_names=list("abc")):
        one.learn_one(x, label)
    for begin in range(0, 120, 25):
        many.learn_many(frame[begin : begin + 25], y[begin : begin + 25])
    records = frame.to_dict("records")
    assert [many.predict_one(x) for x in records] == [one.predict_one(x) for x in records]
    np.testing.assert_array_equal(many.predict_many(frame), one.predict_many(frame))
    np.testing.assert_allclose(list(many.predict_many(frame)), [one.predict_one(x) for x in records], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:There is room for 8 features")
def test_auto_models_take_names_and_labels_as_they_come():
    rng = np.random.default_rng(0)
    model = river.AutoMKLClassifier(budget=40, seed=0)
    assert (model.predict_one({"a": 1}), model.predict_proba_one({"a": 1})) == (None, {})
    for i in range(300):
        x = {"a": rng.normal(), f"name {i}": 1.0}  # far more names than columns
        if i > 100:
            x["late"] = rng.normal()
        label = ("low", "high")[x["a"] > 0] if i < 200 else ("low", "high", "new")[int(rng.integers(3))]
        model.learn_one(x, label)
    assert model._model.n_features_in_ == 8
    probabilities = model.predict_proba_one({"a": 3.0, "never seen": 1.0})
    assert set(probabilities) == {"low", "high", "new"}
    assert abs(sum(probabilities.values()) - 1) < 1e-9


@pytest.mark.parametrize("kind", [*AUTO, river.BudgetMKLClassifier, river.BudgetMKLRegressor])
def test_a_refused_row_leaves_no_column(kind):
    model = kind(seed=0)
    model.learn_one({"a": 1.0}, 1)
    for value in (float("inf") if kind in AUTO else float("nan"), "Bonn"):
        with pytest.raises(ValueError, match="The feature 'b' must be"):
            model.learn_one({"a": 1.0, "b": value}, 1)
        with pytest.raises(ValueError, match="The feature 'b' must be"):
            model.learn_many(pd.DataFrame({"a": [1.0], "b": [value]}), [1])
    assert list(model._columns.places) == ["a"]


@pytest.mark.parametrize("kind", [river.BudgetMKLClassifier, river.BudgetMKLRegressor, river.AutoMKLRegressor])
def test_what_fails_while_it_is_learned_leaves_no_trace(kind):
    classifies = kind is river.BudgetMKLClassifier
    targets = ["u", "v"] if classifies else [1.0, 2.0]
    model = kind(seed=0)

    def state():
        seen = [model.predict_proba_one(x) if classifies else model.predict_one(x) for x in probes]
        return seen, model._model.n_seen_, dict(model._columns.places)

    probes = [{"a": float(i), "b": 1.0, "new": 2.0} for i in range(5)]
    for i in range(20):
        model.learn_one({"a": float(i % 5), "b": 1.0}, targets[i % 2])
    before = state()
    huge = pd.DataFrame({"a": [1.0, 2.0, 1e200], "new": 1.0})
    calls = [
        lambda: model.learn_one({"a": 1e200, "new": 1.0}, "w" if classifies else 1.0),
        lambda: model.learn_many(huge, ["u", "w", "v"] if classifies else [1.0, 2.0, 3.0]),
        lambda: model.learn_one({"a": 1.0, "new": 1.0}, 1e305),
    ]
    for call in calls[:2] if classifies else calls[2:] if kind is river.AutoMKLRegressor else calls:
        with pytest.raises(ValueError, match="Scale the"):
            call()
        assert state() == before


def test_a_first_frame_that_fails_leaves_the_model_new():
    model = river.BudgetMKLClassifier(seed=0)
    with pytest.raises(ValueError, match="Scale the"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0, 1e200]}), ["u", "v", "w"])
    assert model.predict_one({"a": 1.0}) is None
    assert not hasattr(model._model, "classes_")
    model.learn_one({"a": "text"}, "u")  # still free to be a table


MODELS = {
    "auto classifier": lambda: river.AutoMKLClassifier(budget=20, seed=0),
    "auto regressor": lambda: river.AutoMKLRegressor(budget=20, seed=0),
    "budget classifier": lambda: river.BudgetMKLClassifier(KERNELS, budget=8, seed=0),
    "budget regressor": lambda: river.BudgetMKLRegressor(KERNELS, budget=8, seed=0),
}


def predictions(model, X):
    """Of every row, as numbers."""
    if hasattr(model, "predict_proba_one"):
        return np.array([list(model.predict_proba_one(x).values()) for x in X])
    return np.array([model.predict_one(x) for x in X])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "table"])
def test_weights_of_rows_are_sample_weights(kind, text):
    X, y = rows(80)
    y[:2] = 0, 1
    w = np.random.default_rng(1).choice([0.0, 0.25, 1.0, 3.0], size=len(X))
    w[:2] = 0.5
    named = [dict(zip("abc", row.tolist(), strict=True)) | ({"d": "xy"[int(row[0] > 0)]} if text else {}) for row in X]
    single, many, plain = MODELS[kind](), MODELS[kind](), MODELS[kind]()
    for x, target, weight in zip(named, y.tolist(), w.tolist(), strict=True):
        single.learn_one(x, target, w=weight)
        plain.learn_one(x, target)
    many.learn_many(pd.DataFrame(named), pd.Series(y), pd.Series(w))
    expected = MODELS[kind]()._model
    columns = single._columns
    matrix = [columns.row(x) for x in named] if text else columns.rows(pd.DataFrame(named))
    expected.partial_fit(matrix, y, sample_weight=w)
    found = predictions(single, named)
    assert np.array_equal(found, predictions(many, named))
    whole = expected.predict(matrix)
    assert np.array_equal(single._model.predict(matrix), whole)
    assert not np.array_equal(found, predictions(plain, named))


@pytest.mark.parametrize("kind", MODELS)
def test_rows_of_weight_zero_before_all_others(kind):
    model, expected = MODELS[kind](), MODELS[kind]()
    model.learn_one({"z": 7.0}, 3, w=0)
    model.learn_many(pd.DataFrame({"z": [7.0]}), [3], [0.0])
    assert model.predict_one({"a": 1.0}) == expected.predict_one({"a": 1.0})
    for i in range(12):
        for each in (model, expected):
            each.learn_one({"a": float(i % 5), "b": float(i % 3)}, i % 2)
    assert np.array_equal(predictions(model, [{"a": 1.0, "z": 1.0}]), predictions(expected, [{"a": 1.0, "z": 1.0}]))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("w", [-1.0, math.nan, math.inf, "2", None, 1j])
def test_weights_that_are_no_weights_are_refused(kind, w):
    model = MODELS[kind]()
    model.learn_one({"a": 1.0}, 1)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"The weight w must be a finite number from 0\. Got "):
        model.learn_one({"a": 1.0, "b": 2.0}, 2, w=w)
    with pytest.raises(ValueError, match=r"The weights w must be one for each row\. Got 2 for 1 rows instead"):
        model.learn_many(pd.DataFrame([{"a": 1.0, "b": 2.0}]), [2], [1.0, 2.0])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("city", [3.5, "Rome"], ids=["numbers", "table"])
def test_objects_and_lists_become_columns(kind, city):
    nested, plain = MODELS[kind](), MODELS[kind]()
    for i in range(12):
        x = {"place": {"city": city, "floor": i % 3}, "sizes": (i, [i % 5])}
        same = {"place.city": city, "place.floor": i % 3, "sizes.0": i, "sizes.1.0": i % 5}
        nested.learn_one(x, i % 2)
        plain.learn_one(same, i % 2)
        assert nested.predict_one(x) == plain.predict_one(same) == nested.predict_one(same)
        assert np.array_equal(predictions(nested, [x]), predictions(plain, [same]))


@pytest.mark.parametrize("kind", MODELS)
def test_a_gap_in_the_first_row(kind):
    model = MODELS[kind]()
    for i in range(12):
        model.learn_one({"a": None if i % 3 == 0 else float(i), "b": float(i % 2)}, i % 2)
    assert np.isfinite(predictions(model, [{"a": None, "b": 1.0}, {"a": 2.0}, {"b": math.nan}])).all()


@pytest.mark.parametrize("kind", ["AutoMKLClassifier", "AutoMKLRegressor"])
def test_what_a_row_of_numbers_lacks_is_zero_or_missing(kind):
    rng = np.random.default_rng(0)
    cells = rng.normal(5, 1, size=(120, 3))
    rows = [dict(zip("abc", cell, strict=True)) for cell in cells.tolist()]
    for row in rows[20::4]:
        del row["b"]
    for row in rows[60:]:
        row["new"] = 1.0
    targets = (cells[:, 0] > 5).astype(int).tolist()
    models = {absent: getattr(river, kind)(80, seed=0, absent=absent) for absent in ("zero", "missing")}
    models["table"] = getattr(auto, kind)(80, random_state=0)
    for row, target in zip(rows, targets, strict=True):
        for model in models.values():
            model.learn_one(row if model is not models["table"] else [row], target)
    zeros = [row | {"b": row.get("b", 0.0)} for row in rows]
    assert [models["zero"].predict_one(row) for row in rows] == [models["zero"].predict_one(row) for row in zeros]
    assert [models["missing"].predict_one(row) for row in rows] == models["table"].predict(rows).tolist()
    assert "new" in models["missing"]._model.feature_names_in_
    with pytest.raises(ValueError, match=r"'absent' parameter of AutoMKL.* must be one of"):
        getattr(river, kind)(absent="gap")

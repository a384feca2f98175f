"""learn_one, predict_one and predict_proba_one are score_and_learn, predict and predict_proba of a single row."""

import os
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification

import bomkl
from bomkl import AutoMKLClassifier, AutoMKLRegressor, _core
from bomkl.auto.wide.sparse_rows import ColumnScales
from bomkl.tables.notices import TableWarning

SOURCES = os.path.dirname(bomkl.__file__) + os.sep
N = 420
X, Y = make_classification(N, 7, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
CASES = {
    "two classes": (lambda **k: AutoMKLClassifier(40, random_state=0, **k), Y % 2),
    "four classes": (lambda **k: AutoMKLClassifier(40, random_state=0, **k), Y),
    "classes that come later": (lambda **k: AutoMKLClassifier(40, random_state=0, **k), np.array(list("dbca"))[Y]),
    "numbers": (lambda **k: AutoMKLRegressor(40, random_state=0, **k), X[:, 0] * X[:, 1] + Y),
    "huber": (lambda **k: AutoMKLRegressor(40, loss="huber", random_state=0, **k), 9 * X[:, 0] * X[:, 1] + Y),
    "late models": (lambda **k: AutoMKLRegressor(280, random_state=0, **k), X[:, 0] * X[:, 1] + Y),
    "drift": (lambda **k: AutoMKLRegressor(40, drift="adapt", random_state=0, **k), X[:, 0] * X[:, 1] + Y),
    "rounds": (lambda **k: AutoMKLClassifier(40, update="rounds", random_state=0, **k), Y % 2),
    "numbers in rounds": (lambda **k: AutoMKLRegressor(40, update="rounds", random_state=0, **k), X[:, 0] + Y),
}


@pytest.mark.parametrize("case", CASES)
def test_one_by_one_is_the_same_as_all_at_once(case):
    make, y = CASES[case]
    one, many = make(), make()
    rest = many.score_and_learn(X, y)
    margins = [one.learn_one(x, label) for x, label in zip(X, y.tolist(), strict=True)]
    for margin, expected in zip(margins, rest, strict=True):
        if np.shape(margin) == np.shape(expected) and case not in ("classes that come later", "four classes"):
            assert_array_equal(margin, expected)
    assert pickle.dumps(one) == pickle.dumps(many)
    assert_allclose(
        [one.predict_one(x) for x in X[:50]], many.predict(X[:50]), rtol=1e-5, atol=2e-5
    ) if "class" not in case else (assert_array_equal([one.predict_one(x) for x in X[:50]], many.predict(X[:50])))
    if hasattr(one, "predict_proba"):
        assert_allclose([one.predict_proba_one(x) for x in X[:50]], many.predict_proba(X[:50]), rtol=1e-4, atol=1e-6)


DRIFTING = np.where(np.arange(N) < 300, Y % 2, 1 - Y % 2)
WIDE = sp.random(200, 600, density=0.03, random_state=0, format="csr")
LEFT = np.asarray(WIDE[:, :300].sum(axis=1) - WIDE[:, 300:].sum(axis=1))[:, 0]
COMPOSED = {  # estimator, rows, labels, rows before the first that comes alone, how many may go the long way
    "drift, two classes": (AutoMKLClassifier(40, drift="adapt", random_state=0), X, DRIFTING, 270, 40),
    "drift, four classes": (AutoMKLClassifier(40, drift="adapt", random_state=0), X, Y, 325, 8),
    "drift, numbers": (AutoMKLRegressor(40, drift="adapt", random_state=0), X, X[:, 0] * X[:, 1] + Y, 325, 8),
    "wide": (AutoMKLClassifier(20, random_state=0), WIDE.toarray(), LEFT > 0, 90, 4),
    "wide, sparse": (AutoMKLClassifier(20, random_state=0), WIDE, np.digitize(LEFT, [-1, 1]), 90, 4),
    "wide, drift": (AutoMKLClassifier(20, drift="adapt", random_state=0), WIDE, LEFT > 0, 130, 4),
}


@pytest.mark.parametrize("case", COMPOSED)
def test_learners_of_several_parts_take_rows_in_one_step(case, monkeypatch):
    model, rows, y, start, most = COMPOSED[case]
    one, many = (clone(model).partial_fit(rows[:start], y[:start]) for _ in range(2))
    expected, long_ways = many.score_and_learn(rows[start:], y[start:]), []
    whole = type(model).score_and_learn
    monkeypatch.setattr(type(model), "score_and_learn", lambda *given: long_ways.append(1) or whole(*given))
    for i, margin in enumerate(expected, start):
        predicted = one.predict_one(rows[i])
        learned = one.learn_one(rows[i], y[i].item())
        assert_array_equal(learned, margin)
        if "numbers" in case:
            assert predicted == learned
    assert pickle.dumps(one) == pickle.dumps(many)
    assert len(long_ways) <= most


@pytest.mark.parametrize("case", ["drift, numbers", "wide"])
def test_a_reader_of_several_parts_keeps_what_it_was_given(case):
    model, rows, y, start, _ = COMPOSED[case]
    model = clone(model).partial_fit(rows[:start], y[:start])
    now = model._now()
    before = now.predict(rows)
    for i in range(start, start + 10):
        model.learn_one(rows[i], y[i].item())
    assert_array_equal(now.predict(rows), before)
    assert (now.n_seen_, model.n_seen_) == (start, start + 10)


def states_are_equal(one, other):
    try:
        np.testing.assert_equal(one, other)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(("case", "stride"), [("numbers", 7), ("drift, numbers", 41), ("wide", 11)])
def test_an_interrupt_anywhere_leaves_a_row_learned_or_not_at_all(case, stride):
    model, rows, y, start, _ = COMPOSED.get(case) or (AutoMKLRegressor(20, random_state=0), X, 1.0 * Y, 90, 0)
    saved = pickle.dumps(clone(model).partial_fit(rows[:start], y[:start]))
    before, after = (pickle.loads(saved) for _ in range(2))
    after.learn_one(rows[start], y[start].item())
    untouched = 0
    for lines in range(0, 100 * stride, stride):
        model, left = pickle.loads(saved), lines

        def trace(frame, event, argument):
            nonlocal left
            # Not where a turn begins or ends: Python traces the end of a with block, but no signal comes there
            file = frame.f_code.co_filename
            left -= event == "line" and file.startswith(SOURCES) and not file.endswith("change.py")
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        tracing = sys.gettrace()
        try:
            sys.settrace(trace)
            model.learn_one(rows[start], y[start].item())
            ended = True
        except KeyboardInterrupt:
            ended = False
        finally:
            sys.settrace(tracing)
        unchanged = states_are_equal(model.__getstate__(), before.__getstate__())
        assert unchanged or states_are_equal(model.__getstate__(), after.__getstate__())
        untouched += unchanged
        if ended:
            break
    assert ended
    assert not unchanged
    assert untouched > 5


def test_columns_that_another_fork_has_added():
    first = ColumnScales.of(WIDE[:1])
    left, right = first.fork(), first.fork()
    left.scaled(WIDE[1:2], learn=True)  # given up, as after an interrupt
    right.scaled(WIDE[2:4], learn=True)
    alone = ColumnScales.of(WIDE[:1])
    expected = alone.scaled(WIDE[2:4], learn=True)
    for scales in (first, right):
        found = scales.scaled(WIDE[1:4], learn=False)
        assert (found.places < scales.count).all()
        assert_array_equal(scales.columns[found.places[found.places >= 0]], found.columns[found.places >= 0])
    assert_array_equal(right.scaled(WIDE[2:4], learn=False).places, expected.places)
    assert_array_equal(right.columns[: right.count], alone.columns[: alone.count])


@pytest.mark.parametrize("name", _core.instruction_sets())
def test_every_instruction_set(name, monkeypatch):
    monkeypatch.setenv("BOMKL_ISA", name)
    test_one_by_one_is_the_same_as_all_at_once("two classes")


@pytest.mark.parametrize("case", ["two classes", "four classes", "numbers", "huber"])
def test_the_core_takes_the_rows_in_one_step(case, monkeypatch):
    make, y = CASES[case]
    model = make().partial_fit(X[:331], y[:331])
    kind = type(model)
    assert len(model.kernels_) > len(model.n_support_.nonzero()[0]) + 1  # with trees
    monkeypatch.setattr(kind, "score_and_learn", lambda *a: pytest.fail("the long way"))
    monkeypatch.setattr(kind, "predict", lambda *a: pytest.fail("the long way"))
    for x, label in zip(X[331:383], y[331:383], strict=True):
        model.predict_one(x)
        model.learn_one(x, label)
    assert model.n_seen_ == 383


def test_one_class_alone():
    model = AutoMKLClassifier(20, random_state=0).partial_fit(X[:60], np.ones(60, dtype=int))
    assert model.predict_one(X[0]) == 1
    assert_array_equal(model.predict_proba_one(X[0]), [1.0])


def test_prediction_is_the_score_before_learning():
    make, y = CASES["numbers"]
    model = make().partial_fit(X[:200], y[:200])
    for x, target in zip(X[200:250], y[200:250], strict=True):
        expected = model.predict_one(x)
        assert model.learn_one(x, target) == expected


def test_rows_by_names():
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    one, many = (AutoMKLClassifier(40, random_state=0).partial_fit(frame[:100], Y[:100]) for _ in range(2))
    expected = many.score_and_learn(frame[100:200], Y[100:200])
    for i in range(100, 200):
        row = frame.iloc[i] if i % 2 else dict(reversed(list(frame.iloc[i].items())))
        assert_array_equal(one.learn_one(row, Y[i]), expected[i - 100])
    assert one.predict_one(frame.iloc[0]) == many.predict(frame[:1])[0]
    assert_array_equal(one.predict_one(X[0]), one.predict_one(frame.iloc[0]))
    with pytest.warns(TableWarning, match="'z' is ignored: it was not there before"):
        one.predict_one({"z": 1, **dict.fromkeys("bcdefg", 0.0)})
    with pytest.raises(ValueError, match="without names"):
        AutoMKLClassifier(40).fit(X, Y).predict_one({"a": 1})


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0] * 6 + [np.inf], 1, "inf"),
        ([0.0, 0.0], 1, "features"),
        ([[0.0] * 7] * 2, 1, "rows"),
        ([0.0] * 7, {}, "label|target|number|float"),
        (["a"] * 7, 1, "float|number"),
    ],
)
@pytest.mark.parametrize("case", ["two classes", "numbers"])
def test_refused_rows_change_nothing(case, x, y, message):
    make, labels = CASES[case]
    model = make().partial_fit(X[:100], labels[:100])
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(x, y)
    assert pickle.dumps(model) == before


def test_changed_settings_are_refused():
    make, y = CASES["numbers"]
    model = make().partial_fit(X[:100], y[:100]).set_params(budget=7)
    with pytest.raises(ValueError, match="was changed"):
        model.learn_one(X[0], y[0])


def test_a_reader_keeps_the_model_it_was_given():
    make, y = CASES["two classes"]
    model = make().partial_fit(X[:100], y[:100])
    now = model._now()
    before, weights = now.predict_proba(X), now.kernel_weights_
    for x, label in zip(X[100:150], y[100:150], strict=True):
        model.learn_one(x, label)
    assert_array_equal(now.predict_proba(X), before)
    assert_array_equal(now.kernel_weights_, weights)
    assert now.n_seen_ == 100
    assert model.n_seen_ == 150

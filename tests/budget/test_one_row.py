"""learn_one and predict_one are score_and_learn and predict of a single row."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.learners import BPAS, SPA


def stream(classes=2, n=300, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).astype(dtype)
    return X, rng.integers(0, classes, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("learner", "budget"), [(SPA(), None), (BPAS(), 10)])
def test_one_by_one_is_the_same_as_all_at_once(learner, budget, classes, dtype):
    X, y = stream(classes, dtype=dtype)
    labels = np.array(["a", "b", "c"])[y]
    known = np.unique(labels)
    whole = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0)
    margins = whole.score_and_learn(X, labels, classes=known)
    model = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0)
    first = model.score_and_learn(X[:1], labels[:1], classes=known)[0]
    rest = [model.learn_one(x, label) for x, label in zip(X[1:], labels[1:], strict=True)]
    assert_array_equal([first, *rest], margins)
    assert_array_equal([model.predict_one(x) for x in X], whole.predict(X))


def test_rows_that_need_converting_give_the_same():
    X, y = stream()
    quick, converted = (BudgetMKLClassifier(random_state=0).partial_fit(X[:50], y[:50]) for _ in range(2))
    for x, label in zip(X[50:], y[50:], strict=True):
        assert quick.learn_one(x, label) == converted.learn_one(x.tolist(), int(label))
    assert quick.predict_one(X[0]) == converted.predict_one(X[0].tolist())


def test_settings_that_take_the_long_way_give_the_same():
    X, y = stream()
    for settings in ({"class_weight": {0: 2.0, 1: 1.0}}, {"selection_delta": lambda t: 1 / (t + 1)}):
        one, many = (BudgetMKLClassifier(random_state=0, **settings).partial_fit(X[:50], y[:50]) for _ in range(2))
        margins = [one.learn_one(x, label) for x, label in zip(X[50:], y[50:], strict=True)]
        assert_array_equal(margins, many.score_and_learn(X[50:], y[50:]))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0, np.nan, 0.0, 0.0], 1, "Got NaN in row 0, column 1"),
        ([0.0, np.inf, 0.0, 0.0], 1, "Got inf in row 0, column 1"),
        ([0.0, 0.0], 1, "features"),
        ([0.0, 0.0, 0.0, 0.0], 7, "never declared"),
        ([0.0, 0.0, 0.0, 0.0], {}, "label"),
        ([1e200, 0.0, 0.0, 0.0], 1, "too large|overflows"),
    ],
)
@pytest.mark.parametrize("as_list", [False, True])
def test_bad_rows_raise_and_change_nothing(x, y, message, as_list):
    X, labels = stream()
    model = BudgetMKLClassifier(random_state=0).partial_fit(X, labels)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match=message):
        model.learn_one(x if as_list else np.array(x), y)
    assert_array_equal(model.decision_function(X), before)
    assert model.n_seen_ == len(labels)


def test_a_first_row_needs_the_classes():
    with pytest.raises(ValueError, match="classes="):
        BudgetMKLClassifier().learn_one(np.zeros(3), 1)


def test_new_classes_after_fit_are_known():
    X, y = stream()
    model = BudgetMKLClassifier(random_state=0).fit(X, y)
    model.learn_one(X[0], 1)
    model.fit(X, y + 5)
    model.learn_one(X[0], 6)
    with pytest.raises(ValueError, match="never declared"):
        model.learn_one(X[0], 1)


def test_settings_changed_in_between_are_refused():
    X, y = stream()
    model = BudgetMKLClassifier(random_state=0).fit(X, y).set_params(learner=BPAS(), budget=5)
    with pytest.raises(ValueError, match=r"was changed from .* after learning had begun"):
        model.learn_one(X[0], 1)


def test_regression():
    X, _ = stream()
    y = X[:, 0] + 0.1
    one, many = (BudgetMKLRegressor(random_state=0) for _ in range(2))
    predictions = [one.learn_one(x, target) for x, target in zip(X, y, strict=True)]
    assert_array_equal(predictions, many.score_and_learn(X, y))
    assert one.predict_one(X[0]) == many.predict(X[:1])[0]
    with pytest.raises(ValueError, match=r"NaN|finite"):
        one.learn_one(X[0], np.nan)


def test_a_row_of_a_table_may_have_its_columns_in_another_order():
    X, y = stream()
    table = pd.DataFrame(X, columns=list("abcd"))
    one, two = (BudgetMKLClassifier(random_state=0).fit(table, y) for _ in range(2))
    other = table[["d", "c", "b", "a"]]
    assert [one.predict_one(other[at : at + 1]) for at in range(9)] == one.predict(table[:9]).tolist()
    one.learn_one(other[:1], 1 - y[0])
    two.learn_one(table[:1], 1 - y[0])
    assert_array_equal(one.decision_function(table), two.decision_function(table))


def test_more_than_one_row_is_refused():
    X, y = stream()
    model = BudgetMKLClassifier(random_state=0).fit(X, y)
    for rows in (csr_matrix(X[:2]), pd.DataFrame(X[:2])):
        with pytest.raises(ValueError, match=r"one row at a time. Got 2"):
            model.predict_one(rows)

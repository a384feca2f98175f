"""Explanations of several rows, beside Shapley values by definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.insight.mixing import RowMixer, WideRowMixer
from bomkl.auto.insight.shapley import shapley_values

RANDOM = np.random.default_rng(1)


def by_definition(f, x, background):
    """Mean over all orders and background rows of what a column adds."""
    parts = np.zeros(len(x))
    orders = list(permutations(range(len(x))))
    for order in orders:
        for b in background:
            row = b.copy()
            for column in order:
                before = f(row[None])[0, 0]
                row[column] = x[column]
                parts[column] += f(row[None])[0, 0] - before
    return parts / (len(orders) * len(background))


def function(rows):
    first, second, *others = rows.T
    return np.column_stack([first * second + np.sin(others[0]) if others else first * second])


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_few_columns_have_exact_values(columns):
    x, background = RANDOM.normal(size=(2, columns)), RANDOM.normal(size=(3, columns))
    mixer = RowMixer(range(columns), range(columns), ())
    values, base = shapley_values(function, mixer, x, background, 0)
    np.testing.assert_allclose(values[:, :, 0], [by_definition(function, row, background) for row in x], atol=1e-12)
    np.testing.assert_allclose(base, function(background).mean(axis=0))


def test_sampled_values_are_near_those_by_definition():
    x, background = RANDOM.normal(size=(1, 6)), RANDOM.normal(size=(1, 6))
    mixer = RowMixer(range(6), range(6), ())
    many = np.repeat(background, 400, axis=0)
    values, _ = shapley_values(function, mixer, x, many, 0)
    np.testing.assert_allclose(values[0, :, 0], by_definition(function, x[0], background), atol=1e-9)  # of pairs, exact


def rows_and_models():
    X = RANDOM.normal(size=(200, 6))
    table = pd.DataFrame(X[:, :3].copy(), columns=["a", "<b>", "c"]).assign(word=np.where(X[:, 3] > 0, "x y", None))
    table.loc[::5, "a"] = np.nan
    return {
        "numbers": (AutoMKLRegressor, X, X[:, 0] * X[:, 1]),
        "one column": (AutoMKLRegressor, X[:, :1], X[:, 0]),
        "two classes": (AutoMKLClassifier, X, np.where(X[:, 0] > 0, "a", "b")),
        "three classes": (AutoMKLClassifier, X, np.digitize(X[:, 0], [-1, 1])),
        "table": (AutoMKLClassifier, table, X[:, 3] > 0),
    }


@pytest.mark.parametrize("name", rows_and_models())
def test_parts_add_up_to_the_scores(name):
    kind, X, y = rows_and_models()[name]
    model = kind(budget=30, random_state=0).partial_fit(X, y)
    found = model.explain(X[:7])
    scores = model.predict(X[:7]) if kind is AutoMKLRegressor else model.decision_function(X[:7])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), scores, atol=1e-9)
    assert found.values.shape[:2] == found.data.shape == (7, X.shape[1])
    assert len(found.feature_names) == X.shape[1]
    assert len(found[2:4]) == 2
    assert "<b>" not in found._repr_html_()
    shown = repr(found).splitlines()
    assert len(shown) == 1 + X.shape[1] + (4 if name == "table" else 0)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_texts_are_explained_by_words(classes):
    colour = RANDOM.choice(["red", "green", "blue"], 400)
    table = pd.DataFrame({"note": [f"The {c} box" for c in colour], "a": RANDOM.normal(size=400)})
    table.loc[::9, "note"] = None
    y = (colour == "red") + (0.5 if classes == 0 else 1) * (colour == "green") * (classes != 2)
    kind = AutoMKLClassifier if classes else AutoMKLRegressor
    model = kind(budget=60, random_state=0).partial_fit(table, y)
    found = model.explain(table[:30])
    scores = model.decision_function(table[:30]) if classes else model.predict(table[:30])
    for each in (found, found.words, found.words[3:9], found[3:9].words):
        expected = scores if len(each) == 30 else scores[3:9]
        np.testing.assert_allclose(each.base_values + each.values.sum(axis=1), expected, atol=1e-9)
        assert each.values.shape[:2] == each.data.shape == (len(each), len(each.feature_names))
    assert found.words.feature_names[:2] == ["note: the rest", "a"]
    assert set(found.words.feature_names[2:]) == {"note: the", "note: red", "note: green", "note: blue", "note: box"}
    assert "note: red" in repr(found)
    assert "note: red" in found._repr_html_()
    red = found.words.feature_names.index("note: red")
    assert found.words.data[:, red].tolist() == [int("red" in str(note)) for note in table["note"][:30]]
    assert max(abs(found.words.values[found.words.data[:, red] == 0, red].ravel())) == 0
    assert "note: red" in [word for word, _, _ in model._words()]


def test_before_rows_were_measured_the_rows_themselves_are_the_background():
    X = RANDOM.normal(size=(12, 3))
    model = AutoMKLRegressor(budget=30, random_state=0).partial_fit(X, X[:, 0])
    found = model.explain(X)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X))


def test_parts_add_up_after_a_call_that_took_in_a_column():
    rows = [{"a": float(value), "t": "uvw"[at % 3]} for at, value in enumerate(RANDOM.normal(size=32))]
    for row in rows[20:]:
        row["late"] = float(RANDOM.normal())
    model = AutoMKLClassifier(random_state=0).partial_fit(rows, [int(row["a"] > 0) for row in rows])
    found = model.explain(rows[:3])
    assert found.feature_names == ["a", "t", "late"]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.decision_function(rows[:3]))


def test_rows_without_any_value_have_no_parts():
    rows = [{"a": None}, {"b": None}] * 3
    model = AutoMKLClassifier(random_state=0).partial_fit(rows, [0, 1] * 3)
    found = model.explain(rows)
    assert found.values.shape == found.data.shape == (6, 0)
    np.testing.assert_allclose(found.base_values, model.decision_function(rows))


def test_a_text_that_is_the_same_in_all_rows_adds_nothing():
    X = RANDOM.normal(size=(300, 2))
    table = pd.DataFrame(X, columns=["a", "b"]).assign(same="x")
    for late in (0, 150):  # what a text is encoded as changes with the targets
        y = X[:, 0] + np.where(np.arange(300) < late, 0.0, 3.0)
        found = AutoMKLRegressor(budget=50, random_state=0).partial_fit(table, y).explain(table[:20])
        np.testing.assert_allclose(found.values[:, 2], 0.0, atol=1e-12)
        assert np.abs(found.values[:, 0]).mean() > 0.1


def test_very_wide_rows_are_explained_by_the_columns_that_they_have():
    X = sp.random(200, 5000, 0.002, format="lil", random_state=0)
    X[:, 7] = np.abs(RANDOM.normal(size=(200, 1)))
    X = sp.vstack([X, sp.csr_matrix((1, 5000))], format="csr")
    y = np.append(X[:200, 7].toarray()[:, 0] > 0.7, False)
    model = AutoMKLClassifier(budget=30, random_state=0).partial_fit(X, y)
    rows = X[[0, 1, 200]]
    found = model.explain(rows)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.decision_function(rows), atol=1e-9)
    assert found.feature_names[-1] == "all other columns"
    assert found.values.shape == found.data.shape == (3, len(np.unique(rows.indices)) + 1)
    assert next(iter(found[:2].sizes())) == "column 7"
    assert (found.values[2, :-1] == 0).all()  # a row without any value
    assert np.isfinite(model.explain(X[0]).margin)


def test_parts_of_very_wide_rows_are_those_by_definition():
    pool = np.array([[2.0, 0, 0, 3.0, 0], [1.0, 1.0, 0, 0, 5.0], [0, 0, 4.0, 1.0, 0]])

    def score(rows):
        dense = rows.toarray()
        return (dense[:, 0] * dense[:, 3] + dense[:, 1] + dense[:, 2] * dense[:, 4] + dense[:, 0])[:, None]

    def of_groups(rows):  # columns 0 and 3, and the others as one; places of rows of the pool
        mixed = np.array(
            [[pool[row[group]][at] for at, group in enumerate([0, 2, 2, 1, 2])] for row in rows.astype(int)]
        )
        return score(sp.csr_matrix(mixed))

    rows = sp.csr_matrix(pool)
    values, _ = shapley_values(score, WideRowMixer(np.array([0, 3])), rows[:1], rows[1:], 0)
    expected = by_definition(of_groups, np.zeros(3), [np.ones(3), np.full(3, 2.0)])
    np.testing.assert_allclose(values[0, :, 0], expected)


def test_shap_takes_explanations():
    shap = pytest.importorskip("shap")
    X = RANDOM.normal(size=(60, 3))
    found = AutoMKLRegressor(budget=30, random_state=0).partial_fit(X, X[:, 0]).explain(X[:5])
    theirs = found.to_shap()
    assert isinstance(theirs, shap.Explanation)
    np.testing.assert_array_equal(theirs.values, found.values)
    np.testing.assert_array_equal(theirs[0].base_values, found.base_values[0])
    assert theirs.feature_names == found.feature_names
    np.testing.assert_array_equal(theirs.abs.mean(0).values, np.abs(found.values).mean(axis=0))

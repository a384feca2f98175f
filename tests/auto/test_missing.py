"""NaN in arrays is a missing value: the same bits for any split, filled in as the cells of a table are."""

import gc
import pickle
import weakref
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, modelfile, river
from bomkl.tables import TableEncoder

N = 400
X, CLASSES = make_classification(N, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
NUMBERS = X[:, 0] + X[:, 1] * X[:, 2]
MISSING = np.random.default_rng(0).random(X.shape) < 0.1
LATE = np.where(MISSING & (np.arange(N) >= 150)[:, None], np.nan, X)
FIRST = np.vstack([np.full(X.shape[1], np.nan), X[1:]])
MODELS = {
    "rows": (AutoMKLClassifier(60, random_state=0), CLASSES),
    "rounds": (AutoMKLClassifier(60, update="rounds", random_state=0), CLASSES),
    "drift": (AutoMKLClassifier(60, drift="adapt", random_state=0), CLASSES),
    "numbers": (AutoMKLRegressor(60, random_state=0), NUMBERS),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "rows", [LATE, np.where(MISSING, np.nan, X), FIRST], ids=["late", "from the first rows", "all of the first row"]
)
def test_any_split_and_a_file_give_the_same_bits(name, rows, tmp_path):
    model, y = MODELS[name]
    whole = clone(model)
    expected = whole.score_and_learn(rows, y)
    cut, found = clone(model), []
    for at, (begin, end) in enumerate(pairwise([0, 1, 9, 149, 150, 151, 160, 300, 301, N])):
        part = rows[begin:end]
        if end == begin + 1:
            found.append(np.atleast_1d(cut.learn_one(part[0], y[begin])))
        else:
            found.append(cut.score_and_learn(sp.csr_matrix(part) if at % 2 else part, y[begin:end]))
        modelfile.save(cut, tmp_path / "model.bomkl")
        cut = modelfile.load(tmp_path / "model.bomkl")
        cut.predict(rows[:20])  # changes nothing
    if name == "numbers":
        assert_array_equal(np.concatenate(found), expected)
        assert_array_equal(cut.predict_interval(rows), whole.predict_interval(rows))
    assert_array_equal(cut.predict(rows), whole.predict(rows))
    if name == "rounds":  # whose file tells what it was when it was loaded
        return
    modelfile.save(whole, tmp_path / "whole.bomkl")
    assert (tmp_path / "whole.bomkl").read_bytes() == (tmp_path / "model.bomkl").read_bytes()


def test_rows_are_filled_as_those_of_a_table_are():
    frame = pd.DataFrame(LATE, columns=list("abcdef"))
    late = frame.iloc[150:].to_numpy()
    model = AutoMKLRegressor(60, random_state=0)
    found = clone(model).fit(LATE, NUMBERS).predict(late)
    table = clone(model).fit(frame, NUMBERS).predict(frame.iloc[150:])
    errors = [np.mean((each - NUMBERS[150:]) ** 2) for each in (found, table)]
    assert errors[0] < 1.2 * errors[1] < 0.5 * NUMBERS.var()


@pytest.mark.parametrize("name", MODELS)
def test_missing_values_may_come_in_rows_to_predict_only(name):
    model, y = MODELS[name]
    model = clone(model).fit(X, y)
    before = model.__getstate__().keys()
    found = model.predict(LATE)
    assert np.isfinite(found.astype(float)).all()
    assert_array_equal(found[:150], model.predict(X[:150]))
    assert_allclose([model.predict_one(row) for row in LATE[150:170]], found[150:170], rtol=1e-5)
    assert_array_equal(model.predict(sp.csr_matrix(LATE)), found)
    assert model.__getstate__().keys() == before
    assert len(model.explain(LATE[160]).columns) == 6


def test_a_filled_cell_is_close_to_what_the_other_columns_say():
    rows = np.random.default_rng(0).normal(size=(600, 2))
    rows = np.column_stack([rows, rows.sum(axis=1)])
    model = AutoMKLRegressor(100, random_state=0).fit(rows, rows[:, 2])
    holes = np.where(np.arange(3) == 2, np.nan, rows[:50])
    assert np.corrcoef(model.predict(holes), rows[:50, 2])[0, 1] > 0.95


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
def test_an_option_refuses_them_and_nothing_takes_infinity(kind):
    y = CLASSES % 2
    with pytest.raises(ValueError, match=r"Got NaN in row 15\d"):
        kind(60, missing="refuse").fit(LATE, y)
    with pytest.raises(ValueError, match="'missing' parameter"):
        kind(60, missing="drop").fit(X, y)
    with pytest.raises(ValueError, match="Got NaN in row 15"):
        BudgetMKLClassifier().fit(LATE, y)
    endless = LATE.copy()
    endless[300, 2] = -np.inf
    model = kind(60, random_state=0).fit(LATE, y)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="Got -inf in row 300, column 2"):
            learn(endless, y)
    assert model.n_seen_ == N
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not kind(missing="refuse").__sklearn_tags__().input_tags.allow_nan


def test_in_very_wide_rows_a_missing_value_is_a_zero():
    wide = sp.random(200, 900, density=0.05, random_state=0, format="csr")
    holes, zeros = wide.copy(), wide.copy()
    holes.data[::9], zeros.data[::9] = np.nan, 0.0
    model = AutoMKLClassifier(40, random_state=0)
    expected = clone(model).fit(zeros, CLASSES[:200]).predict_proba(zeros)
    for rows in (holes, holes.toarray()):
        assert_array_equal(clone(model).fit(rows, CLASSES[:200]).predict_proba(rows), expected)


def test_river_rows_may_have_none_after_the_first():
    rows = [dict(zip("abcdef", row, strict=True)) for row in X.tolist()]
    for at in range(150, N):
        rows[at] |= {name: None for name, missing in zip("abcdef", MISSING[at], strict=True) if missing}
    model = river.AutoMKLClassifier(60, seed=0)
    hits = 0
    for row, label in zip(rows, CLASSES, strict=True):
        hits += model.predict_one(row) == label
        model.learn_one(row, label)
    assert hits > 0.5 * N
    with pytest.raises(ValueError, match="finite"):
        model.learn_one(rows[0] | {"a": float("inf")}, 1)


def test_the_array_of_a_nullable_table_has_missing_values():
    rows = np.where(MISSING, np.nan, X)[:60]
    cells = pd.DataFrame(rows).astype("Float64").to_numpy()
    assert any(cell is pd.NA for cell in cells.flat)
    found, expected = (AutoMKLClassifier(30, random_state=0).fit(each, CLASSES[:60]) for each in (cells, rows))
    assert_array_equal(found.predict_proba(cells), expected.predict_proba(rows))
    with pytest.raises(ValueError, match=r"Got NaN in row \d+, column \d"):
        BudgetMKLClassifier().fit(cells, CLASSES[:60])


def test_what_fills_missing_values_does_not_hold_an_old_learner():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = AutoMKLClassifier(20, random_state=0).partial_fit(X, X[:, 0] > 0)
    model.predict([[np.nan, 1.0]])
    old = weakref.ref(model._learner)
    model.partial_fit([[np.nan, 1.0]], [True])
    gc.collect()
    assert old() is None


def telling(rows, y):
    """Blank half of the cells of one class, and a fifth of the others, after the first row."""
    blank = np.random.default_rng(1).random(rows.shape) < np.where(y, 0.5, 0.2)[:, None]
    blank[0] = False
    return np.where(blank, np.nan, rows)


def test_that_a_cell_is_missing_may_tell_the_class():
    y = CLASSES == 1
    rows = telling(X, y)
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    model, table = AutoMKLClassifier(60, random_state=0), AutoMKLClassifier(60, random_state=0)
    first = model.score_and_learn(rows, y)
    assert_array_equal(first, table.score_and_learn(frame, y))
    told = np.mean((first > 0) == y)
    hidden = TableEncoder().fit_transform(rows)
    assert told > np.mean((clone(model).score_and_learn(hidden, y) > 0) == y) + 0.03
    holed = frame[:2].assign(c=np.nan)
    for each, two, name in ((model, holed.to_numpy(), 2), (table, holed, "c")):
        found = each.explain(two[:1])
        assert f"{name} missing" in found.values
        assert np.isclose(sum(found.kernels.values()) + found.remainder, found.margin)
        several = each.explain(two)
        assert_allclose(several.base_values + several.values.sum(axis=1), each.decision_function(two), rtol=1e-5)


def test_models_of_cells_begin_with_the_first_missing_cell():
    model = AutoMKLClassifier(60, random_state=0).partial_fit(X, CLASSES)
    before = model._learner.kind
    model.predict(LATE)
    model.partial_fit(LATE[:150], CLASSES[:150])
    assert model._learner.kind == before == "identifiers"
    model.partial_fit(LATE[150:], CLASSES[150:])
    assert (model._learner.kind, model._learner.inner.kind) == ("hashed", before)
    assert_allclose(model.predict_proba(X[:9]), model.predict_proba(sp.csr_matrix(X[:9])))
    assert np.isclose(model.feature_importances_.sum(), 1)


@pytest.mark.parametrize("numbers", [False, True])
def test_tables_of_numbers_give_the_same_bits_for_any_split(numbers, tmp_path):
    y = NUMBERS if numbers else CLASSES
    frame = pd.DataFrame(LATE, columns=list("abcdef"))
    kind = AutoMKLRegressor if numbers else AutoMKLClassifier
    whole, cut = kind(60, random_state=0).partial_fit(frame, y), kind(60, random_state=0)
    for begin, end in pairwise([0, 1, 9, 149, 151, 152, 160, 300, N]):
        cut.partial_fit(frame[begin:end], y[begin:end])
        modelfile.save(cut, tmp_path / "model.bomkl")
        cut = modelfile.load(tmp_path / "model.bomkl")
    modelfile.save(whole, tmp_path / "whole.bomkl")
    assert (tmp_path / "whole.bomkl").read_bytes() == (tmp_path / "model.bomkl").read_bytes()
    assert_array_equal(cut.predict(frame), whole.predict(frame))


def test_identifiers_and_missing_cells_are_both_learned():
    rng = np.random.default_rng(0)
    users = rng.integers(0, 60, size=3000)
    y = rng.random(60)[users] < 0.5
    y ^= rng.random(3000) < 0.1
    rows = np.column_stack([users, rng.normal(size=(3000, 2))])
    model = AutoMKLClassifier(60, random_state=0).partial_fit(rows, y)
    assert model._learner.has_joined
    rows[:, 1:] = telling(rows[:, 1:], y)
    model.partial_fit(rows, y)
    found = model.explain(rows[np.isnan(rows[:, 1])][:1])
    assert any(name.startswith("0=") for name in found.values)
    assert "1 missing" in found.values
    assert np.isclose(sum(found.kernels.values()) + found.remainder, found.margin)
    importances = dict(enumerate(model._slope_shares()))
    assert np.isclose(sum(importances.values()), 1)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("sizes", [(60,), (5, 55), (1, 2, 57)])
def test_strings_may_come_late_in_a_table_with_more_columns_than_room_for_new_ones(sizes):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 300))).astype(object)
    frame.columns = [f"c{at}" for at in range(300)]
    frame["late"] = [None] * 5 + ["red"] * 55
    y = np.arange(60) % 2
    whole = AutoMKLClassifier(30, random_state=0).partial_fit(frame, y)
    model, begin = AutoMKLClassifier(30, random_state=0), 0
    for size in sizes:
        rows = slice(begin, begin + size)
        model = pickle.loads(pickle.dumps(model.partial_fit(frame[rows], y[rows], [0, 1])))
        begin += size
    assert_array_equal(model.decision_function(frame), whole.decision_function(frame))


@pytest.mark.parametrize("sizes", [(300,), (100, 1, 199), (99, 3, 198)])
def test_a_row_of_weight_zero_with_the_first_missing_cell_changes_nothing(sizes):
    rng = np.random.default_rng(0)
    rows, weight = rng.normal(size=(300, 4)), np.ones(300)
    y = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    rows[[100, 101], 2], weight[[100, 101]] = np.nan, 0
    rows[200:, 1] = np.where(rng.random(100) < 0.3, np.nan, rows[200:, 1])
    learned = AutoMKLClassifier(40, random_state=0).partial_fit(rows, y, [0, 1], weight)
    scored, scores, begin = AutoMKLClassifier(40, random_state=0), [], 0
    for size in sizes:
        part = slice(begin, begin + size)
        scores.append(scored.score_and_learn(rows[part], y[part], classes=[0, 1], sample_weight=weight[part]))
        begin += size
    whole = AutoMKLClassifier(40, random_state=0).score_and_learn(rows, y, classes=[0, 1], sample_weight=weight)
    assert_array_equal(np.concatenate(scores), whole)
    assert_array_equal(scored.decision_function(rows), learned.decision_function(rows))

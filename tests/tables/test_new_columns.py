"""Columns that come, go and change what they hold."""

import pickle
import warnings

import numpy as np
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, modelfile
from bomkl.tables import TableEncoder
from bomkl.tables.errors import TableError
from bomkl.tables.frames import read_table
from bomkl.tables.notices import TableWarning


def stream(n=300, late=60, seed=0):
    """Rows whose label depends on two columns that come later, one of them far from zero."""
    rng = np.random.default_rng(seed)
    size, shop = 1e4 + rng.normal(size=n), rng.choice(["x", "y", "z"], n)
    rows = [{"noise": float(rng.normal())} for _ in range(n)]
    for i in range(late, n):
        rows[i] |= {"size": float(size[i]), "shop": str(shop[i])}
    return rows, (size - 1e4 + (shop == "x") > 0.3).astype(int)


def learned(rows, y, cuts, kind=AutoMKLClassifier, save=None, **settings):
    model, out = kind(budget=150, random_state=0, **settings), []
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        out.append(model.score_and_learn(rows[begin:end], y[begin:end]))
        if save is not None:
            modelfile.save(model, save)
            model = pickle.loads(pickle.dumps(modelfile.load(save)))
    return model, np.concatenate(out)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (AutoMKLClassifier, {}),
        (AutoMKLClassifier, {"update": "rounds"}),
        pytest.param(AutoMKLClassifier, {"drift": "adapt"}, marks=pytest.mark.slow),
        pytest.param(AutoMKLRegressor, {}, marks=pytest.mark.slow),
    ],
)
def test_new_columns_are_learned_and_calls_may_be_cut_anywhere(kind, settings, tmp_path):
    rows, y = stream()
    model, scores = learned(rows, y, [], kind, **settings)
    assert model.encoder_.kinds_ == {"noise": "number", "size": "number", "shop": "category"}
    assert model.n_features_in_ == len(model.feature_importances_) == 3
    other, again = learned(rows, y, [1, 8, 9, 59, 61, 64, 127, 150, 151], kind, tmp_path / "model", **settings)
    np.testing.assert_array_equal(scores, again)
    if kind is AutoMKLClassifier:
        assert np.mean(np.sign(scores[-120:]) == 2 * y[-120:] - 1) > 0.9
        assert model.n_seen_ == len(rows)
        assert model.mistakes_ == other.mistakes_


def test_the_order_of_new_columns_does_not_depend_on_how_calls_are_cut():
    rows = [{"a": 1.0, "p": None, "q": None}, {"a": 2.0, "z": 3.0, "q": 4.0}, {"a": 3.0, "p": 1.0}]
    rows += [{"n": i, "a": float(i), "p": 1.0, "z": 2.0, "b": 1.0} for i in range(20)]
    y = [float(i % 3) for i in range(len(rows))]
    whole, single = AutoMKLRegressor(random_state=0).partial_fit(rows, y), AutoMKLRegressor(random_state=0)
    for row, target in zip(rows, y, strict=True):
        single.learn_one(row, target)
    assert whole.feature_names_in_.tolist() == single.feature_names_in_.tolist() == ["a", "q", "z", "p", "b", "n"]
    files = [modelfile.to_bytes(modelfile.Model(model)) for model in (whole, single)]
    assert files[0] == files[1]


def test_columns_that_come_too_late_are_ignored_with_a_warning():
    rows, y = stream(late=120)  # of a budget of 150
    with pytest.warns(TableWarning, match="'size' is ignored") as caught:
        model, _ = learned(rows, y, [])
    notices = {each.column: each.rows for warning in caught for each in warning.message.notices}
    assert notices == {"size": 150, "shop": 150}
    assert model.encoder_.kinds_["noise"] == "number"
    assert model.encoder_.n_features_out_ == 1


def test_new_columns_can_be_ignored_or_refused():
    rows, y = stream()
    with pytest.warns(TableWarning, match="'size' is ignored: it was not there before"):
        model, scores = learned(rows, y, [], new_columns="ignore")
    np.testing.assert_array_equal(scores, learned([{"noise": row["noise"]} for row in rows], y, [])[1])
    model = AutoMKLClassifier(budget=150, new_columns="refuse").partial_fit(rows[:20], y[:20])
    before = pickle.dumps(model)
    for call in (lambda: model.partial_fit(rows[50:70], y[50:70]), lambda: model.predict(rows[50:70])):
        with pytest.raises(TableError, match="'size' was not there before, and new_columns='refuse'"):
            call()
    assert pickle.dumps(model) == before
    named = AutoMKLClassifier(new_columns="refuse").partial_fit([dict.fromkeys("zyxwv", 1.0)] * 2, [0, 1])
    with pytest.raises(TableError, match=r"The columns are \['z', 'y', 'x', 'w', 'v'\]"):
        named.predict([{"a": 1.0}])
    with pytest.raises(ValueError, match="'new_columns' parameter of AutoMKLClassifier must be one of"):
        AutoMKLClassifier(new_columns="yes").partial_fit(rows[:20], y[:20])


def test_frames_and_rows_with_the_same_cells_make_the_same_model():
    pd = pytest.importorskip("pandas")
    rows, y = stream()
    scores = learned(rows, y, [])[1]
    frame = pd.DataFrame(rows)
    np.testing.assert_array_equal(learned(frame, y, [])[1], scores)
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pylist(rows, pa.schema([("noise", "float64"), ("size", "float64"), ("shop", "string")]))
    np.testing.assert_array_equal(AutoMKLClassifier(budget=150, random_state=0).score_and_learn(table, y), scores)


@pytest.mark.parametrize("kind", [AutoMKLClassifier, BudgetMKLClassifier])
def test_columns_in_another_order_or_absent_or_new_are_no_error(kind):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "c": rng.choice(["x", "y"], 60)})
    model = kind(random_state=0).partial_fit(frame, (frame.a > 0).astype(int), classes=[0, 1])
    expected = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[["c", "a", "b"]]), expected)
    with pytest.warns(TableWarning, match="'b' is not in the table: its values are missing. Is it 'bb', which is new?"):
        found = model.predict(frame.rename(columns={"b": "bb"}))
    rows = [{"a": a, "c": c} for a, c in zip(frame.a, frame.c, strict=True)]
    np.testing.assert_array_equal(found, model.predict(rows))
    with pytest.warns(TableWarning, match="'d' is ignored"):
        np.testing.assert_array_equal(model.predict(frame.assign(d=1)), expected)
    for table in (frame.rename(columns=str.upper), pytest.importorskip("pyarrow").table({"A": [1.0], "B": [2.0]})):
        with pytest.raises(TableError, match=r"columns that were learned from: 'a', 'b', 'c'\. Got 'A', 'B'"):
            model.predict(table)
    with pytest.warns(TableWarning, match="'A' is ignored"):  # rows by name may lack any column
        assert model.predict_one({"A": 1.0}) == model.predict([{}])[0]


@pytest.mark.parametrize(
    ("first", "later", "means"),
    [
        (1.5, "2.5", 2.5),
        (1.5, "large", None),
        (1.5, "2024-02-29", None),
        (1.5, True, 1.0),
        (True, 0.25, 0.25),
        (True, "maybe", None),
        ("2024-02-29", "soon", None),
        ("2024-02-29", 7, None),
        ("red", 7, "7"),
        ("red", 7.0, "7"),
        ("red", "2024-02-29", "2024-02-29"),
    ],
)
def test_values_of_another_kind_are_read_or_missing_with_a_warning(first, later, means):
    cells = [first] * 20
    encoder = TableEncoder(target="number").fit([{"a": cell, "b": 1.0} for cell in cells], np.arange(20.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = encoder.transform({"a": later, "b": 1.0})
    assert bool(caught) == (means is None)
    if caught:
        assert "The column 'a' holds" in str(caught[0].message)
        assert [(each.column, each.rows) for each in caught[0].message.notices] == [("a", 1)]
    np.testing.assert_array_equal(found, encoder.transform({"a": means, "b": 1.0}))


def test_objects_and_lists_in_a_row_become_columns():
    table = read_table([{"at": {"x": 1, "y": [2, {"z": 3}]}, "b": "c"}, {"b": None}])
    assert {name: cells.values for name, cells in table.columns.items()} == {
        "at.x": [1, None],
        "at.y.0": [2, None],
        "at.y.1.z": [3, None],
        "b": ["c", None],
    }
    with pytest.raises(TableError, match=r"two values have the name 'a\.b'"):
        read_table({"a": {"b": 1}, "a.b": 2})


def test_endless_new_names_take_bounded_memory():
    rng = np.random.default_rng(0)
    rows = [{"a": float(rng.normal()), f"only {i}": 1.0} for i in range(100)]
    model = AutoMKLClassifier(budget=40, random_state=0)
    with pytest.warns(TableWarning):
        model.partial_fit(rows * 2, [int(row["a"] > 0) for row in rows] * 2)
    assert model.encoder_.n_features_out_ <= 512
    assert model.n_features_in_ <= 41
    assert not model.encoder_.grows

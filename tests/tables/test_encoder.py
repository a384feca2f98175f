"""The encoder of tables: any split the same bits, errors that change nothing."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.tables.examples import mixed, targets

from bomkl import AutoMKLClassifier, BudgetMKLClassifier
from bomkl.tables import TableEncoder
from bomkl.tables.errors import TableError
from bomkl.tables.frames import read_table
from bomkl.tables.learned import Learned
from bomkl.tables.values import Values

pd = pytest.importorskip("pandas")


def oracle(rows: list[dict[str, Any]], y: list[float], smoothing: float = 10.0) -> list[tuple[float, float]]:
    """Number with gaps and mean target of a category, each from the rows before, by their definitions."""
    out = []
    for t, row in enumerate(rows):
        before = list(zip(rows[:t], y[:t], strict=True))
        sizes = [r["size"] for r, _ in before if r["size"] is not None]
        size = row["size"] if row["size"] is not None else (math.fsum(sizes) / len(sizes) if sizes else 0.0)
        same = [v for r, v in before if r["city"] == row["city"]]
        mean = math.fsum(v for _, v in before) / max(len(before), 1)
        out.append((size, (math.fsum(same) + smoothing * mean) / (len(same) + smoothing)))
    return out


def test_numbers_and_categories_as_defined():
    frame = mixed(200)
    rows = [
        {"size": None if pd.isna(s) else s, "city": None if pd.isna(c) else c}
        for s, c in frame[["size", "city"]].itertuples(index=False)
    ]
    rows[0] = {"size": 1.0, "city": "Oslo"}
    y = targets(200, "number").tolist()
    encoded = TableEncoder(target="number").fit_transform(rows, y)
    whole = [row["size"] is not None and row["city"] is not None for row in rows]
    whole[:16] = [True] * 16  # before there is enough to fill gaps from other columns, they have the mean
    np.testing.assert_allclose(encoded[whole, :2], np.array(oracle(rows, y))[whole], rtol=1e-12)


def test_the_own_target_of_a_row_is_never_used():
    frame, y = mixed(80), targets(80, "number")
    encoded = TableEncoder(target="number").fit_transform(frame, y)
    for row in (0, 30, 79):
        other = y.copy()
        other[row] += 100
        again = TableEncoder(target="number").fit_transform(frame, other)
        np.testing.assert_array_equal(again[: row + 1], encoded[: row + 1])


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=8), kind=st.sampled_from(["class", "number"]), seed=st.integers(0, 3))
def test_any_split_into_calls_gives_the_same_bits(cuts, kind, seed):
    frame, y = mixed(60, seed, gaps=0.4).astype(object), targets(60, kind)
    whole = TableEncoder(target=kind, max_values=20)
    expected = whole.fit_transform(frame, y)
    edges = sorted({0, 60, *cuts})
    parts = TableEncoder(target=kind, max_values=20)
    encoded = []
    for begin, end in itertools.pairwise(edges):
        np.testing.assert_array_equal(
            parts.transform(frame[begin : begin + 1]) if begin else expected[:1], expected[begin : begin + 1]
        )
        encoded.append(parts.transform_and_learn(frame[begin:end], y[begin:end]))
        parts = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(np.vstack(encoded), expected)
    assert repr(parts.state()) == repr(whole.state())


def test_rows_one_by_one_are_the_same_bits_as_a_block():
    frame, y = mixed(60, gaps=0.4).astype(object), targets(60, "class")
    expected = TableEncoder(target="class").fit_transform(frame, y)
    encoder = TableEncoder(target="class")
    for t in range(60):
        row = dict(zip(frame.columns, frame.iloc[t], strict=True))
        np.testing.assert_array_equal(encoder.transform_and_learn(row, y[t : t + 1]), expected[t : t + 1])


def test_plain_numbers_stay_what_they_are():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]})
    encoder = TableEncoder(target="number")
    np.testing.assert_array_equal(encoder.fit_transform(frame, [1.0, 2.0, 3.0]), frame.to_numpy(dtype=float))
    np.testing.assert_array_equal(encoder.transform(frame.assign(b=[np.nan, 1.0, 2.0]))[0], [1, 1.5, 1])


def test_a_column_shows_its_kind_later():
    rows = [{"a": None, "b": 1.0}, {"a": None, "b": 2.0}, {"a": 5.0, "b": 3.0}]
    encoder = TableEncoder()
    encoded = encoder.fit_transform(rows)
    assert encoder.kinds_ == {"a": "number", "b": "number"}
    assert encoded[:, 0].tolist() == [0, 0, 5]
    assert encoder.transform({"a": None, "b": 0})[0, 0] == 5


def test_names_tell_where_numbers_come_from():
    encoder = TableEncoder(target="number").fit(mixed(60), targets(60, "number"))
    names, columns = encoder.get_feature_names_out(), encoder.columns_of_features()
    assert len(names) == len(columns) == encoder.n_features_out_ == len(set(names))
    assert {"size", "city_target", "when_hour_sin", "city=Oslo"} <= set(names)
    assert columns[list(names).index("city=Oslo")] == "city"


def test_memory_is_bounded():
    encoder = TableEncoder(target="number", max_values=50)
    for begin in range(0, 2000, 500):
        encoder.partial_fit({"id": [f"user {i}" * 40 for i in range(begin, begin + 500)]}, np.zeros(500))
    [column] = encoder.state()["columns"]
    assert len(column["values"]["names"]) == 50
    assert max(map(len, column["values"]["names"])) <= 100
    assert column["values"]["entries"][::2].sum() == 2000


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"size": [1.0, math.inf], "city": ["Oslo", "Bonn"]}, "'size' must hold finite numbers. Got inf in row 1"),
        ({"size": [1.0], "city": [["Oslo"]]}, "'city' must hold numbers, strings, booleans or dates. Got .* in row 0"),
        ({"size": [1.0, 2.0], "city": ["Oslo"]}, "of one length"),
    ],
)
def test_bad_cells_are_named_and_change_nothing(table, message):
    encoder = TableEncoder().fit([{"size": 1.0, "city": "Oslo"}, {"size": 2.0, "city": "Bonn"}])
    before = repr(encoder.state())
    with pytest.raises(TableError, match=message):
        encoder.partial_fit(table)
    assert repr(encoder.state()) == before


def test_a_first_table_that_is_refused_leaves_the_encoder_new():
    encoder = TableEncoder(target="number")
    with pytest.raises(TableError, match="finite"):
        encoder.partial_fit({"a": ["x", "y"]}, [1.0, math.nan])
    assert not hasattr(encoder, "_learned")
    with pytest.raises(TableError, match="pass y"):
        encoder.fit({"a": ["x"]})


def test_an_interrupt_while_learning_changes_nothing(monkeypatch):
    frame, y = mixed(60), targets(60, "number")
    encoder = TableEncoder(target="number").fit(frame[:30], y[:30])
    before = repr(encoder.state())
    after, calls = Values.after, []

    def interrupted(self, touched, new):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return after(self, touched, new)

    monkeypatch.setattr(Values, "after", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encoder.partial_fit(frame[30:], y[30:])
    monkeypatch.undo()
    assert repr(encoder.state()) == before
    expected = TableEncoder(target="number").fit(frame[:30], y[:30]).transform_and_learn(frame[30:], y[30:])
    np.testing.assert_array_equal(encoder.transform_and_learn(frame[30:], y[30:]), expected)


@pytest.mark.parametrize("damage", ["version", "names", "counts", "places", "width", "sums"])
def test_a_damaged_state_is_refused(damage):
    encoder = TableEncoder(target="number").fit({"a": ["x", "y", "x"]}, [1.0, 2.0, 3.0])
    state = copy.deepcopy(encoder.state())
    [column] = state["columns"]
    if damage == "version":
        state["version"] = 99
    elif damage == "names":
        column["values"]["names"][0] = "y"
    elif damage == "counts":
        column["values"]["entries"] = column["values"]["entries"][:3]
    elif damage == "places":
        column["values"]["places"][0, 1] = 64
    elif damage == "width":
        column["width"] = 5
    else:
        column["values"]["entries"][0] = math.nan
    with pytest.raises(TableError):
        clone(encoder).restore(state)


def test_declared_types_are_kept():
    encoder = TableEncoder(types={"zip": "category", "n": "number"}).fit({"zip": [10115, 10115.0], "n": ["1.5", "2"]})
    assert encoder.kinds_ == {"zip": "category", "n": "number"}
    assert "zip=10115" in encoder.get_feature_names_out()
    with pytest.raises(TableError, match="'zap' has a type but is not in the table"):
        TableEncoder(types={"zap": "category"}).fit({"zip": 1})
    with pytest.raises(TableError, match="must be one of"):
        TableEncoder(types={"zip": "text"}).fit({"zip": 1})


def test_a_fork_shares_what_was_learned_and_learns_on_its_own():
    encoder = TableEncoder(target="number")
    encoder.partial_fit({"a": [1.0, 2.0], "b": ["x", "y"]}, [0.0, 1.0])
    before = encoder.transform({"a": [3.0], "b": ["y"]})
    fork = encoder.fork()
    assert all(mine is theirs for mine, theirs in zip(encoder._learned.columns, fork._learned.columns, strict=True))
    fork.partial_fit({"a": [9.0], "b": ["y"]}, [5.0])
    np.testing.assert_array_equal(encoder.transform({"a": [3.0], "b": ["y"]}), before)
    assert (fork.transform({"a": [3.0], "b": ["y"]}) != before).any()


def labelled_frame() -> Any:
    return pd.DataFrame({"size": [1.0, 2.0, None] * 20, "colour": ["red", "blue", "green"] * 20}), np.array(
        [0, 1, 1] * 20
    )


def test_in_a_pipeline():
    frame, y = labelled_frame()
    model = make_pipeline(TableEncoder(target="class"), LogisticRegression()).fit(frame, y)
    assert model.score(frame, y) == 1
    assert pickle.loads(pickle.dumps(model)).predict(frame).tolist() == y.tolist()


def test_tables_as_output():
    frame, y = labelled_frame()
    frame.index += 100
    encoder = TableEncoder(target="class").set_output(transform="pandas")
    plain = TableEncoder(target="class").fit_transform(frame, y)
    encoded = encoder.fit_transform(frame, y)
    assert list(encoded.columns) == list(encoder.get_feature_names_out())
    assert encoded.index.equals(frame.index)
    assert_array_equal(encoded.to_numpy(), plain)
    assert isinstance(pickle.loads(pickle.dumps(encoder)).transform(frame), pd.DataFrame)
    assert isinstance(clone(encoder).fit(frame, y).transform(frame), pd.DataFrame)


@pytest.mark.parametrize("make", [AutoMKLClassifier, BudgetMKLClassifier])
def test_the_output_that_scikit_learn_is_set_to_does_not_matter_inside_a_model(make):
    frame, y = labelled_frame()
    model = make(budget=20, random_state=0).partial_fit(frame, y)
    expected = model.predict(frame)
    with config_context(transform_output="pandas"):
        assert_array_equal(model.predict(frame), expected)


@pytest.mark.filterwarnings("ignore:The column")
def test_rows_of_numbers_without_gaps_take_a_short_way_with_the_same_result(monkeypatch):
    random = np.random.default_rng(0)
    table = {"a": random.normal(size=50), "b": random.normal(size=50) * 1e160, "c": random.normal(size=50) > 0}
    encoder = TableEncoder(target="number").fit(table, random.normal(size=50))
    tables = [table, {"c": table["c"], "b": table["b"], "a": table["a"]}, table | {"d": table["a"]}]
    tables += [table | {"a": np.where(table["c"], np.nan, 1.0)}, {"a": table["a"], "b": table["b"]}]
    quick = [encoder.transform(each) for each in tables]
    assert encoder._learned.plain_rows(read_table(table)) is not None
    monkeypatch.setattr(Learned, "plain_rows", lambda self, table: None)
    for each, found in zip(tables, quick, strict=True):
        assert_array_equal(found, encoder.transform(each))


@pytest.mark.parametrize("target", [None, "number", "class"])
def test_numbers_without_gaps_are_encoded_at_once_with_the_same_bits(monkeypatch, target):
    draw = np.random.default_rng(0)
    blocks = []
    for size in (1, 16, 3, 40, 1, 7):
        table = {"a": draw.normal(size=size) * 1e3, "b": draw.random(size) < 0.5, "c": draw.normal(size=size)}
        y = draw.integers(0, 3, size) if target == "class" else draw.normal(size=size)
        blocks.append((table, y, draw.random(size) < 0.8))
    blocks[0][2][:] = True
    blocks[-1][0]["c"][3] = np.nan

    def encoded():
        encoder, rows = TableEncoder(target=target), []
        for table, y, learned in blocks:
            out, update = encoder.prepare(table, y, learned)
            encoder.apply(update)
            rows.append(out)
        return np.concatenate(rows).tobytes(), repr(encoder.state())

    whole = [encoded()]
    monkeypatch.setattr(Learned, "_encode_plain", lambda *_: None)
    assert [encoded()] == whole

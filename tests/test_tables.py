"""The encoder of tables: what it makes of cells, any split the same bits, errors that change nothing."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import math
import pickle
from decimal import Decimal
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

from bomkl import AutoMKLClassifier, BudgetMKLClassifier
from bomkl.tables import TableEncoder
from bomkl.tables.cells import category, days, kind_of, number
from bomkl.tables.conditional import residuals
from bomkl.tables.errors import TableError
from bomkl.tables.neighbours import CLOSE, RECENT, neighbours
from bomkl.tables.values import Values

pd = pytest.importorskip("pandas")


def mixed(n: int = 60, seed: int = 0, gaps: float = 0.2) -> Any:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "city": rng.choice(["Oslo", "Bonn", "Lima", "Kyiv"], n),
            "user": [f"u{rng.integers(30)}" for _ in range(n)],
            "paid": rng.choice([True, False], n),
            "when": pd.Timestamp("2024-02-27T22:30:00") + pd.to_timedelta(rng.integers(0, 400, n), unit="h"),
        }
    )
    return frame.astype({"paid": object}).mask(rng.random(frame.shape) < gaps)


def targets(n: int, kind: str) -> Any:
    rng = np.random.default_rng(1)
    return rng.choice(["a", "b", "c", "d", "e"], n) if kind == "class" else rng.normal(size=n)


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


def test_gaps_are_filled_from_other_columns():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(600, 1))
    X = np.hstack([a, 2 * a + 1 + 0.1 * rng.normal(size=(600, 1)), rng.normal(size=(600, 1))])
    holes = rng.random(X.shape) < 0.1
    holes[0] = False  # a column that begins with a gap has room for any kind
    encoded = TableEncoder().fit_transform(pd.DataFrame(np.where(holes, np.nan, X), columns=list("abc")))[:, :3]
    late = holes & (np.arange(600) > 100)[:, None] & (holes.sum(axis=1) == 1)[:, None]
    assert np.abs(encoded - X)[:, 1][late[:, 1]].mean() < 0.2
    assert np.abs(encoded - X)[:, 2][late[:, 2]].mean() > 0.5
    np.testing.assert_array_equal(encoded[~holes], X[~holes])


def test_gaps_of_rows_in_time_are_filled_by_the_value_seen_last():
    rng = np.random.default_rng(0)
    day = np.arange(600) // 20
    X = np.column_stack([np.sin(day), rng.normal(size=600)])
    frame = pd.DataFrame(X, columns=["season", "size"]).assign(room=np.where(day % 3, "large", "small"))
    holes = rng.random(frame.shape) < 0.1
    holes[0] = False
    late = np.flatnonzero(np.arange(600) > 300)
    encoder = TableEncoder(target="number")
    encoded = encoder.fit_transform(frame.mask(holes), rng.normal(size=600))
    names = list(encoder.get_feature_names_out())
    rows = late[holes[late, 0]]
    assert np.median(np.abs(encoded[rows, 0] - X[rows, 0])) < 0.1
    rows = late[holes[late, 2]]
    large = encoded[rows, names.index("room=large")]
    assert np.median(np.abs(large - (day[rows] % 3 > 0))) < 0.1


def test_gaps_of_rows_in_bunches_are_filled_from_a_row_alike():
    rng = np.random.default_rng(0)
    bunches = rng.normal(size=(40, 6))[np.repeat(np.arange(200) % 40, 5)]  # five rows alike, mixed with others
    order = np.argsort(np.repeat(np.arange(200), 5) + rng.random(1000) * 3)
    X = bunches[order]
    holes = rng.random(X.shape) < 0.1
    holes[0] = False
    encoded = TableEncoder().fit_transform(pd.DataFrame(np.where(holes, np.nan, X), columns=list("abcdef")))[:, :6]
    late = holes & (np.arange(1000) > 500)[:, None]
    assert np.median(np.abs(encoded - X)[late]) < 0.15


def test_predictions_of_hidden_cells_as_defined():
    rng = np.random.default_rng(0)
    precision = np.linalg.inv(np.cov(rng.normal(size=(50, 5)) @ rng.normal(size=(5, 5)), rowvar=False))
    covariance, z, owner = np.linalg.inv(precision), rng.normal(size=(4, 5)), np.array([0, 1, 1, 2, -1])
    found = residuals(precision, z, owner)
    for column in range(5):
        others = [at for at in range(5) if at != column and (owner[at] != owner[column] or owner[at] < 0)]
        slopes = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, column])
        np.testing.assert_allclose(found[:, column], z[:, column] - z[:, others] @ slopes)


def test_neighbours_as_defined():
    rng = np.random.default_rng(0)
    pool, hidden = rng.normal(size=(50, 4)), rng.random((50, 4)) < 0.3
    before = np.array([3, 20, 49])
    row, column = (each.ravel() for each in np.indices((3, 4)))
    found = neighbours(pool[before], hidden[before], pool, hidden, before, row, column)
    for at, (r, c) in enumerate(zip(row, column, strict=True)):
        candidates = [b for b in range(max(before[r] - RECENT, 0), before[r]) if not hidden[b, c]]
        means = []
        for b in candidates:
            both = [j for j in range(4) if j != c and not hidden[b, j] and not hidden[before[r], j]]
            apart = [min(abs(pool[b, j] - pool[before[r], j]), 1) for j in both]
            means.append(sum(apart) / len(both) if both else 1.0)
        assert found.latest[at] == max(candidates)
        best = candidates[int(np.flatnonzero(np.array(means) <= min(means) + 1e-6)[-1])]
        assert found.alike[at] == best
        assert found.degree[at] == np.searchsorted(CLOSE, min(means))


@pytest.mark.parametrize("target", ["class", None])
def test_long_streams_with_gaps_are_the_same_bits_in_any_split(target):
    frame, y = mixed(900, gaps=0.2).astype(object), targets(900, "class")
    frame.loc[:299, "late"] = None  # decided in the midst of a group
    frame.loc[300:, "late"] = np.arange(600.0)
    frame = frame[["size", "paid", "when", "late", "user", "city"]]
    frame.iloc[0, -1] = "Oslo"  # without targets, a category has columns of zeros and ones only
    expected = TableEncoder(target=target).fit_transform(frame, y)
    for edges in ([0, 1, 250, 256, 300, 301, 511, 700, 900], [0, 299, 517, 518, 519, 900]):
        encoder = TableEncoder(target=target)
        for begin, end in itertools.pairwise(edges):
            rows = encoder.transform_and_learn(frame[begin:end], y[begin:end])
            np.testing.assert_array_equal(rows, expected[begin:end])
            encoder = pickle.loads(pickle.dumps(encoder))


def test_a_signalling_nan_is_a_gap():
    rows = [{"price": Decimal(i)} for i in range(20)] + [{"price": Decimal("sNaN")}, {"price": Decimal("NaN")}]
    encoded = TableEncoder().fit_transform(rows)
    assert encoded[-1, 0] == pytest.approx(encoded[-2, 0])
    assert np.isfinite(encoded).all()


def test_a_gap_that_tells_something_has_a_column_of_its_own():
    rng = np.random.default_rng(0)
    y = rng.choice([0, 1], 400)
    frame = pd.DataFrame({"told": rng.normal(size=400), "chance": rng.normal(size=400), "c": "x"})
    frame.loc[(y == 1) & (rng.random(400) < 0.3), "told"] = np.nan
    frame.loc[rng.random(400) < 0.15, "chance"] = np.nan
    names = TableEncoder(target="class").fit(frame, y).get_feature_names_out()
    assert "told=(missing)" in names
    assert "chance=(missing)" not in names
    encoder = TableEncoder(target="class")
    encoded = [encoder.transform_and_learn(frame[at : at + 50], y[at : at + 50]) for at in range(0, 400, 50)]
    np.testing.assert_array_equal(np.vstack(encoded), TableEncoder(target="class").fit_transform(frame, y))
    ones = np.vstack(encoded)[:, -10:][frame["told"].isna()]
    assert ones.sum(axis=1).max() == 2  # its own column and that of c, however often the gap comes


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


def test_every_make_of_table_gives_the_same_rows():
    frame, y = mixed(50, gaps=0.0), targets(50, "number")
    frame["paid"] = frame["paid"].astype(bool)
    pa = pytest.importorskip("pyarrow")
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    tables = {
        "pandas": frame,
        "categories": frame.astype({"city": "category"}),
        "strings": frame.assign(when=[stamp.isoformat() for stamp in frame["when"]]),
        "with time zone": frame.assign(when=frame["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
        "other order": frame[frame.columns],
        "arrow": arrow,
        "arrow batch": arrow.to_batches()[0],
        "dicts": frame.to_dict("records"),
        "dict of lists": {name: frame[name].tolist() for name in frame},
        "dict of arrays": {name: frame[name].to_numpy() for name in frame},
    }
    try:
        import polars as pl
    except ImportError:
        pass
    else:
        tables["polars"] = pl.from_arrow(arrow)
    expected = TableEncoder(target="number").fit_transform(frame, y)
    for make, table in tables.items():
        np.testing.assert_array_equal(TableEncoder(target="number").fit_transform(table, y), expected, err_msg=make)


def test_columns_of_categories_hold_categories_whatever_they_look_like():
    pa = pytest.importorskip("pyarrow")
    numbers, truths, days = [3, 1, 3], [True, False, True], ["2024-01-01", "2024-01-02", "2024-01-01"]
    frame = pd.DataFrame({"n": numbers, "t": truths, "d": days, "cut": pd.cut([1.0, 5.0, 1.5], [0, 2, 9])})
    frame = frame.astype("category")
    kinds = TableEncoder().fit(frame).kinds_
    assert kinds == dict.fromkeys(frame.columns, "category")
    as_texts = frame.astype(str)
    declared = TableEncoder(types=kinds)
    np.testing.assert_array_equal(TableEncoder().fit_transform(frame), declared.fit_transform(as_texts))
    encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(as_texts.to_dict("records")))
    late = pd.concat([frame[:0].astype(object), frame.astype(object)]).astype("category")
    late.iloc[0] = None  # the first value of a column comes later
    assert set(TableEncoder().fit(late).kinds_.values()) == {"category"}
    arrow = pa.table({"n": pa.array(numbers).dictionary_encode(), "d": pa.array(days).dictionary_encode()})
    assert set(TableEncoder().fit(arrow).kinds_.values()) == {"category"}
    pl = pytest.importorskip("polars")
    polars = pl.DataFrame({"d": pl.Series(days, dtype=pl.Categorical), "e": pl.Series(days, dtype=pl.Enum(days[:2]))})
    assert set(TableEncoder().fit(polars).kinds_.values()) == {"category"}


def test_periods_are_the_moments_they_begin():
    periods = pd.DataFrame(
        {"month": pd.period_range("2024-01", periods=5, freq="M").to_series().mask(np.arange(5) == 2)}
    )
    moments = pd.DataFrame({"month": periods["month"].dt.to_timestamp()})
    np.testing.assert_array_equal(TableEncoder().fit_transform(periods), TableEncoder().fit_transform(moments))
    encoder = TableEncoder().fit(moments)
    row = {"month": pd.Period("2024-04", "M")}
    np.testing.assert_array_equal(encoder.transform(row), encoder.transform({"month": "2024-04-01"}))


def test_plain_numbers_stay_what_they_are():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]})
    encoder = TableEncoder(target="number")
    np.testing.assert_array_equal(encoder.fit_transform(frame, [1.0, 2.0, 3.0]), frame.to_numpy(dtype=float))
    np.testing.assert_array_equal(encoder.transform(frame.assign(b=[np.nan, 1.0, 2.0]))[0], [1, 1.5, 1])


def test_dates_are_a_trend_and_cycles():
    encoder = TableEncoder().fit({"t": ["2024-01-01T06:00:00"]})
    assert encoder.kinds_ == {"t": "date"}
    [row] = encoder.transform({"t": "2024-01-01T06:00:00"})
    trend, hour_sin, hour_cos, weekday_sin, weekday_cos, year_sin, year_cos = row[:7]
    assert trend == 0.0
    assert encoder.transform({"t": "2026-01-01T06:00:00"})[0, 0] == 731 / 365.25  # years since the first date
    np.testing.assert_allclose((hour_sin, hour_cos), (1, 0), atol=1e-15)
    np.testing.assert_allclose((weekday_sin, weekday_cos, year_sin, year_cos), (0, 1, 0, 1))  # a Monday
    assert encoder.transform({"t": None})[0, 1:7].tolist() == [0] * 6


def test_the_trend_of_dates_starts_at_the_first_date_that_is_learned_from():
    days = ["2024-01-01", None, "2024-01-05", "2024-01-09", "2024-01-03"]
    learned = np.array([False, True, True, True, True])
    for cuts in ([0, 5], [0, 1, 2, 3, 4, 5], [0, 2, 5]):
        encoder, rows = TableEncoder(types={"t": "date"}), []
        encoder.begin({"t": days})
        for begin, end in itertools.pairwise(cuts):
            encoded, update = encoder.prepare({"t": days[begin:end]}, None, learned[begin:end])
            encoder.apply(update)
            rows += encoded[:, 0].tolist()
        assert rows == [0.0, 0.0, 0.0, 4 / 365.25, -2 / 365.25], cuts
    state = encoder.state()
    state["columns"][0]["origin"] = 1e300
    with pytest.raises(TableError, match="first date"):
        TableEncoder(types={"t": "date"}).restore(state)


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
        (
            {"size": [1.0], "city": [["Oslo"]]},
            "'city' must hold numbers, texts, truth values or dates. Got .* in row 0",
        ),
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

    def interrupted(self, tally, places):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return after(self, tally, places)

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


def test_cells():
    assert number("1e3") == 1000
    assert number(Decimal("2.5")) == 2.5
    assert math.isnan(number(pd.NA))
    assert number(dt.timedelta(minutes=1)) == 60
    assert (
        days("1970-01-02T00:00:00+01:00") == days(dt.datetime(1970, 1, 1, 23)) == days(np.datetime64("1970-01-01T23"))
    )
    assert category(True) == "True"
    assert category("  ") is None
    assert category("x" * 500) != category("x" * 501)
    assert [kind_of(cell) for cell in ("2024-01-01", "soon", "True", 3)] == ["date", "category", "boolean", "number"]


@pytest.mark.parametrize("wrong", [None, 3.0, pd.Series([1.0])])
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(TableError, match=f"Got {type(wrong).__name__}"):
        TableEncoder().fit(wrong)


def test_a_damaged_arrow_table_is_refused():
    pa = pytest.importorskip("pyarrow")
    texts = [None, pa.py_buffer(np.array([0, 2], dtype=np.int32)), pa.py_buffer(b"\xff\xfe")]
    for column in (
        pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["x"]), safe=False),
        pa.Array.from_buffers(pa.string(), 1, texts),
    ):
        with pytest.raises(TableError, match="damaged"):
            TableEncoder().fit(pa.table({"a": column}))


def test_a_fork_shares_what_was_learned_and_learns_on_its_own():
    encoder = TableEncoder(target="number")
    encoder.partial_fit({"a": [1.0, 2.0], "b": ["x", "y"]}, [0.0, 1.0])
    before = encoder.transform({"a": [3.0], "b": ["y"]})
    fork = encoder.fork()
    assert all(mine is theirs for mine, theirs in zip(encoder._learned.columns, fork._learned.columns, strict=True))
    fork.partial_fit({"a": [9.0], "b": ["y"]}, [5.0])
    np.testing.assert_array_equal(encoder.transform({"a": [3.0], "b": ["y"]}), before)
    assert (fork.transform({"a": [3.0], "b": ["y"]}) != before).any()


# in scikit-learn


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

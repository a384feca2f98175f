"""Tables of every make, and what a cell can be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.tables.examples import mixed, targets

from bomkl.tables import TableEncoder
from bomkl.tables.errors import TableError

pd = pytest.importorskip("pandas")


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

"""What a cell can be. `make mutants` changes each line of `bomkl.tables.cells` and expects these tests to fail."""

import datetime as dt
import math
import re
import time
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pandas as pd
import pytest

from bomkl.tables.cells import category, check_kinds, days, kind_of, text, truth
from bomkl.tables.errors import TableError
from bomkl.tables.numbers import is_gap, number, plain_numbers


@pytest.mark.parametrize(
    "cell", [None, math.nan, pd.NaT, pd.NA, "", " \t", " NA ", "?", Decimal("NaN"), Decimal("sNaN")], ids=repr
)
def test_missing_values(cell):
    assert is_gap(cell) is True
    assert math.isnan(number(cell))
    assert math.isnan(days(cell))
    assert text(cell) is None


@pytest.mark.parametrize(
    "cell", [0, 0.0, False, "0", "na", "none", " x ", dt.date(2024, 1, 1), np.array([1, 2])], ids=repr
)
def test_values_that_are_not_missing(cell):
    assert is_gap(cell) is False


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("boolean", [True, np.True_, "true", " False ", "TRUE"]),
        ("number", ["1.5", " -2e3 ", "20240229", "2024", "1,234,567.8", "0", "0.5", "00.5"]),
        ("number", [3, 2.5, np.int8(1), np.float32(1), Decimal(2), Fraction(1, 3)]),
        ("number", [dt.timedelta(1), np.timedelta64(1, "D")]),
        ("date", [dt.date(2024, 2, 29), dt.datetime(2024, 2, 29), np.datetime64("2024-02-29"), pd.Period("2024-02")]),
        ("date", ["2024-02-29", " 2024-02-29T12:30 ", "2024-02-29 12:30:01.5 Z", "20240229T123000+0100"]),
        ("category", ["red", "1_5", "0150", "2024-02-30", "inf", "truth", "12:30", "1,23"]),
        (None, [[1], {"a": 1}, b"x", object]),
    ],
)
def test_the_kind_of_a_cell(kind, cells):
    assert [kind_of(cell) for cell in cells] == [kind] * len(cells)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (" 1e3 ", 1000.0),
        ("-inf", -math.inf),
        (Decimal("2.5"), 2.5),
        (Fraction(1, 4), 0.25),
        (True, 1.0),
        (np.False_, 0.0),
        (dt.timedelta(minutes=1), 60.0),
        (np.timedelta64(2, "m"), 120.0),
    ],
    ids=repr,
)
def test_numbers(cell, value):
    assert type(number(cell)) is float
    assert number(cell) == value


@pytest.mark.parametrize("cell", ["1_000", "one", "0x10", dt.date(2024, 1, 1), b"1"], ids=repr)
def test_what_is_no_number(cell):
    with pytest.raises(ValueError, match=re.escape(str(cell))):
        number(cell)


def test_booleans():
    assert [truth(cell) for cell in (True, "true", " FALSE ", False, 0.5, "2")] == [1.0, 1.0, 0.0, 0.0, 0.5, 2.0]
    assert math.isnan(truth(""))
    with pytest.raises(ValueError, match="yes"):
        truth("yes")


@pytest.mark.parametrize(
    "cell",
    [
        "1970-01-02T12:00",
        "1970-01-02 13:00+01:00",
        "1970-01-02 12:00 Z",
        dt.datetime(1970, 1, 2, 12),
        dt.datetime(1970, 1, 2, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        np.datetime64("1970-01-02T12"),
        pd.Period("1970-01-02 12:00", freq="h"),
    ],
    ids=repr,
)
def test_moments_are_days_since_1970(cell):
    assert days(cell) == 1.5


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows cannot change the time zone of a process")
def test_the_time_zone_of_the_machine_does_not_matter(monkeypatch):
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert days(dt.datetime(1970, 1, 2, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))) == 1.5
    time.tzset()


def test_days_have_no_time_and_microseconds_count():
    assert days(dt.date(1970, 1, 3)) == days("1970-01-03") == days(" 1970-01-03 ") == 2.0
    assert days("1969-12-31") == -1.0
    assert days("1970-01-01T00:00:00.000001") == 1 / 86_400e6


@pytest.mark.parametrize("cell", ["soon", "19700102", "1970-13-01", 5, True], ids=repr)
def test_what_is_no_moment(cell):
    with pytest.raises(ValueError, match=re.escape(str(cell))):
        days(cell)


def test_texts():
    cells = [" red ", 12.0, np.float32(3), 1.5, True, dt.date(2024, 1, 2), Decimal("1.50")]
    assert [text(cell) for cell in cells] == ["red", "12", "3", "1.5", "True", "2024-01-02", "1.50"]
    with pytest.raises(ValueError, match=r"\[1\]"):
        text([1])


def test_long_texts_are_cut_and_long_categories_keep_their_names():
    digest = lambda long: blake2b(long.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()  # noqa: E731
    assert text("x" * 10_000) == "x" * 10_000
    assert category("x" * 100) == "x" * 100
    for length in (101, 10_000, 10_001, 20_000):
        long = "x" * (length - 1) + "\ud800"  # half a pair, as broken files have it
        assert text(long) == (long if length <= 10_000 else f"{long[:10_000]}...{digest(long)}")
        assert category(text(long)) == f"{'x' * 80}...{digest(long)}"


def test_declared_types():
    assert check_kinds(None) == {}
    assert check_kinds({"a": "date", 3: "number"}) == {"a": "date", 3: "number"}
    with pytest.raises(TableError) as caught:
        check_kinds(["date"])
    kinds = "['number', 'boolean', 'category', 'date']"
    assert str(caught.value) == f"The 'types' must be a dict from columns to one of {kinds}. Got ['date'] instead."
    with pytest.raises(TableError) as caught:
        check_kinds({"a": "number", "b": "time"})
    assert str(caught.value) == f"The type of the column 'b' must be one of {kinds}. Got 'time' instead."


def test_numbers_of_many_cells():
    assert plain_numbers(["1", "2.5"]).tolist() == [1.0, 2.5]
    assert plain_numbers([1, 2.5]).tolist() == plain_numbers(np.array([1, 2.5], dtype=object)).tolist() == [1.0, 2.5]
    for cells in (
        ["1_0"],
        ["1", "x"],
        [1, "2"],
        np.array([1, "2"], dtype=object),
        [10**400],
        [[1], 2],
        [np.timedelta64(2, "s")],
    ):
        assert plain_numbers(cells) is None

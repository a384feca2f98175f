"""Hostile tables: columns of any kind, cells of any kind; an answer, or an error that leaves the model as it was."""

import datetime

import numpy as np
import pandas as pd
from tests.fuzz.test_model_files import check_changed_file

ODD_CELLS = (
    None,
    float("nan"),
    float("inf"),
    -1e300,
    10**400,
    True,
    "",
    "\x00",
    "x" * 5000,
    "\ud800",
    "nan",
    b"bytes",
    [1, 2],
    {},
    1 + 2j,
    object(),
    pd.NaT,
    pd.NA,
    pd.Timestamp.max,
    datetime.date.min,
    np.float16(3),
    pd.Timedelta(1, "D"),
)
REFUSED = (ValueError, TypeError)


def good_table(rng, n):
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, size=n), "D")
    size = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    town = rng.choice(["Lund", "Oslo", "Riga", None], size=n)
    return pd.DataFrame({"size": size, "town": town, "day": days, "kind": pd.Categorical(rng.integers(0, 3, size=n))})


def hostile_table(rng, choose, table):
    kind = int(rng.integers(9))
    name = choose(rng, list(table.columns))
    if kind == 0:
        return table.rename(columns={name: choose(rng, ["other", "", 3, None, "size"])})
    if kind == 1:
        return table.drop(columns=name)
    if kind == 2:
        return table[list(rng.permutation(table.columns))]
    if kind == 3:
        return table[:0]
    if kind == 4:
        cells = pd.Series([choose(rng, ODD_CELLS)] * len(table), dtype=object, index=table.index)
        return table.assign(**{name: cells})
    if kind == 5:
        return table.assign(**{name: table[name].astype(str)})
    if kind == 6:
        return table.assign(extra=1.0)
    mixed = table.astype(object)
    for _ in range(int(rng.integers(1, 4))):
        mixed.iat[int(rng.integers(len(mixed))), int(rng.integers(mixed.shape[1]))] = choose(rng, ODD_CELLS)
    return mixed


def test_tables(cases, choose, digest, new_model):
    for rng in cases(15):
        n = int(rng.integers(30, 90))
        table = good_table(rng, n)
        model, numbers = new_model(rng)
        y = rng.normal(size=n) if numbers else np.arange(n) % 2
        model.fit(table, y)
        before, hostile = digest(model), hostile_table(rng, choose, table)
        calls = (
            lambda: model.partial_fit(hostile, y[: len(hostile)]),
            lambda: model.predict(hostile),
            lambda: model.learn_one(hostile.iloc[0] if len(hostile) else {}, y[0]),
            lambda: model.predict_one(dict(hostile.iloc[0]) if len(hostile) else {}),
        )
        kind = int(rng.integers(len(calls)))
        try:
            scores = calls[kind]()
        except REFUSED as error:
            assert str(error)
            assert digest(model) == before
            continue
        if kind in (1, 3):
            assert digest(model) == before
            assert np.isfinite(np.asarray(scores, dtype=float)).all()
        assert np.isfinite(np.asarray(model.predict(table), dtype=float)).all()


def test_model_files_of_tables(cases, choose, digest, new_model, tmp_path):
    for rng in cases(10):
        table = good_table(rng, 40)
        model, numbers = new_model(rng)
        y = rng.normal(size=40) if numbers else np.arange(40) % 2
        check_changed_file(rng, choose, digest(model.fit(table, y)), tmp_path / "hostile.bomkl", table, y)

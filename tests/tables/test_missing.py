"""Missing values: filled from other columns, the value seen last, and rows alike."""

from __future__ import annotations

import itertools
import pickle
from decimal import Decimal

import numpy as np
import pytest
from tests.tables.examples import mixed, targets

from bomkl.tables import TableEncoder
from bomkl.tables.errors import TableError
from bomkl.tables.missing.conditional import residuals
from bomkl.tables.missing.filling import POOL
from bomkl.tables.missing.neighbours import CLOSE, RECENT, neighbours
from bomkl.tables.missing.smoothing import Scale, Smoother

pd = pytest.importorskip("pandas")


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


def test_gaps_are_filled_where_columns_are_skewed_or_do_not_depend_on_each_other_in_a_line():
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    X = np.column_stack([a, np.exp(3 * a), a**2, rng.normal(size=2000)])
    holes = np.zeros(X.shape, dtype=bool)
    holes[np.arange(100, 2000), rng.integers(0, 4, 1900)] = True
    encoded = TableEncoder().fit_transform(np.where(holes, np.nan, X))
    off = np.abs(encoded - X)
    assert np.median((off[:, 1] / X[:, 1])[1000:][holes[1000:, 1]]) < 0.2
    assert np.median(off[1000:, 2][holes[1000:, 2]]) < 0.3


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


def test_values_of_scores_are_those_they_were_made_of():
    rows = np.random.default_rng(0).normal(size=(200, 3)) ** 3
    rows[:, 2] = np.round(rows[:, 2])
    scale = Scale.of(rows)
    scores = scale(rows)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-6)
    inner = np.argsort(rows, axis=0)[1:-1].T  # the outermost lie beyond the quantiles that are told apart
    for column, some in enumerate(inner):
        found = scale.values(scores[some, column], np.full(len(some), column))
        np.testing.assert_allclose(found, rows[some, column], atol=1e-4)


def test_smoothed_residuals_as_defined():
    rng = np.random.default_rng(0)
    pool, present = rng.normal(size=(90, 5)), rng.random((90, 5)) < 0.8
    pool[:, 3] = 0.5  # tells nothing
    precision, owner = np.linalg.inv(np.cov(rng.normal(size=(50, 5)), rowvar=False)), np.array([0, 1, 2, 3, 3])
    rows, here = rng.normal(size=(200, 5)), rng.random((200, 5)) < 0.8
    at, column = (each.ravel() for each in np.indices((200, 5)))
    found = Smoother.of(pool, present, precision, owner)(rows, here, at, column).reshape(200, 5)
    left = residuals(precision, pool, owner)
    for r, c in itertools.product(range(0, 200, 20), range(3)):
        both = present & here[r] & ([j not in (3, c) for j in range(5)])
        distance = (2 + np.where(both, (pool - rows[r]) ** 2, 0).sum(axis=1)) / (1 + both.sum(axis=1))
        distance = np.append(distance, 2)  # of a row of gaps
        weight = np.exp(-4 * (distance - distance.min()) / (2 * 0.8**2))
        weight = weight[:-1] * present[:, c]
        assert found[r, c] == pytest.approx(weight @ np.clip(left[:, c], -4, 4) / (weight.sum() + 0.5), abs=1e-4)
    np.testing.assert_array_equal(found[:, 3:], 0)  # parts of one cell hide each other
    alone = Smoother.of(pool, present, precision, owner)(rows, here, at[7:8], column[7:8])
    np.testing.assert_array_equal(alone, found[1, 2])


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


def test_an_encoder_of_an_earlier_version_goes_on():
    frame, y = mixed(1400, gaps=0.2), targets(1400, "class")
    encoder = TableEncoder(target="class").fit(frame[:1300], y[:1300])
    state = encoder.state()
    filling = state["filling"]
    assert len(filling["recent"]) > POOL
    earlier = {name: filling[name][-RECENT - 20 :] for name in ("recent", "recent_hidden")}  # 20 rows are open
    sums = {name: np.zeros(1) for name in ("shift", "total", "products")}  # it had
    old = TableEncoder(target="class")
    old.restore(state | {"version": 4, "filling": filling | earlier | sums})
    expected, found = (each.transform_and_learn(frame[1300:], y[1300:]) for each in (encoder, old))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[~frame[1300:].isna().any(axis=1)], expected[~frame[1300:].isna().any(axis=1)])
    filling = filling | {"recent": filling["recent"][-10:], "recent_hidden": filling["recent_hidden"][-10:]}
    with pytest.raises(TableError, match="too few"):
        old.restore(state | {"filling": filling})


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

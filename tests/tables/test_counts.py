"""Counts of categories: what rows add to an encoder is the same in whatever order, and what learning in order gives."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bomkl.tables import TableEncoder
from bomkl.tables.counts import Counts

RNG = np.random.default_rng(0)
N, HEAD = 600, 100
TABLE = {
    "city": RNG.choice([f"city {i}" for i in range(40)], N).tolist(),
    "size": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
    "day": np.datetime64("2024-01-01") + RNG.integers(400, size=N),
}
LABELS = RNG.integers(5, size=N)
NUMBERS = 1e5 + RNG.normal(size=N)


def rows(places):
    return {
        name: [cells[i] for i in places] if isinstance(cells, list) else cells[places] for name, cells in TABLE.items()
    }


def learned(target, y, order, cuts, **settings):
    encoder = TableEncoder(target=target, **settings).partial_fit(rows(range(HEAD)), y[:HEAD])
    parts = [Counts.of(encoder, rows(range(a, b)), y[a:b]) for a, b in pairwise(cuts)]
    whole = parts[order[0]]
    for i in order[1:]:
        whole.add(parts[i])
    return whole.learned(encoder)


@pytest.mark.parametrize(("target", "y"), [("class", LABELS), ("number", NUMBERS), (None, LABELS)])
@pytest.mark.parametrize("limit", [10_000, 30])
def test_any_split_in_any_order_gives_the_same_bits(target, y, limit):
    one = learned(target, y, [0], [HEAD, N], max_values=limit)
    three = learned(target, y, [2, 0, 1], [HEAD, 150, 151, N], max_values=limit)
    if limit > 40:  # beyond the limit it matters which rows are counted together, as partitions are
        assert_array_equal(one.transform(TABLE), three.transform(TABLE))
    again = learned(target, y, [1, 2, 0], [HEAD, 150, 151, N], max_values=limit)
    assert_array_equal(three.transform(TABLE), again.transform(TABLE))
    assert three.n_rows_ == N


@pytest.mark.parametrize(("target", "y"), [("class", LABELS), ("number", NUMBERS)])
def test_categories_are_what_learning_in_order_makes_them(target, y):
    counted = learned(target, y, [0], [HEAD, N])
    in_order = TableEncoder(target=target).partial_fit(TABLE, y)
    means = [i for i, name in enumerate(in_order.get_feature_names_out()) if name.startswith("city_target")]
    assert_allclose(counted.transform(TABLE)[:, means], in_order.transform(TABLE)[:, means], rtol=1e-9, atol=1e-5)
    assert counted.get_feature_names_out().tolist()[:5] == in_order.get_feature_names_out().tolist()[:5]


def test_far_targets_count_no_more_than_they_can(recwarn):
    far = NUMBERS.copy()
    far[200] = 1e150
    assert np.isfinite(learned("number", far, [0], [HEAD, N]).transform(TABLE)).all()

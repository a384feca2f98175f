"""Columns that tell the same, and what they are worth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import make_friedman1

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.insight.copies import _ALIKE, leaders
from bomkl.auto.insight.mixing import RowMixer
from bomkl.tables.encoded import EncodedRows


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape)


def led(*columns):
    return leaders(np.column_stack(columns), np.arange(len(columns)), len(columns)).tolist()


def test_columns_tell_the_same_from_a_rank_correlation_on():
    base, noise = normal(2, 300)
    for share in (0.3, 0.4, 0.5, 0.6, 0.7):
        near = np.exp(base + share * noise)
        assert led(noise, base, near) == [0, 1, 1 if spearmanr(base, near).statistic >= _ALIKE else 2]


def test_a_column_between_two_others_brings_them_together():
    first, noise, more = normal(3, 300)
    middle = first + 0.4 * noise
    last = -(middle + 0.4 * more)
    assert led(first, middle) == led(middle, last) == [0, 0]
    assert led(first, last) == [0, 1]
    assert led(first, middle, last) == [0, 0, 0]


def test_values_that_few_rows_have_tell_nothing():
    rare, often = np.arange(64) < 7, np.arange(64) < 8
    assert led(rare, ~rare) == [0, 1]
    assert led(often, ~often) == [0, 0]
    assert led(np.ones(64), np.zeros(64), often, often) == [0, 1, 2, 2]
    assert led(np.ones(1), np.zeros(1)) == [0, 1]


def test_all_places_of_a_column_need_one_like_them():
    first, second = normal(2, 64)
    rows = np.column_stack([first, second, first, second, first])
    assert leaders(rows, np.array([0, 0, 1, 1, 2]), 4).tolist() == [0, 0, 2, 3]


def test_texts_are_left_alone():
    values = normal(64)
    mixer = RowMixer(["a", "text", "b", "other"], ["a", "text", "b", "other"], ["a", "text", "b", "other"])
    cells = [(2, values), (1, ["x"] * 64), (2, values), (1, ["x"] * 64)]
    assert mixer.group([EncodedRows(np.column_stack([values] * 4), cells)]).tolist() == [0, 1, 3]
    assert mixer.leaders.tolist() == [0, 1, 0, 3]


def test_copies_share_in_equal_parts_and_the_others_keep_theirs():
    rows, y = make_friedman1(1500, n_features=7, noise=1.0, random_state=0)
    copied = np.column_stack([rows, -rows[:, 3], np.exp(rows[:, 3])])
    alone = AutoMKLRegressor(budget=100, random_state=0).fit(rows, y)
    model = AutoMKLRegressor(budget=100, random_state=0).fit(copied, y)
    importances, deviations = model.feature_importances_, model.feature_importances_std_
    assert importances[3] == importances[7] == importances[8]
    assert deviations[3] == deviations[7] == deviations[8]
    together = importances[:7].copy()
    together[3] *= 3
    np.testing.assert_allclose(together, alone.feature_importances_, atol=0.1)


@pytest.mark.parametrize("text", [False, True])
def test_copies_in_tables_share_for_each_class(text):
    numbers = normal(400, 3)
    table = pd.DataFrame(numbers, columns=["a", "b", "c"]).assign(price=2 * numbers[:, 0])
    table.loc[::9, ["a", "price"]] = np.nan
    if text:
        table["note"] = [f"word{i % 5} {i % 3}" for i in range(400)]
    model = AutoMKLClassifier(budget=40, random_state=0).partial_fit(table, numbers[:, 0] > 0.2)
    found = dict(zip(table, model.feature_importances_per_class_.T.tolist(), strict=True))
    assert found["a"] == found["price"]
    assert min(found["a"]) > 0.3


def test_wide_tables_of_numbers_are_measured():
    X = pd.DataFrame(normal(640, 520)).add_prefix("column ")
    model = AutoMKLClassifier(budget=60, random_state=0).partial_fit(X, X["column 7"] > 0)
    assert model.feature_importances_.argmax() == 7

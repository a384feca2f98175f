"""Importances that are measured along the stream."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_friedman1

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto.insight.averages import MOST_KEPT, Averages
from bomkl.auto.insight.importance import FIRST, WINDOW, Importance
from bomkl.auto.insight.mixing import copied, mixed_from_state, mixed_state
from bomkl.auto.insight.swapping import MOST_CLASSES, expected_rise, losses
from bomkl.auto.saved import Saved
from bomkl.auto.task import Task
from bomkl.tables.encoded import EncodedRows

N = 330
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 5))
CLASSES = np.where(RANDOM.random(N) < 0.5, 0, np.digitize(X[:, 0], [-1, 0, 1]))
TABLE = pd.DataFrame(X[:, :2].copy(), columns=["a", "b"]).assign(
    note=[f"red {i}" if v > 0 else None if i % 3 else "green pear" for i, v in enumerate(X[:, 2])],
    kind=[f"k{i % 11}" for i in range(N)],
    day=pd.Timestamp("2020-01-01") + pd.to_timedelta(RANDOM.integers(0, 900, N), "D"),
)
TABLE.loc[::7, "a"] = np.nan
WIDE = sp.hstack([sp.random(N, 700, 0.02, random_state=0), X[:, :1]], format="csr")


def regressor(**settings):
    return AutoMKLRegressor(budget=40, random_state=0, **settings)


def classifier():
    return AutoMKLClassifier(budget=40, random_state=0)


CASES = {
    "numbers": (regressor, X, X[:, 0] * X[:, 1]),
    "drift": (lambda: regressor(drift="adapt"), X, X[:, 0]),
    "classes that come": (classifier, X, CLASSES),
    "table": (classifier, TABLE, (X[:, 0] > 0) ^ (X[:, 2] > 0)),
    "wide": (classifier, WIDE, X[:, 0] > 0),
}


def part(rows, begin, end):
    return rows.iloc[begin:end] if hasattr(rows, "iloc") else rows[begin:end]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("split", [1, 45])
def test_splits_and_files_change_no_bit(name, split, tmp_path):
    make, rows, y = CASES[name]
    whole, parts = make().partial_fit(rows, y), make()
    for begin in range(0, N, split):
        parts.partial_fit(part(rows, begin, begin + split), y[begin : begin + split])
        if begin // split % 60 == 40:
            parts = pickle.loads(pickle.dumps(parts))
        if begin // split % 5 == 3 and split > 1:
            modelfile.save(parts, tmp_path / "model", {})
            parts = modelfile.read(tmp_path / "model").estimator
    assert whole._importance.windows >= 2
    np.testing.assert_array_equal(whole.feature_importances_, parts.feature_importances_)
    np.testing.assert_array_equal(whole.feature_importances_std_, parts.feature_importances_std_)
    if hasattr(whole, "classes_"):
        per_class = whole.feature_importances_per_class_
        np.testing.assert_array_equal(per_class, parts.feature_importances_per_class_)
        assert per_class.shape == (len(whole.classes_), whole.n_features_in_)


def test_columns_that_tell_one_class_matter_for_its_rows():
    rows = np.random.default_rng(0).normal(size=(1500, 4))
    names = np.where(rows[:, 0] > 0.8, "c", np.where(rows[:, 1] > 0, "b", "a"))
    model = AutoMKLClassifier(budget=100, random_state=0).partial_fit(rows, names)
    shares = model.feature_importances_per_class_
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares.argmax(axis=1).tolist() == [1, 1, 0]
    means = model._importance.averages.mean
    np.testing.assert_allclose(means[2:].sum(axis=0), means[0])  # the parts of all rows
    assert not hasattr(regressor().fit(X, X[:, 0]), "feature_importances_per_class_")


def test_too_many_classes_are_not_told_apart():
    model = classifier().partial_fit(X, np.arange(N) % 3)
    assert np.isfinite(model.feature_importances_per_class_).all()
    for _ in range(4):
        model.partial_fit(X, np.arange(N) % (MOST_CLASSES + 1))
    assert np.isnan(model.feature_importances_per_class_).all()
    assert np.isfinite(model.feature_importances_).all()
    assert np.isnan(classifier().partial_fit(X[:9], CLASSES[:9]).feature_importances_per_class_).all()


def test_single_rows_are_measured_as_blocks_are():
    model = regressor()
    for x, y in zip(X, X[:, 0], strict=True):
        model.learn_one(x, y)
    expected = regressor().partial_fit(X, X[:, 0])
    np.testing.assert_array_equal(model.feature_importances_, expected.feature_importances_)


def test_columns_that_matter_are_told_from_noise():
    rows, y = make_friedman1(2500, n_features=10, noise=1.0, random_state=0)
    model = AutoMKLRegressor(budget=200, random_state=0).fit(rows, y)
    means, deviations = model._measured()
    assert means[:5].min() > 3 * np.abs(means[5:]).max()
    assert (np.abs(means[5:]) <= 3 * deviations[5:]).all()
    assert np.isclose(model.feature_importances_.sum(), 1)
    assert (model.feature_importances_ >= 0).all()


def test_copies_share():
    rows = X[:, [0, 0, 1]]
    importances = AutoMKLRegressor(budget=60, random_state=0).fit(rows, X[:, 0]).feature_importances_
    assert importances[:2].min() > 0.2
    assert importances[2] < 0.1


def test_an_id_does_not_matter_though_the_model_remembers_it():
    table = pd.DataFrame({"a": X[:, 0], "id": [f"C{i:05d}" for i in RANDOM.permutation(N)]})
    model = classifier().partial_fit(table, X[:, 0] > 0)
    means, deviations = model._measured()
    assert means[0] > 0.1
    assert abs(means[1]) <= 3 * deviations[1]


def test_one_value_in_all_rows_costs_and_tells_nothing():
    model = regressor().fit(np.column_stack([X[:, 0], np.ones(N)]), X[:, 0])
    assert model.feature_importances_.tolist() == [1.0, 0.0]
    assert model.feature_importances_std_[1] == 0


def test_until_rows_were_measured_slopes_tell():
    model = regressor().partial_fit(X[:30], X[:30, 0])
    assert np.isclose(model.feature_importances_.sum(), 1)
    assert np.isnan(model.feature_importances_std_).all()
    rounds = AutoMKLRegressor(budget=40, update="rounds", random_state=0).fit(X, X[:, 0])
    assert np.isnan(rounds.feature_importances_std_).all()


def test_models_of_versions_without_importances_begin_to_measure():
    model = regressor().partial_fit(X[:100], X[:100, 0])
    state = model.__getstate__()
    del state["_importance"]
    old = regressor()
    old.__setstate__(state)
    assert np.isnan(old.feature_importances_std_).all()
    old.partial_fit(X[100:], X[100:, 0])
    assert old._importance.windows >= 1
    np.testing.assert_array_equal(old.predict(X), regressor().partial_fit(X, X[:, 0]).predict(X))


def test_a_damaged_state_is_refused():
    model = regressor().partial_fit(X[: FIRST + WINDOW + 10], X[: FIRST + WINDOW + 10, 0])
    for name, value in (("next", FIRST - 1), ("windows", 10**6), ("kept", None), ("open", {})):
        state = model.__getstate__()
        state["_importance"][name] = value
        with pytest.raises(ValueError, match=r"saved importance|saved open"):
            regressor().__setstate__(state)
    state = regressor().partial_fit(X[: FIRST + 10], X[: FIRST + 10, 0]).__getstate__()
    state["_importance"]["open"] = None
    with pytest.raises(ValueError, match="a window with 10 rows"):
        regressor().__setstate__(state)


def test_before_labels_tell_half_of_what_the_model_expects_counts():
    def averages(error):
        return Averages().plus(
            np.zeros(1), np.ones(1), np.full((2, 1), 3.0), np.full((2, 1), error**2), np.ones((2, 1))
        )

    np.testing.assert_allclose(averages(1e-9).estimates(), [[[3.0]] * 2, [[1e-9]] * 2])
    np.testing.assert_allclose(averages(1e9).estimates(), [[[0.5]] * 2] * 2, rtol=1e-6)
    np.testing.assert_allclose(averages(0.5).estimates(), [[[1.75]] * 2, [[0.5**1.5]] * 2])


@pytest.mark.parametrize("outputs", [1, 3])
def test_expected_rises_are_means_over_labels(outputs):
    before, after = RANDOM.normal(size=(2, 7, outputs))
    task = Task.BINARY if outputs == 1 else Task.MULTICLASS
    model, labels = type("Model", (), {"task": task}), np.repeat(np.arange(max(outputs, 2))[:, None], 7, axis=1)
    rises = np.array([losses(model, after, y) - losses(model, before, y) for y in labels])
    margins = before if outputs > 1 else np.hstack([np.zeros((7, 1)), before])
    chances = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    mean, variance = expected_rise(task, before, after, 0.0)
    np.testing.assert_allclose(mean[:2], np.einsum("lsi,il->si", rises, chances), atol=1e-12)
    np.testing.assert_allclose(mean[2:].sum(axis=0), mean[0], atol=1e-12)
    np.testing.assert_allclose(variance, np.einsum("li,il->i", (rises[:, 0] - mean[0]) ** 2, chances))


def test_expected_rises_of_numbers_are_means_over_targets():
    before, after = np.array([[1.0], [1.0], [0.0]]), np.array([[1.5], [-2.0], [0.0]])
    y = before[:, 0] + 2 * np.random.default_rng(0).normal(size=(200_000, 1))
    mean, variance = expected_rise(Task.SQUARED, before, after, 4.0)
    rise = np.stack([(y - after[:, 0]) ** 2 - (y - before[:, 0]) ** 2, abs(y - after[:, 0]) - abs(y - before[:, 0])])
    np.testing.assert_allclose(mean, rise.mean(axis=1), atol=0.05)
    np.testing.assert_allclose(variance, rise[0].var(axis=0), rtol=0.02, atol=1e-9)


def test_of_many_columns_those_that_matter_come_first():
    random = np.random.default_rng(1)
    rows = random.normal(size=(600, 100)) * np.where(np.arange(100) < 3, 4.0, 1.0)
    model = AutoMKLRegressor(budget=100, trees=False, random_state=0).partial_fit(
        rows[:300], rows[:300, :3].sum(axis=1)
    )
    assert np.isnan(model.feature_importances_std_).all()  # too few rows for so many columns
    model.partial_fit(rows[300:], rows[300:, :3].sum(axis=1))
    assert sorted(np.argsort(-model.feature_importances_)[:3]) == [0, 1, 2]
    assert not np.isnan(model.feature_importances_std_).any()


def test_few_columns_of_many_are_followed():
    averages = Averages()
    for begin in range(0, 2 * MOST_KEPT, 100):
        columns = np.arange(begin, begin + 100)
        averages = averages.plus(
            columns, np.ones(100), np.ones((2, 100)) * begin, np.ones((2, 100)), np.ones((2, 100)) * begin
        )
    assert len(averages.columns) == MOST_KEPT
    assert averages.columns[-1] >= 2 * MOST_KEPT - 100


def test_rows_that_wait_count_as_memory():
    model = classifier().partial_fit(TABLE[:FIRST], X[:FIRST, 0] > 0)
    before = model._importance.nbytes
    model.partial_fit(TABLE[FIRST : FIRST + 20], X[FIRST : FIRST + 20, 0] > 0)
    texts = TABLE["note"][FIRST : FIRST + 20].dropna().str.len().sum()
    assert model._importance.nbytes >= before + 20 * 8 * model._n_columns() + texts
    assert model.nbytes_ > model._importance.nbytes + model._learner.leader.nbytes


def test_a_window_keeps_the_model_of_its_beginning():
    importance = Importance()
    assert not importance.measures(FIRST - 1)
    assert importance.rows_together(0, 1000) == FIRST
    assert importance.rows_together(FIRST + 1, 1000) == WINDOW - 1


def test_a_class_that_comes_in_a_window_leaves_the_model_before_it_as_it_was():
    model = AutoMKLClassifier(budget=20, random_state=0).partial_fit(X[:300], (X[:300, 0] > 0).astype(int))
    while not model._importance.measures(model.n_seen_):
        model.partial_fit(X[:1], [0])
    model.partial_fit(X[:1], [0]).partial_fit(X[:1], [2])
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_an_estimate_of_a_gap_that_is_a_rounding_too_large_can_be_loaded():
    rows = copied(EncodedRows(np.array([[np.nextafter(1e150, np.inf)]]), []))
    loaded = mixed_from_state(Saved(mixed_state(rows), "rows"), 1, 1, 0)
    assert loaded.numbers.tolist() == [[1e150]]

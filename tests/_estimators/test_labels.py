"""Labels and targets of all estimators: what is no label or no number is named, with its row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, modelfile

X = np.random.default_rng(0).normal(size=(4, 3))
CLASSIFIERS = [AutoMKLClassifier, BudgetMKLClassifier]
REGRESSORS = [AutoMKLRegressor, BudgetMKLRegressor]


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", 1, "b", 2], r"labels of one type. Got 'a' in row 0 and 1 in row 1"),
        (["a", "b", None, "a"], r"a label in each row. Got None in row 2"),
        (["a", "b", np.nan, "a"], r"a label in each row. Got nan in row 2"),
        (pd.array(["a", "b", pd.NA, "a"], dtype="string"), r"a label in each row. Got <NA> in row 2"),
        (None, r"one entry for each row. Got None"),
    ],
)
def test_what_is_no_label_is_named(estimator, y, message):
    model = estimator()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y if y is None or isinstance(y, pd.api.extensions.ExtensionArray) else np.array(y, object))
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([1.0, "high", 2.0, 3.0], object), r"y must hold numbers. Got 'high' in row 1"),
        (np.array(["1", "2", "x", "4"]), r"y must hold numbers. Got 'x' in row 2"),
        (np.arange(4).astype("M8[D]"), r"y must hold numbers. Got datetime.date\(1970, 1, 1\) in row 0"),
        (np.array([1.0, None, 2.0, 3.0], object), r"y must hold numbers. Got None in row 1"),
        (None, r"one entry for each row. Got None"),
    ],
)
def test_what_is_no_number_is_named(estimator, y, message):
    model = estimator()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y)
    assert not hasattr(model, "n_seen_") or model.n_seen_ == 0


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_numbers_in_an_array_of_objects_are_labels(estimator):
    model = estimator().partial_fit(X, np.array([3, 1, 1, 3], dtype=object))
    assert model.classes_.tolist() == [1, 3]
    assert model.classes_.dtype.kind == "i"


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", 1, "b", 2], r"labels of one type. Got 'a' in row 0 and 1 in row 1"),
        (["a", "b", np.nan, "a"], r"a label in each row. Got nan in row 2"),
        ([[1], [1, 2], [1], [1]], r"y should be a 1d array. Got lists of several lengths"),
        (pd.Series([("a", 1), ("b", 2)] * 2), r"y must hold strings or numbers. Got \('a', 1\) in row 0"),
        (pd.Series([[1], [2]] * 2), r"y must hold strings or numbers. Got \[1\] in row 0"),
        (pd.to_datetime(["2020-01-01"] * 4).date, r"y must hold strings or numbers. Got datetime.date\(2020, 1, 1\)"),
        (np.array([2**70, 1, 1, 2**70], dtype=object), r"y must hold strings or numbers. Got 1180591620717411303424"),
        (np.array(["NaT", "2020-01-01"] * 2, dtype="M8[D]"), r"a label in each row. Got .*NaT.* in row 0"),
        (np.arange(4).astype("M8[ns]"), r"y must hold strings or numbers. Got np.datetime64\('1970.*\) in row 0"),
        (np.arange(4).astype("m8[s]"), r"y must hold strings or numbers. Got np.timedelta64\(0,'s'\) in row 0"),
        (np.array(["a", "a\0"] * 2, dtype=object), r"do not end with a zero character.* Got 'a\\x00' in row 1"),
        (np.array([1, 2**60 + 1] * 2, dtype=np.longdouble), r"labels that float64 can hold. Got 1.1529215"),
        (np.ma.array([1, 2, 1, 2], mask=[0, 0, 0, 1]), r"y must not be masked"),
        (np.array([], dtype=object), r"X has 4 rows, but y has 0 labels"),
    ],
)
def test_lists_and_objects_that_are_no_labels(estimator, y, message):
    model = estimator()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a", None], r"classes must have a label in each place. Got None in place 1"),
        (["a", np.nan], r"classes must have a label in each place. Got nan in place 1"),
        ([0, "a"], r"classes must hold labels of one type. Got 0 in place 0 and 'a' in place 1"),
        ({"a", "b"}, r"classes must hold strings or numbers. Got \{'.', '.'\} in place 0"),
        ([["a"], ["a", "b"]], r"classes should be a 1d array. Got lists of several lengths"),
    ],
)
def test_classes_that_are_no_labels(estimator, classes, message):
    model = estimator()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, ["a", "b", "a", "b"], classes=classes)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("first", [np.array(["a", "b"] * 2, dtype=object), np.array([1, 2] * 2)])
@pytest.mark.parametrize("later", [[1, 3], np.array(["c", "d"], dtype=object), np.arange(2).astype("M8[D]")])
def test_labels_of_another_type_are_unknown(first, later):
    model = BudgetMKLClassifier().partial_fit(X, first)
    with pytest.raises(ValueError, match=r"never declared|must hold strings or numbers"):
        model.partial_fit(X[:2], later)
    assert model.n_seen_ == 4


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (pd.Series([2**62, 2**62 + 1] * 2, dtype="Int64"), [2**62, 2**62 + 1]),
        (pd.Series([True, False] * 2, dtype="boolean"), [False, True]),
        (pd.array([3, 1] * 2, dtype="UInt8"), [1, 3]),
        (np.array([1, 0] * 2, dtype=np.float16), [0.0, 1.0]),
        (np.array([1, 0] * 2, dtype=np.longdouble), [0.0, 1.0]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_labels_of_unusual_types_stay_what_they_are(estimator, y, classes, tmp_path):
    model = estimator().partial_fit(X, y)
    assert model.classes_.tolist() == classes
    assert type(model.classes_.tolist()[0]) is type(classes[0])
    modelfile.save(model, tmp_path / "model")
    assert modelfile.load(tmp_path / "model").classes_.tolist() == classes


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels_from_an_arrow_column_one_by_one(estimator):
    arrow = pytest.importorskip("pyarrow")
    model = estimator().partial_fit(X, ["a", "b"] * 2)
    for label in arrow.array(["a", "b"]):
        model.learn_one(X[0], label)
    assert model.n_seen_ == 6


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_a_number_too_large_for_any_float_is_named(estimator):
    model = estimator().partial_fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"y must hold numbers. Got 10+ in row 0"):
        model.learn_one(X[0], 10**400)
    assert model.n_seen_ == 4


HUGE = np.tile([1.0, -1.0], 20) * np.finfo(np.float64).max  # parts of their sum are infinite, with both signs


@pytest.mark.parametrize("estimator", [*REGRESSORS, *CLASSIFIERS])
def test_huge_targets_of_both_signs_are_refused_without_a_warning(estimator):
    with pytest.raises(ValueError, match=r"Scale the targets|Unknown label type"):
        estimator().partial_fit(np.tile(X, (10, 1)), HUGE)


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_huge_weights_of_both_signs_are_refused_without_a_warning(estimator):
    with pytest.raises(ValueError, match=r"sample_weight.*not negative"):
        estimator().partial_fit(np.tile(X, (10, 1)), np.zeros(40), sample_weight=HUGE)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_strings_of_variable_length(estimator):
    strings = getattr(np.dtypes, "StringDType", None)
    if strings is None:
        pytest.skip("NumPy 2 has this type")
    assert estimator().partial_fit(X, np.array(["a", "b"] * 2, dtype=strings())).classes_.tolist() == ["a", "b"]

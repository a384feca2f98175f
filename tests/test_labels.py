"""Labels and targets of all estimators: what is no label or no number is named, with its row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor

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

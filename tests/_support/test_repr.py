"""What a notebook shows: scikit-learn's own HTML, then the state; and the progress of a long `fit`."""

from __future__ import annotations

import codecs
import locale
import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, merge
from bomkl.paper import BestKernelPerceptron
from bomkl.tables import TableEncoder

X = np.random.default_rng(0).normal(size=(700, 2))
LABELS = np.where(X[:, 0] * X[:, 1] > 0, "<yes>", "no")
ESTIMATORS: list[Any] = [
    AutoMKLClassifier(budget=50, random_state=0),
    AutoMKLClassifier(budget=50, update="rounds", random_state=0),
    AutoMKLClassifier(budget=50, drift="adapt", random_state=0),
    AutoMKLRegressor(budget=50, random_state=0),
    BudgetMKLClassifier(random_state=0),
    BudgetMKLRegressor(budget=20, random_state=0),
]
has_diagram = pytest.mark.skipif(
    codecs.lookup(locale.getencoding()).name == "ascii",
    reason="scikit-learn reads the script of its diagram in the encoding of the locale, and it is not ASCII",
)


def fitted(estimator: Any) -> Any:
    classifier = sklearn.base.is_classifier(estimator)
    return estimator.fit(X, LABELS if classifier else X[:, 0] * X[:, 1])


@has_diagram
@pytest.mark.parametrize(
    "estimator", [*ESTIMATORS, BestKernelPerceptron(), TableEncoder()], ids=lambda each: type(each).__name__
)
def test_an_estimator_that_has_not_learned_says_so_below_the_diagram(estimator: Any) -> None:
    html = clone(estimator)._repr_html_()
    assert "sk-container-id" in html
    assert "it has not learned yet" in html


@has_diagram
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_the_state_has_rows_error_and_the_kernels_of_most_weight(estimator: Any) -> None:
    model = fitted(clone(estimator))
    html = model._repr_mimebundle_()["text/html"]
    assert "sk-container-id" in html
    assert "<td>700</td>" in html
    if hasattr(model, "mistakes_"):
        assert f"{100 * model.mistakes_ / 700:.2f} %" in html
    weights = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    assert f"{100 * weights.max():.1f} %" in html
    assert html.count("<tr><th") <= 9


@has_diagram
def test_the_encoder_shows_its_columns_with_names_escaped() -> None:
    html = TableEncoder().fit([{"<b>": "red", "gone": None}])._repr_html_()
    html = html[html.index("<summary>State</summary>") :]
    assert "<td>category</td>" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "no value yet" in html


def test_text_is_all_there_is_where_scikit_learn_is_told_so() -> None:
    with sklearn.config_context(display="text"):
        assert not hasattr(AutoMKLClassifier(), "_repr_html_")
        assert "text/html" not in AutoMKLClassifier()._repr_mimebundle_()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_progress_is_shown_on_stderr_and_changes_nothing(estimator: Any, capfd: pytest.CaptureFixture[str]) -> None:
    quiet = fitted(clone(estimator))
    assert capfd.readouterr().err == ""
    shown = fitted(clone(estimator).set_params(verbose=1))
    assert "700/700" in capfd.readouterr().err
    method = "decision_function" if hasattr(quiet, "decision_function") else "predict"
    assert_array_equal(getattr(shown, method)(X), getattr(quiet, method)(X))
    shown.set_params(verbose=0).partial_fit(X[:5], (LABELS if hasattr(quiet, "classes_") else X[:, 0])[:5])


def test_pickles_of_before_have_no_verbose_and_load() -> None:
    for estimator in (AutoMKLClassifier(budget=50, random_state=0), BudgetMKLClassifier(random_state=0)):
        state = fitted(estimator).__getstate__()
        del state["verbose"]
        old = pickle.loads(pickle.dumps(estimator))
        old.__dict__.clear()
        old.__setstate__(state)
        assert old.get_params()["verbose"] == 0
        assert_array_equal(old.decision_function(X), estimator.decision_function(X))


def test_a_broken_fit_with_progress_leaves_the_model_as_it_was() -> None:
    model = BudgetMKLClassifier(random_state=0, verbose=1)
    wrong = X.astype(np.float64).copy()
    wrong[600] = 1e200
    with pytest.raises(ValueError, match="squared norm of row 600"):
        model.partial_fit(wrong, LABELS, classes=["<yes>", "no"])
    assert not hasattr(model, "n_features_in_")
    assert_array_equal(
        fitted(model).decision_function(X), fitted(BudgetMKLClassifier(random_state=0)).decision_function(X)
    )


def test_models_that_differ_in_verbose_merge() -> None:
    model = AutoMKLClassifier(budget=50, update="rounds", random_state=0).fit(X, LABELS)
    other = pickle.loads(pickle.dumps(model)).set_params(verbose=1)
    assert merge([model, other]).n_seen_ == 700  # both know the same rows

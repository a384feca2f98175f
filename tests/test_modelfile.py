"""Model files: exact round trips, files of every version, bounded memory."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import rows, small_model

from bomkl import AutoMKLClassifier, BudgetMKLClassifier, BudgetMKLRegressor, modelfile, paper
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, NOGD, PA, RBP, SPA, Forgetron, Perceptron, Projectron
from bomkl.modelfile import Model, ModelFileError

LEARNERS = [
    Perceptron(),
    PA(),
    SPA(),
    RBP(),
    Forgetron(may_grow=True),
    BOGD(),
    BPAS(),
    BPAS(unit_norm=True),
    Projectron(),
    Projectron(margin_updates=True),
    NOGD(),
]
KERNELS = [Gaussian(0.5), Polynomial(2, 0.5, 1.0), Linear(), Exponential(), Cauchy(), Cosine(), Laplacian(0.5)]


def assert_equal(a, b):
    """Equality that knows arrays, NaN and types."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_equal(left, right)
    elif isinstance(a, np.ndarray):
        assert (a.dtype.kind, a.shape, a.tolist()) == (b.dtype.kind, b.shape, b.tolist())
    else:
        assert repr(a) == repr(b)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learning_goes_on_exactly_where_it_stopped(tmp_path, learner, n_classes):
    X, y = rows(n_classes=n_classes)
    for labels in (y, np.array(["a", "b", "c"])[y]):
        whole = BudgetMKLClassifier(KERNELS, learner, Hedge(share=0.01), budget=10, random_state=3)
        whole.partial_fit(X[:70], labels[:70], classes=np.unique(labels))
        modelfile.save(whole, tmp_path / "m.bomkl")
        resumed = modelfile.load(tmp_path / "m.bomkl")
        np.testing.assert_array_equal(
            whole.score_and_learn(X[70:], labels[70:]), resumed.score_and_learn(X[70:], labels[70:])
        )
        modelfile.save(whole, tmp_path / "whole")
        modelfile.save(resumed, tmp_path / "resumed")
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
        assert resumed.get_params() == whole.get_params()


@pytest.mark.parametrize("learner", [PA(), SPA(), BOGD(), BPAS()], ids=repr)
def test_regressors(tmp_path, learner):
    X, _ = rows()
    model = BudgetMKLRegressor(learner=learner, combiner=Uniform(), budget=10, random_state=0).fit(X[:60], X[:60, 0])
    modelfile.save(model, tmp_path / "m")
    resumed = modelfile.load(tmp_path / "m")
    np.testing.assert_array_equal(model.score_and_learn(X, X[:, 0]), resumed.score_and_learn(X, X[:, 0]))


def test_single_precision_feature_names_class_weights_and_unfitted_models(tmp_path):
    import pandas as pd

    X, y = rows()
    model = BudgetMKLClassifier(class_weight={0: 2.0, 1: 1.0}, random_state=1).partial_fit(
        pd.DataFrame(X, columns=["a", "b", "c"]), y
    )
    modelfile.save(model, tmp_path / "m")
    again = modelfile.load(tmp_path / "m")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.class_weight == {0: 2.0, 1: 1.0}
    modelfile.save(BudgetMKLClassifier(random_state=0).fit(X.astype(np.float32), y), tmp_path / "m")
    assert modelfile.load(tmp_path / "m").support_vectors_.dtype == np.float32
    modelfile.save(BudgetMKLClassifier(budget=3), tmp_path / "m")
    assert modelfile.load(tmp_path / "m").budget == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": [lambda X, Z: X @ Z.T]}, r"kernels\[0\] is the Python function"),
        ({"selection_delta": lambda t: 0.5}, "selection_delta is the Python function"),
        ({"random_state": np.random.RandomState(0)}, "random_state is a RandomState, which a model file cannot hold"),
    ],
)
def test_code_and_foreign_objects_are_refused_and_nothing_is_written(tmp_path, settings, message):
    with pytest.raises(ModelFileError, match=message):
        modelfile.save(BudgetMKLClassifier(**settings), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
arrays = st.builds(
    lambda dtype, shape, seed: np.random.default_rng(seed).integers(0, 2, shape).astype(dtype),
    st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "str"]),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 9),
)
trees = st.recursive(
    plain | arrays | st.sampled_from(LEARNERS + KERNELS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), trees, max_size=3))
@settings(max_examples=50, deadline=None)
def test_any_tree_of_values_comes_back(tmp_path_factory, notes):
    path = tmp_path_factory.mktemp("tree") / "m"
    modelfile.write(path, Model(BudgetMKLClassifier(), notes))
    assert_equal(modelfile.read(path).notes, notes)


def test_big_endian_and_strided_arrays_are_stored_as_any_other(tmp_path):
    values = np.arange(12.0).reshape(3, 4)
    modelfile.write(
        tmp_path / "m",
        Model(
            BudgetMKLClassifier(), {"a": values.astype(">f8"), "b": np.asfortranarray(values), "c": values[::2, ::-1]}
        ),
    )
    notes = modelfile.read(tmp_path / "m").notes
    for name, expected in (("a", values), ("b", values), ("c", values[::2, ::-1])):
        np.testing.assert_array_equal(notes[name], expected)
        assert notes[name].dtype == np.dtype("<f8")


def test_every_algorithm_of_the_paper_can_be_saved(tmp_path):
    X, y = rows()
    for name in paper.ALGORITHMS:
        model = paper.algorithm(name).set_params(random_state=0).fit(X, y)
        modelfile.save(model, tmp_path / "m")
        again = modelfile.load(tmp_path / "m")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("change", [{"budget": 5}, {"learner": RBP(), "budget": 3}, {"kernels": [Linear()]}])
def test_parameters_set_after_learning_do_not_change_what_was_learned(tmp_path, change):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = BudgetMKLClassifier([Gaussian(0.5)], random_state=0).fit(X, y)
    expected = model.decision_function(X)
    model.set_params(**change)
    modelfile.save(model, tmp_path / "model.bomkl")
    for restored in (modelfile.load(tmp_path / "model.bomkl"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(restored.decision_function(X), expected)
        assert restored.get_params()["budget"] == model.budget
        with pytest.raises(ValueError, match="after learning had begun"):
            restored.partial_fit(X, y)


def test_pickle_carries_the_same_state(tmp_path):
    model = small_model().estimator
    modelfile.save(pickle.loads(pickle.dumps(model)), tmp_path / "a")
    modelfile.save(model, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "data").glob("model_v*.bomkl")), ids=lambda p: p.name)
def test_files_of_every_version_load(path):
    model = modelfile.read(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    np.testing.assert_allclose(model.estimator.decision_function(expected["X"]), expected["margins"], rtol=1e-12)
    assert model.notes == expected["notes"]


def test_a_file_of_every_version_is_kept():
    kept = {path.name for path in (Path(__file__).parent / "data").glob("model_v*.bomkl")}
    assert kept == {f"model_v{version}.bomkl" for version in range(1, modelfile.FORMAT_VERSION + 1)}


def test_nan_is_kept(tmp_path):
    modelfile.write(tmp_path / "m", Model(BudgetMKLClassifier(), {"a": [math.nan, math.inf, -math.inf, -0.0]}))
    assert repr(modelfile.read(tmp_path / "m").notes["a"]) == "[nan, inf, -inf, -0.0]"


def test_kernels_of_a_file_are_kernels():
    state = BudgetMKLRegressor([Gaussian(1.0)], budget=3).fit([[0.0], [1.0]], [0, 1]).__getstate__()
    state["kernels_"] = [3]
    with pytest.raises(ValueError, match="'kernels' parameter of a stored model must be"):
        BudgetMKLRegressor().__setstate__(state)


@pytest.mark.parametrize("kind", [AutoMKLClassifier, BudgetMKLClassifier])
def test_a_loaded_count_of_threads_is_checked_when_it_is_used(kind):
    model = kind(budget=8).fit(*rows())
    odd = modelfile.from_bytes(modelfile.to_bytes(Model(model.set_params(n_jobs="all")))).estimator
    with pytest.raises(ValueError, match=r"'n_jobs' parameter of .* must be None or an int other than 0"):
        odd.predict(rows()[0])

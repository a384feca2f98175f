"""What is learned stays within the limits that loading checks, whatever the numbers are."""

import ast
import copy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.models import layer, saved_layer
from tests.trials import challenged

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto import limits
from bomkl.auto.features import geometry
from bomkl.auto.limits import SCALED_TARGETS
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import Forest
from bomkl.modelfile import Model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))


def wide(rows):
    """The same rows with 600 columns more, all zero."""
    return np.hstack([rows, np.zeros((len(rows), 600))])


def loaded(model):
    return modelfile.from_bytes(modelfile.to_bytes(Model(model))).estimator


def state(model):
    return modelfile.to_bytes(Model(model))


def test_wide_columns_of_denormal_numbers_can_be_loaded():
    rows = wide(X)
    rows[:, 1] = RNG.integers(1, 5, size=len(X)) * 5e-324
    model = AutoMKLClassifier(16, random_state=0).partial_fit(rows, X[:, 0] > 0)
    assert_array_equal(loaded(model).predict_proba(rows), model.predict_proba(rows))
    assert np.isfinite(model.score_and_learn(wide(X), X[:, 0] > 0)).all()  # far beyond the scale of the column


@pytest.mark.parametrize("many", [wide, np.asarray])
def test_a_single_row_of_huge_numbers_is_kept_as_a_block_keeps_it(many):
    one, block = (
        AutoMKLClassifier(16, drift="adapt", random_state=0).partial_fit(many(X), X[:, 0] > 0) for _ in range(2)
    )
    huge = many(np.array([[0.0, 1e200, 0.0]]))
    one.learn_one(huge[0], True)
    block.partial_fit(huge, [True])
    assert state(one) == state(block) == state(copy.deepcopy(one)) == state(loaded(one))


def test_the_first_rows_of_huge_numbers_are_kept_as_later_ones():
    model = AutoMKLClassifier(16, random_state=0).partial_fit([[1e200, -1e300, 0.0], [1.0, 2.0, 3.0]], [0, 1])
    assert_array_equal(challenged(model).inner.drift.last_rows()[0], [[1e150, -1e150, 0.0], [1.0, 2.0, 3.0]])


def test_rows_that_were_saved_beyond_the_largest_number_are_clipped():
    model = AutoMKLClassifier(16, drift="adapt", random_state=0).partial_fit(X, X[:, 0] > 0)
    saved = model.__getstate__()
    saved_layer(saved, "adaptive")["last"]["X"][-1] = 1e200  # as version 0.2.0 did
    old = AutoMKLClassifier()
    old.__setstate__(saved)
    assert np.max(layer(old, "adaptive").last_X) == 1e150


def test_a_trace_that_rounding_brought_below_zero_can_be_loaded():
    model = AutoMKLRegressor(16, random_state=0).partial_fit(X, X[:, 0])
    model._learner.leader.components[0].regression.trace[1] = -1e-12
    assert state(loaded(model)) == state(model)


def test_a_mean_of_the_farthest_targets_can_be_loaded():
    codes, weight = RNG.integers(0, 9, size=(80, 2)).astype(np.uint8), np.full(80, 0.1)
    farthest = SCALED_TARGETS.high
    forest = Forest.growing(codes, np.full((80, 1), farthest), weight, Task.SQUARED, 0).finish()
    assert np.average(np.full(80, farthest), weights=weight) > farthest  # by rounding
    assert forest.arrays()["prior"][1] == farthest


def test_wide_targets_may_grow_from_next_to_nothing():
    targets = np.where(np.arange(80) < 16, 1e-160 * X[:, 0], np.arange(80))
    model = AutoMKLRegressor(16, random_state=0)
    for rows in np.split(np.arange(80), 20):
        assert np.isfinite(model.score_and_learn(wide(X[rows]), targets[rows])).all()
        assert state(loaded(model)) == state(model)
    assert np.isfinite(model.predict(wide(X))).all()


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_where_there_is_no_room_for_a_new_column_the_model_stays(error, monkeypatch):
    model = AutoMKLClassifier(16, random_state=0).partial_fit(wide(X), X[:, 0] > 0)
    before, row = state(model), np.where(np.arange(603) < 400, 1.0, 0.0)
    pad, left = np.pad, 0

    def failing(*arguments, **named):
        nonlocal left
        left -= 1
        if left < 0:
            raise error
        return pad(*arguments, **named)

    monkeypatch.setattr(np, "pad", failing)
    arrays = 0  # that could be padded: of the scales, the weights and the squares
    while model.n_seen_ == 80:
        left = arrays
        try:
            model.learn_one(row, True)
        except error:
            left = 1000
            assert state(model) == before
            assert_array_equal(model.predict(wide(X)), loaded(model).predict(wide(X)))
            arrays += 1
    assert arrays >= 3


@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e300])
@pytest.mark.parametrize("drift", [None, "adapt"])
def test_extreme_weights_count_within_limits(weight, drift):
    model = AutoMKLClassifier(16, drift=drift, random_state=0)
    scores = model.score_and_learn(X, X[:, 0] > 0, sample_weight=np.full(80, weight))
    assert np.isfinite(scores).all()
    assert state(loaded(model)) == state(model)


@pytest.mark.parametrize("small", [1.0, 1e-10, 1e-150])
@pytest.mark.parametrize("columns", [1, 8])
def test_rounding_of_a_huge_constant_column_does_not_decide_the_principal_axes(small, columns):
    rows = np.hstack([np.full((80, columns), 1.1e149), small * X])
    model = AutoMKLClassifier(16, random_state=0).partial_fit(rows, X[:, 0] > 0)
    axes = model._learner.leader.geometry.axes[0]
    assert_array_equal(axes[:columns, :3], 0)
    assert_allclose(np.abs(np.linalg.det(axes[columns:, :3])), 1, rtol=1e-5)
    assert state(loaded(model)) == state(model)


def test_eigenvalues_that_lapack_loses_are_found_again(monkeypatch):
    symmetric = X.T @ X
    expected = np.linalg.eigh(symmetric)[0][::-1][:2]
    whole = geometry.eigh

    def eigh(matrix, **subset):
        values, vectors = whole(matrix, **subset)
        return (values[1:], vectors[:, 1:]) if subset else (values, vectors)

    monkeypatch.setattr(geometry, "eigh", eigh)
    values, vectors = geometry._largest_eigenpairs(symmetric, 2)
    assert_allclose(values, expected)
    assert_allclose(symmetric @ vectors, vectors * values)


def test_no_bound_of_a_stored_number_stands_anywhere_else():
    """A number as a bound of what is loaded would be a second place; sizes of what is counted are no numbers."""
    found = []
    for path in Path(limits.__file__).parent.rglob("*.py"):
        for call in (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("array", "number"):
                bounds = [*call.args[1:], *(each.value for each in call.keywords if each.arg in ("low", "high"))]
                numbers = [each.value for each in bounds if isinstance(each, ast.Constant)]
                found += [(path.name, call.lineno) for value in numbers if isinstance(value, float) and value]
    assert not found

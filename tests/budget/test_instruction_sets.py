"""Every instruction set this machine has, the portable one included, gives the reference's results."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.lists import KERNELS

from bomkl import BudgetMKLClassifier, _core
from bomkl.combiners import Hedge
from bomkl.kernels import Exponential, Gaussian
from bomkl.learners import BPAS, SPA, Forgetron, Perceptron
from bomkl.reference import ReferenceMKL


def stream(n, d, dtype):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1, -1)


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request, monkeypatch):
    monkeypatch.setenv("BOMKL_INSTRUCTION_SET", request.param)
    assert _core.instruction_set() == request.param
    return request.param


def test_the_portable_set_is_always_there():
    assert "portable" in _core.instruction_sets()


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize(
    ("learner", "budget", "dtype", "tolerance"),
    [
        (SPA(), None, np.float64, 1e-9),
        (Perceptron(), None, np.float64, 1e-9),
        (BPAS(), 25, np.float64, 1e-9),
        (Forgetron(), 25, np.float64, 1e-9),
        # no rule that chooses a victim by comparing costs: single precision may settle a near tie the other way
        (SPA(), None, np.float32, 2e-3),
        (Perceptron(), None, np.float32, 2e-3),
    ],
)
@pytest.mark.parametrize("d", [2, 5, 33])
def test_it_agrees_with_the_reference(learner, budget, dtype, tolerance, d):
    X, y = stream(150, d, dtype)
    model = BudgetMKLClassifier(KERNELS, learner, budget=budget, random_state=0)
    margins = model.score_and_learn(X, y)
    oracle = ReferenceMKL(KERNELS, learner, Hedge(), "score", 0.001, "update", False, budget, seed=model._seed)
    scores = np.array([oracle.learn_one(x, label)[0] for x, label in zip(X.astype(float), y, strict=True)])
    assert_allclose(margins, scores, rtol=tolerance, atol=tolerance)


def rows_of_ones(n, most, dtype):
    rng = np.random.default_rng(most)
    X = np.zeros((n, 90), dtype=dtype)
    for x in X:
        x[rng.choice(90, rng.integers(1, most + 1), replace=False)] = 1
    return X, np.where(X[:, :30].sum(axis=1) + rng.normal(size=n) > X[:, 30:60].sum(axis=1), 1, -1)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("most", [15, 16, 40], ids=["looked up", "at the end of the table", "some beyond it"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_values_that_are_looked_up_are_those_that_are_computed(most, dtype):
    X, y = rows_of_ones(300, most, dtype)
    # numbers whose squares vanish change no product, and rows of them are not rows of ones
    tiny = np.full((len(y), 95), np.finfo(dtype).tiny, dtype=dtype)
    computed = BudgetMKLClassifier(KERNELS, SPA(beta=1.0), random_state=0).score_and_learn(np.hstack([X, tiny]), y)
    for size in (1, 7, 300):
        model = BudgetMKLClassifier(KERNELS, SPA(beta=1.0), random_state=0)
        parts = [
            model.score_and_learn(X[i : i + size], y[i : i + size], classes=[-1, 1]) for i in range(0, len(y), size)
        ]
        assert_array_equal(np.concatenate(parts), computed)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize(("learner", "budget"), [(SPA(beta=1.0), None), (BPAS(), 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_change_no_bit(learner, budget, dtype):
    X, y = stream(700, 11, dtype)
    whole = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0)
    margins = whole.score_and_learn(X, y)
    for size in (1, 7, 64, 300):
        model = BudgetMKLClassifier(learner=learner, budget=budget, random_state=0)
        parts = [
            model.score_and_learn(X[i : i + size], y[i : i + size], classes=[-1, 1]) for i in range(0, len(y), size)
        ]
        assert_array_equal(np.concatenate(parts), margins)
        assert_array_equal(model.dual_coef_, whole.dual_coef_)


def test_a_model_goes_on_under_another_set(monkeypatch):
    X, y = stream(400, 6, np.float64)
    results = []
    for later in _core.instruction_sets():
        monkeypatch.setenv("BOMKL_INSTRUCTION_SET", "portable")
        model = BudgetMKLClassifier(random_state=0).partial_fit(X[:200], y[:200])
        state = model.__getstate__()
        monkeypatch.setenv("BOMKL_INSTRUCTION_SET", later)
        moved = BudgetMKLClassifier()
        moved.__setstate__(state)
        results.append(moved.score_and_learn(X[200:], y[200:]))
    for result in results[1:]:
        assert_allclose(result, results[0], rtol=1e-9, atol=1e-9)


def test_an_unknown_set_is_refused(monkeypatch):
    monkeypatch.setenv("BOMKL_INSTRUCTION_SET", "mmx")
    with pytest.raises(ValueError, match=r"BOMKL_INSTRUCTION_SET .*mmx"):
        BudgetMKLClassifier().fit([[0.0], [1.0]], [0, 1])


@pytest.mark.usefixtures("instruction_set")
def test_exp_is_accurate_to_a_few_units_in_the_last_place():
    x = -np.random.default_rng(0).uniform(0, 85, 1 << 16).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    _core.exp_many(x)
    assert np.max(np.abs(x / exact - 1)) < 4e-7
    edge = np.array([0.0, -86.0, -1e30, -0.0] * 16, dtype=np.float32)
    _core.exp_many(edge)
    assert_array_equal(edge[:4] > 0, [True, True, False, True])
    assert edge[0] == 1


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize(("dtype", "furthest"), [(np.float32, 80), (np.float64, 700)])
def test_kernel_values_are_accurate_to_a_few_units_in_the_last_place(dtype, furthest):
    """One row of support with the coefficient one: the score is the kernel's value."""
    x = np.arange(0, 40, 1 / 64)  # squares are exact
    for kernel, exponent in ((Gaussian(1.0), x**2 / 2), (Exponential(1.0), x)):
        model = BudgetMKLClassifier([kernel], Perceptron(), selection_delta=None)
        model.partial_fit(np.zeros((1, 1), dtype=dtype), [1], classes=[0, 1])
        exponent = exponent[exponent < furthest]
        values = model.decision_function(x[: len(exponent), None].astype(dtype))
        assert values[0] == 1
        error = np.abs(values / np.exp(-exponent) - 1) / np.finfo(dtype).eps
        assert np.all(error < 3 + exponent)  # the factor in the exponent is rounded, too

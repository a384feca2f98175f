"""The compiled engine against the slow, obvious reference: same support, weights, mistakes and margins.

On integer-valued rows with dyadic parameters every sum is exact, so the two must agree bit for bit; elsewhere they add
the same numbers in another order and must agree to rounding. Each case is fed in blocks of several sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests import lists
from tests.lists import LEARNERS

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor, modelfile
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Gaussian, Linear, Polynomial, paper_kernels
from bomkl.learners import BOGD, BPAS, PA, RBP, SPA, Perceptron, Projectron
from bomkl.reference import ReferenceMKL

BLOCK_SIZES = (1, 7, 64, 1000)
N_ROWS = 70


def schedule(t):
    """Smoothing that tells every round from the next."""
    return (0.9, 0.05, 0.4)[t % 3]


def kernel_name(kernel):
    return getattr(kernel, "__name__", str(kernel))


def inner_product(X, Z):
    return np.asarray(X) @ np.asarray(Z).T


COMBINERS = {
    "uniform": Uniform(),
    "zero_one": Hedge(gamma=0.9, loss="zero_one"),
    "hinge": Hedge(gamma=0.95, loss="hinge", discount="selected"),
    "share": Hedge(gamma=0.8, loss="hinge", share=0.05),
}
REGRESSION_COMBINERS = {
    "uniform": Uniform(),
    "epsilon_insensitive": Hedge(gamma=0.9, loss="epsilon_insensitive", discount="selected"),
    "squared": Hedge(gamma=0.95, loss="squared", share=0.02),
}
SELECTIONS = {
    "all": (None, "update"),
    "number-update": (0.2, "update"),
    "number-combination": (0.2, "combination"),
    "number-both": (0.2, "both"),
    "callable-update": (schedule, "update"),
    "callable-combination": (schedule, "combination"),
    "callable-both": (schedule, "both"),
}
# Rows of +1 and -1 in four columns: k(x, x) is a power of two for all of these, so projections stay dyadic.
EXACT_KERNELS = (Linear(), Polynomial(degree=2), Polynomial(degree=3, gamma=0.5))
KERNELS = (Gaussian(0.7), Polynomial(degree=2, gamma=0.5, coef0=1.0), Cauchy(2.0))
ALL_KERNELS = (*EXACT_KERNELS, *lists.KERNELS, Gaussian(0.25), inner_product)
EXACT_LEARNERS = {
    "Perceptron": (Perceptron(), None),
    "Perceptron-budget": (Perceptron(), 5),
    "PA": (PA(C=0.25), None),
    "PA-budget": (PA(C=0.25), 5),
    # Losses are multiples of 1/4 = alpha, so that rho is 1/2 wherever there is loss.
    "SPA": (SPA(eta=0.125, alpha=0.25, beta=0.5), None),
    "SPA-budget": (SPA(eta=0.125, alpha=0.25, beta=0.5), 5),
    "RBP": (RBP(), 5),
    "BOGD": (BOGD(eta=0.5, regularization=1.0), 6),
    "BPAS": (BPAS(C=0.25), 5),
    "BPAS-unit": (BPAS(C=0.25, unit_norm=True), 5),
}
REGRESSION_LEARNERS = ("PA", "PA-budget", "SPA", "SPA-budget", "BOGD", "BPAS", "BPAS-unit")
# A few pairs that meet every combiner, every kind of selection and every scope.
PAIRS = [
    ("uniform", "number-both"),
    ("zero_one", "number-update"),
    ("hinge", "callable-both"),
    ("share", "callable-combination"),
]
REGRESSION_PAIRS = [
    ("uniform", "number-update"),
    ("epsilon_insensitive", "all"),
    ("epsilon_insensitive", "number-both"),
    ("squared", "callable-update"),
    ("squared", "number-combination"),
]


@dataclass
class Case:
    """Settings, and the rows they are run on."""

    settings: dict[str, Any]
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    task: str

    @property
    def n_outputs(self):
        return 3 if self.task == "multiclass" else 1


def rows_of(task, exact, seed=0, n=N_ROWS):
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(n, 4)) if exact else rng.normal(size=(n, 3))
    signal = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + (rng.normal(size=n) > 1)
    if task == "binary":
        return X, np.where(signal > 0, 1.0, -1.0)
    if task == "multiclass":
        return X, np.digitize(signal, [-0.3, 0.6])
    return X, np.round(4 * signal) / 4


def make_case(
    learner, combiner, selection=(None, "update"), task="binary", exact=False, n=N_ROWS, weighted=False, **settings
):
    X, y = rows_of(task, exact, n=n)
    rule, budget = learner
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=n) if weighted else None
    settings = {
        "kernels": EXACT_KERNELS if exact else KERNELS,
        "learner": rule,
        "combiner": combiner,
        "selection_delta": selection[0],
        "selection_scope": selection[1],
        "normalize_step": False,
        "budget": budget,
    } | settings
    return Case(settings, X, y, weights, task)


def run_reference(case, random_state=3):
    seed = int(np.random.RandomState(random_state).randint(2**63 - 1, dtype=np.int64))
    oracle = ReferenceMKL(**case.settings, seed=seed, task=case.task, n_outputs=case.n_outputs)
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    scores = [oracle.learn_one(x, y, w) for x, y, w in zip(case.X, case.y, weights, strict=True)]
    return oracle, np.array(scores)


def run_engine(case, block_size, dtype=np.float64, random_state=3):
    estimator = BudgetMKLRegressor if case.task == "regression" else BudgetMKLClassifier
    model = estimator(**case.settings | {"kernels": list(case.settings["kernels"])}, random_state=random_state)
    classes = {} if case.task == "regression" else {"classes": np.unique(case.y)}
    margins = []
    for start in range(0, len(case.y), block_size):
        block = slice(start, start + block_size)
        weights = None if case.weights is None else case.weights[block]
        margins.append(
            model.score_and_learn(case.X[block].astype(dtype), case.y[block], sample_weight=weights, **classes)
        )
    return model, np.concatenate(margins).reshape(len(case.y), -1)


def terms(rows, coefficients):
    """Support rows with their coefficients, one line each, in an order that only depends on their values."""
    table = np.column_stack([np.reshape(rows, (len(coefficients), -1)), coefficients])
    return table[np.lexsort(table.T[::-1])]


def assert_agree(case, model, margins, oracle, scores, exact):
    def check(actual, expected):
        if exact:
            np.testing.assert_array_equal(actual, expected)
        else:
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)

    check(margins, scores)
    assert model.n_seen_ == oracle.n_seen
    relative = np.exp(oracle.log_weights - np.max(oracle.log_weights, axis=1, keepdims=True))
    n_kernels = len(case.settings["kernels"])
    shape = (case.n_outputs, n_kernels) if case.n_outputs > 1 else (n_kernels,)
    assert model.kernel_weights_.shape == shape
    tolerance = 1e-15 if exact else 1e-9
    weights = relative / relative.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.kernel_weights_, weights.reshape(shape), rtol=tolerance, atol=tolerance)
    n_support = np.array([[len(f.rows) for f in fs] for fs in oracle.expansions])
    np.testing.assert_array_equal(model.n_support_, n_support.reshape(shape))
    if case.task != "regression":
        assert model.mistakes_ == oracle.mistakes
        np.testing.assert_array_equal(model.kernel_mistakes_, np.reshape(oracle.kernel_mistakes, shape))
    dual_coef = model.dual_coef_.reshape(case.n_outputs, len(model.support_vectors_), n_kernels)
    for c, i in product(range(case.n_outputs), range(n_kernels)):
        f, used = oracle.expansions[c][i], dual_coef[c, :, i] != 0
        present = np.array(f.coefficients) != 0
        expected = terms(np.reshape(f.rows, (len(f.rows), case.X.shape[1]))[present], np.array(f.coefficients)[present])
        check(terms(model.support_vectors_[used], dual_coef[c, used, i]), expected)
    unseen = rows_of(case.task, exact, seed=9)[0][:5]
    later = (model.predict if case.task == "regression" else model.decision_function)(unseen)
    check(np.reshape(later, (5, -1)), np.array([oracle.score_one(x) for x in unseen]))


def compare(case, exact, dtype=np.float64, block_sizes=BLOCK_SIZES):
    oracle, scores = run_reference(case)
    for block_size in block_sizes:
        model, margins = run_engine(case, block_size, dtype)
        assert_agree(case, model, margins, oracle, scores, exact)
    return oracle


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("learner", EXACT_LEARNERS)
def test_binary_bit_for_bit(learner, combiner, selection):
    case = make_case(EXACT_LEARNERS[learner], COMBINERS[combiner], SELECTIONS[selection], exact=True)
    compare(case, exact=True, block_sizes=BLOCK_SIZES if selection.startswith("number") else BLOCK_SIZES[1:])


@pytest.mark.parametrize("selection", ["all", "number-update", "number-combination", "number-both", "callable-both"])
@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_binary_to_rounding(learner, combiner, selection):
    case = make_case(LEARNERS[learner], COMBINERS[combiner], SELECTIONS[selection])
    compare(case, exact=False, block_sizes=BLOCK_SIZES if selection == "number-both" else (7, 1000))


@pytest.mark.parametrize(("combiner", "selection"), PAIRS)
@pytest.mark.parametrize("learner", EXACT_LEARNERS)
def test_multiclass_bit_for_bit(learner, combiner, selection):
    case = make_case(EXACT_LEARNERS[learner], COMBINERS[combiner], SELECTIONS[selection], "multiclass", exact=True)
    compare(case, exact=True, block_sizes=BLOCK_SIZES if combiner == "uniform" else BLOCK_SIZES[1:])


@pytest.mark.parametrize("learner", LEARNERS)
def test_multiclass_to_rounding(learner):
    case = make_case(LEARNERS[learner], COMBINERS["share"], SELECTIONS["number-update"], "multiclass")
    compare(case, exact=False, block_sizes=(7, 1000))


@pytest.mark.parametrize(("combiner", "selection"), REGRESSION_PAIRS)
@pytest.mark.parametrize("learner", ["PA", "PA-budget", "SPA", "SPA-budget", "BPAS"])
def test_regression_bit_for_bit(learner, combiner, selection):
    combiner, selection = REGRESSION_COMBINERS[combiner], SELECTIONS[selection]
    compare(make_case(EXACT_LEARNERS[learner], combiner, selection, "regression", exact=True, epsilon=0.25), exact=True)


@pytest.mark.parametrize(("combiner", "selection"), REGRESSION_PAIRS)
@pytest.mark.parametrize("learner", REGRESSION_LEARNERS)
def test_regression_to_rounding(learner, combiner, selection):
    combiner, selection = REGRESSION_COMBINERS[combiner], SELECTIONS[selection]
    # without the polynomial kernel, whose k(x, x) makes gradient descent diverge
    kernels = (Gaussian(0.7), Cauchy(2.0))
    compare(make_case(LEARNERS[learner], combiner, selection, "regression", kernels=kernels), exact=False)


@pytest.mark.parametrize("combination", ["score", "vote"])
@pytest.mark.parametrize("normalize_step", [False, True])
@pytest.mark.parametrize("learner", ["PA", "SPA", "SPA-budget", "BPAS", "Perceptron-budget"])
def test_step_and_combination(learner, normalize_step, combination):
    case = make_case(
        LEARNERS[learner],
        COMBINERS["zero_one"],
        SELECTIONS["number-both"],
        normalize_step=normalize_step,
        combination=combination,
    )
    oracle = compare(case, exact=False, block_sizes=(7, 1000))
    if combination == "vote":
        voted = np.sign(run_engine(case, 1000)[1])
        assert oracle.mistakes == (voted[:, 0] != case.y).sum()


@pytest.mark.parametrize("kernel", ALL_KERNELS, ids=kernel_name)
@pytest.mark.parametrize("learner", ["PA", "BPAS", "Forgetron", "Projectron"])
def test_each_kernel_alone(learner, kernel):
    case = make_case(LEARNERS[learner], Uniform(), kernels=(kernel,), normalize_step=True)
    case.X[[0, 20, 40]] = 0.0  # rows of length zero: k(x, x) = 0 for some kernels
    compare(case, exact=False, block_sizes=(7, 1000))


def test_projectron_with_a_tiny_row_beside_huge_ones():
    """A product of two numbers overflows on the way to an inverse of ordinary ones."""
    X = np.array([[1e-101, 2e-101], [3e100, -1e100], [1e100, 1e100], [-2e100, 3e100]])
    settings = {"kernels": [Linear()], "learner": Projectron(), "combiner": Uniform(), "budget": 3}
    model, oracle = BudgetMKLClassifier(**settings), ReferenceMKL(**settings)
    for x, y in zip(X, [1, -1, 1, 1], strict=True):
        model.partial_fit([x], [y], classes=[-1, 1])
        oracle.learn_one(x, y)
    model = modelfile.from_bytes(modelfile.to_bytes(modelfile.Model(model))).estimator
    assert np.array_equal(model.support_vectors_, oracle.expansions[0][0].rows)
    assert np.allclose(model.dual_coef_.ravel(), oracle.expansions[0][0].coefficients, rtol=1e-12)


@pytest.mark.parametrize("learner", ["Perceptron", "SPA", "SPA-budget", "RBP", "BPAS"])
def test_the_papers_kernels(learner):
    case = make_case(LEARNERS[learner], COMBINERS["zero_one"], kernels=tuple(paper_kernels()))
    # so close together that the narrowest Gaussian is above the smallest float, where signs of tiny scores still count
    case.X = np.random.default_rng(4).uniform(-0.16, 0.16, size=(N_ROWS, 3))
    case.y = np.where(case.X[:, 0] * case.X[:, 1] > 0, 1.0, -1.0)
    compare(case, exact=False, block_sizes=(7, 1000))


@pytest.mark.parametrize("learner", EXACT_LEARNERS)
def test_a_callable_among_native_kernels_bit_for_bit(learner):
    case = make_case(
        EXACT_LEARNERS[learner],
        COMBINERS["hinge"],
        SELECTIONS["number-both"],
        exact=True,
        kernels=(Polynomial(degree=2), inner_product, Linear()),
    )
    compare(case, exact=True)


@pytest.mark.parametrize(
    ("task", "learner"), [*product(["binary", "multiclass"], LEARNERS), *product(["regression"], REGRESSION_LEARNERS)]
)
def test_sample_weights(learner, task):
    combiner = REGRESSION_COMBINERS["squared"] if task == "regression" else COMBINERS["hinge"]
    case = make_case(
        LEARNERS[learner], combiner, (0.2, "both"), task, weighted=True, kernels=(Gaussian(0.7), Cauchy(2.0))
    )
    oracle = compare(case, exact=False, block_sizes=(7, 1000))
    assert oracle.n_seen == (case.weights > 0).sum() < N_ROWS


def test_rows_of_weight_zero_take_no_round_of_a_schedule():
    case = make_case(LEARNERS["PA"], COMBINERS["hinge"], SELECTIONS["callable-both"], weighted=True)
    compare(case, exact=False, block_sizes=(7, 64, 1000))


def test_class_weights_multiply_sample_weights():
    case = make_case(LEARNERS["PA"], COMBINERS["hinge"], weighted=True)
    by_class = make_case(LEARNERS["PA"], COMBINERS["hinge"], weighted=True)
    by_class.weights = case.weights * np.where(case.y > 0, 3.0, 0.25)
    oracle, scores = run_reference(by_class)
    case.settings["class_weight"] = {1.0: 3.0, -1.0: 0.25}
    model, margins = run_engine(case, 7)
    assert_agree(case, model, margins, oracle, scores, exact=False)


@pytest.mark.parametrize("learner", ["Perceptron", "Perceptron-budget", "PA", "SPA", "RBP"])
def test_single_precision_bit_for_bit(learner):
    """Small multiples of 1/4 are exact in float32 too."""
    case = make_case(EXACT_LEARNERS[learner], COMBINERS["hinge"], SELECTIONS["number-both"], exact=True)
    if learner == "Perceptron-budget":
        case.settings["kernels"] = (Linear(),)
    compare(case, exact=True, dtype=np.float32)
    assert run_engine(case, 64, np.float32)[0].support_vectors_.dtype == np.float32


@pytest.mark.parametrize("learner", LEARNERS)
def test_single_precision_to_rounding(learner):
    """As long as no score is within rounding of a boundary, float32 takes the reference's decisions."""
    case = make_case(LEARNERS[learner], COMBINERS["share"], SELECTIONS["number-both"], n=40)
    case.X = case.X.astype(np.float32).astype(np.float64)
    _, scores = run_reference(case)
    _, margins = run_engine(case, 7, np.float32)
    np.testing.assert_allclose(margins, scores, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("rule", "budget"),
    [
        (Perceptron(), None),
        (SPA(eta=0.125, alpha=0.25, beta=0.5), None),
        (RBP(), 150),
        (BOGD(eta=0.5, regularization=1.0), 6),
    ],
)
def test_many_rows_and_tiles_bit_for_bit(rule, budget):
    """Long enough for several tiles of support rows and several internal blocks."""
    case = make_case((rule, budget), COMBINERS["zero_one"], (0.5, "update"), exact=True, n=700)
    rng = np.random.default_rng(5)
    case.X, case.y = rng.integers(-3, 4, size=(700, 5)).astype(float), rng.choice([-1.0, 1.0], size=700)
    case.settings["kernels"] = (Linear(), Polynomial(degree=2, coef0=1.0))
    oracle, scores = run_reference(case)
    if not isinstance(rule, BOGD):
        assert max(len(f.rows) for f in oracle.expansions[0]) >= 150
    for block_size in (7, 64, 1000):
        model, margins = run_engine(case, block_size)
        np.testing.assert_array_equal(margins, scores)
        assert model.mistakes_ == oracle.mistakes
        assert model.n_support_.tolist() == [len(f.rows) for f in oracle.expansions[0]]

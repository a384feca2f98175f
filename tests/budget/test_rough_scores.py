"""Learners that vote look at no more than the sign or margin of a score, so most scores are taken in single precision.

What is learned must be that of rows that come one by one, which are always scored in double precision, bit for bit.
The streams here have scores that single precision cannot decide: sums that cancel, values that vanish, rows that are
long, tiny or there twice, coefficients of all sizes.
"""

from __future__ import annotations

import numpy as np
import pytest

from bomkl import BudgetMKLClassifier
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Gaussian, Polynomial, paper_kernels
from bomkl.learners import BOGD, RBP, Forgetron

N_ROWS = 330
LEARNERS = {
    "RBP": RBP(),
    "Forgetron": Forgetron(),
    "Forgetron-grow": Forgetron(may_grow=True),
    "BOGD": BOGD(eta=0.25, regularization=0.1),
    "BOGD-ones": BOGD(eta=1.0, regularization=0.0),  # scores that are one, or next to it
}


def pairs(rng, X, y):
    """Each row twice with both labels, so that scores are exactly zero."""
    X[1::2], y[1::2] = X[0::2], -y[0::2]


def long_rows(rng, X, y):
    X += 3e4


def lengths_of_all_sizes(rng, X, y):
    X *= 10.0 ** rng.integers(-3, 4, size=(len(X), 1))


def beyond_single_precision(rng, X, y):
    X[:] = np.round(X, 1)  # so that kernels still see rows that are near
    X[200, 0] = 1e25


def tiny(rng, X, y):
    X *= 1e-25


def zeros(rng, X, y):
    X[rng.random(len(X)) < 0.5] = 0


def far(rng, X, y):
    """Most Gaussians are close to where they count as zero, some beyond."""
    X *= np.linspace(0.5, 12, len(X))[:, None]


def a_few_points(rng, X, y):
    X[:] = X[rng.integers(5, size=len(X))] + 1e-7 * rng.normal(size=X.shape)


def plain(rng, X, y):
    pass


STREAMS = (plain, pairs, long_rows, lengths_of_all_sizes, beyond_single_precision, tiny, zeros, far, a_few_points)


def stream(change):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N_ROWS, 7))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N_ROWS) > 0, 1, -1)
    change(rng, X, y)
    return X, y


def learned(model, X, y, ends, weights=None):
    margins = [
        model.score_and_learn(
            X[start:end],
            y[start:end],
            classes=np.unique(y),
            sample_weight=None if weights is None else weights[start:end],
        )
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    found = [np.concatenate(margins), model.dual_coef_, model.support_vectors_, model.kernel_weights_]
    return [np.ascontiguousarray(array).tobytes() for array in found]


def compare(make, X, y, weights=None):
    n = len(y)
    one_by_one = learned(make(), X, y, range(1, n + 1), weights)
    uneven = [3, 4, 6, 25, 41, 42, 75, 140, 143, 300, n]
    for ends in ([n], [*range(17, n, 17), n], uneven):
        assert learned(make(), X, y, ends, weights) == one_by_one, ends[:3]


def voting(learner, budget, **settings):
    settings = {"kernels": paper_kernels(), "combiner": Hedge(loss="zero_one"), "selection_delta": None} | settings
    return lambda: BudgetMKLClassifier(
        learner=learner, budget=budget, combination="vote", dtype="float64", random_state=3, **settings
    )


@pytest.mark.parametrize("change", STREAMS, ids=lambda change: change.__name__)
@pytest.mark.parametrize("learner", LEARNERS)
def test_same_bits_as_one_by_one(learner, change):
    compare(voting(LEARNERS[learner], 60), *stream(change))


@pytest.mark.parametrize("budget", [1, 2, 3, 65])
@pytest.mark.parametrize("learner", ["RBP", "Forgetron", "BOGD"])
def test_any_budget(learner, budget):
    compare(voting(LEARNERS[learner], budget), *stream(plain))


@pytest.mark.parametrize("learner", ["RBP", "Forgetron", "BOGD"])
def test_weights_of_all_sizes(learner):
    X, y = stream(a_few_points)
    rng = np.random.default_rng(5)
    weights = 10.0 ** rng.uniform(-12, 6, size=len(y))
    weights[rng.random(len(y)) < 0.2] = 0
    compare(voting(LEARNERS[learner], 40), X, y, weights)


@pytest.mark.parametrize("learner", ["RBP", "BOGD"])
def test_several_classes_and_selection(learner):
    X, y = stream(plain)
    y = np.digitize(X[:, 2], [-0.5, 0.5])
    compare(voting(LEARNERS[learner], 30, selection_delta=0.1, combiner=Uniform()), X, y)


@pytest.mark.parametrize("learner", ["RBP", "BOGD"])
def test_kernels_at_the_ends_of_the_range(learner):
    kernels = [Gaussian(2.0**-29), Gaussian(2.0**-20), Gaussian(2.0**29), Polynomial(16), Polynomial(5, coef0=-2.0)]
    compare(voting(LEARNERS[learner], 40, kernels=kernels), *stream(lengths_of_all_sizes))


def test_reading_between_calls_changes_nothing():
    X, y = stream(plain)
    make = voting(RBP(), 50)
    alone, read = make(), make()
    for start in range(0, N_ROWS, 55):
        block = slice(start, start + 55)
        for model in (alone, read):
            model.score_and_learn(X[block], y[block], classes=[-1, 1])
        read.decision_function(X[:100])
        read.predict_one(X[start])
    assert read.dual_coef_.tobytes() == alone.dual_coef_.tobytes()
    assert read.support_vectors_.tobytes() == alone.support_vectors_.tobytes()


def test_an_error_in_the_middle_of_a_call_leaves_nothing_behind():
    X, y = stream(plain)
    model, same = (voting(RBP(), 50)() for _ in range(2))
    for each in (model, same):
        each.score_and_learn(X[:150], y[:150], classes=[-1, 1])
    broken = X[150:250].copy()
    broken[90, 0] = 1e160  # its squared norm overflows, which is found in the last block
    with pytest.raises(ValueError, match="row 90"):
        model.score_and_learn(broken, y[150:250])
    for each in (model, same):
        each.score_and_learn(X[150:], y[150:])
    assert model.dual_coef_.tobytes() == same.dual_coef_.tobytes()
    assert model.support_vectors_.tobytes() == same.support_vectors_.tobytes()

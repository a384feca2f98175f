"""Rows that are looked at ahead, a line of them at once, give the bits of rows that come one by one.

One row alone gathers its kernel values from all stored rows; many are related line by line, with sums that are kept
while support rows come and go. `test_engine_against_reference.py` compares the former with the reference.
"""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest

from bomkl import BudgetMKLClassifier
from bomkl.combiners import Hedge
from bomkl.kernels import Cosine, Gaussian, Laplacian, Polynomial, paper_kernels
from bomkl.learners import BOGD, BPAS, RBP, Forgetron, Perceptron

N_ROWS = 420
LEARNERS = {
    "RBP": RBP(),
    "BOGD": BOGD(eta=0.5, regularization=0.2),  # its scale leaves the range in which it is kept apart
    "Forgetron": Forgetron(),
    "Forgetron-grow": Forgetron(may_grow=True),
    "BPAS": BPAS(),
    "BPAS-unit": BPAS(unit_norm=True),
    "Perceptron": Perceptron(),
}
CHAINS = [Gaussian(sigma) for sigma in (0.25, 8.0, 2.0, 1.0, 4.0, 0.5, 1.0, 0.3, 16.0)]  # one twice, one in no chain


def stream(kind):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, 12))
    if kind == "categories":  # columns that are zero in most rows, others in none
        X[:, :8] = np.eye(8)[rng.integers(8, size=N_ROWS)]
    elif kind == "far":  # narrow kernels vanish, until rows come again
        X *= 30
        X[N_ROWS // 2 :] = X[: N_ROWS - N_ROWS // 2] + 1e-3 * rng.normal(size=(N_ROWS - N_ROWS // 2, 12))
    elif kind == "pairs":  # narrow kernels vanish, but for the row before
        X *= 30
        X[1::2] = X[::2] + 1e-3 * rng.normal(size=(N_ROWS // 2, 12))
    elif kind == "close":  # distances that lose their digits unless they are summed feature by feature
        X = 1000 + 1e-3 * X
    y = np.where(X[:, 8] * X[:, 9] - np.mean(X[:, 8] * X[:, 9]) + 0.1 * rng.normal(size=N_ROWS) > 0, 1, -1)
    return X, y


def learned(model, X, y, block):
    parts = [
        model.score_and_learn(X[start : start + block], y[start : start + block], classes=np.unique(y))
        for start in range(0, len(X), block)
    ]
    found = [np.concatenate(parts), model.dual_coef_, model.support_vectors_, model.kernel_weights_]
    return [np.ascontiguousarray(array).tobytes() for array in found]


def compare(make, X, y):
    one_by_one = learned(make(), X, y, 1)
    for block in (5, 37, len(X)):
        assert learned(make(), X, y, block) == one_by_one, block


@pytest.mark.parametrize("kind", ["numbers", "categories", "far", "pairs", "close"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_lines_give_the_bits_of_single_rows(learner, kind):
    compare(
        lambda: BudgetMKLClassifier(
            learner=LEARNERS[learner],
            budget=45,
            kernels=[*CHAINS, Polynomial(2), Cosine(), Laplacian(0.5)],
            combination="vote",
            combiner=Hedge(loss="zero_one"),
            selection_delta=None,
            random_state=0,
        ),
        *stream(kind),
    )


@pytest.mark.parametrize("budget", [1, 7, 8, 9, 31, 32, 33, 71, 130])
@pytest.mark.parametrize("unit_norm", [False, True])
def test_the_first_of_equally_cheap_rows_is_replaced(unit_norm, budget):
    X, y = 1e3 * np.arange(N_ROWS)[:, np.newaxis], np.resize([1, -1], N_ROWS)  # all kernel values are zero
    for block in (1, N_ROWS):
        learner = BPAS(unit_norm=unit_norm)
        model = BudgetMKLClassifier(learner=learner, budget=budget, kernels=[Gaussian(1.0)], random_state=0)
        learned(model, X, y, block)
        np.testing.assert_array_equal(model.support_vectors_, X[-budget:])


@pytest.mark.parametrize("place", [0, 6, 8, 31, 32, 40, 63, 64, 69, 70])
def test_the_cheapest_row_is_replaced_wherever_it_is(place):
    X, y = 1e3 * np.arange(72)[:, np.newaxis], np.resize([1, -1], 72)
    X[71] = X[place] + 0.1  # most of that row stays in the new one
    model = BudgetMKLClassifier(learner=BPAS(), budget=71, kernels=[Gaussian(1.0)], random_state=0)
    learned(model, X, y, 1)
    np.testing.assert_array_equal(np.sort(model.support_vectors_, axis=0), np.sort(np.delete(X, place, axis=0), axis=0))


_TINY_NUMBERS_ARE_ZERO = """
import ctypes
import platform
import subprocess
import sys

import numpy as np
from bomkl import BudgetMKLClassifier
from bomkl.kernels import Gaussian
from bomkl.learners import BPAS

X, y = np.random.default_rng(0).normal(size=(1000, 3)), np.random.default_rng(1).integers(0, 2, 1000)
X[200:] = X[5]


def learned():
    model = BudgetMKLClassifier([Gaussian(1.0), Gaussian(4.0)], BPAS(), budget=100, random_state=0, n_jobs=1)
    return model.fit(X, y).decision_function(X[:100])


expected = learned()
environment = (ctypes.c_uint32 * 8)()  # of floating-point arithmetic; the last word is that of SSE
library = ctypes.CDLL(None)
library.fegetenv(environment)
environment[7] |= 0x8040
library.fesetenv(environment)
assert 5e-324 * 1.0 == 0.0
assert (learned() == expected).all()
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="sets a register of x86 as Linux has it"
)
def test_the_cheapest_row_is_found_where_the_processor_takes_tiny_numbers_for_zero():
    """Libraries that are built with -ffast-math set it so, and equal rows cost nothing."""
    subprocess.run([sys.executable, "-c", _TINY_NUMBERS_ARE_ZERO], check=True, timeout=120)


@pytest.mark.parametrize("learner", ["RBP", "BOGD", "Forgetron", "BPAS-unit"])
def test_lines_of_several_classes_in_single_precision(learner):
    X, _ = stream("categories")
    compare(
        lambda: BudgetMKLClassifier(learner=LEARNERS[learner], budget=20, kernels=paper_kernels(), random_state=0),
        X.astype(np.float32),
        np.digitize(X[:, 8], [-0.5, 0.5]),
    )


@pytest.mark.parametrize("learner", ["RBP", "BOGD", "Forgetron"])
def test_lines_go_on_after_a_call_that_failed(learner):
    X, y = stream("categories")
    make = lambda: BudgetMKLClassifier(learner=LEARNERS[learner], budget=30, kernels=CHAINS, random_state=0)  # noqa: E731
    untouched, model = make(), make()
    for each in (untouched, model):
        each.partial_fit(X[:200], y[:200], classes=[-1, 1])
    spoiled = X[200:].copy()
    spoiled[150] = 1e200
    with pytest.raises(ValueError, match="row 150"):
        model.partial_fit(spoiled, y[200:])
    assert learned(model, X[200:], y[200:], 50) == learned(untouched, X[200:], y[200:], 1)

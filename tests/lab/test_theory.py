"""The paper's bounds: their numbers by hand, and SPA itself, run many times, against them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.svm import SVC

from bomkl import BudgetMKLClassifier
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Gaussian
from bomkl.learners import SPA
from bomkl_lab import theory

T = 400
SEEDS = range(60)
WIDTHS = (0.4, 1.0, 2.5)


def hinge(margins):
    return np.maximum(0.0, 1 - margins)


@pytest.fixture(scope="module")
def rows():
    """Two clusters on a line, five labels in a hundred flipped."""
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=T)
    X = np.stack([y, np.zeros(T)], axis=1) + rng.normal(scale=0.3, size=(T, 2))
    return X, np.where(rng.random(T) < 0.05, -y, y)


def comparator(X, y, sigma):
    """A good fixed function of one kernel's space: its norm there and its cumulative hinge loss on the same rows."""
    kernel = Gaussian(sigma)
    machine = SVC(kernel="precomputed", C=0.1).fit(kernel(X, X), y)
    coefficients = np.zeros(len(X))
    coefficients[machine.support_] = machine.dual_coef_[0]
    values = kernel(X, X) @ coefficients
    return SimpleNamespace(norm=math.sqrt(coefficients @ values), loss=hinge(y * values).sum())


def run(X, y, widths, learner, seed, gamma=None, delta=None):
    """Cumulative hinge loss of one run, support rows per kernel, and a bound on every kernel's hinge loss.

    k <= 1 and a coefficient never changes, so the final sum of their sizes bounds every score on the way.
    """
    model = BudgetMKLClassifier(
        kernels=[Gaussian(sigma) for sigma in widths],
        learner=learner,
        combiner=Uniform() if gamma is None else Hedge(gamma=gamma, loss="hinge"),
        selection_delta=delta,
        random_state=seed,
    )
    margins = model.score_and_learn(X, y)
    largest_loss = 1 + np.abs(model.dual_coef_).sum(axis=0).max()
    return SimpleNamespace(loss=hinge(y * margins).sum(), n_support=model.n_support_, largest_loss=largest_loss)


def mean_and_error(values):
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize(
    ("alpha", "beta", "eta"), [(1.0, 3.0, 0.1), (0.25, 0.5, 0.02), (1.0, 1.0, 0.5), (0.05, 0.2, None)]
)
def test_one_kernels_regret_and_support_stay_under_lemma_1_and_theorem_2(rows, alpha, beta, eta):
    X, y = rows
    f = comparator(X, y, 1.0)
    if eta is None:
        eta = theory.tuned_eta(f.norm, T, alpha, beta)
        regret_bound = theory.tuned_regret_bound(f.norm, T, alpha, beta)
        support_bound = theory.tuned_support_bound(f.loss, f.norm, T, alpha, beta)
    else:
        regret_bound = theory.regret_bound(f.norm, T, eta, alpha, beta)
        support_bound = theory.support_bound(f.loss, f.norm, T, eta, alpha, beta)
    runs = [run(X, y, [1.0], SPA(eta=eta, alpha=alpha, beta=beta), seed) for seed in SEEDS]
    regret, regret_error = mean_and_error([r.loss - f.loss for r in runs])
    support, support_error = mean_and_error([r.n_support[0] for r in runs])
    assert regret + 3 * regret_error < regret_bound
    assert support + 3 * support_error < support_bound
    # The bound says something: a learner that never moves (loss 1 on every row) would break it.
    assert T - f.loss > regret_bound


def test_support_stays_under_the_loss_term_of_theorem_2(rows):
    """Where the comparator loses little, Theorem 2's second term is the smaller one and still holds."""
    X, y = rows
    clean = y * X[:, 0] > 0.3
    X, y = X[clean], y[clean]
    f = comparator(X, y, 1.0)
    eta, alpha, beta = 0.05, 1.0, 1.0
    bound = theory.support_bound(f.loss, f.norm, len(X), eta, alpha, beta)
    assert bound < 0.6 * alpha / beta * len(X)
    support, error = mean_and_error(
        [run(X, y, [1.0], SPA(eta=eta, alpha=alpha, beta=beta), seed).n_support[0] for seed in SEEDS]
    )
    assert support + 3 * error < bound


@pytest.mark.parametrize("delta", [None, 0.6])
@pytest.mark.parametrize(("alpha", "beta", "eta"), [(0.25, 0.25, 0.03), (0.05, 0.05, None)])
def test_the_combinations_loss_and_support_stay_under_theorems_1_and_2(rows, delta, alpha, beta, eta):
    X, y = rows
    gamma = 0.9
    comparators = [comparator(X, y, sigma) for sigma in WIDTHS]
    losses, norms = [f.loss for f in comparators], [f.norm for f in comparators]
    smallest_p = 1.0 if delta is None else delta
    used_eta = eta
    if eta is None:
        reached = [f.loss + theory.tuned_regret_bound(f.norm, T, alpha, beta) / smallest_p for f in comparators]
        used_eta = theory.tuned_eta(norms[int(np.argmin(reached))], T, alpha, beta)
    learner = SPA(eta=used_eta, alpha=alpha, beta=beta)
    runs = [run(X, y, WIDTHS, learner, seed, gamma, delta) for seed in SEEDS]
    largest_loss = max(r.largest_loss for r in runs)
    if eta is None:
        bound = theory.tuned_mkl_loss_bound(losses, norms, T, alpha, beta, gamma, smallest_p, largest_loss)
    else:
        bound = theory.mkl_loss_bound(losses, norms, T, eta, alpha, beta, gamma, smallest_p, largest_loss)
    loss, error = mean_and_error([r.loss for r in runs])
    assert loss + 3 * error < bound
    assert bound < T
    for i, f in enumerate(comparators):
        support, error = mean_and_error([r.n_support[i] for r in runs])
        assert support + 3 * error < theory.support_bound(f.loss, f.norm, T, used_eta, alpha, beta)


@pytest.mark.parametrize("budget", [20, 60])
def test_beta_for_budget_keeps_the_mean_support_within_the_budget(rows, budget):
    X, y = rows
    learner = SPA(eta=1e-4, alpha=1.0, beta=theory.beta_for_budget(budget, T, alpha=1.0))
    support, error = mean_and_error([run(X, y, [1.0], learner, seed).n_support[0] for seed in SEEDS])
    # With so small a step nearly every row has loss 1, so the bound is nearly reached: it is not only safe but tight.
    assert 0.9 * budget < support < budget + 3 * error


def test_formulas_by_hand():
    assert theory.tuned_eta(norm=3.0, T=50, alpha=1.0, beta=9.0) == pytest.approx(3 / 30)
    # alpha is the smaller: 9 / (2 * 0.5) + 0.5 * 8 * 10 / 1
    assert theory.regret_bound(norm=3.0, T=10, eta=0.5, alpha=1.0, beta=8.0) == pytest.approx(9 + 40)
    # sqrt(beta eta) = 0.5 is the smaller: 9 / 0.25 + 0.125 * 2 * 10 / 0.5
    assert theory.regret_bound(norm=3.0, T=10, eta=0.125, alpha=1.0, beta=2.0) == pytest.approx(36 + 5)
    assert theory.tuned_regret_bound(norm=3.0, T=8, alpha=0.25, beta=1.0) == pytest.approx(3 * 8)
    assert theory.hedge_mu(gamma=0.5, loss_bound=3.0) == pytest.approx(1.5 / 0.875)
    mu, best = 1.5 / 0.875, 4.0 + 41 / 0.25
    assert theory.mkl_loss_bound([4.0, 90.0], [3.0, 3.0], 10, 0.125, 1.0, 2.0, 0.5, 0.25, 3.0) == pytest.approx(
        2 * mu * (math.log(2) + math.log(2) * best)
    )
    assert theory.support_bound(loss=7.0, norm=3.0, T=100, eta=0.125, alpha=1.0, beta=2.0) == pytest.approx(46.5)
    assert theory.support_bound(loss=7.0, norm=3.0, T=10, eta=0.125, alpha=1.0, beta=2.0) == pytest.approx(5)
    assert theory.beta_for_budget(30, 120, alpha=0.5) == 2.0
    assert theory.beta_for_budget(7, 7, alpha=0.1) == 0.1


@pytest.mark.parametrize("gamma", [0.1, 0.9, 0.999999])
@pytest.mark.parametrize("loss_bound", [1.0, 2.5, 40.0])
def test_mu_makes_the_line_touch_at_the_largest_loss_and_lie_above_before(gamma, loss_bound):
    mu = theory.hedge_mu(gamma, loss_bound)
    assert gamma**loss_bound == pytest.approx(1 - (1 - gamma) / mu * loss_bound, abs=1e-12)
    losses = np.linspace(0, loss_bound, 101)
    assert (gamma**losses <= 1 - (1 - gamma) / mu * losses + 1e-12).all()
    assert mu >= 1


@pytest.mark.parametrize("seed", range(20))
def test_tuned_forms_are_the_general_ones_at_the_tuned_eta(seed):
    rng = np.random.default_rng(seed)
    n, norm, ratio = int(rng.integers(10, 5000)), rng.uniform(0.5, 20), rng.uniform(1, 10)
    # alpha^3 <= beta norm^2 / (2 T) with beta = ratio * alpha
    alpha = math.sqrt(ratio * norm**2 / (2 * n)) * rng.uniform(0.01, 0.999)
    beta = ratio * alpha
    loss = rng.uniform(0, n)
    eta = theory.tuned_eta(norm, n, alpha, beta)
    assert theory.tuned_regret_bound(norm, n, alpha, beta) == pytest.approx(
        theory.regret_bound(norm, n, eta, alpha, beta), rel=1e-12
    )
    assert theory.tuned_support_bound(loss, norm, n, alpha, beta) == pytest.approx(
        theory.support_bound(loss, norm, n, eta, alpha, beta), rel=1e-12
    )
    hedge = (0.9, 0.2, 2.0)
    assert theory.tuned_mkl_loss_bound([loss], [norm], n, alpha, beta, *hedge) == pytest.approx(
        theory.mkl_loss_bound([loss], [norm], n, eta, alpha, beta, *hedge), rel=1e-12
    )
    with pytest.raises(ValueError, match=r"'alpha' parameter of tuned_regret_bound must be <= .* \(Lemma 1\)"):
        theory.tuned_regret_bound(norm, n, alpha * 120, beta * 120)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.beta_for_budget(0, 10), "'B' parameter of beta_for_budget must be an int >= 1. Got 0"),
        (lambda: theory.beta_for_budget(11, 10), r"'B' parameter of beta_for_budget must be <= T \(10\). Got 11"),
        (lambda: theory.beta_for_budget(1, 0), "'T' parameter of beta_for_budget must be an int >= 1. Got 0"),
        (
            lambda: theory.beta_for_budget(1, 10, alpha=0),
            "'alpha' parameter of beta_for_budget must be a finite number > 0",
        ),
        (lambda: theory.tuned_eta(0.0, 10, 1.0, 2.0), "'norm' parameter of tuned_eta"),
        (lambda: theory.regret_bound(1.0, 10, 0.0, 1.0, 2.0), "'eta' parameter of regret_bound"),
        (
            lambda: theory.regret_bound(1.0, 10, 0.1, 3.0, 2.0),
            r"'beta' parameter of regret_bound must be .* >= alpha \(3.0\)",
        ),
        (lambda: theory.regret_bound(math.nan, 10, 0.1, 1.0, 2.0), "'norm' parameter of regret_bound"),
        (lambda: theory.support_bound(-1.0, 1.0, 10, 0.1, 1.0, 2.0), "'loss' parameter of support_bound"),
        (lambda: theory.support_bound(1.0, 1.0, 10, 0.1, 1.0, 0.0), "'beta' parameter of support_bound"),
        (
            lambda: theory.hedge_mu(1.0, 2.0),
            r"'gamma' parameter of hedge_mu must be a number in the open interval \(0, 1\)",
        ),
        (lambda: theory.hedge_mu(0.5, 0.5), "'loss_bound' parameter of hedge_mu must be a finite number >= 1. Got 0.5"),
        (lambda: theory.mkl_loss_bound([], [], 10, 0.1, 1.0, 2.0, 0.9, 0.5, 2.0), "'norms' parameter"),
        (lambda: theory.mkl_loss_bound([1.0], [1.0, 2.0], 10, 0.1, 1.0, 2.0, 0.9, 0.5, 2.0), "'norms' parameter"),
        (lambda: theory.mkl_loss_bound([1.0], [1.0], 10, 0.1, 1.0, 2.0, 0.9, 0.0, 2.0), "'delta' parameter"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

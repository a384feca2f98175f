"""The oracle itself: its closed forms against brute force, its conventions against the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Gaussian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, PA, RBP, SPA, Forgetron, Perceptron, Projectron
from bomkl.reference import (
    SAMPLING,
    SELECTION,
    VICTIM,
    Example,
    Expansion,
    ReferenceMKL,
    bounded_gradient_descent,
    forgetron,
    forgetron_shrinkage,
    passive_aggressive,
    projectron,
    random_budget_perceptron,
    sign,
    sparse_passive_aggressive,
    uniform_draw,
)

KERNELS = [Gaussian(1.3), Polynomial(degree=2, gamma=0.5, coef0=1.0)]


def squared_distance(f, g):
    """Squared RKHS norm of f - g, spelled out over both supports."""
    rows = np.array(f.rows + g.rows)
    coefficients = np.array(f.coefficients + [-c for c in g.coefficients])
    return coefficients @ f.kernel(rows, rows) @ coefficients


def copy_of(f):
    return Expansion(f.kernel, f.budget, list(f.rows), list(f.coefficients), f.errors, f.damage)


def example_of(f, x, y, *, normalize=True, weight=1.0, draw=0.0):
    margin = y * f(x)
    scale = f.square(x) if normalize else 1.0
    return Example(x, y, margin, max(0.0, 1 - margin), y if margin <= 1 else 0.0, weight, scale, lambda purpose: draw)


def lossy_pair(rng, kernel, n=5, budget=math.inf, **options):
    """Draw a function and an example on which its hinge loss is neither zero nor huge."""
    while True:
        f = Expansion(kernel, budget, list(rng.normal(size=(n, 3))), list(rng.normal(size=n)))
        example = example_of(f, rng.normal(size=3), float(rng.choice([-1, 1])), **options)
        if 0.05 < example.loss < 3:
            return f, example


def objective(new, old, example, aggressiveness):
    return 0.5 * squared_distance(new, old) + aggressiveness * max(0.0, 1 - example.y * new(example.x))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_pa_step_minimises_its_objective(kernel, seed):
    rng = np.random.default_rng(seed)
    old, example = lossy_pair(rng, kernel, weight=rng.uniform(0.5, 2))
    for C in (0.01, 0.3, 5.0):
        new = copy_of(old)
        passive_aggressive(new, example, PA(C=C))

        def value(tau, C=C):
            moved = copy_of(old)
            moved.add(example.x, tau * example.y)
            return objective(moved, old, example, C * example.weight)

        best = minimize_scalar(value, bounds=(-2, 10), method="bounded", options={"xatol": 1e-9})
        assert new.coefficients[-1] * example.y == pytest.approx(best.x, abs=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_spa_update_minimises_the_papers_objective(kernel, seed):
    """Eq. 2 of the paper: f_{t+1} minimises 0.5 ||f - f_t||^2 + (Z / rho) eta l(f), here over a random span too."""
    rng = np.random.default_rng(seed)
    old, example = lossy_pair(rng, kernel, draw=0.0)
    learner = SPA(eta=0.2, alpha=0.7, beta=2.0)
    new = copy_of(old)
    sparse_passive_aggressive(new, example, learner)
    assert len(new.rows) == len(old.rows) + 1
    rho = min(learner.alpha, example.loss) / learner.beta
    reached = objective(new, old, example, learner.eta / rho)
    assert reached < objective(old, old, example, learner.eta / rho)
    for _ in range(200):
        rival = copy_of(new)
        rival.shift(rng.normal(size=len(rival.rows)) * 10 ** rng.uniform(-4, 0))
        assert objective(rival, old, example, learner.eta / rho) > reached


def test_spa_keeps_a_row_exactly_when_the_draw_is_below_rho():
    rng = np.random.default_rng(0)
    f, example = lossy_pair(rng, KERNELS[0])
    learner = SPA(eta=0.1, alpha=0.5, beta=1.5)
    rho = min(learner.alpha, example.loss) / learner.beta
    for draw, added in [(rho, 0), (np.nextafter(rho, 0), 1)]:
        g = copy_of(f)
        sparse_passive_aggressive(g, example._replace(draw=lambda purpose, draw=draw: draw), learner)
        assert len(g.rows) == len(f.rows) + added


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(16))
def test_bpas_victim_and_coefficient_minimise_the_full_objective(kernel, seed):
    """Over every victim r and every coefficient of the new row, by explicit RKHS norms."""
    rng = np.random.default_rng(seed)
    old, example = lossy_pair(rng, kernel, n=6, budget=6)
    learner = BPAS(C=float(rng.choice([0.05, 0.5])))
    new = copy_of(old)
    passive_aggressive(new, example, learner)
    best, best_rows = math.inf, None
    for r in range(6):

        def value(coefficient, r=r):
            rival = copy_of(old)
            rival.drop(r)
            rival.add(example.x, coefficient)
            return objective(rival, old, example, learner.C)

        found = minimize_scalar(value, bounds=(-20, 20), method="bounded", options={"xatol": 1e-10})
        if found.fun < best:
            best, best_rows, best_coefficient = found.fun, [z for i, z in enumerate(old.rows) if i != r], found.x
    assert np.array_equal(new.rows[:-1], best_rows)
    assert new.coefficients[-1] == pytest.approx(best_coefficient, abs=1e-4)
    assert objective(new, old, example, learner.C) <= best + 1e-9


def test_bpas_breaks_ties_by_age_and_survives_a_null_row():
    f = Expansion(Linear(), 2, [np.array([1.0, 0.0]), np.array([0.0, 1.0])], [0.5, -0.5])
    passive_aggressive(f, example_of(f, np.zeros(2), 1.0), BPAS(C=0.25))
    assert np.array_equal(f.rows, [[0, 1], [0, 0]])
    assert f.coefficients == [-0.5, 0.25]


def test_bpas_with_unit_norm_takes_every_self_value_as_one():
    # k_rr = 4 and 1/4, k_rt = 4 and 1/2: costs 1 - 16 and 1 - 1/4, so the first row goes and 4 of its 0.5 are kept
    f = Expansion(Linear(), 2, [np.array([2.0]), np.array([0.5])], [0.5, 0.5])
    passive_aggressive(f, example_of(f, np.array([2.0]), -1.0), BPAS(C=0.25, unit_norm=True))
    assert np.array_equal(f.rows, [[0.5], [2.0]])
    assert f.coefficients == [0.5, 0.5 * 4 - 0.25]


def test_bpas_with_unit_norm_is_the_same_where_the_norm_is_one():
    rng = np.random.default_rng(0)
    plain, unit = (Expansion(Gaussian(0.7), 4) for _ in range(2))
    for x, y in zip(rng.normal(size=(40, 2)), rng.choice([-1.0, 1.0], 40), strict=True):
        passive_aggressive(plain, example_of(plain, x, y), BPAS())
        passive_aggressive(unit, example_of(unit, x, y), BPAS(unit_norm=True))
    assert np.array_equal(plain.rows, unit.rows)
    assert plain.coefficients == pytest.approx(unit.coefficients)


@pytest.mark.parametrize("seed", range(20))
def test_forgetron_shrinkage_against_a_grid(seed):
    rng = np.random.default_rng(seed)
    a, b, q = rng.normal() * rng.choice([0, 1, 1]), rng.uniform(0.1, 3), -rng.uniform(0.01, 2)
    grid = np.linspace(0, 1, 200_001)
    allowed = grid[a * grid**2 + b * grid + q <= 0]
    assert forgetron_shrinkage(a, b, q) == pytest.approx(allowed.max(), abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_a_forgetron_that_may_grow_does_so_only_where_the_rule_allows_it_again(seed):
    rng = np.random.default_rng(seed)
    a, b, q = -rng.uniform(0.05, 1), rng.uniform(0.1, 3), -rng.uniform(0.01, 2)
    phi = forgetron_shrinkage(a, b, q, may_grow=True)
    if a + b + q <= 0:
        assert phi == 1
    else:
        assert phi > 1
        assert a * phi**2 + b * phi + q == pytest.approx(0, abs=1e-9)
        assert a * (0.99 * phi) ** 2 + b * 0.99 * phi + q > 0
    assert forgetron_shrinkage(-a, b, q, may_grow=True) == forgetron_shrinkage(-a, b, q)


@pytest.mark.parametrize("kernel", [Gaussian(1.3), Gaussian(0.5)])
def test_forgetron_keeps_its_damage_within_bounds_and_forgets_the_oldest(kernel):
    """Dekel et al.: the shrinking may use up (15/32) M; the damage is Psi(sigma phi, phi mu) of each forgotten row."""
    rng = np.random.default_rng(3)
    f = Expansion(kernel, 4)
    shrunk = 0
    for _ in range(60):
        example = example_of(f, rng.normal(size=3), float(rng.choice([-1, 1])))
        before = copy_of(f)
        forgetron(f, example, Forgetron())
        if example.margin > 0:
            assert f == before
            continue
        assert f.errors == before.errors + 1
        assert np.array_equal(f.rows[-1], example.x)
        if len(before.rows) == 4:
            phi = abs(f.coefficients[-1])
            assert 0 < phi <= 1
            assert np.allclose(f.coefficients[:-1], phi * np.array(before.coefficients[1:]))
            assert np.array_equal(f.rows[:-1], before.rows[1:])
            sigma = abs(before.coefficients[0])
            before.add(example.x, example.y)
            mu = sign(before.coefficients[0]) * before(before.rows[0])
            psi = (sigma * phi) ** 2 + 2 * sigma * phi - 2 * sigma * phi * phi * mu
            assert f.damage == pytest.approx(before.damage + psi)
            shrunk += phi < 1
        assert f.damage <= 15 / 32 * f.errors + 1e-9
    assert shrunk > 5


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_projectron_adds_the_nearest_function_in_the_span(kernel, seed):
    rng = np.random.default_rng(seed)
    old, example = lossy_pair(rng, kernel, n=4, budget=4)
    example = example._replace(margin=-1.0)
    projected, added = copy_of(old), copy_of(old)
    projectron(projected, example, Projectron())
    added.add(example.x, example.y)
    assert np.array_equal(projected.rows, old.rows)
    nearest = squared_distance(projected, added)
    assert not np.allclose(projected.coefficients, old.coefficients)
    for _ in range(100):
        rival = copy_of(projected)
        rival.shift(rng.normal(size=4) * 10 ** rng.uniform(-3, 0))
        assert squared_distance(rival, added) > nearest


def test_projectron_adds_a_row_only_beyond_its_threshold():
    rng = np.random.default_rng(1)
    old, example = lossy_pair(rng, Gaussian(1.0), n=4)
    example = example._replace(margin=-1.0)
    span = old.kernel(np.array(old.rows), np.array(old.rows))
    residual = old.square(example.x) - old.values(example.x) @ np.linalg.solve(span, old.values(example.x))
    for threshold, added in [(math.sqrt(residual) * 0.999, 1), (math.sqrt(residual) * 1.001, 0)]:
        f = copy_of(old)
        projectron(f, example, Projectron(threshold=threshold))
        assert len(f.rows) == 4 + added


@pytest.mark.parametrize(("coefficient", "threshold", "binding"), [(0.5, 2.0, 0), (0.3, 0.5, 1), (0.03, 5.0, 2)])
def test_projectron_plus_plus_step(coefficient, threshold, binding):
    """On a margin error the step is the least of three; each is the least in one case."""
    f = Expansion(Gaussian(1.0), math.inf, [np.zeros(1), np.ones(1)], [coefficient, 0.01])
    x = np.array([-0.3])
    example = example_of(f, x, 1.0)
    assert 0 < example.margin < 1
    k_t = f.values(x)
    d = np.linalg.solve(f.matrix(f.rows, f.rows), k_t)
    projected = k_t @ d
    room = example.loss - math.sqrt(1 - projected) / threshold
    steps = [example.loss / projected, 2 * room / projected, 1.0]
    assert room > 0
    assert np.argmin(steps) == binding
    still, moved = copy_of(f), copy_of(f)
    projectron(still, example, Projectron(threshold=threshold))
    projectron(moved, example, Projectron(threshold=threshold, margin_updates=True))
    assert still == f
    assert np.allclose(moved.coefficients, np.array(f.coefficients) + min(steps) * d)


def test_projectron_plus_plus_rests_where_projecting_loses_too_much():
    f = Expansion(Gaussian(1.0), math.inf, [np.zeros(1)], [0.5])
    unmoved = copy_of(f)
    projectron(unmoved, example_of(f, np.array([0.3]), 1.0), Projectron(threshold=1e-6, margin_updates=True))
    assert unmoved == f


def test_rbp_evicts_each_old_row_by_its_share_of_the_unit_interval():
    for r in range(4):
        for draw in (r / 4, (r + 1) / 4 - 2**-53):
            f = Expansion(Linear(), 4, [np.array([float(i)]) for i in range(4)], [1.0, 2.0, 3.0, 4.0])
            example = example_of(f, np.array([-9.0]), 1.0, draw=draw, weight=2.0)
            random_budget_perceptron(f, example, RBP())
            assert f.coefficients == [c for i, c in enumerate([1.0, 2.0, 3.0, 4.0]) if i != r] + [2.0]


def test_bogd_decays_even_where_there_is_no_loss():
    f = Expansion(Linear(), 2, [np.array([1.0]), np.array([2.0])], [1.0, 1.0])
    learner = BOGD(eta=0.25, regularization=0.5)
    bounded_gradient_descent(f, example_of(f, np.array([1.0]), 1.0), learner)
    assert f.coefficients == [0.875, 0.875]
    example = example_of(f, np.array([-1.0]), 1.0, weight=3.0)
    bounded_gradient_descent(f, example, learner)
    assert np.array_equal(f.rows, [[2.0], [-1.0]])
    assert f.coefficients == [0.875**2, 0.75]


def test_bogd_takes_a_row_on_the_margin_and_none_beyond():
    model = ReferenceMKL([Linear()], BOGD(eta=1.0, regularization=0.0), Uniform())
    for x, n_support in [(1.0, 1), (1.0, 2), (1.0, 2)]:
        model.learn_one([x], 1.0)
        assert len(model.expansions[0][0].rows) == n_support


def test_philox_draws_are_numpys_and_depend_on_every_argument():
    generator = np.random.Philox(key=np.array([7, 0], np.uint64), counter=np.array([3, 1, SAMPLING, 2], np.uint64))
    words = generator.random_raw(4)
    for lane in range(4):
        assert uniform_draw(7, 3, 4 + lane, 2, SAMPLING) == int(words[lane]) // 2**11 / 2**53
    # NumPy turns a 64-bit word into a double in the same way.
    generator = np.random.Philox(key=np.array([7, 0], np.uint64), counter=np.array([3, 0, VICTIM, 0], np.uint64))
    assert uniform_draw(7, 3, 0, 0, VICTIM) == np.random.Generator(generator).random()
    base = (7, 3, 1, 0, SELECTION)
    others = [(8, 3, 1, 0, 0), (7, 4, 1, 0, 0), (7, 3, 2, 0, 0), (7, 3, 1, 1, 0), (7, 3, 1, 0, 1), (7, 3, 5, 0, 0)]
    assert len({uniform_draw(*arguments) for arguments in [base, *others]}) == 7
    draws = [uniform_draw(2**62, t, 0, 0, SELECTION) for t in range(500)]
    assert all(0 <= u < 1 for u in draws)
    assert abs(np.mean(draws) - 0.5) < 0.05


def test_a_zero_score_is_a_mistake_and_votes_plus_one():
    for combination, score in [("score", 0.0), ("vote", 1.0)]:
        model = ReferenceMKL([Linear(), Linear()], Perceptron(), Hedge(gamma=0.5, loss="zero_one"), combination)
        assert model.learn_one([0.0], 1.0) == [score]
        assert model.mistakes == (combination == "score")
        assert model.kernel_mistakes == [[1, 1]]
        assert model.log_weights[0] == [-math.log(2) + math.log(0.5)] * 2
        assert model.learn_one([0.0], -1.0) == [score]
        assert model.mistakes == 1 + (combination == "score")


def test_multiclass_mistakes_follow_the_first_largest_score():
    model = ReferenceMKL([Linear()], Perceptron(), Uniform(), task="multiclass", n_outputs=3)
    model.learn_one([1.0], 0)
    assert model.mistakes == 0
    model.learn_one([0.0], 2)
    assert model.mistakes == 1
    assert model.kernel_mistakes == [[2], [2], [2]]


def test_a_row_of_weight_zero_leaves_no_trace():
    def model():
        return ReferenceMKL([Linear(), Gaussian()], SPA(beta=1.0), Hedge(), selection_delta=0.3, seed=5)

    plain, skipping = model(), model()
    for t, (x, y) in enumerate([([1.0], 1), ([-1.0], 1), ([0.5], -1), ([2.0], -1)]):
        skipping.learn_one([9.0 + t], y, weight=0.0)
        assert plain.learn_one(x, y) == skipping.learn_one(x, y)
    assert plain.log_weights == skipping.log_weights
    assert plain.n_seen == skipping.n_seen == 4


def test_hedge_charges_selected_kernels_only_if_asked():
    rows = [(np.array([float(t % 3)]), 1.0 if t % 2 else -1.0) for t in range(30)]
    charged = {}
    for discount in ("always", "selected"):
        model = ReferenceMKL(
            [Linear(), Gaussian(), Gaussian(0.1)],
            Perceptron(),
            Hedge(gamma=0.5, loss="zero_one", discount=discount),
            selection_delta=0.2,
            seed=1,
        )
        selections = []
        for x, y in rows:
            wrong = [y * f(x) <= 0 for f in model.expansions[0]]
            before = list(model.log_weights[0])
            selected = model._select(0)
            model.learn_one(x, y)
            fell = [after < b for after, b in zip(model.log_weights[0], before, strict=True)]
            due = wrong if discount == "always" else [w and s for w, s in zip(wrong, selected, strict=True)]
            assert fell == due
            selections.append(selected)
        charged[discount] = selections
        assert not all(map(all, selections))
    assert charged["always"] != charged["selected"]


def test_selection_probability_follows_the_weights_and_a_schedule():
    rounds = []

    def schedule(t):
        rounds.append(t)
        return 0.25

    constant, scheduled = (
        ReferenceMKL([Linear(), Linear()], Perceptron(), Hedge(), selection_delta=delta, seed=2)
        for delta in (0.25, schedule)
    )
    counts = np.zeros(2)
    for model in (constant, scheduled):
        model.log_weights = [[0.0, math.log(0.4)]]
    for t in range(400):
        constant.n_seen = scheduled.n_seen = t
        assert constant._select(0) == scheduled._select(0)
        counts += constant._select(0)
    assert rounds == list(range(1, 401))
    assert counts[0] == 400
    assert counts[1] / 400 == pytest.approx(0.75 * 0.4 + 0.25, abs=0.07)


def test_fixed_share_lifts_every_weight_to_its_floor():
    model = ReferenceMKL([Linear(), Gaussian()], Perceptron(), Hedge(gamma=0.01, loss="zero_one", share=0.1))
    model.log_weights = [[math.log(0.75), math.log(0.25)]]
    model.expansions[0][0].add(np.array([1.0]), 1.0)
    model.learn_one([1.0], 1.0)
    raw = np.array([0.75, 0.25 * 0.01])
    expected = 0.9 * raw / raw.sum() + 0.05
    assert np.allclose(np.exp(model.log_weights[0]), expected, rtol=1e-12)


@pytest.mark.parametrize("scope", ["update", "combination", "both"])
def test_selection_scope_says_what_an_unselected_kernel_misses(scope):
    model = ReferenceMKL(
        [Linear(), Linear()], Perceptron(), Uniform(), selection_delta=lambda t: 1e-9, selection_scope=scope, seed=0
    )
    model.log_weights = [[-100.0, 0.0]]
    for f in model.expansions[0]:
        f.add(np.array([1.0]), 1.0)
    assert model._select(0) == [False, True]
    model.log_weights = [[math.log(0.5)] * 2]
    model._select = lambda c: [False, True]
    score = model.learn_one([1.0], -1.0)
    assert score == [1.0 if scope == "update" else 0.5]
    updated = [len(f.rows) == 2 for f in model.expansions[0]]
    assert updated == ([True, True] if scope == "combination" else [False, True])
    assert model.score_one([1.0]) == [0.5 * f([1.0]) + 0.5 * g([1.0]) for f, g in model.expansions]


def test_regression_follows_the_sign_of_the_residual():
    model = ReferenceMKL([Linear()], PA(C=0.5), Hedge(loss="squared"), task="regression", epsilon=0.25)
    assert model.learn_one([1.0], -3.0) == [0.0]
    assert model.expansions[0][0].coefficients == [-0.5]
    model.learn_one([1.0], -0.625)
    assert model.expansions[0][0].coefficients == [-0.5]
    model.learn_one([1.0], -1.0)
    assert model.expansions[0][0].coefficients == [-0.5, -0.25]
    assert model.log_weights[0][0] == pytest.approx((9 + 0.015625 + 0.25) * math.log(0.99))


def test_bogd_regression_steps_by_the_residual_and_rests_on_a_hit():
    model = ReferenceMKL([Linear()], BOGD(eta=0.5, regularization=1.0), Uniform(), task="regression", budget=2)
    model.learn_one([1.0], 2.0)
    assert model.expansions[0][0].coefficients == [1.0]
    model.learn_one([1.0], 1.0)
    assert model.expansions[0][0].coefficients == [0.5]
    model.learn_one([1.0], 0.0, weight=2.0)
    model.learn_one([2.0], -1.0)
    assert model.expansions[0][0].coefficients == [-0.25, -0.25]

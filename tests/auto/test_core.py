"""The compiled loops against slow and obvious NumPy."""

import numpy as np
import pytest
from scipy.special import expit

from bomkl import AutoMKLClassifier, _core
from bomkl._support.tiles import packed
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.newton import fitted_regression
from bomkl.auto.constants import SHARE
from bomkl.auto.features.features import KernelFeatures
from bomkl.auto.features.geometry import Geometry
from bomkl.auto.features.pool_kernels import (
    KERNELS,
    POOL_KERNELS,
    PoolKernel,
    city_block_distances,
    median_distance,
    squared_distances,
)
from bomkl.auto.rows import fit
from bomkl.auto.rows.fit import Directions, finished, ridge_fit_steps, softmax
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.task import Task


def product(a, b):
    out = np.empty((len(a), packed(b).shape[0] * _core.BLOCK), dtype=np.float32)
    _core.matmul(a, packed(b), out)
    return out[:, : b.shape[1]]


def test_a_row_of_a_product_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(201, 77)).astype(np.float32), rng.normal(size=(77, 130))
    whole = product(a, b)
    np.testing.assert_allclose(whole, a @ b, rtol=1e-4, atol=1e-4)
    for rows in (slice(0, 1), slice(5, 12), slice(60, 200)):
        np.testing.assert_array_equal(product(a[rows], b), whole[rows])


def test_kernel_features_are_whitened_kernel_values():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150, 6)).astype(np.float32)
    for kind in POOL_KERNELS:
        features = KernelFeatures.of("view", kind, 1.0, rows, np.arange(0, 150, 2))
        F = features({"view": rows})
        expected = features.values({"view": rows}) @ features.whitening()
        np.testing.assert_allclose(F[:, : features.rank], expected, atol=2e-3)
        np.testing.assert_array_equal(F[:, features.rank], 1)
        assert not F[:, features.rank + 1 :].any()
        chosen = F[features.support, : features.rank]
        gram = features.values({"view": rows})[features.support]
        np.testing.assert_allclose(chosen @ chosen.T, gram, atol=2e-3)


@pytest.mark.parametrize("name", POOL_KERNELS)
def test_all_forms_of_a_pool_kernel_agree(name):
    rng, kernel = np.random.default_rng(0), POOL_KERNELS[name]
    a, b = rng.normal(size=(20, 3)), rng.normal(size=(8, 3))
    scale = kernel.scale(0.5, a)
    expected = kernel.matrix(scale, a, b)
    np.testing.assert_allclose(kernel.kernel(scale)(a, b), expected)
    assert name in {choice.kind for choice in KERNELS}
    torch = pytest.importorskip("torch")
    x, z = torch.from_numpy(a), torch.from_numpy(b)
    np.testing.assert_allclose(kernel.tensor_values(scale, x, z.T, (z * z).sum(dim=1)).numpy(), expected)
    np.testing.assert_allclose(kernel.tensor_matrix(scale, z).numpy(), kernel.matrix(scale, b, b))


def test_a_form_that_a_pool_kernel_does_not_have_is_named():
    class Plain(PoolKernel):
        name = "plain"

    for call in (lambda: Plain().kernel(1.0), lambda: Plain().tensor_matrix(1.0, None)):
        with pytest.raises(TypeError, match="kernel 'plain' of the pool has no form for"):
            call()
    with pytest.raises(ValueError, match="has no kernel of that name"):
        _core.FeatureMap.of_kernel(0, "plain", 1.0, kernel_arrays())


def kernel_arrays():
    features = KernelFeatures.of("view", "gaussian", 1.0, np.eye(4, dtype=np.float32), np.arange(4))
    return {name: getattr(features, name) for name in ("landmarks", "norms", "whiten", "rank")}


@pytest.mark.parametrize("n", [2, 3, 4, 40, 600])
def test_the_median_distance_is_that_of_the_pairs_of_the_first_rows(n):
    rows = np.round(np.random.default_rng(n).normal(size=(n, 3)), 1)
    first, pairs = rows[:250], np.triu_indices(min(n, 250), 1)
    assert median_distance(rows) == np.median(np.sqrt(squared_distances(first, first))[pairs])
    assert median_distance(rows, city_block=True) == np.median(city_block_distances(first, first)[pairs])


def test_landmarks_that_others_stand_for_are_left_out():
    rows = np.repeat(np.random.default_rng(0).normal(size=(20, 3)), 3, axis=0).astype(np.float32)
    features = KernelFeatures.of("view", "gaussian", 0.3, rows, np.arange(60))
    assert sorted(features.support // 3) == list(range(20))
    np.testing.assert_array_equal(np.tril(features.whitening(), -1), 0)


def test_normal_scores_order_values_and_share_ties():
    X = np.array([[1.0], [2.0], [2.0], [3.0], [10.0]])
    view = Geometry.of(X).views(np.array([[0.0], [2.0], [2.5], [1e9]]), ["normal"])["normal"][:, 0]
    assert np.all(np.diff(view) > 0)
    assert Geometry.of(X).views(X, ["normal"])["normal"].mean() == pytest.approx(0, abs=1e-6)


def solve_implicit(f, q, y, weight, task):
    g = f.copy()
    for _ in range(150):
        p = expit(g) if task is Task.BINARY else softmax(g[None])[0]
        g = 0.7 * g + 0.3 * (f + q * weight * (y - p))
    return p


def newton_row_by_row(F, y, weight, w, P, task, forget):
    scores, limit = np.empty(y.shape), np.trace(P)
    loosen = (1 - forget) * F.shape[1]
    for t, x in enumerate(F):
        scores[t] = x @ w
        v = P @ x
        q = x @ v
        if task.is_regression:
            residual = (y[t] - scores[t]) / (1 + weight[t] * q)
            step, h, factor = weight[t] * residual, weight[t], 1
            if task is Task.HUBER and abs(residual[0]) > 1:
                step = weight[t] * np.sign(residual)
                h = weight[t] / max(abs(y[t] - scores[t])[0] - q * weight[t], 1)
        else:
            p = solve_implicit(scores[t], q, y[t], weight[t], task)
            step, h, factor = weight[t] * (y[t] - p), weight[t] * max((p * (1 - p)).max(), 1e-5), 4
        w = w + np.outer(v, step)
        c = h / (1 + h * q) - min(loosen * factor * h, 0.5) / q
        if loosen and c < 0:
            c = max(c, -max(limit - np.trace(P), 0) / (v @ v))
        P = P - c * np.outer(v, v)
    return scores, w


@pytest.mark.parametrize("task", list(Task))
@pytest.mark.parametrize("forget", [1.0, 0.999, 0.98])
def test_blocks_do_what_rows_one_by_one_do(task, forget):
    rng = np.random.default_rng(0)
    n, r, outputs = 200, 70, 3 if task is Task.MULTICLASS else 1
    F = rng.normal(size=(n, r)) / 8
    w, P = rng.normal(size=(r, outputs)), np.eye(r) * 0.3
    if task is Task.MULTICLASS:
        y = np.eye(3)[rng.integers(0, 3, n)]
    else:
        y = (rng.random((n, 1)) < 0.5).astype(float) if task is Task.BINARY else 3 * rng.standard_t(2, size=(n, 1))
    weight = rng.uniform(0.5, 2, n)
    component = fitted_regression(w, P, 128, 1 / 0.3)
    wide = np.zeros((n, 128), dtype=np.float32)
    wide[:, :r] = F
    scores = np.vstack(
        [
            component.score_and_learn(wide[a:b], y[a:b], weight[a:b], task, forget, a)
            for a, b in ((0, 3), (3, 64), (64, 100), (100, 200))
        ]
    )
    expected, w = newton_row_by_row(wide[:, :r].astype(np.float64), y, weight, w, P, task, forget)
    np.testing.assert_allclose(scores, expected, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(component.means()[:, :r].T, w, rtol=2e-3, atol=2e-3)


def test_errors_of_huge_predictions_have_a_sum():
    combination = Combination.of(2)
    predictions = np.array([[[1e200], [3.0]], [[-1e200], [1.0]]])
    combination.score_and_learn(predictions, np.zeros((2, 1)), np.ones(2), Task.SQUARED)
    np.testing.assert_array_equal(combination.error_sum, [2e280, 10])


def test_combination_follows_its_definition():
    rng = np.random.default_rng(0)
    n, m = 300, 4
    y = (rng.random(n) < 0.5).astype(float)
    S = (y[:, None] - 0.5) * [4, 2, 0, -1] + rng.normal(size=(n, m))
    combination = Combination.of(m)
    w, P = combination.stack_w.copy(), combination.stack_covariance.copy()
    weights, log_final = combination.weights.copy(), np.zeros(3)
    out = combination.score_and_learn(S[:, :, None], y[:, None], np.ones(n), Task.BINARY)[:, 0]
    for t in range(n):
        s = np.clip(S[t], -6, 6)
        mix = weights @ expit(S[t])
        f = np.append(w @ s, np.log(mix / (1 - mix)))
        final = np.exp(log_final) / np.exp(log_final).sum()
        p = final @ expit(f)
        assert out[t] == pytest.approx(np.log(p / (1 - p)), rel=1e-6, abs=1e-9)

        def loss(score, label=y[t]):
            return np.logaddexp(0, -score if label else score)

        final = final * np.exp(-loss(f))
        log_final = np.log((1 - SHARE) * final / final.sum() + SHARE / 3)
        weights = weights * np.exp(-loss(S[t]))
        weights = (1 - SHARE) * weights / weights.sum() + SHARE / m
        for j in range(2):
            q = expit(f[j])
            h = max(q * (1 - q), 1e-4)
            v = P[j] @ s
            P[j] -= h / (1 + h * (v @ s)) * np.outer(v, v)
            w[j] += P[j] @ ((y[t] - q) * s)
    np.testing.assert_allclose(combination.stack_w, w, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(combination.error_sum, (np.where(y[:, None] > 0, S, -S) <= 0).sum(axis=0))


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_kernel_values_score_as_features_do(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3][: classes - 1])
    model = AutoMKLClassifier(budget=50, trees=False, drift=None, random_state=0).partial_fit(X[:250], y[:250])
    for rows in (slice(250, 251), slice(251, 300)):  # what was made of the means must not outlive them
        model.partial_fit(X[rows], y[rows])
        learner = model._learner
        while not isinstance(learner, RowLearner):
            learner = learner.inner
        parts = learner._assembled().score_parts(X[:70])
        for i, component in enumerate(learner.components):
            scores = component.scorer()(learner.views(X[:70]))
            np.testing.assert_allclose(parts[:, i], scores.reshape(70, -1), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(learner._assembled().score_parts(X[3:4]), parts[3:4])


def test_dropping_a_component_conditions_the_stacks():
    rng = np.random.default_rng(0)
    S, y = rng.normal(size=(200, 3, 1)), (rng.random((200, 1)) < 0.5).astype(float)
    combination = Combination.of(3)
    combination.score_and_learn(S, y, np.ones(200), Task.BINARY)
    precision = np.linalg.inv(combination.stack_covariance[0])
    mean = combination.stack_w[0].copy()
    combination = combination.without(np.array([1]))
    kept = [0, 2]
    expected = mean[kept] + np.linalg.solve(precision[np.ix_(kept, kept)], precision[kept, 1] * mean[1])
    np.testing.assert_allclose(combination.stack_w[0], expected)
    assert combination.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("task", [Task.BINARY, Task.MULTICLASS, Task.HUBER])
def test_fit_is_where_the_gradient_vanishes(task):
    rng = np.random.default_rng(0)
    F, weight = rng.normal(size=(80, 5)), rng.uniform(0.5, 2, 80)
    if task is Task.MULTICLASS:
        y = np.eye(3)[rng.integers(0, 3, 80)]
    else:
        y = (rng.random((80, 1)) < 0.5).astype(float) if task is Task.BINARY else rng.standard_t(2, size=(80, 1))
    w, covariance = finished(ridge_fit_steps(F, y, weight, 0.5, task))
    f = F @ w
    means = {Task.BINARY: expit, Task.MULTICLASS: softmax}.get(task, np.asarray)(f)
    pull = np.clip(y - means, -1, 1)
    np.testing.assert_allclose(F.T @ (weight[:, None] * pull), 0.5 * w, atol=0.05)
    assert np.linalg.eigvalsh(covariance)[0] > 0


def test_the_fit_of_classes_that_are_nearly_apart_takes_few_steps():
    F = np.random.default_rng(0).normal(size=(500, 100))
    y = (F[:, :1] > 0).astype(float)
    assert len(list(ridge_fit_steps(F, y, np.ones(500), 0.01, Task.BINARY))) < 8


def test_the_fit_of_rows_that_cancel_each_other_out_is_zero():
    w, _ = finished(ridge_fit_steps(np.ones((2, 3)), np.array([[0.0], [1.0]]), np.ones(2), 1.0, Task.BINARY))
    np.testing.assert_array_equal(w, np.zeros((3, 1)))


def test_arrays_that_do_not_fit_are_refused():
    single, double = np.zeros((3, 4), np.float32), np.zeros((3, 4))
    with pytest.raises(ValueError, match="shapes of a product"):
        _core.matmul(single, np.zeros((1, 5, 64), np.float32), np.zeros((3, 64), np.float32))
    with pytest.raises(ValueError, match="do not fit"):
        _core.linear_scores(single, np.zeros((1, 5)), 3, double)
    regression = fitted_regression(np.zeros((3, 1)), np.eye(3), 64, 1.0)
    with pytest.raises(ValueError, match="do not fit"):
        regression.score_and_learn(np.zeros((2, 128), np.float32), np.zeros((2, 1)), np.ones(2), 2, 1.0, 0)
    with pytest.raises(ValueError, match="does not fit"):
        _core.RowModel.of(Geometry.of(double).core(), [], Combination.of(2).core, None, None, 0, 1, (0.0, 1.0))


def test_conjugate_directions_find_the_least_of_a_quadratic_in_as_many_steps_as_it_has_curvatures():
    curvature, w = np.array([1.0, 10.0, 100.0]), np.ones(3)
    directions = Directions()
    for _ in range(3):
        slope = -curvature * w
        step = directions.after(slope, slope)
        w = w + step * (slope @ step) / (step @ (curvature * step))
    np.testing.assert_allclose(w, 0, atol=1e-12)


@pytest.mark.parametrize("task", [Task.BINARY, Task.MULTICLASS])
def test_few_rounds_of_a_fit_end_near_where_many_do(task, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 10))
    place = np.digitize((rows**2).sum(axis=1), [7.5, 11])  # shells around each other
    y = np.eye(3)[place] if task is Task.MULTICLASS else (place > 0)[:, None].astype(float)
    features = KernelFeatures.of("view", "gaussian", 1.0, rows.astype(np.float32), np.arange(300))
    F = features({"view": rows.astype(np.float32)})[:, : features.rank + 1].astype(float)

    def loss():
        w, _ = finished(ridge_fit_steps(F, y, np.ones(600), 0.01, task))
        f = F @ w
        own = np.logaddexp(0, f).sum() if task is Task.BINARY else np.logaddexp.reduce(f, axis=1).sum()
        return own - (y * f).sum() + 0.005 * (w**2).sum()

    few = loss()
    monkeypatch.setitem(fit._MOST_ROUNDS, task, 300)
    monkeypatch.setitem(fit._SMALL_STEP, task, 1e-6)
    assert few < 1.05 * loss()  # without conjugate directions, 1.2 for several classes

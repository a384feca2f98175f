"""Learning a stream gives one model, however it is cut into blocks, stored, handed over or threaded."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, PA, RBP, SPA, Forgetron, Perceptron, Projectron

CLASSES = {"binary": 2, "multiclass": 4}
NEED_A_BUDGET = (RBP, Forgetron, BOGD, BPAS)
examples = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def fading(t):
    return (0.7, 0.05)[t % 2]


def triangle(X, Z):
    """A Python kernel; each value depends on its own two rows only, so that it is the same in every block."""
    return np.stack([np.maximum(0.0, 1 - np.abs(np.asarray(X) - z).max(axis=1) / 3) for z in np.asarray(Z)], axis=1)


positive = st.floats(0.05, 1.0)
bounded_kernels = st.one_of(
    st.builds(Gaussian, sigma=st.floats(0.3, 4.0)),
    st.builds(Exponential, sigma=st.floats(0.3, 4.0)),
    st.builds(Cauchy, sigma=st.floats(0.3, 4.0)),
    st.builds(Laplacian, gamma=st.floats(0.1, 2.0)),
    st.just(Cosine()),
    st.just(triangle),
)
any_kernels = st.one_of(
    bounded_kernels, st.just(Linear()), st.builds(Polynomial, degree=st.integers(1, 3), coef0=st.floats(-1, 1))
)
regression_rules = st.one_of(
    st.builds(PA, C=positive),
    st.builds(
        lambda eta, alpha, ratio: SPA(eta=eta, alpha=alpha, beta=alpha * ratio), positive, positive, st.floats(1, 3)
    ),
    st.builds(BPAS, C=positive, unit_norm=st.booleans()),
    st.builds(BOGD, eta=positive, regularization=st.floats(0, 0.9)),
)
any_rules = st.one_of(
    regression_rules,
    st.just(Perceptron()),
    st.just(RBP()),
    st.builds(Forgetron, may_grow=st.booleans()),
    st.builds(Projectron, threshold=st.floats(0.2, 1.0), margin_updates=st.booleans()),
)


@st.composite
def streams(draw):
    """Draw an estimator without rows, and rows for it: (make_model, X, y, sample_weight, classes)."""
    task = draw(st.sampled_from(["binary", "multiclass", "regression"]))
    regression = task == "regression"
    rule = draw(regression_rules if regression else any_rules)
    losses = ["epsilon_insensitive", "squared"] if regression else ["hinge", "zero_one"]
    hedges = st.builds(
        Hedge,
        gamma=st.floats(0.5, 0.999),
        loss=st.sampled_from(losses),
        share=st.sampled_from([0.0, 0.1]),
        discount=st.sampled_from(["always", "selected"]),
    )
    parameters = {
        "kernels": draw(st.lists(bounded_kernels if regression else any_kernels, min_size=1, max_size=5)),
        "learner": rule,
        "combiner": draw(st.one_of(st.just(Uniform()), hedges)),
        "selection_delta": draw(st.sampled_from([None, 0.3, fading])),
        "selection_scope": draw(st.sampled_from(["update", "combination", "both"])),
        "normalize_step": draw(st.booleans()),
        "budget": draw(st.integers(1, 20) if isinstance(rule, NEED_A_BUDGET) else st.none() | st.integers(1, 20)),
        "random_state": draw(st.integers(0, 2**32 - 1)),
    }
    if not regression:
        parameters["combination"] = draw(st.sampled_from(["score", "vote"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 330)), draw(st.integers(1, 9))
    X = rng.normal(size=(n, d)).astype(draw(st.sampled_from([np.float32, np.float64])))
    X[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.6]))] = 0
    y = rng.normal(size=n) + X[:, 0] if regression else rng.integers(CLASSES[task], size=n)
    weights = draw(st.sampled_from([None, rng.choice([0.5, 1.0, 3.0], size=n)]))
    classes = {} if regression else {"classes": np.arange(CLASSES[task])}
    estimator = BudgetMKLRegressor if regression else BudgetMKLClassifier
    return estimator(**parameters), X, y, weights, classes


def learn(model, X, y, weights, classes, block=slice(None)):
    return model.score_and_learn(
        X[block], y[block], sample_weight=None if weights is None else weights[block], **classes
    )


def terms(model):
    """Support of every expansion in an order that only depends on the values: storage may number rows as it likes."""
    rows, found = model.support_vectors_, []
    for coefs in model.dual_coef_ if model.dual_coef_.ndim == 3 else [model.dual_coef_]:
        for column in coefs.T:
            table = np.column_stack([rows[column != 0], column[column != 0]])
            found.append(table[np.lexsort(table.T)])
    return found


def assert_same_model(model, other, X):
    np.testing.assert_array_equal(model.kernel_weights_, other.kernel_weights_)
    np.testing.assert_array_equal(model.n_support_, other.n_support_)
    assert model.n_seen_ == other.n_seen_
    if isinstance(model, BudgetMKLClassifier):
        assert model.mistakes_ == other.mistakes_
        np.testing.assert_array_equal(model.kernel_mistakes_, other.kernel_mistakes_)
        np.testing.assert_array_equal(model.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    for mine, theirs in zip(terms(model), terms(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def cut(data, n):
    """Random blocks of 0..n in order."""
    edges = sorted(data.draw(st.sets(st.integers(1, max(1, n - 1)), max_size=6)))
    edges = [0, *(e for e in edges if e < n), n]
    return [slice(a, b) for a, b in pairwise(edges)]


@settings(examples, max_examples=100)
@given(stream=streams(), data=st.data())
def test_any_split_storage_and_hand_over_gives_the_same_model(stream, data):
    """Blocks, pickling in mid-stream, CSR blocks, predictions in between and n_jobs change nothing, to the last bit."""
    empty, X, y, weights, classes = stream
    whole = pickle.loads(pickle.dumps(empty))
    margins = learn(whole, X, y, weights, classes)
    assert np.isfinite(margins).all()
    model, pieces = pickle.loads(pickle.dumps(empty)), []
    for block in cut(data, len(X)):
        model.set_params(n_jobs=data.draw(st.sampled_from([1, 2])))
        rows = csr_array(X[block]) if data.draw(st.booleans()) else X[block]
        sample_weight = None if weights is None else weights[block]
        pieces.append(model.score_and_learn(rows, y[block], sample_weight=sample_weight, **classes))
        if empty.budget is not None:
            assert np.max(model.n_support_) <= empty.budget
        if data.draw(st.booleans()):
            model = pickle.loads(pickle.dumps(model))
        if data.draw(st.booleans()):
            model.predict(X)
    np.testing.assert_array_equal(np.concatenate(pieces), margins)
    assert_same_model(model, whole, X)


@examples
@given(stream=streams())
def test_rows_one_by_one_give_the_same_model(stream):
    empty, X, y, weights, classes = stream
    X, y = X[:60], y[:60]
    whole, single = pickle.loads(pickle.dumps(empty)), pickle.loads(pickle.dumps(empty))
    margins = learn(whole, X, y, weights, classes, slice(60))
    pieces = [learn(single, X, y, weights, classes, slice(t, t + 1)) for t in range(len(X))]
    np.testing.assert_array_equal(np.concatenate(pieces), margins)
    assert_same_model(single, whole, X)
    np.testing.assert_allclose(whole.kernel_weights_.sum(axis=-1), 1)


@examples
@given(stream=streams())
def test_rows_of_weight_zero_leave_no_trace(stream):
    empty, X, y, _, classes = stream
    kept = np.random.default_rng(len(X)).random(len(X)) < 0.6
    assume(kept.any())
    some, all_of_them = pickle.loads(pickle.dumps(empty)), pickle.loads(pickle.dumps(empty))
    margins = learn(some, X[kept], y[kept], None, classes)
    np.testing.assert_array_equal(learn(all_of_them, X, y, kept.astype(float), classes)[kept], margins)
    assert_same_model(all_of_them, some, X)


@examples
@given(stream=streams())
def test_fit_forgets_what_came_before(stream):
    empty, X, y, weights, _ = stream
    assume(not isinstance(empty, BudgetMKLClassifier) or len(np.unique(y)) > 2)
    fresh, used = pickle.loads(pickle.dumps(empty)), pickle.loads(pickle.dumps(empty))
    fresh.fit(X, y, sample_weight=weights)
    used.fit(X[::-1] * 2, y, sample_weight=weights)
    used.fit(X, y, sample_weight=weights)
    assert_same_model(used, fresh, X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_that_kept_nothing_has_empty_support(n_classes):
    model = BudgetMKLClassifier(kernels=[Gaussian(), Cosine()], learner=SPA(alpha=1e-9, beta=1e9), random_state=0)
    margins = model.score_and_learn(np.ones((5, 3)), np.zeros(5), classes=np.arange(n_classes))
    assert not margins.any()
    assert model.support_vectors_.shape == (0, 3)
    assert model.dual_coef_.shape == ((0, 2) if n_classes == 2 else (3, 0, 2))
    assert not model.n_support_.any()
    assert not pickle.loads(pickle.dumps(model)).decision_function(np.ones((2, 3))).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("rule", "budget"), [(PA(C=0.1), None), (SPA(beta=1.0), 300), (RBP(), 300), (Projectron(threshold=0.5), 100)]
)
def test_two_threads_compute_what_one_does(rule, budget, sparse, dtype):
    """Wide rows and a large pool: enough work for the engine to share it out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 64)).astype(dtype)
    X[rng.random(X.shape) < 0.5] = 0
    y = rng.integers(2, size=len(X))
    runs = []
    for n_jobs, size in [(1, 1300), (2, 1300), (2, 333)]:
        model = BudgetMKLClassifier(
            kernels=[Gaussian(4.0), Polynomial(degree=2, gamma=0.1, coef0=1.0)],
            learner=rule,
            budget=budget,
            n_jobs=n_jobs,
            random_state=0,
        )
        rows = csr_array(X) if sparse else X
        margins = [
            model.score_and_learn(rows[start : start + size], y[start : start + size], classes=[0, 1])
            for start in range(0, len(X), size)
        ]
        runs.append((model, np.concatenate(margins)))
    for model, margins in runs[1:]:
        np.testing.assert_array_equal(margins, runs[0][1])
        assert_same_model(model, runs[0][0], X)

"""Wide sparse rows are stored without their zeros, and that changes nothing but memory and time."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor, modelfile
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, NOGD, PA, RBP, SPA, Forgetron, Perceptron, Projectron

KERNELS = [
    Linear(),
    Polynomial(2),
    Gaussian(0.5),
    Gaussian(1.0),
    Exponential(1.0),
    Cauchy(1.0),
    Cosine(),
    Laplacian(0.5),
]
LEARNERS = [
    (SPA(), None),
    (Perceptron(), None),
    (PA(), None),
    (SPA(), 20),
    (RBP(), 20),
    (Forgetron(), 20),
    (BOGD(), 20),
    (BPAS(), 20),
    (Projectron(), None),
    (NOGD(), 20),
]


def text_like(n, d, rng, dtype):
    """Few words a row, some words in many rows; close copies, so that distances cancel."""
    counts = rng.integers(0, 25, n)
    columns = np.minimum((rng.pareto(1.2, counts.sum()) * 5).astype(int), d - 1)
    X = sp.csr_matrix((rng.random(len(columns)), columns, np.concatenate([[0], np.cumsum(counts)])), shape=(n, d))
    X.sum_duplicates()
    X = sp.vstack([X[: n - 40], X[:20] * 30, X[:20] * 30.001]).tocsr()[rng.permutation(n)]
    return X.astype(dtype), (np.asarray(X[:, :3].sum(axis=1)).ravel() > 0.9).astype(int)


def model_for(learner, budget, **settings):
    return BudgetMKLClassifier(KERNELS, learner, budget=budget, normalize_step=True, random_state=3, **settings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("learner", "budget"), LEARNERS)
def test_what_is_learned_does_not_depend_on_storage(learner, budget, dtype):
    X, y = text_like(330, 1500, np.random.default_rng(0), dtype)
    sparse, dense = model_for(learner, budget), model_for(learner, budget)
    margins = sparse.score_and_learn(X, y)
    assert_array_equal(margins, dense.score_and_learn(X.toarray(), y))
    assert sp.issparse(sparse.support_vectors_)
    assert isinstance(dense.support_vectors_, np.ndarray)
    assert_array_equal(sparse.support_vectors_.toarray(), dense.support_vectors_)
    assert_array_equal(sparse.dual_coef_, dense.dual_coef_)
    for rows in (X, X.toarray(), X[5:6]):
        assert_array_equal(sparse.decision_function(rows), dense.decision_function(rows))


@pytest.mark.parametrize(("learner", "budget"), [(SPA(), None), (BPAS(), 15)])
def test_blocks_threads_pickles_and_files_change_nothing(learner, budget, tmp_path):
    X, y = text_like(400, 2000, np.random.default_rng(1), np.float32)
    whole = model_for(learner, budget, n_jobs=2)
    margins = whole.score_and_learn(X, y)
    model, seen = model_for(learner, budget), []
    for start in range(0, len(y), 57):
        rows = X[start : start + 57]
        seen.append(model.score_and_learn(rows if start % 2 else rows.toarray(), y[start : start + 57], classes=[0, 1]))
        if start == 0:
            model = model_for(learner, budget)
            seen = [model.score_and_learn(rows, y[:57], classes=[0, 1])]
        model = pickle.loads(pickle.dumps(model))
    assert_array_equal(np.concatenate(seen), margins)
    modelfile.save(model, tmp_path / "m.bomkl")
    assert_array_equal(modelfile.load(tmp_path / "m.bomkl").decision_function(X), whole.decision_function(X))


def test_memory_is_in_proportion_to_the_entries():
    X, y = text_like(1000, 2_000_000, np.random.default_rng(2), np.float32)
    model = BudgetMKLClassifier(learner=PA(), random_state=0, normalize_step=True).fit(X, y)
    assert model.support_vectors_.shape[0] > 100
    assert model.nbytes_ < 4 * 2**20


def test_entries_in_any_order_and_in_parts_are_added_up():
    X, y = text_like(200, 1200, np.random.default_rng(3), np.float64)
    rng = np.random.default_rng(0)
    shuffled = []
    for row in range(len(y)):
        columns, values = X[row].indices, X[row].data
        order = rng.permutation(2 * len(columns))
        shuffled.append((np.tile(columns, 2)[order], np.tile(values / 2, 2)[order]))
    starts = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in shuffled])])
    parts = sp.csr_matrix(X.shape)
    parts.indices = np.concatenate([columns for columns, _ in shuffled]).astype(np.int32)
    parts.data = np.concatenate([values for _, values in shuffled])
    parts.indptr = starts.astype(np.int32)
    ordered, unordered = model_for(SPA(), None), model_for(SPA(), None)
    assert_array_equal(ordered.score_and_learn(X, y), unordered.score_and_learn(parts, y))


@pytest.mark.parametrize(("learner", "budget"), [(PA(), None), (BPAS(), 15)])
def test_a_call_that_fails_halfway_leaves_the_model_as_it_was(learner, budget):
    X, y = text_like(300, 1500, np.random.default_rng(4), np.float32)
    model = model_for(learner, budget).partial_fit(X[:150], y[:150])
    before, stored = model.decision_function(X), model.support_vectors_.toarray()
    bad = sp.vstack([X[150:-1], sp.csr_matrix(([np.float32(1e30)], ([0], [0])), shape=(1, X.shape[1]))]).tocsr()
    with pytest.raises(ValueError, match="row 149"):
        model.partial_fit(bad, y[150:])
    assert_array_equal(model.decision_function(X), before)
    assert_array_equal(model.support_vectors_.toarray(), stored)
    untouched = model_for(learner, budget).partial_fit(X[:150], y[:150])
    assert_array_equal(model.score_and_learn(X[150:], y[150:]), untouched.score_and_learn(X[150:], y[150:]))


def test_a_python_kernel_sees_dense_rows():
    X, y = text_like(60, 1100, np.random.default_rng(5), np.float64)
    model = BudgetMKLClassifier([lambda A, B: A @ B.T], Perceptron(), selection_delta=None).fit(X, y)
    assert isinstance(model.support_vectors_, np.ndarray)


def test_regression_on_sparse_rows():
    X, _ = text_like(200, 1500, np.random.default_rng(6), np.float64)
    y = np.asarray(X[:, 0].todense()).ravel()
    sparse, dense = (BudgetMKLRegressor(random_state=0) for _ in range(2))
    assert_array_equal(sparse.score_and_learn(X, y), dense.score_and_learn(X.toarray(), y))


def test_stored_rows_that_do_not_fit_together_are_refused():
    X, y = text_like(100, 1500, np.random.default_rng(7), np.float64)
    model = model_for(SPA(), None).fit(X, y)
    state = model._state()
    columns = state["engine"]["row_columns"]
    unsorted = "the columns of a stored row are not ascending within the features"
    for name, value, message in (
        ("row_columns", columns[::-1].copy(), unsorted),
        ("row_columns", columns + 1500, unsorted),
        ("row_values", columns[:3] * 1.0, "an array has the wrong length"),
    ):
        broken = {**state, "engine": {**state["engine"], name: value}}
        with pytest.raises(ValueError, match=f"^{message}$"):
            model._restore(broken, KERNELS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("learner", "budget"), LEARNERS)
def test_rows_of_ones_give_what_other_numbers_give(learner, budget, dtype):
    """Rows of zeros and ones are counted in bytes; one other number in the stream, and some of them no longer are."""
    rng = np.random.default_rng(8)
    X = (rng.random((330, 40)) < 0.2).astype(dtype)
    y = (X[:, :3].sum(axis=1) > 1).astype(int)
    X[200, 7] = 0.5
    alone = model_for(learner, budget)
    margins = np.concatenate([alone.score_and_learn(X[[i]], y[[i]], classes=[0, 1]) for i in range(len(y))])
    assert_array_equal(model_for(learner, budget).score_and_learn(X, y), margins)
    # a column that is never zero makes every product one of dense rows; it changes no distance and no order of sums
    gaussians = [Gaussian(0.5), Gaussian(2.0)]
    counted, dense = (BudgetMKLClassifier(gaussians, learner, budget=budget, random_state=0) for _ in range(2))
    full = np.hstack([X, np.full((len(y), 60), 2, dtype=dtype)])
    np.testing.assert_allclose(counted.score_and_learn(X, y), dense.score_and_learn(full, y), rtol=1e-4, atol=1e-4)


def test_rows_with_more_ones_than_a_byte_can_count():
    X = np.zeros((70, 2000), dtype=np.float32)
    X[:, :300] = 1
    X[np.arange(70), 300 + np.arange(70)] = 1
    model = BudgetMKLClassifier([Linear()], Perceptron(), selection_delta=None).partial_fit(X, np.arange(70) % 2)
    stored, coefs = model.support_vectors_, model.dual_coef_[:, 0]
    assert_array_equal(model.decision_function(X), (X @ stored.T) @ coefs)

"""FOGD and NOGD against the reference, and in everything a model can be put through."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor, merge, paper
from bomkl._core import NotFiniteError
from bomkl.budget.growth import with_another_class
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial, paper_gaussians
from bomkl.learners import FOGD, NOGD
from bomkl.modelfile import load, save
from bomkl.reference import ReferenceMKL

FOURIER_KERNELS = (Gaussian(0.7), Cauchy(2.0), Exponential(1.5), Laplacian(0.4))
NYSTROM_KERNELS = (Gaussian(0.7), Polynomial(2, 0.5, 1.0), Cauchy(2.0))
# 70 frequencies fill more than a tile; 12 support rows are there long before the last row
CASES = {
    "FOGD": {"learner": FOGD(n_frequencies=70, eta=0.3), "kernels": FOURIER_KERNELS},
    "NOGD": {"learner": NOGD(rank=0.5, eta=0.1), "kernels": NYSTROM_KERNELS, "budget": 12},
}
NATIVE = {
    "FOGD": {"learner": FOGD(n_frequencies=70), "kernels": list(FOURIER_KERNELS)},
    "NOGD": {"learner": NOGD(rank=0.5), "kernels": [Gaussian(0.7), Polynomial(2, 0.5, 1.0)], "budget": 12},
}
SELECTIONS = [(None, "update"), (0.2, "update"), (0.2, "combination"), (0.2, "both")]
COMBINERS = [Uniform(), Hedge(0.9, loss="zero_one"), Hedge(0.8, loss="hinge", share=0.05)]
REGRESSION_COMBINERS = [Uniform(), Hedge(0.9, loss="epsilon_insensitive"), Hedge(0.95, loss="squared", share=0.02)]


def rows_of(task, n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    signal = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
    y = {
        "binary": np.where(signal > 0, 1.0, -1.0),
        "multiclass": np.digitize(signal, [-0.3, 0.6]),
        "regression": signal,
    }
    return X, y[task], rng.choice([0.0, 0.5, 1.0, 2.0], size=n)


def _seed():
    return int(np.random.RandomState(3).randint(2**63 - 1, dtype=np.int64))


def run_engine(task, X, y, weights, block, dtype=np.float64, **settings):
    kind = BudgetMKLRegressor if task == "regression" else BudgetMKLClassifier
    model = kind(**settings | {"kernels": list(settings["kernels"])}, random_state=3)
    classes = {} if task == "regression" else {"classes": np.unique(y)}
    scores = [
        model.score_and_learn(
            X[at : at + block].astype(dtype), y[at : at + block], sample_weight=weights[at : at + block], **classes
        )
        for at in range(0, len(y), block)
    ]
    return model, np.concatenate(scores).reshape(len(y), -1)


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
@pytest.mark.parametrize("combiner", range(3))
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("case", CASES)
def test_engine_is_the_reference(case, task, combiner, selection):
    X, y, weights = rows_of(task)
    settings = CASES[case] | {
        "combiner": (REGRESSION_COMBINERS if task == "regression" else COMBINERS)[combiner],
        "selection_delta": selection[0],
        "selection_scope": selection[1],
    }
    n_outputs = 3 if task == "multiclass" else 1
    oracle = ReferenceMKL(**settings, seed=_seed(), task=task, n_outputs=n_outputs)
    expected = [oracle.learn_one(x, label, w) for x, label, w in zip(X, y, weights, strict=True)]
    first = None
    for block in (7, 1, 1000):
        model, scores = run_engine(task, X, y, weights, block, **settings)
        assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)
        if first is not None:
            assert_array_equal(scores, first)  # not a bit depends on the blocks
        first = scores
        assert_array_equal(np.ravel(model.n_support_), [len(f.rows) for fs in oracle.expansions for f in fs])
        if task != "regression":
            assert model.mistakes_ == oracle.mistakes
    unseen = np.random.default_rng(9).normal(size=(5, 3))
    later = (model.predict if task == "regression" else model.decision_function)(unseen)
    assert_allclose(np.reshape(later, (5, -1)), [oracle.score_one(x) for x in unseen], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("rank", [0.05, 1.0])
def test_nystrom_with_a_python_function_among_the_kernels(rank):
    X, y, weights = rows_of("binary")
    kernels = (Gaussian(0.7), lambda A, B: (1 + np.asarray(A) @ np.asarray(B).T) ** 3)
    settings = {"learner": NOGD(rank, 0.1), "kernels": kernels, "budget": 9, "combiner": Uniform()}
    oracle = ReferenceMKL(**settings, selection_delta=0.001, seed=_seed())
    expected = [oracle.learn_one(x, label, w) for x, label, w in zip(X, y, weights, strict=True)]
    for block in (7, 1000):
        assert_allclose(run_engine("binary", X, y, weights, block, **settings)[1], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", NATIVE)
def test_single_precision_is_close(case):
    X, y, weights = rows_of("binary", 30)
    X = X.astype(np.float32).astype(np.float64)
    settings = NATIVE[case] | {"combiner": Uniform()}
    double, single = (
        run_engine("binary", X, y, weights, 7, dtype, **settings)[1] for dtype in (np.float64, np.float32)
    )
    assert_allclose(single, double, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", FOURIER_KERNELS, ids=repr)
def test_features_approximate_the_kernel(kernel):
    X = np.random.default_rng(0).normal(size=(8, 3))
    model = BudgetMKLClassifier([kernel], FOGD(n_frequencies=20000), random_state=0).fit(X, np.arange(8) % 2)
    draws, factors = model._engine.frequencies(0)
    angles = X @ (draws.T * factors)
    features = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(20000)
    assert_allclose(features @ features.T, kernel(X, X), atol=0.03)


def test_angles_of_many_turns_are_waves_too():
    X = np.array([[3e8], [1e-3], [2e8], [0.5]])
    model = BudgetMKLRegressor([Gaussian(1e-3)], FOGD(8, eta=1.0), Uniform(), selection_delta=None, random_state=0)
    model.partial_fit(X[:1], [1.0])
    draws, factors = model._engine.frequencies(0)
    u = draws[:, 0] * factors
    assert_allclose(model.predict(X), np.cos(np.outer(X[:, 0] - X[0, 0], u)).mean(axis=1), atol=1e-3)


NO_TRANSFORM = {"linear": Linear(), "polynomial": Polynomial(2), "cosine": Cosine(), "function": lambda X, Z: X @ Z.T}


@pytest.mark.parametrize("kernel", NO_TRANSFORM)
def test_kernels_without_a_fourier_transform_are_refused(kernel):
    model = BudgetMKLClassifier([Gaussian(), NO_TRANSFORM[kernel]], FOGD())
    with pytest.raises(ValueError, match="'kernels' parameter of BudgetMKLClassifier must hold kernels with a Fourier"):
        model.fit([[0.0], [1.0]], [0, 1])


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"'budget' parameter .* must be None for FOGD"):
        BudgetMKLClassifier([Gaussian()], FOGD(), budget=5).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"'budget' parameter .* int >= 1 for NOGD"):
        BudgetMKLClassifier([Gaussian()], NOGD()).fit([[0.0], [1.0]], [0, 1])
    for make, match in [
        (lambda: FOGD(0), "'n_frequencies' parameter of FOGD"),
        (lambda: FOGD(2.5), "'n_frequencies' parameter of FOGD"),
        (lambda: FOGD(eta=0), "'eta' parameter of FOGD"),
        (lambda: NOGD(rank=0), "'rank' parameter of NOGD"),
        (lambda: NOGD(rank=1.5), "'rank' parameter of NOGD"),
        (lambda: NOGD(eta=-1), "'eta' parameter of NOGD"),
    ]:
        with pytest.raises(ValueError, match=match):
            make()
    wide = sp.csr_matrix(([1.0], ([0], [10**9])), shape=(2, 2 * 10**9))
    with pytest.raises(ValueError, match="too many"):
        BudgetMKLClassifier([Gaussian()], FOGD()).fit(wide, [0, 1])


@pytest.mark.parametrize("case", NATIVE)
def test_memory_does_not_grow_with_the_stream(case):
    X, y = make_moons(3000, noise=0.2, random_state=0)
    model = BudgetMKLClassifier(**NATIVE[case], random_state=0).fit(X[:500], y[:500])
    before = model.nbytes_
    model.partial_fit(X[500:], y[500:])
    assert model.nbytes_ == before


@pytest.mark.parametrize("case", NATIVE)
def test_saved_models_threads_and_storage_change_no_bit(case, tmp_path):
    X, y = make_moons(300, noise=0.2, random_state=0)
    X = np.pad(X, ((0, 0), (3, 1200)))
    whole = BudgetMKLClassifier(**NATIVE[case], random_state=0).partial_fit(X, y)
    sparse = BudgetMKLClassifier(**NATIVE[case], random_state=0).partial_fit(sp.csr_matrix(X), y)
    threads = BudgetMKLClassifier(**NATIVE[case], random_state=0, n_jobs=3).partial_fit(X, y)
    half = BudgetMKLClassifier(**NATIVE[case], random_state=0).partial_fit(X[:100], y[:100])
    save(half, tmp_path / "half")
    loaded = load(tmp_path / "half").partial_fit(X[100:], y[100:])
    pickled = pickle.loads(pickle.dumps(half)).partial_fit(X[100:], y[100:])
    for other in (sparse, threads, loaded, pickled):
        assert_array_equal(other.decision_function(X), whole.decision_function(X))
    assert_array_equal(sparse.decision_function(sp.csr_matrix(X)), whole.decision_function(X))


@pytest.mark.parametrize(
    ("case", "name", "change", "match"),
    [
        ("FOGD", "feature_weights", lambda a: a[:-1], "feature_weights has the wrong length"),
        ("FOGD", "feature_weights", lambda a: np.append(a, 1.0), "feature_weights has the wrong length"),
        ("FOGD", "feature_weights", lambda a: a * np.inf, "weight of a feature is not finite"),
        ("FOGD", "rows", lambda a: np.ones((1, 2)), "has support rows"),
        ("NOGD", "inverse_gram", lambda a: a * np.nan, "inverse_gram is not finite"),
        ("NOGD", "gram_starts", lambda a: a + (np.arange(len(a)) == 1), "wrong size"),
    ],
)
def test_stored_states_are_checked(case, name, change, match):
    X, y = make_moons(100, noise=0.2, random_state=0)
    state = BudgetMKLClassifier(**NATIVE[case], selection_delta=None, random_state=0).fit(X, y).__getstate__()
    wrong = copy.deepcopy(state)
    wrong["_engine"]["engine"][name] = change(wrong["_engine"]["engine"][name])
    with pytest.raises(ValueError, match=match):
        BudgetMKLClassifier().__setstate__(wrong)


@pytest.mark.parametrize("case", NATIVE)
def test_a_row_that_fails_leaves_no_trace(case):
    """The last kernel diverges after the others have been updated."""
    X, y = make_moons(40, noise=0.2, random_state=0)
    learner = FOGD(20, eta=1e200) if case == "FOGD" else NOGD(eta=1e200)
    settings = NATIVE[case] | {"learner": learner}
    for block in (1, 20):
        model = BudgetMKLRegressor(**settings, selection_delta=None, combiner=Uniform()).fit(X[:1], y[:1] + 1.0)
        for at in range(1, 40, block):
            before, failed = pickle.dumps(model), False
            try:
                model.partial_fit(X[at : at + block], y[at : at + block] + 1.0)
            except NotFiniteError:
                failed = True
                break
        assert pickle.dumps(model) == before
        assert failed


@pytest.mark.parametrize("combination", ["score", "vote"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("case", NATIVE)
def test_onnx(case, n_classes, combination):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from bomkl.onnx import to_onnx

    X = np.random.default_rng(0).normal(size=(120, 4))
    y = (1.7 * np.abs(X).sum(axis=1)).astype(int) % n_classes
    model = BudgetMKLClassifier(**NATIVE[case], combination=combination, random_state=0).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    assert_allclose(session.run(["margins"], {"X": X})[0], model.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_onnx_votes_of_scores_that_underflow(dtype):
    """Eigenvectors leave coefficients of 1e-40, so that products with values of Gaussians are zero in float32."""
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from bomkl.onnx import to_onnx

    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(240, 4)).astype(dtype)
        y = (1.7 * np.abs(X).sum(axis=1)).astype(int) % 2
        kernels = [Gaussian(0.125), Gaussian(0.25)]
        model = BudgetMKLClassifier(kernels, NOGD(0.2), Uniform(), "vote", budget=12, dtype=dtype, random_state=0)
        model.fit(X[:120], y[:120])
        session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
        assert_array_equal(session.run(["margins"], {"X": X})[0], model.decision_function(X))


@pytest.mark.parametrize("case", NATIVE)
def test_river_grows_classes_and_columns(case):
    pytest.importorskip("river")
    from bomkl import river

    X = np.random.default_rng(0).normal(size=(60, 3))
    settings = {"budget": None} | NATIVE[case]
    kernels = settings.pop("kernels")
    model = river.BudgetMKLClassifier(kernels, **settings, seed=5)
    for t, row in enumerate(X):
        model.learn_one(dict(zip("abc", row, strict=True)), t % 2)
    expected = BudgetMKLClassifier(kernels, **settings, random_state=5)
    expected.partial_fit(np.pad(X, ((0, 0), (0, 5))), np.arange(60) % 2)
    grown = with_another_class(model._model)
    rows = np.pad(X, ((0, 0), (0, 5)))
    before = expected.decision_function(rows)
    assert_allclose(grown.decision_function(rows), np.column_stack([-before, before, 0 * before]), atol=1e-12)
    model.learn_one(dict.fromkeys("abcdefghijklm", 1.0), "third")
    assert model.predict_one({"a": 0.5}) in (0, 1, "third")


def test_merging():
    X, y = make_moons(400, noise=0.2, random_state=0)
    parts = [BudgetMKLClassifier(**NATIVE["FOGD"], combiner=Uniform(), random_state=7) for _ in range(2)]
    for i, part in enumerate(parts):
        part.fit(X[i::2], y[i::2])
    merged = merge(parts)
    mean = np.mean([part.decision_function(X) for part in parts], axis=0)
    assert_allclose(merged.decision_function(X), mean, atol=1e-12)
    assert merged.n_seen_ == 400
    other = BudgetMKLClassifier(**NATIVE["FOGD"], combiner=Uniform(), random_state=8).fit(X, y)
    with pytest.raises(ValueError, match="same frequencies"):
        merge([parts[0], other])
    with pytest.raises(ValueError, match="NOGD cannot be merged"):
        merge([BudgetMKLClassifier(**NATIVE["NOGD"], random_state=7).fit(X, y) for _ in range(2)])


def test_names_for_tables():
    fogd, nogd = paper.algorithm("OMKC(FOGD)", budget=9), paper.algorithm("OMKC(NOGD)", budget=9)
    assert (fogd.learner.n_frequencies, fogd.budget, fogd.kernels) == (9, None, paper_gaussians())
    assert (nogd.budget, nogd.kernels, nogd.combination) == (9, "paper", "vote")


def test_nystrom_of_rows_that_depend_on_each_other():
    """Many rows of few ones, as in tables of categories: most eigenvalues are rounding."""
    rng = np.random.default_rng(0)
    X = np.eye(12)[rng.integers(0, 12, (300, 2))].sum(axis=1)
    kernels = [Linear(), Polynomial(3), Gaussian(64.0), Gaussian(0.02)]
    model = BudgetMKLClassifier(kernels, NOGD(), budget=120, selection_delta=None, random_state=0)
    assert np.isfinite(model.score_and_learn(X, X[:, 0] + X[:, 1] > 0)).all()
    assert (model.n_support_ == 120).any()


@pytest.mark.parametrize("seed", [0, 1, 4, 10])
def test_kernel_values_whose_squares_underflow(seed):
    """Values of a narrow Gaussian between rows are next to nothing: the kernel matrix is the unit matrix."""
    X = np.random.default_rng(seed).normal(size=(60, 4))
    model = BudgetMKLClassifier([Gaussian(0.03125)], NOGD(), Uniform(), budget=25, random_state=seed)
    assert np.isfinite(model.fit(X, np.arange(60) % 2).decision_function(X)).all()

"""onnxruntime predicts what the estimators predict."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.lists import KERNELS
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, paper
from bomkl.combiners import Uniform
from bomkl.kernels import Cauchy, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, FOGD, PA, RBP, SPA, Forgetron, Perceptron, Projectron

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
to_onnx = pytest.importorskip("bomkl.onnx").to_onnx
_check_part = pytest.importorskip("bomkl.onnx.agreement")._check_part

LEARNERS = [Perceptron(), PA(), SPA(), RBP(), Forgetron(), BOGD(), BPAS(), Projectron(), Projectron(0.1, True)]
REGRESSION_LEARNERS = [PA(), SPA(), BOGD(), BPAS()]
DTYPES = ["float32", "float64"]


def rows(n=120, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    X[0] = 0  # where a cosine is not defined
    return X


def labels(X, n_classes):
    return (1.7 * np.abs(X).sum(axis=1)).astype(int) % n_classes


def run(estimator, X, tolerance=1e-5):
    """Outputs of the exported model by name, after checking the model itself."""
    model = to_onnx(estimator, tolerance=tolerance)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64}[given.type]
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {given.name: X.astype(dtype)}), strict=True))
    for output in session.get_outputs():
        assert list(outputs[output.name].shape[1:]) == list(output.shape[1:])
    return outputs


def assert_same(estimator, X, precision, tolerance=1e-5):
    outputs = run(estimator, X, tolerance)
    if "prediction" in outputs:
        expected = estimator.predict(X)
        np.testing.assert_allclose(outputs["prediction"], expected, atol=precision * max(1, np.abs(expected).max()))
        return outputs
    margins = estimator.decision_function(X)
    size = max(1.0, np.abs(margins).max())
    np.testing.assert_allclose(outputs["margins"], margins, atol=precision * size)
    ordered = np.sort(np.column_stack([margins, np.zeros(len(X))]) if margins.ndim == 1 else margins, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > precision * size
    same = outputs["label"] == estimator.predict(X)
    assert same[clear].all()
    assert same.mean() > 0.98
    if hasattr(estimator, "predict_proba"):
        np.testing.assert_allclose(outputs["probabilities"], estimator.predict_proba(X), atol=precision)
    return outputs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("combination", ["score", "vote"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_every_learner_with_all_kernels(learner, n_classes, combination, dtype):
    X = rows()
    model = BudgetMKLClassifier(KERNELS, learner, combination=combination, budget=15, dtype=dtype, random_state=0)
    model.fit(X, labels(X, n_classes))
    # in float32, the sign of a function that all but vanishes may be rounded to either side
    queries = np.vstack([X[:20], rows(80, seed=1)])
    assert_same(model, queries, 2e-5 if dtype == "float32" else 1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("learner", REGRESSION_LEARNERS, ids=repr)
def test_every_learner_of_numbers(learner, dtype):
    X = rows()
    model = BudgetMKLRegressor(KERNELS, learner, budget=15, dtype=dtype, random_state=0).fit(X, np.sin(X[:, 0]))
    assert_same(model, rows(80, seed=1), 2e-5 if dtype == "float32" else 1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [*KERNELS, Gaussian(0.05), Polynomial(3, coef0=-0.5), Exponential(1e-3)], ids=repr)
def test_every_kernel_alone(kernel, dtype):
    X = rows()
    model = BudgetMKLClassifier([kernel], PA(), dtype=dtype, random_state=0).fit(X, labels(X, 2))
    tolerance = 1e-3 if kernel == Gaussian(0.05) else 1e-5  # so narrow that single precision has few digits
    assert_same(model, np.vstack([X, rows(50, seed=1)]), 2e-5 if dtype == "float32" else 1e-7, tolerance)


@pytest.mark.parametrize("name", [*paper.ALGORITHMS, *paper.STOCHASTIC_COMBINATIONS])
def test_every_algorithm_of_the_paper(name):
    X = rows(200)
    model = paper.algorithm(name).set_params(random_state=0).fit(X, labels(X, 2))
    assert_same(model, rows(seed=1), 1e-7)


LEARNERS_OF_AUTO = [{}, {"drift": "adapt"}, {"update": "rounds"}]


@pytest.mark.parametrize("how", LEARNERS_OF_AUTO, ids=str)
@pytest.mark.parametrize("n", slow_but([1, 12, 150], [1, 5, 12, 40, 150, 400]))
@pytest.mark.parametrize("n_classes", [2, 4])
def test_auto_classifier_at_every_stage(n_classes, n, how):
    X = rows(n)
    X[:, 3] = np.round(X[:, 3])  # values that come again and again
    names = np.array(["d", "c", "b", "a"])
    model = AutoMKLClassifier(budget=40, random_state=0, **how).partial_fit(X, names[labels(X, n_classes)])
    queries = rows(60, seed=1)
    queries[:30, 3] = np.round(queries[:30, 3])
    queries[-1] = 1e200
    assert_same(model, queries, 1e-3)


@pytest.mark.parametrize("how", LEARNERS_OF_AUTO, ids=str)
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("n", slow_but([5, 40], [5, 40, 400]))
def test_auto_regressor_at_every_stage(n, loss, how):
    X = rows(n)
    model = AutoMKLRegressor(budget=40, loss=loss, random_state=0, **how).fit(X, 100 + X[:, 0] * X[:, 1])
    assert_same(model, rows(60, seed=1), 1e-5)


@pytest.mark.parametrize("seed", [3, 5])
def test_auto_on_columns_with_far_outliers(seed):
    X = np.random.default_rng(seed).standard_cauchy(size=(2000, 4))
    model = AutoMKLClassifier(budget=200, random_state=0).fit(X, np.arctan(X[:, 0]) * np.arctan(X[:, 1]) > 0)
    assert_same(model, np.random.default_rng(99).standard_cauchy(size=(500, 4)), 1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [Gaussian(0.05), Exponential(0.01)], ids=repr)
def test_votes_of_functions_that_are_exactly_zero(kernel, dtype):
    # two stored rows with opposite signs, a third too far off to matter, and queries as far from one as from the other
    stored = np.array([[0, 1, 2, 5, 3], [5, 2, 0, 1, 3], [107, 61, 83, 12, 59]]) / 16
    queries = np.repeat(np.arange(-40, 41)[:, None] / 256, 5, axis=1)
    model = BudgetMKLClassifier([kernel], Perceptron(), Uniform(), "vote", dtype=dtype).fit(
        stored, [1, 0, 1], shuffle=False
    )
    assert (model._scores(queries, per_kernel=True) == 0).all()
    np.testing.assert_array_equal(run(model, queries)["label"], model.predict(queries))


def test_auto_with_many_columns():
    X = np.random.default_rng(0).normal(size=(100, 200))  # too many for the linear component to have them twice
    model = AutoMKLClassifier(budget=40, random_state=0).fit(X, labels(X[:, :4], 2))
    assert_same(model, X, 1e-3)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 7]),
        np.array([-1.0, 1.0]),
        np.array(["no", "yes"]),
        np.array([False, True]),
        np.array([1, 2**64 - 1], dtype=np.uint64),
    ],
    ids=repr,
)
def test_labels_keep_their_type(classes):
    X = rows()
    model = BudgetMKLClassifier([Gaussian()], random_state=0).fit(X, classes[labels(X, 2)])
    found = assert_same(model, X, 1e-7)["label"]
    assert found.dtype == (object if classes.dtype.kind == "U" else classes.dtype)


@pytest.mark.filterwarnings("ignore:y holds only one class")
@pytest.mark.parametrize("label", [-1, 1])
def test_auto_that_knows_one_label_only(label):
    X = rows(60)
    model = AutoMKLClassifier(budget=40, random_state=0).fit(X, np.full(60, label))
    assert assert_same(model, X, 1e-3)["probabilities"].shape == (60, 1)


def test_nothing_learned_yet_but_zero():
    for combination, margin in (("score", 0.0), ("vote", 1.0)):
        model = BudgetMKLClassifier([Linear(), Gaussian()], Perceptron(), Uniform(), combination)
        model.partial_fit(np.zeros((1, 2)), [0], classes=[0, 1], sample_weight=[0.0])
        outputs = assert_no_terms(model)
        assert outputs["margins"].tolist() == [margin] * 3


def assert_no_terms(model):
    outputs = run(model, np.ones((3, 2)))
    assert outputs["label"].tolist() == model.predict(np.ones((3, 2))).tolist()
    assert outputs["margins"].tolist() == model.decision_function(np.ones((3, 2))).tolist()
    return outputs


def test_rows_far_from_the_origin_keep_their_digits():
    X = rows() + 1e4
    model = BudgetMKLClassifier([Gaussian(0.5)], PA(), random_state=0).fit(X, labels(X - 1e4, 2))
    assert_same(model, X, 1e-7)


def with_outlier(size):
    """One column in which one row lies far out, and what to learn from it."""
    X = np.random.default_rng(0).normal(size=(450, 1))
    y = np.sin(3 * X[:, 0])
    X[60] = size
    return X, y


@pytest.mark.parametrize("size", [1e7, 1e9, 1e12])
@pytest.mark.parametrize("kernel", [Gaussian(0.5), Exponential(0.3), Cauchy(0.5)], ids=repr)
def test_one_stored_row_that_lies_far_out(kernel, size):
    X, y = with_outlier(size)
    model = BudgetMKLRegressor([kernel], PA(), budget=100, random_state=0).fit(X[:70], y[:70])
    assert size in model.support_vectors_
    assert_same(model, np.vstack([X, X[60] * (1 + 1e-13)]), 1e-9)


def test_stored_rows_that_all_lie_at_one_far_place():
    X = np.full((1, 1), -5.7e8)
    assert_same(BudgetMKLRegressor([Gaussian(0.5)], PA(), random_state=0).fit(X, [1.0]), np.vstack([X, X + 0.5]), 1e-9)


@pytest.mark.parametrize("size", [1e5, 1e8])
def test_auto_with_one_row_that_lies_far_out(size):
    X, y = with_outlier(size)
    assert_same(AutoMKLRegressor(budget=100, random_state=0).partial_fit(X, y), X, 2e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e6, 1e12])
def test_waves_of_rows_that_lie_far_out(size, dtype):
    X = size * rows()
    model = BudgetMKLClassifier([Gaussian(0.5), Laplacian(2.0)], FOGD(), dtype=dtype, random_state=0)
    assert_same(model.fit(X, labels(X / size, 2)), X, 1e-6)


@pytest.mark.parametrize("drift", ["auto", "adapt"])
def test_several_classes_along_a_stream(drift):
    X = np.random.default_rng(0).normal(size=(3000, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])
    model = AutoMKLClassifier(budget=100, drift=drift, random_state=0).partial_fit(X, y)
    assert_same(model, X[-200:], 3e-5, tolerance=1e-4)


def test_a_refused_export_says_which_tolerance_is_enough():
    model = AutoMKLClassifier(budget=40, random_state=0).fit(rows(), labels(rows(), 3))
    with pytest.raises(ValueError, match="The ONNX model would differ") as refused:
        to_onnx(model, tolerance=1e-9)
    enough = float(re.search(r"to_onnx\(estimator, tolerance=(.*?)\)", str(refused.value))[1])
    assert 1e-9 < enough < 1e-3
    assert to_onnx(model, tolerance=enough).graph.node


def test_one_score_far_from_the_others_does_not_hide_a_difference():
    scores = np.append(np.linspace(0, 1, 99), 10.0)
    with pytest.raises(ValueError, match=r"differ from the estimator by 5e-05"):
        _check_part(scores + 5e-5, scores, tolerance=1e-5)
    _check_part(scores + 5e-6, scores, tolerance=1e-5)
    _check_part(1e300 * scores, 1e300 * scores, tolerance=1e-5)


def test_an_export_that_would_differ_is_refused():
    model = AutoMKLClassifier(budget=40, random_state=0).fit(rows(), labels(rows(), 2))
    with pytest.raises(ValueError, match=r"The ONNX model would differ from the estimator by .* tolerance=1e-13 times"):
        to_onnx(model, tolerance=1e-13)
    with pytest.raises(ValueError, match=r"'tolerance' parameter of to_onnx must be a finite number > 0"):
        to_onnx(model, tolerance=0)


def test_one_column_of_tiny_numbers():
    X = 1e-60 * (rows(300)[:, :1] + 3)
    assert_same(AutoMKLClassifier(50, random_state=0).fit(X, np.sin(3e60 * X[:, 0]) > 0), X, 1e-4)


def test_targets_of_tiny_numbers():
    X = rows(300)
    model = AutoMKLRegressor(50, random_state=0).fit(X, 1e-60 * (X[:, 0] + 3))
    np.testing.assert_allclose(run(model, X)["prediction"], model.predict(X), rtol=1e-4)


def test_what_cannot_be_exported_is_refused():
    def product(X, Z):
        return X @ Z.T

    model = BudgetMKLClassifier([Gaussian(), product]).fit(rows(), labels(rows(), 2))
    with pytest.raises(ValueError, match=r"The kernel product is a Python function, which an ONNX model cannot hold"):
        to_onnx(model)
    holed = np.where(rows() > 1, np.nan, rows())
    with pytest.raises(ValueError, match=r"no form of hashed values, .* those of missing values"):
        to_onnx(AutoMKLClassifier(budget=40, random_state=0).fit(holed, labels(rows(), 2)))
    with pytest.raises(NotFittedError):
        to_onnx(BudgetMKLRegressor())
    with pytest.raises(TypeError, match=r"to_onnx exports .* Got list instead"):
        to_onnx([])


def test_an_outlier_among_the_stored_rows_does_not_hide_how_much_the_export_differs():
    X = np.random.default_rng(0).normal(size=(76, 1))
    y = np.sin(3 * X[:, 0]) + X[:, 0] ** 2
    X[-1] = -1.3e7  # learned last, so its score is a small difference of large terms
    model = BudgetMKLRegressor([Polynomial(2, 0.5, 1.0)], BPAS(C=0.1), budget=19, dtype="float64", random_state=0)
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match="would differ from the estimator"):
        to_onnx(model)

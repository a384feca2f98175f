"""Class means and linear models of one scale, beside the kernels."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bomkl import AutoMKLClassifier, modelfile
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.simple.class_means import FAR, LEAST_LOG_PROBABILITY, ClassMeans
from bomkl.auto.simple.simple_learner import SimpleLearner
from bomkl.auto.task import Task


def clouds(classes, n, columns=12, seed=0, apart=1.4):
    rng = np.random.default_rng(seed)
    centres, y = apart * rng.normal(size=(classes, columns)), rng.integers(classes, size=n)
    return centres[y] + rng.normal(size=(n, columns)), y


def embeddings(n, columns, classes=4, seed=0):
    """Rows of length 1 with few directions that matter."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = 0.15 * rng.normal(size=(n, columns)) + rng.normal(size=(classes, columns))[y] * np.geomspace(1, 1e-3, columns)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def nearest_mean_mistakes(X, y):
    """Mistakes of the nearest class mean, each row before it is learned."""
    sums, counts, wrong = np.zeros((y.max() + 1, X.shape[1])), np.zeros(y.max() + 1), 0
    for x, k in zip(X, y, strict=True):
        distances = ((sums / np.maximum(counts, 1)[:, None] - x) ** 2).sum(axis=1)
        wrong += int(np.where(counts > 0, distances, np.inf).argmin() != k or counts[k] == 0)
        sums[k] += x
        counts[k] += 1
    return wrong


def layer(model):
    """The layer of simple models; None where there is none."""
    learner = model._learner
    while learner is not None and not isinstance(learner, SimpleLearner):
        learner = learner.inner
    return learner


class TestClassMeans:
    X, y = clouds(9, 400)

    def learned(self, weight=None):
        means = ClassMeans.of(12, 9)
        weight = np.ones(400) if weight is None else weight
        means.score_and_learn(self.X, self.y.astype(float), weight, Task.MULTICLASS)
        return means

    def test_scores_are_log_densities_of_clouds(self):
        means = self.learned()
        origin, per_unit = means.units
        rows = np.vstack([self.X, 1e3 * self.X[:5], np.full((1, 12), 1e150)])
        units = np.clip(np.clip(rows - origin, -1e100, 1e100) * per_unit, -FAR, FAR)
        scores = means.scores(rows)
        for shape, cloud in enumerate(means.clouds()):
            z = units @ cloud.whiten
            f = cloud.constants - 0.5 * ((z[:, None] - cloud.centres) ** 2).sum(axis=2) / cloud.widths
            f = np.maximum(f - f.max(axis=1, keepdims=True), LEAST_LOG_PROBABILITY)
            expected = f - np.log(np.exp(f).sum(axis=1, keepdims=True))
            assert_allclose(scores[:, shape], expected, atol=1e-8)

    def test_sums_are_those_of_all_rows(self):
        weight = np.random.default_rng(1).choice([0.5, 1.0, 3.0], 400)
        found = self.learned(weight).core.state()
        within = np.zeros((12, 12))
        for k in range(9):
            rows, own = self.X[self.y == k], weight[self.y == k]
            assert_allclose(found["means"][k], np.average(rows, axis=0, weights=own))
            within += (own[:, None] * (rows - found["means"][k])).T @ (rows - found["means"][k])
        assert_allclose(found["within"], within[np.tril_indices(12)], atol=1e-9)
        assert_allclose(found["mean"], np.average(self.X, axis=0, weights=weight))
        assert_allclose(found["total"], (weight[:, None] * (self.X - found["mean"]) ** 2).sum(axis=0))

    def test_units_of_columns_do_not_matter(self):
        units, y = 10.0 ** np.arange(-6, 6), self.y.astype(float)
        plain, scaled = (ClassMeans.of(12, 9) for _ in range(2))
        first = plain.score_and_learn(self.X, y, np.ones(400), Task.MULTICLASS)
        other = scaled.score_and_learn(self.X * units + 1e3 * units, y, np.ones(400), Task.MULTICLASS)
        assert_allclose(first, other, atol=1e-4)

    def test_constant_and_equal_columns(self):
        rows = np.column_stack([np.full(400, 1e9), self.X[:, :3], self.X[:, :3], np.zeros(400)])
        means = ClassMeans.of(8, 9)
        scores = means.score_and_learn(rows, self.y.astype(float), np.ones(400), Task.MULTICLASS)
        assert np.isfinite(scores).all()
        assert (scores[200:, 1].argmax(axis=1) != self.y[200:]).mean() < 0.7

    def test_a_copy_learns_while_the_original_stays(self):
        means = self.learned()
        before, fork = means.scores(self.X), means.fork()
        fork.add_class()
        fork.score_and_learn(self.X, np.full(400, 9.0), np.ones(400), Task.MULTICLASS)
        assert_array_equal(means.scores(self.X), before)


CASES = {
    "few classes": lambda: clouds(5, 500),
    "many classes": lambda: clouds(90, 500),
    "wide": lambda: embeddings(150, 300),
    "very wide": lambda: embeddings(150, 600),
    "very wide, two classes": lambda: embeddings(150, 600, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_splits_saves_and_single_rows_change_nothing(case):
    X, y = CASES[case]()
    whole = AutoMKLClassifier(40, random_state=0).partial_fit(X, y)
    split = AutoMKLClassifier(40, random_state=0, n_jobs=2)
    for begin, end in zip([0, 3, 30, 61, 100, 131], [3, 30, 61, 100, 131, len(y)], strict=True):
        if begin == 100:
            for x, label in zip(X[begin:end], y[begin:end], strict=True):
                split.learn_one(x, label)
        else:
            split.partial_fit(X[begin:end], y[begin:end])
        split = pickle.loads(pickle.dumps(split))
    assert layer(whole).models
    assert_array_equal(split.decision_function(X), whole.decision_function(X))
    assert split.mistakes_ == whole.mistakes_
    assert_allclose([split.predict_proba_one(x) for x in X[:5]], whole.predict_proba(X[:5]), rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_model_file_holds_all_of_it(case, tmp_path):
    X, y = CASES[case]()
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X[:120], y[:120])
    modelfile.save(model, tmp_path / "model")
    again = modelfile.load(tmp_path / "model")
    assert_array_equal(again.score_and_learn(X, y), model.score_and_learn(X, y))


@pytest.mark.parametrize("case", CASES)
def test_a_failed_call_leaves_the_model_as_it_was(case, monkeypatch):
    X, y = CASES[case]()
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X[:100], y[:100])
    before = model.decision_function(X)
    with monkeypatch.context() as patched:
        patched.setattr("bomkl.auto.simple.simple_learner.checked", lambda scores: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.partial_fit(X[100:], y[100:])
    assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("classes", [20, 100, 300])
def test_many_classes_are_learned_as_well_as_by_their_means(classes):
    X, y = clouds(classes, 2000, 20, seed=classes, apart=1.1)
    model = AutoMKLClassifier(200, random_state=0).partial_fit(X, y)
    assert model.mistakes_ <= nearest_mean_mistakes(X, y) + 20
    assert layer(model).rests == (classes > 64)


def test_a_thousand_new_classes_in_one_call():
    X, y = clouds(1000, 1500, 6)
    model = AutoMKLClassifier(random_state=0).partial_fit(X[:50], y[:50] % 3)
    model.partial_fit(X, 10 + y)
    assert len(model.classes_) > 600
    assert layer(model).rests
    assert_allclose(model.predict_proba(X[:9]).sum(axis=1), 1)


def test_kernels_rest_from_the_first_row_on_beside_many_classes_that_are_declared():
    X, y = clouds(300, 200, 6)
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X, y, classes=range(300))
    assert layer(model).rests
    assert layer(model).inner.seen == 0
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_and_learn(X, y), model.score_and_learn(X, y))


def test_two_classes_have_no_class_means_until_a_third_comes():
    X, y = clouds(3, 200)
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X, y % 2)
    assert layer(model) is None
    model.partial_fit(X, y)
    assert [each.kind for each in layer(model).models] == ["class means"]
    assert layer(model).models[0].core.rows == 200 - int((y == 2).argmax())


def test_class_means_that_do_not_matter_are_dropped(monkeypatch):
    monkeypatch.setattr("bomkl.auto.simple.simple_learner.KEEP_FROM", 2.0)
    X, y = clouds(4, 400)
    model = AutoMKLClassifier(90, random_state=0).partial_fit(X, y)
    assert layer(model).models == []
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_and_learn(X, y), model.score_and_learn(X, y))


@pytest.mark.parametrize("columns", [300, 500, 520, 1000])
def test_embeddings_have_no_cliff(columns):
    X, y = embeddings(600, columns, 6, seed=columns)
    model = AutoMKLClassifier(60, random_state=0).partial_fit(X, y)
    assert "linear length one 8" in model.kernels_
    assert model.mistakes_ < 0.12 * len(y)


def test_sparse_rows_have_no_dense_models():
    X, y = embeddings(60, 600)
    model = AutoMKLClassifier(40, random_state=0).partial_fit(np.where(np.arange(600) % 5 == 0, X, 0.0), y)
    assert layer(model).models == []


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("columns", [300, 600])
def test_half_and_single_precision(dtype, columns):
    X, y = embeddings(80, columns)
    rows = X.astype(dtype)
    scores = AutoMKLClassifier(40, random_state=0).score_and_learn(rows, y)
    assert_array_equal(scores, AutoMKLClassifier(40, random_state=0).score_and_learn(rows.astype(float), y))


@pytest.mark.parametrize("columns", [300, 600])
def test_tensors_on_the_processor(columns):
    torch = pytest.importorskip("torch")
    X, y = embeddings(80, columns)
    plain = AutoMKLClassifier(40, random_state=0).partial_fit(X, y)
    tensors = AutoMKLClassifier(40, random_state=0).partial_fit(torch.from_numpy(X), torch.from_numpy(y))
    assert_array_equal(tensors.predict_proba(torch.from_numpy(X)), plain.predict_proba(X))
    half = torch.from_numpy(X).to(torch.bfloat16)
    AutoMKLClassifier(40, random_state=0).partial_fit(half, y).predict(half)


@pytest.mark.parametrize("case", CASES)
def test_explanations_add_up(case):
    X, y = CASES[case]()
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X, y)
    parts = model.explain(X[0])
    assert list(parts.kernels) == model.kernels_
    assert sum(parts.kernels.values()) + parts.remainder == pytest.approx(parts.margin)
    assert model.kernel_weights_.sum() == pytest.approx(1)
    assert len(model.kernels_) == len(model.n_support_) == len(model.component_errors_)
    assert len(parts.rows) == len(model.support_vectors_)
    importances = model.feature_importances_
    assert importances.shape == (X.shape[1],)
    assert importances.sum() == pytest.approx(1)


def test_importances_tell_which_columns_tell_classes_apart():
    X, y = clouds(80, 800, 4, apart=4)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(800, 4))])
    model = AutoMKLClassifier(100, random_state=0).partial_fit(X, y)
    assert model.feature_importances_[:4].sum() > 0.8
    parts = model.explain(X[0]).columns
    assert sum(abs(parts[j]) for j in range(4)) > sum(abs(parts[j]) for j in range(4, 8))


@pytest.mark.parametrize("weights", [[1e-150, 1.0, 1000.0], [1e-3, 1.0]])
def test_extreme_values_and_weights(weights):
    X, y = clouds(6, 120, 5)
    X[30, 0], X[40, 1], X[50:, 2] = 1e300, -1e300, 1e-300
    model = AutoMKLClassifier(20, random_state=0)
    assert np.isfinite(model.score_and_learn(X, y, sample_weight=np.resize(weights, 120))).all()
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_earlier_model_of_two_classes_takes_a_third(monkeypatch):
    X, y = clouds(3, 200)
    with monkeypatch.context() as patched:
        patched.setattr("bomkl.auto.build.kinds_of", lambda choices: [RowLearner])  # as in version 0.2.0
        saved = pickle.dumps(AutoMKLClassifier(40, random_state=0).partial_fit(X[:50], y[:50] % 2))
    model = pickle.loads(saved).partial_fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_and_learn(X, y), model.score_and_learn(X, y))


def test_a_saved_model_goes_on_before_its_kernels_are_built():
    X, y = clouds(60, 500)
    whole = AutoMKLClassifier(200, random_state=0).partial_fit(X, y)
    split = AutoMKLClassifier(200, random_state=0)
    for begin in range(0, 500, 45):
        split = pickle.loads(pickle.dumps(split.partial_fit(X[begin : begin + 45], y[begin : begin + 45])))
    assert_array_equal(split.predict_proba(X), whole.predict_proba(X))


def test_a_copy_takes_a_new_class_while_the_original_stays():
    X, y = clouds(4, 300)
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X, y)
    before, fork = model.decision_function(X), model._learner.fork()
    fork.add_class()
    assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), before)


def test_rounding_leaves_no_negative_sums_of_squares():
    rng = np.random.default_rng(0)
    for _ in range(20):  # the second row weighs so much that the mean is that row, but for rounding
        means = ClassMeans.of(1, 3)
        rows = rng.normal(size=(2, 1)) * [[1e6], [1.0]]
        means.score_and_learn(rows, np.zeros(2), np.array([1e-12, 1e12]), Task.MULTICLASS)
        assert means.to_state()["total"][0] >= 0

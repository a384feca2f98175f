"""Learning in rounds of sums: the same bits however rows come, close to learning row by row."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_friedman1

from bomkl import AutoMKLClassifier, AutoMKLRegressor, _core, modelfile
from bomkl.auto.components.combination import Combination
from bomkl.auto.constants import STACK_RIDGES
from bomkl.auto.rounds import engine as sum_engine
from bomkl.auto.rounds import round_learner as rounds
from bomkl.auto.rounds import sums
from bomkl.auto.rows.arrays import dense_rows

N = 600
X, Y = make_classification(N, 7, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
CASES = {
    "binary": (lambda **k: AutoMKLClassifier(40, update="rounds", random_state=0, **k), Y % 2),
    "multiclass": (lambda **k: AutoMKLClassifier(40, update="rounds", random_state=0, **k), Y),
    "regression": (lambda **k: AutoMKLRegressor(40, update="rounds", random_state=0, **k), X[:, 0] * X[:, 1] + Y),
    "huber": (
        lambda **k: AutoMKLRegressor(40, loss="huber", update="rounds", random_state=0, **k),
        X[:, 0] * X[:, 1] + Y,
    ),
}
WEIGHT = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], N, p=[0.1, 0.2, 0.5, 0.2])


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "ROUND_BLOCK", 32)
        patch.setattr(sum_engine, "ROUND_BLOCK", 32)
        yield


def learn(case, cuts=(), rows=X, pickled=False, predicted=False, weight=None, **settings):
    make, y = CASES[case]
    model, scores = make(**settings), []
    for begin, end in pairwise([0, *sorted(cuts), N]):
        if begin == end:
            continue
        more = {} if weight is None else {"sample_weight": weight[begin:end]}
        part = model.score_and_learn(rows[begin:end], y[begin:end], **more)
        scores.append(part)
        if pickled:
            model = pickle.loads(pickle.dumps(model))
        if predicted:
            model.predict(X[:3])
    if case == "multiclass":  # labels that had not come yet have no column
        scores = [
            np.pad(part, ((0, 0), (0, 4 - part.shape[1] if part.ndim > 1 else 0))) for part in scores if part.ndim > 1
        ]
    return np.concatenate(scores), model


@pytest.mark.parametrize("case", [case for case in CASES if case != "multiclass"])
@settings(max_examples=8)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=12),
    pickled=st.booleans(),
    predicted=st.booleans(),
    n_jobs=st.sampled_from([None, 2, 3]),
)
def test_any_split_pickling_predicting_and_threads_give_the_same_bits(case, cuts, pickled, predicted, n_jobs):
    scores, model = learn(case, cuts, pickled=pickled, predicted=predicted, n_jobs=n_jobs, weight=WEIGHT)
    whole, other = learn(case, weight=WEIGHT)
    assert_array_equal(scores, whole)
    predict = "predict" if case in ("regression", "huber") else "decision_function"
    assert_array_equal(getattr(model, predict)(X), getattr(other, predict)(X))


@pytest.mark.parametrize("cuts", [range(1, N), range(0, N, 31), [45, 300]])
def test_new_classes_end_a_round_at_the_same_row_in_any_split(cuts):
    order = np.argsort(Y == 3, kind="stable")  # the fourth class comes long after the budget
    model = AutoMKLClassifier(40, update="rounds", random_state=0)
    for begin, end in pairwise([0, *cuts, N]):
        if begin < end:
            model.partial_fit(X[order][begin:end], Y[order][begin:end])
    whole = AutoMKLClassifier(40, update="rounds", random_state=0).partial_fit(X[order], Y[order])
    assert_array_equal(model.decision_function(X), whole.decision_function(X))
    assert model.mistakes_ == whole.mistakes_


def test_sparse_rows_give_the_same_bits():
    assert_array_equal(learn("binary", rows=sp.csr_matrix(X))[0], learn("binary")[0])


@pytest.mark.parametrize("case", CASES)
def test_instruction_sets_agree(case, monkeypatch):
    expected = learn(case)[0]
    for name in _core.instruction_sets():
        monkeypatch.setenv("BOMKL_INSTRUCTION_SET", name)
        assert_allclose(learn(case)[0], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_saved_models_go_on(case, tmp_path):
    make, y = CASES[case]
    model = make().partial_fit(X[:500], y[:500])
    modelfile.save(model, tmp_path / "m")
    loaded = modelfile.load(tmp_path / "m")
    for each in (model, loaded):
        each.partial_fit(X[500:], y[500:])
    assert_array_equal(loaded.predict(X), model.predict(X))
    loaded._learner.inner.origin = None  # which `merge` needs, and which only models that were loaded have
    modelfile.save(model, tmp_path / "a")
    modelfile.save(loaded, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_copy_that_learns_on_grows_by_half_its_matrices():
    model = AutoMKLClassifier(100, update="rounds", random_state=0).partial_fit(X[:450], Y[:450] % 2)
    copied = pickle.loads(pickle.dumps(model))
    for each in (model, copied):
        each.partial_fit(X[450:], Y[450:] % 2)
    matrices = sum(each.regression.matrix.nbytes for each in copied._leader.components)
    assert copied._learner.inner.origin is not None
    assert len(pickle.dumps(copied)) - len(pickle.dumps(model)) < 0.8 * matrices


def test_whole_matrices_of_older_files_are_read():
    model = learn("binary")[1]
    state = model.__getstate__()
    inner = state["_learner"]["learner"]["inner"]
    for saved, each in zip(inner["learner"]["components"], model._learner.inner.components, strict=True):
        del saved["regression"]["lower"]
        saved["regression"]["matrix"] = each.regression.matrix
    old = AutoMKLClassifier()
    old.__setstate__(state)
    for one, other in zip(old._learner.inner.components, model._learner.inner.components, strict=True):
        assert_array_equal(one.regression.matrix, other.regression.matrix)
    assert_array_equal(old.decision_function(X), model.decision_function(X))


def test_saved_state_that_does_not_fit_is_refused():
    state = learn("binary")[1].__getstate__()
    state["_learner"]["learner"]["inner"]["learner"]["rounds"]["round_start"] += 1
    with pytest.raises(ValueError, match="round_start"):
        AutoMKLClassifier().__setstate__(state)


# ---------------------------------------------------------------- the numbers


def parts_of(case):
    make, y = CASES[case]
    learner = make().partial_fit(X[:500], y[:500])._learner.leader
    codes = y[500:].astype(float)
    if case == "multiclass":
        order = np.unique(Y[:500], return_index=True)
        codes = np.argsort(np.argsort(order[1]))[Y[500:]].astype(float)
    return learner, learner.targets(codes), WEIGHT[500:]


def gains_of(got):
    """Information and pull that each component gains."""
    information = [got.added_to(np.zeros((rank, rank)), i) for i, rank in enumerate(got.shape.ranks)]
    return list(zip(information, got.component_pulls(), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_the_formulas(case):
    learner, targets, weight = parts_of(case)
    scores, got = learner.engine.sums(learner, X[500:], targets, weight, 7, map)
    assert_array_equal(scores, learner.engine.scores(learner, X[500:], map))
    views = learner.views(dense_rows(X, 500, N))
    for component, (information, pull) in zip(learner.components, gains_of(got), strict=True):
        rank = component.regression.rank
        F = component.features(views)[:, :rank].astype(float)
        f = F @ component.regression.w[:, :rank].T
        if case == "binary":
            p = 1 / (1 + np.exp(-f))
            h = (p * (1 - p))[:, 0]
        elif case == "multiclass":
            p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
            h = (p * (1 - p)).max(axis=1)
        else:
            p, h = f, np.ones(len(f))
        residual = targets - p
        if case == "huber":
            h = np.minimum(1, 1 / np.abs(residual[:, 0]))
            residual = np.clip(residual, -1, 1)
        assert_allclose(information, F.T @ (F * (weight * h)[:, None]), atol=2e-4)
        assert_allclose(pull, (residual * weight[:, None]).T @ F, atol=2e-4)
    gain = got.combination_sums()
    assert_allclose(gain.information, gain.information.transpose(0, 2, 1), atol=1e-9)
    errors = np.sum(scores.argmax(1) != targets.argmax(1)) if case == "multiclass" else np.sum((scores > 0) != targets)
    if case in ("binary", "multiclass"):
        assert gain.combined_error == errors


def test_sums_of_parts_are_the_sum_in_any_order():
    learner, targets, weight = parts_of("binary")
    cuts = [(0, 32), (32, 64), (64, 96), (96, 100)]
    parts = [learner.engine.sums(learner, X[500 + a : 500 + b], targets[a:b], weight[a:b], 7, map)[1] for a, b in cuts]
    whole = learner.engine.sums(learner, X[500:], targets, weight, 7, map)[1]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        got = sums.total([parts[i] for i in order])
        assert got.rows == whole.rows == 100
        for a, b in zip(
            [*got.information, got.coarse, got.fine], [*whole.information, whole.coarse, whole.fine], strict=True
        ):
            assert_array_equal(a, b)


def test_sums_of_different_rounds_and_too_many_rows_are_refused():
    shape = sums.SumsShape((3,), 1, 2)
    one = sums.Sums.zeros(shape, 2)
    with pytest.raises(ValueError, match="different rounds"):
        one.add(sums.Sums.zeros(shape, 3))
    one.rows = 3
    other = sums.Sums.zeros(shape, 2)
    other.rows = 2
    with pytest.raises(ValueError, match="room for 4 rows"):
        one.add(other)


def test_extreme_rows_and_weights_do_not_overflow():
    features = np.full((512, 64), 60.0, dtype=np.float32)
    y, weight = np.full((512, 1), 1e6), np.full(512, 1000.0)
    got = sums.Sums.zeros(sums.SumsShape((64,), 1, 2), 38)
    scores = np.empty((512, 1))
    for _ in range(3):
        coarse, fine = got.pull(0)
        _core.component_sums(
            features, 64, np.zeros((1, 64)), y, weight, 2, (38, got.information[0], coarse, fine), scores
        )
    ((information, pull),) = gains_of(got)
    assert information[0, 0] == pytest.approx(information[5, 63])
    assert 0 < information[0, 0] <= 3 * 512 * 65536
    assert np.isfinite(pull).all()
    assert (pull > 0).all()


def test_squared_loss_is_the_same_regression_as_learning_row_by_row():
    X, y = make_friedman1(3000, n_features=10, noise=1.0, random_state=0)
    models = [
        AutoMKLRegressor(60, update=update, trees=False, random_state=0).fit(X, y) for update in ("rows", "rounds")
    ]
    means = [{each.name: each.regression.means() for each in model._leader.components} for model in models]
    both = means[0].keys() & means[1].keys()
    assert len(both) > 3
    for name in both:
        assert_allclose(means[1][name], means[0][name], atol=2e-3 * np.linalg.norm(means[0][name]))


def test_an_error_in_the_middle_changes_nothing():
    model = learn("binary")[1]
    before = pickle.dumps(model)

    class Broken(sum_engine.CoreEngine):
        def sums(self, *args):
            if args[0].seen > N:
                raise KeyboardInterrupt
            return super().sums(*args)

    model._learner.inner.engine = Broken()
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(np.tile(X, (3, 1)), np.tile(Y % 2, 3))
    assert pickle.dumps(model) == before


def test_rounds_with_drift_are_refused():
    with pytest.raises(ValueError, match="never forgets"):
        AutoMKLClassifier(update="rounds", drift="adapt").fit(X, Y)
    with pytest.raises(ValueError, match="'update' parameter"):
        AutoMKLClassifier(update="batch").fit(X, Y)


def test_insight_covers_every_row():
    model = learn("binary")[1]
    explanation = model.explain(X[0])
    assert explanation.margin == pytest.approx(model.decision_function(X[:1])[0])
    assert model.kernel_weights_.sum() == pytest.approx(1)
    assert (model.component_errors_[model.kernel_weights_ > 0.01] < 0.5).all()
    assert model._leader.error_rows.max() == N - 8
    assert model.nbytes_ > 0


def test_accuracy_is_that_of_learning_row_by_row():
    X, y = make_classification(6000, 10, n_informative=6, n_clusters_per_class=3, random_state=1)
    errors = []
    for update in ("rows", "rounds"):  # without trees, which rounds do not have before they grow
        model = AutoMKLClassifier(100, update=update, trees=False, random_state=0).fit(
            X[:5000], y[:5000], shuffle=False
        )
        errors.append(np.mean(model.predict(X[5000:]) != y[5000:]))
    assert abs(errors[0] - errors[1]) < 0.012


def test_a_large_budget_begins_with_rounds_before_it_is_full(monkeypatch):
    monkeypatch.setattr(rounds, "ROUNDS_FROM", 64)
    y = Y % 2
    whole = AutoMKLClassifier(200, update="rounds", random_state=0)
    expected = whole.score_and_learn(X, y)
    pieces = AutoMKLClassifier(200, update="rounds", random_state=0)
    seen = []
    for begin, end in pairwise([0, 60, 64, 100, 128, 129, 200, 333, N]):
        seen.append(pieces.score_and_learn(X[begin:end], y[begin:end]))
        pieces = pickle.loads(pickle.dumps(pieces))
    assert_array_equal(np.concatenate(seen), expected)
    assert not whole._learner.inner.kept
    assert whole.n_support_.sum() > 0
    row_by_row = AutoMKLClassifier(200, random_state=0).fit(X, y)
    assert whole.mistakes_ < 1.25 * row_by_row.mistakes_


def test_stacks_forget_a_part_of_what_older_components_said_and_never_the_prior():
    before = Combination.of(3)
    prior = np.stack([ridge * np.eye(3) for ridge in STACK_RIDGES])
    nothing = sums.CombinationSums(np.zeros_like(prior), np.zeros((2, 3)), np.zeros(3), np.zeros(3), np.zeros(3), 0.0)
    kept, after = rounds._learned(prior + 8 * np.ones((3, 3)), before, nothing)
    assert_allclose(kept, prior + 8 * rounds.KEPT_BY_STACKS * np.ones((3, 3)))
    assert_allclose(after.stack_covariance @ kept, np.stack([np.eye(3)] * 2), atol=1e-12)
    assert_array_equal(after.stack_w, before.stack_w)

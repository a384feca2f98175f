"""Experts that follow drift beside a model that never forgets."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto.components.combination import Combination
from bomkl.auto.drift.events import NEW_MODEL, drift_events, expert_names

N, BUDGET = 1200, 60
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 5))
HALF = np.arange(N) < N // 2
SCORE = np.where(HALF, X[:, 0] + X[:, 1], X[:, 2] - X[:, 0])
TWO = (SCORE > 0).astype(int)
THREE = np.digitize(SCORE, (-0.7, 0.7))
WEIGHT = RNG.exponential(size=N)
TARGETS = {"two": TWO, "three": THREE, "numbers": SCORE + 0.3 * RNG.normal(size=N)}


def fresh(kind, **settings):
    estimator = AutoMKLRegressor if kind == "numbers" else AutoMKLClassifier
    return estimator(BUDGET, random_state=0, **settings)


def learned(kind, cuts, weight=WEIGHT, after_each=lambda model: model, **settings):
    """Scores of all rows in calls that end at the cuts, and the model."""
    model, found = fresh(kind, **settings), []
    first = {} if kind == "numbers" else {"classes": np.unique(TARGETS[kind])}
    for begin, end in zip([0, *cuts], [*cuts, N], strict=True):
        more = first if begin == 0 else {}
        part = slice(begin, end)
        found.append(model.score_and_learn(X[part], TARGETS[kind][part], sample_weight=weight[part], **more))
        model = after_each(model)
    return np.concatenate(found), model


@pytest.mark.parametrize("kind", slow_but(["three"], TARGETS))
def test_the_split_into_calls_changes_no_bit(kind, tmp_path):
    def through_a_file(model):
        modelfile.save(model, tmp_path / "model")
        return modelfile.load(tmp_path / "model")

    scores, whole = learned(kind, [])
    cuts = [1, 2, 9, 63, 64, 130, 333, 600, 601, 640, 777, 1000]
    for settings, after in (({}, copy.deepcopy), ({"n_jobs": 2}, through_a_file)):
        again, model = learned(kind, cuts, after_each=after, **settings)
        assert_array_equal(again, scores)
        assert model.drift_ == whole.drift_
    assert whole.drift_


@pytest.mark.parametrize("kind", slow_but(["numbers"], TARGETS))
def test_single_rows_give_the_same_bits(kind):
    begin = 1 if kind != "numbers" else 2
    plain, _ = learned(kind, [], np.ones(N))
    one = fresh(kind)
    first = {} if kind == "numbers" else {"classes": np.unique(TARGETS[kind])}
    one.partial_fit(X[:begin], TARGETS[kind][:begin], **first)
    singles = [one.learn_one(x, y) for x, y in zip(X[begin:], TARGETS[kind][begin:], strict=True)]
    assert_array_equal(np.array(singles), plain[begin:])


@pytest.mark.parametrize("kind", TARGETS)
def test_it_follows_a_change_and_says_so(kind):
    y = TARGETS[kind]
    errors = {}
    for drift in ("auto", None):
        scores, model = learned(kind, [], np.ones(N), drift=drift)
        wrong = (
            (scores - y) ** 2 if kind == "numbers" else (scores > 0 if kind == "two" else scores.argmax(axis=1)) != y
        )
        errors[drift] = wrong[700:1000].mean()
        if drift is None:
            assert model.drift_ == []
        else:
            event = next(each for each in model.drift_ if each.row > N // 2)
            assert event.row < N // 2 + 150
            assert list(event.experts) in (expert_names(kind == "numbers"), [NEW_MODEL])
            assert sum(event.experts.values()) == pytest.approx(1, abs=1e-4)
            assert str(event).startswith(f"row {event.row:,}: ")
    assert errors["auto"] < 0.8 * errors[None]


def test_columns_that_moved_are_named():
    moved = X.copy()
    moved[N // 2 :, 3] += 4
    model = AutoMKLClassifier(BUDGET, random_state=0)
    model.partial_fit(moved, THREE)
    event = next(each for each in model.drift_ if each.row > N // 2 + 20)
    assert next(iter(event.columns)) == 3
    assert event.columns[3] > 0


def test_where_nothing_drifts_they_sleep_and_cost_no_mistakes():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 4))
    y = (rows[:, 0] * rows[:, 1] + 0.5 * rng.normal(size=3000) > 0).astype(int)
    models = {drift: AutoMKLClassifier(100, drift, random_state=0).partial_fit(rows, y) for drift in ("auto", None)}
    assert models["auto"].mistakes_ <= models[None].mistakes_ + 15
    assert models["auto"].drift_ == []
    assert not models["auto"]._learner.leader.drift.awake


@pytest.mark.parametrize("help_", [True, False])
def test_those_without_weight_fall_asleep_whatever_the_evidence(help_):
    rng = np.random.default_rng(0)
    rows, angle = rng.normal(size=(4100, 10)), np.arange(4100) / 2000
    y = (rows[:, 0] * np.cos(angle) + rows[:, 1] * np.sin(angle) > 0).astype(int)
    model = AutoMKLClassifier(50, random_state=0, trees=False).partial_fit(rows[:4000], y[:4000])
    experts = model._learner.leader.drift
    until = experts.state()["awake_until"]
    if not help_:
        stack = Combination(experts.stack)
        stack.stack_w = stack.weights = np.eye(experts.size)[1]
    model.partial_fit(rows[4000:4100], y[4000:4100])
    found = model._learner.leader.drift.state()
    assert found["awake"]
    assert found["evidence_at"] > 4000
    assert (found["awake_until"] > until) == help_


@pytest.mark.parametrize(
    ("weights", "events"),
    [
        ((0.2, 0.5, 0.1, 0.2), 1),
        ((0.7, 0.2, 0.0, 0.1), 0),  # experts help a little
        ((0.1, 0.3, 0.2, 0.4), 0),  # those that never forget help most
    ],
)
def test_experts_that_may_be_better_at_any_time_are_no_gradual_change(weights, events):
    found = np.zeros(10)
    names = ("model", "recent labels", "nearest of all rows", "mixture")
    found[[expert_names(False).index(name) for name in names]] = weights
    event = {"row": 9, "sudden": False, "strength": 7.6, "weights": found, "restarted": False, "shifts": np.zeros(1)}
    assert len(drift_events([event], False, ["a"])) == events
    assert len(drift_events([event | {"sudden": True}], False, ["a"])) == 1


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_rows_of_a_rare_class_that_come_together_are_no_drift(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6000, 2))
    model = AutoMKLClassifier(20, trees=False, random_state=0).partial_fit(rows, rng.random(6000) < 0.003)
    assert model.drift_ == []


def test_a_series_that_went_far_is_followed_as_closely_as_by_its_last_value():
    rng = np.random.default_rng(2)
    series = np.cumsum(0.1 + rng.normal(size=4000))  # a model of the columns is ever further off
    found = AutoMKLRegressor(20, trees=False, random_state=0).score_and_learn(rng.normal(size=(4000, 2)), series)
    error = np.square(found - series)[2000:].mean()
    assert error < 1.05 * np.square(np.diff(series))[1999:].mean()


def test_groups_rest_where_nothing_hints_at_drift_and_a_change_in_a_rest_wakes_them(tmp_path):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3300, 2))
    labels = (np.where(np.arange(3300) < 2700, 1, -1) * rows[:, 0] + 0.3 * rng.normal(size=3300) > 0).astype(int)

    def learn(cuts):
        model, found, states = AutoMKLClassifier(8, trees=False, random_state=0), [], []
        for begin, end in zip([0, *cuts], [*cuts, 3300], strict=True):
            found.append(model.score_and_learn(rows[begin:end], labels[begin:end], classes=[0, 1]))
            modelfile.save(model, tmp_path / "model")
            model = modelfile.load(tmp_path / "model")
            states.append(model._learner.leader.drift)
        return np.concatenate(found), model, states

    cuts = [2048, 2303, 2304, 2500, 2700, 2701, 2719, 2740, 2741, 2900]
    whole, model, _ = learn([])
    scores, again, states = learn(cuts)
    assert_array_equal(scores, whole)
    assert again.drift_ == model.drift_
    assert [each.resting for each in states[:5]] == [False, False, True, True, True]  # after 2048 rows they learn
    assert 2700 < model.drift_[0].row < 2900
    assert ((scores[2900:] > 0) != labels[2900:]).mean() < 0.2


@pytest.mark.parametrize("kind", TARGETS)
def test_predictions_are_those_of_the_next_row(kind):
    _, model = learned(kind, [], np.ones(N))
    predict = model.predict if kind == "numbers" else model.decision_function
    expected = predict(X[:3])
    for i, x in enumerate(X[:3]):
        other = copy.deepcopy(model)
        np.testing.assert_allclose(other.learn_one(x, TARGETS[kind][i]), expected[i], rtol=1e-4, atol=1e-5)


def test_classes_may_come_at_any_time():
    y = np.where(np.arange(N) < 500, TWO, np.where(np.arange(N) < 900, THREE, THREE + 2 * (X[:, 4] > 1)))
    whole = AutoMKLClassifier(BUDGET, random_state=0)
    scores = whole.score_and_learn(X, y)
    assert scores.shape == (N, 5)
    assert np.isfinite(scores).all()
    parts = AutoMKLClassifier(BUDGET, random_state=0)
    for begin in range(0, N, 87):
        parts.partial_fit(X[begin : begin + 87], y[begin : begin + 87])
    assert_array_equal(parts.decision_function(X[:50]), whole.decision_function(X[:50]))


def test_shuffled_rows_have_no_drift_and_rows_after_them_may():
    table = AutoMKLClassifier(BUDGET, random_state=0).fit(X[:500], TWO[:500])
    plain = AutoMKLClassifier(BUDGET, None, random_state=0).fit(X[:500], TWO[:500])
    assert_array_equal(table.decision_function(X), plain.decision_function(X))
    table.partial_fit(X[500:], TWO[500:])
    assert table.drift_
    assert_array_equal(plain.partial_fit(X[500:], TWO[500:]).drift_, [])
    assert np.mean(table.predict(X[900:]) == TWO[900:]) > np.mean(plain.predict(X[900:]) == TWO[900:])


@pytest.mark.parametrize("settings", [{"update": "rounds"}, {"update": "rows", "columns": 600}])
def test_where_they_cannot_be_had_auto_is_none(settings):
    rows = X[:200] if "columns" not in settings else RNG.normal(size=(200, settings["columns"]))
    models = [
        AutoMKLClassifier(20, drift, settings["update"], random_state=0).partial_fit(rows, TWO[:200])
        for drift in ("auto", None)
    ]
    assert_array_equal(models[0].decision_function(rows), models[1].decision_function(rows))
    assert models[0].drift_ == []


@pytest.mark.filterwarnings("ignore:The targets of the first")
@pytest.mark.parametrize("constant", [0.0, 1e150, -3.0])
def test_odd_rows_and_targets(constant):
    model = AutoMKLRegressor(20, random_state=0)
    assert np.isfinite(model.score_and_learn(X[:300, :1], np.full(300, constant))).all()
    jump = np.where(np.arange(300) < 150, 1e-3, 1e12)
    assert np.isfinite(AutoMKLRegressor(20, random_state=0).score_and_learn(np.ones((300, 2)), jump)).all()
    tiny = AutoMKLClassifier(8, random_state=0)
    assert np.isfinite(tiny.score_and_learn(1e200 * X[:200], TWO[:200])).all()


def test_memory_is_bounded():
    model = AutoMKLClassifier(BUDGET, random_state=0).partial_fit(X, TWO)
    before = model.nbytes_
    for _ in range(3):
        model.partial_fit(X, TWO)
    assert model.nbytes_ < 1.5 * before


def test_a_model_that_follows_drift_does_not_wait_for_a_device():
    X = np.random.default_rng(0).normal(size=(300, 2))
    learner = AutoMKLClassifier(20, random_state=0).partial_fit(X, X[:, 0] > 0)._learner.leader
    learner.row_engine = object()  # as on a machine with a GPU, where such a model stays on the processor
    assert learner.on_device is None
    assert learner._rows_to_event() > 0


def test_kernels_go_on_by_their_losses_in_the_group_that_outweighs_the_model():
    learner = fresh("two").partial_fit(X[:100], TWO[:100])._learner.leader
    own = learner.combination.loss_sum
    sleeping, group = ([], [], None, {}), ([3, 1], [], SimpleNamespace(loss_sum=np.array([0.5, 0.2])), {})
    losses = {}
    for weight in (0.1, 0.6):
        weights = [0.3, 0.0, weight, 0.7 - weight]
        learner.drift = SimpleNamespace(groups=[sleeping, group], influence=lambda weights=weights: weights)
        losses[weight] = learner._leading_losses()
    assert_array_equal(losses[0.1], own)
    assert_array_equal(losses[0.6][[1, 3]], [0.2, 0.5])
    others = np.delete(losses[0.6], [1, 3])  # come last, by their own losses
    assert others.min() > 0.5
    assert_array_equal(np.argsort(others), np.argsort(np.delete(own, [1, 3])))

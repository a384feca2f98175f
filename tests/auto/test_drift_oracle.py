"""The compiled experts that follow drift, against plain ones in NumPy."""

from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.auto import naive_drift
from tests.auto.naive_drift import LEVEL, NaiveExperts, NaiveGroup, NaiveRegression, NaiveRise, kept_rows, nearest_votes
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl._core import DriftExperts
from bomkl.auto.build import learner_of_rows
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import NewtonComponent
from bomkl.auto.features.features import LinearFeatures
from bomkl.auto.task import Task

N, BUDGET, MANY = 640, 140, 1e6
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 4))
SCORE = np.where(np.arange(N) < 360, X[:, 0] + X[:, 1], X[:, 2] - X[:, 0])
WEIGHT = RNG.exponential(size=N)
KINDS = {
    "two": (Task.BINARY, (SCORE > 0).astype(float)),
    "three": (Task.MULTICLASS, np.digitize(SCORE, (-0.7, 0.7)).astype(float)),
    "numbers": (Task.SQUARED, 5 + 3 * SCORE + RNG.normal(size=N)),
    "huber": (Task.HUBER, 5 + 3 * SCORE + RNG.standard_t(2, size=N)),
}
FORGET, MOST = (0.97, 0.999, 0.99), (31, 63, 63)  # of the groups


def outputs_of(task):
    return 3 if task is Task.MULTICLASS else 1


def learner(kind, rows=BUDGET):
    """The learner of an estimator that has learned some rows."""
    task, y = KINDS[kind]
    if task.is_regression:
        model = AutoMKLRegressor(BUDGET, loss="huber" if task is Task.HUBER else "squared", random_state=5)
        model.partial_fit(X[:rows], y[:rows], sample_weight=WEIGHT[:rows])
    else:
        model = AutoMKLClassifier(BUDGET, random_state=5)
        model.partial_fit(X[:rows], y[:rows], sample_weight=WEIGHT[:rows], classes=np.unique(y))
    rows_learner = learner_of_rows(model._learner)
    assert rows_learner.task is task
    return rows_learner


def learn(model, y, begin, end):
    return model.score_and_learn(X[begin:end], y[begin:end], WEIGHT[begin:end])


def wake(model):
    """Let the nearest rows vote, whatever the evidence."""
    model.drift.restore(model.drift.state() | {"awake": True}, model.n_classes)


@contextmanager
def listening_to(model, expert):
    """Let one expert speak for all."""
    stack = Combination(model.drift.stack)
    before = stack.to_state()
    stack.weights = np.eye(len(stack.weights))[expert]
    stack.log_final = -MANY, -MANY, 0.0
    yield
    stack.weights, stack.log_final = before["weights"], before["log_final"]


def said(model, expert, rows):
    """What an expert says about rows, each as if it came next; of several classes with mean zero."""
    with listening_to(model, expert):
        scores = model.scores(rows) if model.support is None else np.array([model.score_one(x) for x in rows])
    scores = scores.reshape(len(rows), -1)
    return scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores


def centred(scores):
    return scores - scores.mean() if len(scores) > 1 else scores


def as_said(model, expected, base):
    """Scores as the combination takes them: those of numbers not too far from the model's."""
    if not model.task.is_regression:
        return centred(expected)
    labels = model.drift.label_scores()
    far = naive_drift.FARTHEST * max(model.drift.unit, np.abs(labels - base).max() / naive_drift.FARTHEST)
    return np.clip(expected, base - far, base + far)


@pytest.mark.parametrize("kind", KINDS)
def test_recent_labels_mixture_and_evidence_before_there_is_a_model(kind):
    task, y = KINDS[kind]
    classes = 3 if kind == "three" else 2
    compiled, naive = DriftExperts.of(int(task), classes, 4, BUDGET, 5, 0), NaiveExperts(task, classes)
    base = np.where(np.arange(N) < 400, 0.8 * SCORE, -SCORE)[:, None] * np.linspace(1, -1, outputs_of(task))
    base = base * (-1.0 if kind == "three" else 3.0) + 5 * task.is_regression
    scores = base.copy()
    for t in range(420):
        compiled.learn_without_model(X[t : t + 1], y[t : t + 1], WEIGHT[t : t + 1], scores[t : t + 1])
        expected = naive.learn(base[t], [base[t]] * naive.others, y[t], WEIGHT[t])
        assert_allclose(scores[t], expected, rtol=1e-7, atol=1e-9)
    state = compiled.state()
    labels = naive.labels.scores(base[0])
    assert_allclose(compiled.label_scores(), labels, rtol=1e-9)
    assert_allclose(state["mixture"], naive.mixture, rtol=1e-6)
    assert_allclose([each["wealth"] for each in state["better"]], naive.wealth, rtol=1e-6)
    assert_allclose(state["rise"]["sums"][:2], [len(naive.rise.losses), sum(naive.rise.losses[-100:])], rtol=1e-7)
    assert compiled.unit == pytest.approx(naive.unit)
    assert naive.wealth[0].max() > 1.05  # there was something to compare


@pytest.mark.parametrize("kind", KINDS)
def test_votes_of_the_nearest_rows(kind):
    task, y = KINDS[kind]
    model = learner(kind)
    learn(model, y, BUDGET, 400)
    wake(model)
    standard = model.geometry.views(X, ["standard"])["standard"]
    kept = np.arange(400)
    assert_array_equal(model.drift.state()["nearest"]["x"].reshape(-1, 4), standard[kept])
    first = 1 + len(FORGET)
    for t in range(400, 430):
        base = said(model, 0, X[t : t + 1])[0]
        for i, among in enumerate((kept[-200:], kept, kept)):
            expected = nearest_votes(standard[t].astype(float), standard, y, among, base, task)
            assert_allclose(
                said(model, first + i, X[t : t + 1])[0], as_said(model, expected, base), rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize("columns", [4, 130])
def test_the_last_rows_and_a_sample_of_those_before_are_kept(columns):
    rows = np.random.default_rng(0).normal(size=(1400, columns))
    y = (rows[:, 0] > 0).astype(float)
    model = AutoMKLClassifier(8, trees=False, random_state=3).partial_fit(rows, y, classes=[0, 1])._learner.leader
    wake(model)
    last, drawn = kept_rows(1400, columns, model.settings.seed % 2**64)
    found = model.drift.state()["nearest"]
    assert found["rows"] == 1400
    assert_array_equal(found["y"], y[last + drawn])
    assert_array_equal(
        found["x"].reshape(-1, columns), model.geometry.views(rows, ["standard"])["standard"][last + drawn]
    )
    assert len(last) == (1000 if columns == 4 else 153)
    among, x = np.arange(len(last + drawn)), model.geometry.views(rows[:1] + 0.1, ["standard"])["standard"][0]
    kept = found["x"].reshape(-1, columns)
    order = np.argsort(np.array(last))  # from the oldest
    for i, some in enumerate((order[-min(200, len(last)) :], order, among)):
        expected = nearest_votes(x.astype(float), kept, found["y"], some, None, Task.BINARY)
        assert_allclose(said(model, 4 + i, rows[:1] + 0.1)[0], expected, rtol=1e-5)


def naive_group(model, group, task):
    """A group that begins, and the features of all rows for it."""
    regressions, features = [], []
    for component in model.components:
        if type(component) is not NewtonComponent:  # no trees, nor what learns curved targets
            continue
        rank, views = component.features.rank, model.views(X, [component])
        columns = isinstance(component.features, LinearFeatures)
        first = rank if columns else min(rank, MOST[group])
        ridge, loosen = (rank + 1) / component.regression.trace[0], (1 - FORGET[group]) * (first + 1)
        regressions.append(NaiveRegression(first + 1, ridge, outputs_of(task), task, loosen))
        features.append(np.hstack([component.features(views)[:, :first].astype(float), np.ones((N, 1))]))
    assert any(len(each.P) - 1 == MOST[group] for each in regressions)  # there are more features
    return NaiveGroup(regressions, task), features


@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_newton_regressions_that_forget(kind, group):
    task, y = KINDS[kind]
    model = learner(kind)  # at the budget, groups began from all rows so far
    naive, features = naive_group(model, group, task)
    targets = model.targets(y)
    rows = lambda t: [each[t] for each in features]  # noqa: E731
    for t in range(BUDGET):
        naive.learn(rows(t), targets[t], WEIGHT[t])
    for begin, end in ((BUDGET, 141), (141, 150), (150, 200), (200, 201)):
        x = X[begin : begin + 1]
        base = said(model, 0, x)[0]
        expected = naive.score(rows(begin)) * model.spread + model.centre
        assert_allclose(said(model, 1 + group, x)[0], as_said(model, expected, base), rtol=5e-3, atol=5e-3)
        learn(model, y, begin, end)
        for t in range(begin, end):
            naive.learn(rows(t), targets[t], WEIGHT[t])


@pytest.mark.parametrize("kind", slow_but(["three"], KINDS))
def test_all_experts_together_and_when_they_wake(kind):
    task, y = KINDS[kind]
    like = learner(kind, 8)
    model, naive = like.like(like.settings, like.n_classes), NaiveExperts(task, like.n_classes)
    model.follow_drift()
    awake, awake_until, events = True, 2 * BUDGET, []
    for t in range(N):
        if t == 0:
            experts = [model.prior_score()] * (1 + naive.others)
        else:
            experts = [said(model, i, X[t : t + 1])[0] for i in range(1 + naive.others)]
        expected = naive.learn(experts[0], experts[1:], y[t], WEIGHT[t])
        assert_allclose(learn(model, y, t, t + 1)[0], expected, rtol=2e-4, atol=2e-4)
        sudden = naive.rising > 4
        if sudden or (t + 1 > BUDGET and naive.evidence > LEVEL):
            events += [(t + 1, naive.rise.age() if sudden else 0, sudden)] if sudden or not events else []
            naive.rise = NaiveRise() if sudden else naive.rise
            awake_until = t + 1 + 2000
        if t + 1 > BUDGET and awake != (t + 1 < awake_until):
            awake = not awake
            if awake:
                naive.give_weights_back()
        assert model.drift.awake == awake
    found = model.drift.state()["events"]
    assert [(each["row"], each["age"], each["sudden"]) for each in found] == events
    assert any(row > 360 for row, _, _ in events)
    shifts = np.clip((X[:N] - model.geometry.mean) / model.geometry.deviation, -8, 8)
    row = events[-1][0]
    assert_allclose(found[-1]["shifts"], shifts[max(row - 256, 0) : row].mean(axis=0), rtol=1e-9)

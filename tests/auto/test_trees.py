"""Tree experts: codes, sample, growth and scores against plain Python; the same bits however rows come."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl._core import Sample
from bomkl.auto.features.coding import Coding
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import BOOSTED, FOREST, TREES, BoostedTrees, Forest, Growing

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=600), RNG.integers(0, 3, 600), RNG.exponential(size=600), np.ones(600)])
LABELS = ((X[:, 0] > 0.3) ^ (X[:, 1] == 1)).astype(int)
THREE = LABELS + (X[:, 2] > 1)
NUMBERS = np.where(X[:, 0] > 0.3, X[:, 2], X[:, 1])
CODES = Coding.of(np.sort(X, axis=0).T)(X)


def rows_of(model):
    """The learner of rows, within its layers."""
    learner = model._learner
    while learner.inner is not None:
        learner = learner.inner
    return learner


def targets(task):
    if task is Task.MULTICLASS:
        return np.eye(3)[THREE]
    return (NUMBERS if task.is_regression else LABELS.astype(float))[:, None]


def leaf(nodes, root, codes):
    node = nodes[root]
    while node[0] >= 0:
        node = nodes[node[1] + (codes[node[0] >> 8] > (node[0] & 255))]
    return node[1]


def test_codes_count_the_cuts_below():
    coding = Coding.of(np.sort(X, axis=0).T)
    rows = np.vstack([X[:50], np.full(4, -1e300), np.full(4, 1e300)])
    for j in range(4):
        cuts = coding.cuts[coding.starts[j] : coding.starts[j + 1]]
        assert_array_equal(coding(rows)[:, j], [(cuts < value).sum() for value in rows[:, j]])
    assert_array_equal(np.diff(coding.starts), [255, 2, 255, 0])


def test_neighbouring_numbers_are_told_apart():
    values = np.array([1.0, np.nextafter(1.0, 2), np.nextafter(np.nextafter(1.0, 2), 2)])
    assert_array_equal(Coding.of(values[None])(values[:, None])[:, 0], [0, 1, 2])


def test_every_row_is_in_the_sample_with_the_same_probability():
    counts = np.zeros(100)
    for seed in range(400):
        sample = Sample.of(10, seed, np.empty((0, 1), np.uint8), np.empty(0), np.empty(0))
        sample.add(np.zeros((100, 1), np.uint8), np.arange(100.0), np.ones(100), 0)
        y = sample.rows()[1]
        assert len(np.unique(y)) == 10
        counts[y.astype(int)] += 1
    assert counts.sum() == 4000
    assert abs(counts[:50].sum() - 2000) < 200
    assert counts.max() < 80


@pytest.mark.parametrize("task", list(Task))
def test_boosted_trees_are_the_sum_of_their_leaves_and_fit(task):
    y, weight = targets(task), np.ones(600)
    trees = BoostedTrees.growing(CODES, y, weight, task, 0).finish()
    scores = trees.scorer()({"codes": CODES})
    expected = np.tile(trees.base, (600, 1))
    for root, output in zip(trees.roots, trees.outputs, strict=True):
        for t in range(0, 600, 50):
            expected[t, output] += trees.values[leaf(trees.nodes, root, CODES[t])]
    assert_allclose(scores[::50], expected[::50], rtol=1e-12)
    if task.is_regression:
        assert ((scores - y) ** 2).mean() < 0.05 * y.var()
    elif task is Task.BINARY:
        assert ((scores > 0) == y).mean() > 0.99
    else:
        assert (scores.argmax(axis=1) == THREE).mean() > 0.99


@pytest.mark.parametrize(("last", "cut"), [(0, 49), (100, 100), (102, 105), (110, 182)])
def test_a_split_lies_halfway_between_the_codes_of_both_sides(last, cut):
    codes = np.repeat(np.array([0, 100, 102, 110, 255], np.uint8), 50)[:, None]  # 100 and 102 are in one bin
    trees = BoostedTrees.growing(codes, (codes > last).astype(float), np.ones(250), Task.BINARY, 0).finish()
    assert trees.nodes[trees.roots[0], 0] == cut


def test_leaves_of_boosted_trees_are_newton_steps_on_their_rows():
    y, weight = NUMBERS, np.linspace(0.5, 2, 600)
    trees = BoostedTrees.growing(CODES, y[:, None], weight, Task.SQUARED, 0).finish()
    scores = np.full(600, trees.base[0])
    for root in trees.roots[:10]:
        leaves = np.array([leaf(trees.nodes, root, codes) for codes in CODES])
        assert len(set(leaves)) > 10
        for each in set(leaves):
            rows = leaves == each
            pull, curvature = weight[rows] @ (scores - y)[rows], weight[rows].sum()
            assert trees.values[each] == pytest.approx(-0.1 * pull / (curvature + 1), rel=1e-3, abs=1e-5)
        scores += trees.values[leaves]


@pytest.mark.parametrize("task", list(Task))
def test_leaves_of_the_forest_go_on_learning(task):
    y, weight = targets(task), np.linspace(0.5, 2, 600)
    forest = Forest.growing(CODES[:300], y[:300], weight[:300], task, 0).finish()
    before = copy.deepcopy(forest)
    scorer = forest.scorer()
    old = scorer({"codes": CODES})
    scores = forest.learn(CODES[300:], y[300:], weight[300:], 300)
    assert_array_equal(scorer({"codes": CODES}), old)  # a scorer keeps what it knows
    known = before.arrays()
    table = known["table"].astype(np.float64)
    for t in range(300, 600):
        leaves = [leaf(known["nodes"], root, CODES[t]) for root in known["roots"]]
        sums = table[leaves]
        if task.is_regression:
            expected = ((sums[:, 1] + 0.2 * known["prior"][1]) / (sums[:, 0] + 0.2)).mean()
            table[leaves] += weight[t] * np.array([1.0, y[t, 0]])
        else:
            means = ((sums + 0.2 * known["prior"]) / (sums.sum(axis=1, keepdims=True) + 0.2)).mean(axis=0)
            expected = np.log(means) if task is Task.MULTICLASS else np.log(means[1] / means[0])
            table[leaves, THREE[t] if task is Task.MULTICLASS else LABELS[t]] += weight[t]
        assert_allclose(scores[t - 300], expected, rtol=1e-4, atol=1e-4)
    assert_allclose(forest.arrays()["table"], table, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("y", [LABELS, THREE, NUMBERS], ids=["two", "three", "numbers"])
@pytest.mark.parametrize("drift", [None, "adapt"])
def test_growth_does_not_depend_on_calls_threads_and_saves(y, drift):
    kind = AutoMKLRegressor if y.dtype.kind == "f" else AutoMKLClassifier
    whole = kind(40, drift=drift, random_state=0)
    scores = whole.score_and_learn(X, y)
    split, parts = kind(40, drift=drift, n_jobs=2, random_state=0), []
    for begin in range(0, 600, 37):
        parts.append(split.score_and_learn(X[begin : begin + 37], y[begin : begin + 37]))
        if begin % 5 == 0:
            split.__setstate__(split.__getstate__())
    if y is not THREE:
        assert_array_equal(np.concatenate(parts), scores)
    assert_array_equal(split.predict(X), whole.predict(X))
    if drift is None:
        assert set(TREES) & {each.name for each in rows_of(whole).components}
        assert len(rows_of(whole).sample.rows()[0]) == 600


def test_a_sample_of_earlier_versions_stays_as_large_as_it_was():
    model = AutoMKLClassifier(20, drift=None, random_state=0).partial_fit(X[:500], LABELS[:500])
    learner = rows_of(model)
    assert len(learner.sample.rows()[0]) == 320
    learner.sample = Sample.of(160, learner.settings.seed, *(each[:160] for each in learner.sample.rows()))
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[500:], LABELS[500:])
    assert len(rows_of(again).sample.rows()[0]) == 160


NOISE = np.random.default_rng(2).integers(0, 2, 600)


def grown_from(model):
    """Labels of the rows that trees are being grown from; None while no trees are."""
    rows = rows_of(model).grow_from
    return None if rows is None else rows[1].ravel()


def test_trees_that_matter_are_grown_more_often_and_from_more_rows():
    thresholds = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    for y, at_six, at_sixteen in ((thresholds, 120, 320), (NOISE, None, 160)):
        model = AutoMKLClassifier(20, drift=None, random_state=0).partial_fit(X[:120], y[:120])
        assert (None if grown_from(model) is None else len(grown_from(model))) == at_six
        model.partial_fit(X[120:322], y[120:322])
        assert len(grown_from(model)) == at_sixteen
        copy = pickle.loads(pickle.dumps(model)).partial_fit(X[322:], y[322:])
        assert_array_equal(copy.decision_function(X), model.partial_fit(X[322:], y[322:]).decision_function(X))


def test_trees_that_do_not_matter_see_all_of_a_periodic_stream():
    linear = X.sum(axis=1) > np.median(X.sum(axis=1))
    order = np.column_stack([np.flatnonzero(linear)[:161], np.flatnonzero(~linear)[:161]]).ravel()  # labels alternate
    model = AutoMKLClassifier(20, drift=None, random_state=0).partial_fit(X[order], linear[order])
    drawn = grown_from(model)
    assert len(drawn) == 160
    assert 0.35 < drawn.mean() < 0.65


@pytest.mark.parametrize("y", [LABELS, THREE, NUMBERS], ids=["two", "three", "numbers"])
def test_the_leaves_of_a_forest_know_every_row_also_those_that_came_while_it_grew(y):
    model = AutoMKLRegressor(40, random_state=0) if y is NUMBERS else AutoMKLClassifier(40, random_state=0)
    for begin in range(0, 600, 10):  # it is grown anew at 60, 100 and 160 rows, and takes its place 10 rows later
        model.partial_fit(X[begin : begin + 10], y[begin : begin + 10])
        (forest,) = (each for each in rows_of(model).components if each.name == FOREST)
        known = forest.arrays()
        sums = known["table"]
        assert (sums[:, 0] if y is NUMBERS else sums).sum() == len(known["roots"]) * model.n_seen_


def test_trees_can_be_left_out_and_are_not_in_rounds():
    for settings in ({"trees": False}, {"update": "rounds"}):
        model = AutoMKLClassifier(40, random_state=0, **settings).fit(X, LABELS)
        assert not set(TREES) & set(model.kernels_)
        assert model._learner.leader.sample is None
    with pytest.raises(ValueError, match="'trees'"):
        AutoMKLClassifier(trees="yes").fit(X, LABELS)


def test_trees_help_where_columns_matter_at_thresholds():
    rows = np.random.default_rng(1).normal(size=(3000, 8))
    y = ((rows[:, :3] > 0).sum(axis=1) % 2).astype(int)
    errors = [
        AutoMKLClassifier(200, trees=trees, random_state=0).fit(rows, y).mistakes_ / 3000 for trees in (True, False)
    ]
    assert errors[0] < 0.8 * errors[1]


def test_trees_explain_and_take_new_classes():
    known = np.flatnonzero(THREE < 2)[:200]
    rest = np.setdiff1d(np.arange(600), known)
    model = AutoMKLClassifier(40, random_state=0).partial_fit(X[known], THREE[known])
    assert_array_equal(model.classes_, [0, 1])
    model.partial_fit(X[rest], THREE[rest])
    assert_array_equal(model.classes_, [0, 1, 2])
    assert (model.predict(X) == THREE).mean() > 0.8
    parts = model.explain(X[0])
    assert parts.kernels[BOOSTED] != 0
    assert parts.kernels[FOREST] != 0
    assert sum(parts.kernels.values()) + parts.remainder == pytest.approx(parts.margin)


def test_trees_that_do_not_matter_are_dropped(monkeypatch):
    monkeypatch.setattr("bomkl.auto.components.pruning.KEEP_FROM", 2.0)
    model = AutoMKLClassifier(40, random_state=0).fit(X, LABELS)
    assert not set(TREES) & {each.name for each in model._learner.leader.components}
    assert model._learner.leader.sample is None
    assert model.kernel_weights_[-2:].tolist() == [0, 0]
    copied = AutoMKLClassifier(40, random_state=0)
    copied.__setstate__(model.__getstate__())
    assert_array_equal(copied.decision_function(X), model.decision_function(X))


MODELS = {
    "two": lambda: (AutoMKLClassifier(40, random_state=0), LABELS),
    "three": lambda: (AutoMKLClassifier(40, random_state=0), THREE),
    "numbers": lambda: (AutoMKLRegressor(40, random_state=0), NUMBERS),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("cut", slow_but([165, 325], [65, 165, 320, 325, 329]))
@pytest.mark.parametrize("way", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
def test_copies_go_on_growing(kind, cut, way):
    whole, y = MODELS[kind]()
    whole.partial_fit(X[:340], y[:340])
    model = MODELS[kind]()[0].partial_fit(X[:cut], y[:cut])
    assert rows_of(model).grow_from is not None
    copied = way(model)
    for each in (copied, model):  # one after the other, from the same rows
        each.partial_fit(X[cut:340], y[cut:340])
        assert rows_of(each).grow_from is None
        assert_array_equal(each._learner.scores(X), whole._learner.scores(X))


def test_every_row_grows_a_part(monkeypatch):
    shares, advance = [], Growing.advance

    def noted(self, share):
        shares.append(share)
        advance(self, share)

    model = AutoMKLClassifier(40, random_state=0).partial_fit(X[:310], LABELS[:310])
    monkeypatch.setattr(Growing, "advance", noted)
    for x, label in zip(X[310:335], LABELS[310:335].tolist(), strict=True):
        model.learn_one(x, label)
    assert shares[-1] == 1
    assert np.diff([0, *sorted(shares)]).max() < 0.1  # row 320 and the ten after it


def test_a_class_that_comes_while_trees_grow():
    y = np.where(np.arange(600) < 325, LABELS, THREE)
    whole = AutoMKLClassifier(40, random_state=0).partial_fit(X, y)
    split = AutoMKLClassifier(40, random_state=0)
    for x, label in zip(X, y.tolist(), strict=True):
        split.learn_one(x, label)
    assert pickle.dumps(split) == pickle.dumps(whole)


def test_a_failure_while_trees_grow_leaves_the_model_as_it_was(monkeypatch):
    model, expected = (AutoMKLClassifier(40, random_state=0).partial_fit(X[:323], LABELS[:323]) for _ in range(2))
    before, advance = pickle.dumps(model), Growing.advance

    def fail(self, share):
        advance(self, min(share, 0.5))
        raise KeyboardInterrupt

    monkeypatch.setattr(Growing, "advance", fail)
    for learn in (lambda: model.learn_one(X[323], LABELS[323]), lambda: model.partial_fit(X[323:400], LABELS[323:400])):
        with pytest.raises(KeyboardInterrupt):
            learn()
        assert pickle.dumps(model) == before
    monkeypatch.undo()
    model.partial_fit(X[323:400], LABELS[323:400])
    assert pickle.dumps(model) == pickle.dumps(expected.partial_fit(X[323:400], LABELS[323:400]))

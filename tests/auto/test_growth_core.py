"""The compiled part of growth beside its oracle in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.auto.naive_growth import BLOCK, CLIP, NaiveHedge, NaiveStack, hashes, loss, means

from bomkl._core import Boosting, GrowthModel, Network, grow_boosted
from bomkl.auto.features.coding import Coding
from bomkl.auto.network import code_values
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import BOOSTED, BoostedTrees

RNG = np.random.default_rng(0)
ROWS = 700
X = RNG.normal(size=(ROWS, 3))
COLUMNS = np.ascontiguousarray(np.sort(X, axis=0).T)
CODING = Coding.of(COLUMNS)
WEIGHT = RNG.choice([0.5, 1.0, 2.0], ROWS)
SEED = 12345
SCALE = (3.0, 2.0)


def targets(task):
    curve = np.sin(3 * X[:, 0]) + X[:, 1]
    if task is Task.MULTICLASS:
        return (curve > 0) + (curve > 1) * 1.0
    return (curve > 0) * 1.0 if task is Task.BINARY else 3.0 + 2.0 * curve


def model(task, outputs):
    scale = SCALE if task.is_regression else (0.0, 1.0)
    return GrowthModel.of(CODING.cuts, CODING.starts, *scale, outputs, int(task), SEED)


def grown(core, outputs, task, rows):
    work = core.grow(rows, outputs, int(task), Boosting(8, 7, 20, 0.3, 10.0, 1.0), 5)
    steps = 0
    while not work.done:
        work.step()
        steps += 1
    assert steps > 8 * outputs
    return BoostedTrees(BOOSTED, *work.result())


def test_the_sample_has_the_rows_of_least_hash_in_their_order():
    core, y = model(Task.BINARY, 1), targets(Task.BINARY)
    said = np.zeros((ROWS, 1))
    expected, kept = hashes(SEED, ROWS), np.arange(0)
    limit = 2**32 - 1
    for begin in range(0, 640, 64):
        part = slice(begin, begin + 64)
        core.score_and_learn(X[part], y[part], WEIGHT[part], said[part], begin)
        new = np.arange(begin, begin + 64)
        kept = np.append(kept, new[expected[new] <= limit])
        if len(kept) > 160:
            core.keep_at_most(160)
            limit = np.sort(expected[kept])[160 - 10 - 1]
            kept = kept[expected[kept] <= limit]
        arrays = core.state()
        assert_array_equal(arrays["hash"], expected[kept])
        assert_array_equal(arrays["codes"], CODING(X)[kept])
        assert_array_equal(arrays["y"], y[kept])
        assert_array_equal(arrays["weight"], WEIGHT[kept])
    assert core.limit == limit
    core.keep_at_most(0)
    assert core.rows == 0


@pytest.mark.parametrize("task", [Task.BINARY, Task.MULTICLASS, Task.SQUARED])
def test_trees_of_the_sample_are_those_of_the_same_rows(task):
    outputs = 3 if task is Task.MULTICLASS else 1
    core, y = model(task, outputs), targets(task)
    core.score_and_learn(X[:640], y[:640], WEIGHT[:640], np.zeros((640, outputs)), 0)
    trees = grown(core, outputs, task, 600)
    scaled = task.targets(y[:600], 3, *(SCALE if task.is_regression else (0.0, 1.0)))
    scaled = scaled.astype(np.float32).astype(np.float64)  # as the sample holds them
    whole = grow_boosted(CODING(X[:600]), scaled, WEIGHT[:600], int(task), Boosting(8, 7, 20, 0.3, 10.0, 1.0), 5)
    whole.until(1000)
    for a, b in zip(whole.result(), (trees.nodes, trees.roots, trees.outputs, trees.values, trees.base), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("task", [Task.BINARY, Task.MULTICLASS, Task.SQUARED])
def test_the_stack_learns_what_the_oracle_learns(task):
    outputs = 3 if task is Task.MULTICLASS else 1
    core, y = model(task, outputs), targets(task)
    scale = SCALE if task.is_regression else (0.0, 1.0)
    said = RNG.normal(size=(ROWS, outputs)) + 0.5 * task.targets(y, 3, *scale)
    raw = said * scale[1] + scale[0]
    core.score_and_learn(X[:128], y[:128], WEIGHT[:128], raw[:128], 0)
    trees = grown(core, outputs, task, 128)
    core.set_trees(trees.part())
    network = Network.of(code_values(CODING, COLUMNS), outputs, int(task), 7)
    core.set_network(network, 0, 0, 0)
    stack, hedge, rows, out = NaiveStack(), NaiveHedge(), [], []
    got = core.score_and_learn(X[128:], y[128:], WEIGHT[128:], raw[128:], 128)
    of_trees = trees.part().scores(CODING(X))
    everything = [np.clip(each - each.mean() * (outputs > 1), -CLIP, CLIP) for each in said[128:]]
    replayed = model(task, outputs)  # the same rows, for the scores of the network before each step
    replayed.score_and_learn(X[:128], y[:128], WEIGHT[:128], raw[:128], 0)
    replayed.set_network(network, 0, 0, 0)
    for t in range(128, ROWS):
        of_network = replayed.inputs(X[t : t + 1], raw[t : t + 1])[0, 2]
        replayed.score_and_learn(X[t : t + 1], y[t : t + 1], WEIGHT[t : t + 1], raw[t : t + 1], t)
        tree = np.clip(of_trees[t] - of_trees[t].mean() * (outputs > 1), -CLIP, CLIP)
        S = np.stack([everything[t - 128], tree, of_network, np.full(outputs, float(outputs == 1))])
        target = task.targets(y[t : t + 1], 3, *scale)[0]
        f = stack.w @ S
        mixed = (1 - hedge.share) * means(S[0], task) + hedge.share * means(f, task)
        score = mixed if task.is_regression else np.log(mixed / (1 - mixed)) if outputs == 1 else np.log(mixed)
        out.append(score * scale[1] + scale[0])
        hedge.learn(loss(S[0], target, task), loss(f, target, task), WEIGHT[t], task)
        rows.append((S, target, WEIGHT[t]))
        if (t + 1) % BLOCK == 0:
            stack.learn(rows, task)
            rows = []
    assert_allclose(got, out, rtol=1e-6, atol=1e-6)
    assert_allclose(core.weights, stack.w, rtol=1e-6, atol=1e-6)
    assert core.share == pytest.approx(hedge.share)
    assert abs(core.weights[1]) > 0.05


def test_dropping_trees_that_never_took_part_changes_nothing():
    core, y = model(Task.BINARY, 1), targets(Task.BINARY)
    core.score_and_learn(X[:320], y[:320], WEIGHT[:320], np.zeros((320, 1)), 0)
    core.set_network(Network.of(code_values(CODING, COLUMNS), 1, int(Task.BINARY), SEED), core.rows, 0, 32)
    core.score_and_learn(X[320:640], y[320:640], WEIGHT[320:640], np.zeros((320, 1)), 320)
    before = core.state()
    core.drop_trees()
    for name, value in core.state().items():
        assert_array_equal(value, before[name], err_msg=name)

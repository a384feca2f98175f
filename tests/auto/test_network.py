"""The online network beside its oracle in NumPy; the same bits however rows come."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.auto.naive_network import NaiveNetwork

from bomkl import _core
from bomkl._core import Network
from bomkl.auto.blas import one_blas_thread
from bomkl.auto.features.coding import Coding
from bomkl.auto.network import code_values, network_from_state, network_state
from bomkl.auto.saved import Saved
from bomkl.auto.task import Task

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(600, 3)), RNG.integers(0, 3, 600), np.ones(600)])
COLUMNS = np.sort(X, axis=0).T
CODES = Coding.of(COLUMNS)(X)
VALUES = code_values(Coding.of(COLUMNS), COLUMNS)
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 3.0], 600)
SEED = 2**64 - 5
SAMPLE = 200  # rows that are drawn from


@pytest.fixture(autouse=True)
def one_thread_for_the_oracle():
    with one_blas_thread:
        yield


def labels(task):
    curve = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    if task is Task.BINARY:
        return (curve > 0).astype(float)
    if task is Task.MULTICLASS:
        return (curve > 0) + (curve > 1) * 1.0
    curve[7] = 1e6  # as far as targets go
    return curve


def outputs(task):
    return 3 if task is Task.MULTICLASS else 1


def network(task, seed=SEED):
    return Network.of(VALUES, outputs(task), int(task), seed)


def sample(task):
    return CODES[:SAMPLE], labels(task)[:SAMPLE], WEIGHT[:SAMPLE]


def learn(model, task, sizes, rows=slice(None), seen=0):
    codes, y, weight = CODES[rows], labels(task)[rows], WEIGHT[rows]
    out, s = [], 0
    while s < len(y):
        part = slice(s, s + sizes[len(out) % len(sizes)])
        out.append(model.score_and_learn(codes[part], y[part], weight[part], seen + s, sample(task)))
        s = part.stop
    return np.concatenate(out)


def same(a, b):
    first, second = network_state(a), network_state(b)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_array_equal(value, second[name])


@pytest.mark.parametrize("instruction_set", _core.instruction_sets())
@pytest.mark.parametrize("task", list(Task))
def test_it_learns_what_the_oracle_learns(task, instruction_set, monkeypatch):
    monkeypatch.setenv("BOMKL_INSTRUCTION_SET", instruction_set)
    model, oracle = network(task), NaiveNetwork.of(VALUES, outputs(task), task, SEED)
    for each in (model, oracle):
        each.rehearse(*(a[:70] for a in sample(task)))
    scores = learn(model, task, [150])
    expected = learn(oracle, task, [600])
    assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)
    assert model.steps == oracle.steps == 3 + 600 // 32
    assert model.open == 600 % 32
    assert_allclose(model.scores(CODES), oracle.forward(CODES)[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("task", list(Task))
@pytest.mark.parametrize("sizes", [[1], [7], [64], [33, 1, 100]])
def test_the_split_does_not_matter(task, sizes):
    whole, split = network(task), network(task)
    assert_array_equal(learn(whole, task, [600]), learn(split, task, sizes))
    same(whole, split)


def test_steps_are_at_absolute_row_numbers():
    model = network(Task.BINARY)
    learn(model, Task.BINARY, [5], slice(50, 64), seen=50)
    assert (model.steps, model.open) == (1, 0)


def test_a_row_is_scored_with_the_weights_before_its_step():
    model = network(Task.SQUARED)
    learn(model, Task.SQUARED, [96], slice(96))
    before = model.scores(CODES[96:128])
    assert_array_equal(learn(model, Task.SQUARED, [32], slice(96, 128), seen=96), before)


@pytest.mark.parametrize("task", list(Task))
def test_it_goes_on_where_it_was_saved(task):
    straight, saved = network(task), network(task)
    for each in (straight, saved):
        learn(each, task, [90], slice(300))
    state = copy.deepcopy(network_state(saved))
    restored = network_from_state(Saved(state, "network"), X.shape[1], outputs(task), task, SEED)
    same(straight, restored)
    a = learn(straight, task, [300], slice(300, 600), seen=300)
    assert_array_equal(a, learn(restored, task, [11], slice(300, 600), seen=300))


@pytest.mark.parametrize("rows", [40, 300])
def test_a_fork_leaves_the_original_as_it_was(rows):
    model = network(Task.BINARY)
    learn(model, Task.BINARY, [100], slice(100))
    before, fork = copy.deepcopy(network_state(model)), model.fork()
    learned = learn(fork, Task.BINARY, [rows], slice(100, 100 + rows), seen=100)
    for name, value in before.items():
        assert_array_equal(network_state(model)[name], value)
    assert_array_equal(learn(model, Task.BINARY, [rows], slice(100, 100 + rows), seen=100), learned)


@pytest.mark.parametrize("task", [Task.BINARY, Task.MULTICLASS])
def test_a_new_class_starts_at_its_log_odds_and_is_learned(task):
    model = network(task)
    learn(model, task, [130], slice(130))
    before = model.scores(CODES)
    model.add_class(-5.0)
    after = model.scores(CODES)
    if task is Task.BINARY:
        before = np.hstack([-0.5 * before, 0.5 * before])
    assert_allclose(after[:, :-1], before, rtol=1e-6, atol=1e-6)
    assert_array_equal(after[:, -1], np.full(600, -5.0))

    def lead(scores):  # of the new class
        return (scores[:, -1] - scores[:, :-1].max(axis=1)).mean()

    for _ in range(20):
        model.rehearse(CODES[130:], np.full(470, model.outputs - 1.0), np.ones(470))
    assert lead(model.scores(CODES)) > 0 > lead(after)
    restored = network_from_state(
        Saved(network_state(model), "network"), X.shape[1], model.outputs, Task.MULTICLASS, SEED
    )
    assert_array_equal(restored.scores(CODES), model.scores(CODES))


def test_many_classes_fill_several_tiles():
    y = np.arange(600) % 70 * 1.0
    model, oracle = Network.of(VALUES, 70, int(Task.MULTICLASS), 3), NaiveNetwork.of(VALUES, 70, Task.MULTICLASS, 3)
    a = model.score_and_learn(CODES, y, WEIGHT, 0, (CODES, y, WEIGHT))
    assert_allclose(a, oracle.score_and_learn(CODES, y, WEIGHT, 0, (CODES, y, WEIGHT)), rtol=1e-3, atol=1e-3)
    model.add_class(0.0)
    assert model.outputs == 71


def test_rows_without_weight_teach_nothing():
    model = network(Task.BINARY)
    before = network_state(model)
    model.rehearse(CODES, labels(Task.BINARY), np.zeros(600))
    assert_array_equal(network_state(model)["weights"], before["weights"])
    assert model.steps == 0


def test_it_learns_a_curve_that_no_plane_can_tell():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_000, 4))
    y = (rows[:, 0] * rows[:, 1] > 0).astype(float)
    coding, columns = Coding.of(np.sort(rows[:2000], axis=0).T), np.sort(rows[:2000], axis=0).T
    model, codes = Network.of(code_values(coding, columns), 1, int(Task.BINARY), 0), coding(rows)
    wrong = []
    for s in range(0, len(y), 500):
        e = s + 500
        seen = (codes[:s], y[:s], np.ones(s)) if s else None
        scores = model.score_and_learn(codes[s:e], y[s:e], np.ones(500), s, seen)
        wrong.append(np.mean((scores[:, 0] > 0) != (y[s:e] == 1)))
    assert np.mean(wrong[:2]) > 0.3
    assert np.mean(wrong[-10:]) < 0.05


def test_bad_rows_are_refused_and_change_nothing():
    model = network(Task.MULTICLASS)
    learn(model, Task.MULTICLASS, [40], slice(40))
    before, ones = copy.deepcopy(network_state(model)), np.ones(3)
    for y, weight, columns, rule in [
        (3 * ones, ones, 5, "a class or target is out of range"),
        (-ones, ones, 5, "a class or target is out of range"),
        (np.nan * ones, ones, 5, "a class or target is out of range"),
        (ones, -ones, 5, "weights must be finite"),
        (ones, np.inf * ones, 5, "weights must be finite"),
        (ones, ones, 4, "the rows do not fit the network"),
    ]:
        with pytest.raises(ValueError, match=rule):
            model.score_and_learn(np.zeros((3, columns), np.uint8), y, weight, 40, None)
    with pytest.raises(ValueError, match="the rows do not fit"):
        model.scores(np.zeros((3, 6), np.uint8))
    for name, value in before.items():
        assert_array_equal(network_state(model)[name], value)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("weights", np.full(10_000, np.nan, np.float32), "an array of shape"),
        ("squares", None, "finite numbers from 0.0"),
        ("values", np.full((5, 256), 5.0, np.float32), "finite numbers from -4.0 to 4.0"),
        ("codes", np.zeros((32, 5), np.uint8), "at most 31 rows"),
        ("y", np.full(18, 2.0), "finite numbers from 0.0 to 1.0"),
        ("weight", np.full(18, -1.0), "finite numbers from 0.0"),
        ("steps", -1, "an int from 0"),
        ("strange", 1, "does not know"),
    ],
)
def test_damaged_states_are_refused(name, value, rule):
    model = network(Task.BINARY)
    learn(model, Task.BINARY, [50], slice(50))
    state = network_state(model)
    state[name] = -1 - state["squares"] if name == "squares" else value
    with pytest.raises(ValueError, match=rule):
        network_from_state(Saved(state, "network"), X.shape[1], 1, Task.BINARY, SEED)


def test_values_of_huge_and_constant_columns_are_finite():
    columns = np.sort(np.vstack([1e308 * np.linspace(-1, 1, 50), np.full(50, 1e308), 5e-324 * np.arange(50)]))
    assert np.isfinite(code_values(Coding.of(columns), columns)).all()


@pytest.mark.parametrize("instruction_set", _core.instruction_sets())
def test_hyperbolic_tangents(instruction_set, monkeypatch):
    monkeypatch.setenv("BOMKL_INSTRUCTION_SET", instruction_set)
    x = np.concatenate([np.linspace(-12, 12, 24_000), np.linspace(-1e-3, 1e-3, 1600), [-1e30, 0, 1e30], [0.5] * 13])
    y = x.astype(np.float32)
    expected = np.tanh(y.astype(float))
    _core.tanh_many(y)
    assert_allclose(y, expected, rtol=3e-7, atol=0)

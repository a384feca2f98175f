"""Growth around rounds: the same bits for any split of calls, any partition and any order in which sums arrive."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.auto.growing import grow_soon, let_win

from bomkl import AutoMKLClassifier, AutoMKLRegressor, merge, modelfile
from bomkl.auto.growth import growth_learner, round_growth
from bomkl.auto.growth.growth_learner import NETWORK, TREES, GrowthLearner
from bomkl.auto.growth.pace import Pace
from bomkl.auto.rounds.round_learner import RoundLearner
from bomkl.partitions import Job, drawn_rows, job, piece_sums, summary

ROWS, BUDGET = 1800, 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 4))
STEPS = np.sign(X[:, 0] - 0.3) * np.sign(X[:, 1]) + (X[:, 2] > 0.5)
TWO = (STEPS <= 0).astype(int)  # the first row is of class 0, so class numbers are labels
SEVERAL = np.where(STEPS > 1, "c", np.where(STEPS > 0, "b", "a"))
NUMBERS = 100 + 7 * STEPS + RNG.normal(size=ROWS)
TASKS = {"two": TWO, "several": SEVERAL, "numbers": NUMBERS}


@pytest.fixture(autouse=True)
def small_pace(monkeypatch):
    grow_soon(monkeypatch)


def new(y, **settings):
    kind = AutoMKLRegressor if y is NUMBERS else AutoMKLClassifier
    return kind(BUDGET, update="rounds", random_state=1, **settings)


def state(model):
    return pickle.dumps(model.__getstate__()["_learner"])


def limit_rounds(monkeypatch, rows):
    monkeypatch.setattr(round_growth, "MOST_ROWS", rows)
    monkeypatch.setattr(job, "MOST_ROWS", rows)


# ---------------------------------------------------------------- calls


@pytest.mark.parametrize("most", [150, ROWS])
@pytest.mark.parametrize("task", TASKS)
def test_the_split_threads_and_a_save_midway_do_not_matter(task, most, monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    limit_rounds(monkeypatch, most)
    y = TASKS[task]
    whole, threads, model = new(y), new(y, n_jobs=2), new(y)
    expected = whole.score_and_learn(X, y)
    assert_array_equal(threads.score_and_learn(X, y), expected)
    parts, begin = [], 0
    for end in (39, 40, 41, 333, 700, 1111, 1112, 1500, ROWS):
        parts.append(model.score_and_learn(X[begin:end], y[begin:end]))
        model, begin = pickle.loads(pickle.dumps(model)), end
    assert_array_equal(np.concatenate(parts), expected)
    assert_array_equal(model.predict(X), whole.predict(X))
    learner = whole._learner
    assert learner.awake
    assert learner.taken == model._learner.taken
    assert (learner.taken < learner.seen) == (most < ROWS)
    assert whole.n_seen_ == ROWS


def test_it_says_what_rounds_say_until_the_first_trial(monkeypatch):
    monkeypatch.setattr(growth_learner, "PACE", Pace())
    model = new(TWO)
    scores = model.score_and_learn(X, TWO)
    plain = RoundLearner(model._learner.settings)
    assert_array_equal(plain.score_and_learn(X, TWO.astype(float), np.ones(ROWS))[:, 0], scores)
    assert not model._learner.awake


def test_trees_come_where_they_pay_and_go_without_them():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 6))
    y = (np.sign(np.sin(6 * rows[:, :3])).sum(axis=1) > 0).astype(int)  # too many steps for 40 landmarks
    wrong = []
    for trees in (True, False):
        model = AutoMKLClassifier(BUDGET, update="rounds", trees=trees, random_state=0)
        scores = model.score_and_learn(rows, y)
        assert model._learner.switches[TREES].is_in == trees
        wrong.append(np.mean((scores[-1000:] > 0) != (y[-1000:] == 1)))
    assert wrong[0] < 0.8 * wrong[1]


def test_a_model_without_growth_goes_on_without_it():
    model = new(TWO).partial_fit(X[:900], TWO[:900])
    saved = model.__getstate__()
    saved["_learner"] = {"version": 2, **saved["_learner"]["learner"]["inner"]}  # as version 0.2.0
    old = AutoMKLClassifier()
    old.__setstate__(saved)
    plain = copy.deepcopy(model._learner.inner)
    assert_array_equal(
        old.score_and_learn(X[900:], TWO[900:]),
        plain.score_and_learn(X[900:], TWO[900:].astype(float), np.ones(900))[:, 0],
    )
    assert learned_from(old, TWO, 3).n_seen_ == ROWS + ROWS


def test_a_saved_model_that_took_more_rows_than_it_saw_is_refused():
    saved = new(TWO).partial_fit(X, TWO).__getstate__()
    saved["_learner"]["learner"]["seen"] += 32
    with pytest.raises(ValueError, match="inner"):
        AutoMKLClassifier().__setstate__(saved)


# ---------------------------------------------------------------- partitions


def learned_from(model, y, parts, backwards=False, through=None):
    """Learn from parts of the rows, each of which is sorted by its first column."""
    order = np.argsort(X[:, 0])
    tables = [(X[rows], y[rows]) for rows in np.array_split(order, parts)]
    work = Job(model, [summary(*table, regression=y is NUMBERS) for table in tables])
    work.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in work.head_pieces()])
    while pieces := work.next_round():
        static, means = work.static(), work.means()
        for piece in reversed(pieces) if backwards else pieces:
            work.add(pickle.loads(pickle.dumps(piece_sums(static, means, piece, *tables[piece.partition]))))
        work.end_round()
        if through is not None:  # a file after each round
            modelfile.save(work.model, through)
            notes = work.notes()
            work = Job(new(y), [summary(*table, regression=y is NUMBERS) for table in tables])
            work.resume(modelfile.load(through), notes)
    return work.model


@pytest.mark.parametrize("most", [150, ROWS])
@pytest.mark.parametrize("task", TASKS)
def test_neither_the_order_of_sums_nor_a_file_matters(task, most, tmp_path, monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    limit_rounds(monkeypatch, most)
    y = TASKS[task]
    model = learned_from(new(y), y, 5)
    assert state(learned_from(new(y), y, 5, backwards=True)) == state(model)
    resumed = learned_from(new(y), y, 5, through=tmp_path / "model")
    assert_array_equal(resumed.predict(X), model.predict(X))
    assert model.n_seen_ == ROWS
    assert model._learner.awake
    assert (model._learner.taken < ROWS) == (most < ROWS)
    if y is not NUMBERS:
        assert 0 < model.mistakes_ < ROWS


def test_growth_of_partitions_is_growth_of_the_same_rows_in_one_place(monkeypatch):
    let_win(monkeypatch, TREES, NETWORK)
    taken = []
    take = GrowthLearner.take

    def noted(self, rows, y, weight, said, coded=False):
        scores = take(self, rows, y, weight, said, coded)
        taken.append((rows, y, weight, said, coded, scores))
        return scores

    monkeypatch.setattr(GrowthLearner, "take", noted)
    model = learned_from(new(TWO), TWO, 5)
    plain = growth_learner.GrowthLearner(copy.deepcopy(model._learner.inner), 4)
    plain.pace = model._learner.pace
    coding = model._learner.coding
    of_codes = {coding(row[None])[0].tobytes(): row for row in X}
    for rows, y, weight, said, coded, scores in taken:
        there = np.array([of_codes[row.tobytes()] for row in rows]) if coded else rows
        assert_array_equal(take(plain, there, y, weight, said), scores)
    assert [each[4] for each in taken[:1] + taken[-1:]] == [False, True]


def test_sorted_partitions_do_no_harm():
    model = learned_from(new(TWO), TWO, 6)
    assert model.mistakes_ < 0.25 * ROWS
    assert model.score(X, TWO) > 0.85


def test_an_error_in_growth_leaves_the_model_as_it_was(monkeypatch):
    tables = [(X[:900], TWO[:900]), (X[900:], TWO[900:])]
    work = Job(new(TWO), [summary(*table) for table in tables])
    work.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in work.head_pieces()])
    before, done = state(work.model), work.done

    def fails(self, *args, **kwargs):
        raise KeyboardInterrupt

    for piece in work.next_round():
        work.add(piece_sums(work.static(), work.means(), piece, *tables[piece.partition]))
    monkeypatch.setattr(GrowthLearner, "take", fails)
    with pytest.raises(KeyboardInterrupt):
        work.end_round()
    assert (state(work.model), work.done) == (before, done)


# ---------------------------------------------------------------- merge


def test_merged_models_have_the_samples_of_all_and_their_order_does_not_matter(monkeypatch):
    let_win(monkeypatch, TREES)
    head = new(TWO).partial_fit(X[:600], TWO[:600])
    ends = (1100, 1500, ROWS)
    copies = [
        copy.deepcopy(head).partial_fit(X[begin:end], TWO[begin:end])
        for begin, end in zip((600, *ends[:-1]), ends, strict=True)
    ]
    model, other = merge(copies), merge(copies[::-1])
    assert_array_equal(model.decision_function(X), other.decision_function(X))
    assert state(model) == state(other)
    assert model.n_seen_ == ROWS
    open_rows = sum(len(each.__getstate__()["_learner"]["learner"]["grown"]["core"]["open_y"]) for each in copies)
    assert ROWS - open_rows <= model._learner.core.rows <= ROWS
    before = [state(each) for each in copies]
    for each in (model, other):
        each.partial_fit(X, TWO)
    assert_array_equal(model.decision_function(X), other.decision_function(X))
    assert model.score(X, TWO) > 0.9
    assert [state(each) for each in copies] == before

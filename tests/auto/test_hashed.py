"""Hashed models of tables: what they learn from texts, and the same bits however rows come."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from bomkl import AutoMKLClassifier, AutoMKLRegressor, merge, modelfile
from bomkl._core import HashedModel, edits
from bomkl.auto.hashed.explain import _text
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.hashed.state import hashed_from_state, hashed_state
from bomkl.auto.saved import Saved
from bomkl.auto.task import Task
from bomkl.modelfile import Model, load, save

WORDS = ["red", "green", "blue", "big", "small", "round", "flat", "old", "new", "fast", "slow", "loud", "soft", "warm"]


def named_rows(n=600, seed=0):
    """Users with an effect each, notes whose words matter, dates, whole numbers, gaps."""
    rng = np.random.default_rng(seed)
    effect, of_word = rng.normal(size=60) * 2, rng.normal(size=len(WORDS)) * 2
    user, words = rng.integers(60, size=n), rng.integers(len(WORDS), size=(n, 4))
    score = effect[user] + of_word[words].sum(axis=1) + rng.normal(size=n) * 0.3
    table = pd.DataFrame(
        {
            "user": [f"u{u}" for u in user],
            "note": [" ".join(WORDS[w] for w in row) for row in words],
            "shop": rng.integers(12, size=n),
            "day": pd.Timestamp("2023-12-01T07:00") + pd.to_timedelta(rng.integers(0, 4000, n), unit="h"),
            "size": rng.normal(size=n),
        }
    ).astype({"user": object, "note": object})
    return table.mask(rng.random(table.shape) < 0.05), score


def model_and_rows(kind, n=600, seed=0):
    table, score = named_rows(n, seed)
    if kind == "numbers":
        return AutoMKLRegressor(budget=60, random_state=0), table, 1000 + 50 * score
    if kind == "two":
        return AutoMKLClassifier(budget=60, random_state=0), table, (score > 0).astype(int)
    return AutoMKLClassifier(budget=60, random_state=0), table, np.digitize(score, [-2, 0.5, 3])


KINDS = pytest.mark.parametrize("kind", ["two", "several", "numbers"])


@KINDS
def test_any_split_across_saving_gives_the_same_bits(kind, tmp_path):
    model, X, y = model_and_rows(kind, 220)
    whole = copy.deepcopy(model)
    expected = whole.score_and_learn(X, y)
    rng = np.random.default_rng(5)
    begin, parts = 0, []
    while begin < len(y):
        end = min(begin + int(rng.integers(1, 40)), len(y))
        parts.append(np.asarray(model.score_and_learn(X[begin:end], y[begin:end])))
        if end % 3 == 0:
            save(model, tmp_path / "model.bomkl")
            model = load(tmp_path / "model.bomkl")
        elif end % 3 == 1:
            model = pickle.loads(pickle.dumps(model))
        begin = end
    if kind != "several":  # whose first scores are of fewer classes
        assert_array_equal(np.concatenate(parts), expected)
    assert_array_equal(np.asarray(model.score_and_learn(X, y)), np.asarray(whole.score_and_learn(X, y)))
    assert isinstance(model._learner, HashedLearner)


@KINDS
def test_single_rows_give_the_same_bits(kind):
    model, X, y = model_and_rows(kind, 90)
    one = copy.deepcopy(model).partial_fit(X[:60], y[:60])
    model.partial_fit(X[:60], y[:60])
    expected = model.score_and_learn(X[60:], y[60:])
    rows = X[60:].to_dict("records")
    if kind == "two":
        assert one.predict_one(rows[0]) == one.predict(X[60:61])[0]
    assert_array_equal([one.learn_one(x, target) for x, target in zip(rows, y[60:], strict=True)], expected)


@KINDS
def test_an_error_and_a_reader_leave_the_model_as_it_was(kind):
    model, X, y = model_and_rows(kind, 120)
    model.partial_fit(X[:100], y[:100])
    before, scores = pickle.dumps(model), model.predict(X)
    reader = model._now()
    bad = X[100:].astype(object)
    bad.iloc[-1, -1] = float("inf")
    with pytest.raises(ValueError, match="finite"):
        model.partial_fit(bad, y[100:])
    assert pickle.dumps(model) == before
    model.partial_fit(X[100:], y[100:])
    assert_array_equal(reader.predict(X), scores)


def test_words_users_and_typos_are_learned():
    model, X, y = model_and_rows("two", 3000)
    model.score_and_learn(X, y)
    plain = AutoMKLClassifier(budget=60, random_state=0)
    plain.score_and_learn(X.assign(note="", user=""), y)
    assert model.mistakes_ < 0.7 * plain.mistakes_
    explanation = model.explain(X[X["note"].notna()][:1])
    assert any(name.startswith("note: ") for name in explanation.values)
    assert set(explanation.columns) == set(X.columns)
    assert np.isclose(sum(explanation.kernels.values()) + explanation.remainder, explanation.margin)
    importances = dict(zip(X.columns, model.feature_importances_, strict=True))
    assert np.isclose(sum(importances.values()), 1)
    assert max(importances, key=importances.get) in ("note", "user")


def test_whole_tables_of_numbers_and_rounds_have_no_hashed_models():
    model, X, y = model_and_rows("two", 100)
    assert not isinstance(model.fit(X[["size", "day"]].ffill().bfill(), y)._learner, HashedLearner)
    rounds = AutoMKLClassifier(budget=60, update="rounds", random_state=0).fit(X, y)
    assert not isinstance(rounds._learner, HashedLearner)
    with pytest.raises(ValueError, match="rounds"):
        merge([model.fit(X, y), copy.deepcopy(model)])


def test_a_text_column_that_comes_later_is_hashed():
    model, X, y = model_and_rows("two", 100)
    rows = X.to_dict("records")
    for row in rows[:5]:
        del row["note"], row["user"]
    model.partial_fit(rows, y)
    whole = copy.deepcopy(model)
    assert isinstance(model._learner, HashedLearner)
    one = AutoMKLClassifier(budget=60, random_state=0)
    for row, label in zip(rows, y, strict=True):
        one.learn_one(row, label)
    assert_array_equal(one.predict_proba(X), whole.predict_proba(X))


def test_weights_count_and_rows_of_weight_zero_do_not():
    model, X, y = model_and_rows("two", 200)
    weight = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    one = copy.deepcopy(model).partial_fit(X, y, sample_weight=weight)
    two = model.partial_fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0])
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


# ---------------------------------------------------------------- the core

WAYS = [[(True, 10.0), (True, 1.0)], [(False, 1.0), (False, 4.0)], [(False, 4.0), (True, 10.0)]]


def codes(n, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    texts = [["ab", "cd", "ef", None][i] for i in rng.integers(4, size=n)]
    numbers = rng.integers(3, size=n).astype(float)
    y = np.eye(outputs)[rng.integers(outputs, size=n)] if outputs > 1 else rng.integers(2, size=(n, 1)).astype(float)
    return [(1, texts), (2, numbers)], y


def plain_values(cells, y, way):
    """Scores of the model of values by their definition, for two classes."""
    newton, rate = way
    w, total, out = {}, {}, []
    seen, distinct, stats = [], [set(), set()], [0, 0.0, 0.0]
    nonzeros = rows = 0
    for t, target in enumerate(y[:, 0]):
        x = {"bias": 1.0}
        for column, (_, values) in enumerate(cells):
            if len(distinct[column]) >= 2:
                x[column, values[t]] = 1.0
        number = cells[1][1][t]
        spread = (stats[2] / stats[0]) ** 0.5 if stats[0] > 1 else 0.0
        if spread > 1e-9 * abs(stats[1]):
            x["number"] = (number - stats[1]) / spread
        f = sum(w.get(key, 0.0) * value for key, value in x.items())
        out.append(f)
        p = 1 / (1 + np.exp(-f))
        a, curve = target - p, max(p * (1 - p), 1e-4)
        nonzeros, rows = nonzeros + len(x), rows + 1
        for key, value in x.items():
            total[key] = total.get(key, 0.0) + value**2 * (curve if newton else a * a)
        pace = {
            key: 1 / (1 / rate + total[key])
            if newton
            else rate * (rows / nonzeros) ** 0.5 / (total[key] + 1e-3 * value**2) ** 0.5
            for key, value in x.items()
        }
        reach = sum(value**2 * pace[key] for key, value in x.items())
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            after = 1 / (1 + np.exp(-(f + middle * reach * a)))
            low, high = (middle, high) if abs(target - after) > middle * abs(a) else (low, middle)
        for key, value in x.items():
            w[key] = w.get(key, 0.0) + low * value * pace[key] * a
        for column, (_, values) in enumerate(cells):
            distinct[column].add(values[t])
        seen.append(number)
        stats = [len(seen), np.mean(seen), np.var(seen) * len(seen)]
    return np.array(out)


def test_values_are_what_the_definition_says():
    cells, y = codes(200)
    scores = HashedModel(2, 1).score_and_learn(cells, y, np.ones(200), int(Task.BINARY))
    for way in range(2):
        np.testing.assert_allclose(scores[:, way, 0], plain_values(cells, y, WAYS[0][way]), rtol=1e-3, atol=1e-4)


def test_memory_follows_what_was_seen():
    model = HashedModel(1, 1)
    assert model.nbytes < 10_000
    texts = [f"value {i}" for i in range(5000)]
    model.score_and_learn([(1, texts)], np.zeros((5000, 1)), np.ones(5000), int(Task.BINARY))
    assert 4900 < len(model.models[0][0]) <= 5000
    assert model.nbytes < 2_000_000


@pytest.mark.slow
def test_memory_of_a_million_distinct_values_is_flat():
    """When 2^18 places are in use, half of them are forgotten: those of values that came once, not often."""
    often, rng = [f"often {i}" for i in range(50)], np.random.default_rng(0)
    model, sizes = HashedModel(1, 1), []

    def learn(texts):
        y = rng.integers(2, size=(len(texts), 1)).astype(float)
        model.score_and_learn([(1, texts)], y, np.ones(len(texts)), int(Task.BINARY))

    learn(often * 80)
    known = model.scores([(1, often)], 50)[:, 0, 0]
    for begin in range(0, 1_000_000, 100_000):
        learn([f"{i:06}" for i in range(begin, begin + 100_000)])
        sizes.append(model.nbytes)
        assert len(model.models[0][0]) <= 2**18
    assert max(sizes) < 20e6
    assert max(sizes[3:]) < 1.2 * sizes[3]
    assert np.corrcoef(known, model.scores([(1, often)], 50)[:, 0, 0])[0, 1] > 0.99


# ---------------------------------------------------------------- names with typos


def plain_edits(a, b):
    """Edits by the table of distances between beginnings."""
    d = {(i, j): i + j for i in range(len(a) + 1) for j in range(len(b) + 1) if i * j == 0}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(a), len(b)]


def test_edits_are_those_of_the_table():
    rng = np.random.default_rng(0)
    for _ in range(1500):
        a, b = ("".join(rng.choice(list("abc "), rng.integers(24))) for _ in range(2))
        assert edits(a, b) == plain_edits(a, b)
    assert edits("ab", "BA") == 1


def learned_names(names, y):
    model = HashedModel(1, 1)
    model.score_and_learn([(1, names)], np.array(y, float)[:, None], np.ones(len(y)), int(Task.BINARY))
    return model


def name_part(model, name):
    """What the name that one stands for adds to the score of the words."""
    features, parts = model.contributions([(1, [name])])
    return parts[(features[:, 0] == 2) & (features[:, 4] == 0)].ravel().tolist()


def test_a_misspelt_name_stands_for_one_that_came_often():
    rows = ["barcelona", "amsterdam", "barcelona", "amsterdam", "rotterdam"] * 18 + ["amsterdan"]
    model = learned_names(rows, [name[0] == "b" for name in rows])
    assert len({name_part(model, name)[0] for name in rows[:5]}) == 3
    for typo in ("brcelona", "barcelonaa", "bracelona", "baxcelon", "BARCELONA"):
        assert name_part(model, typo) == name_part(model, "barcelona"), typo
    assert name_part(model, "amsterdan") == name_part(model, "amsterdam")
    assert name_part(model, "baxxelon") == []  # three edits
    assert name_part(model, "am") == []


def test_another_digit_makes_another_identifier():
    rows = ["room 12a", "room 13a"] * 60
    model = learned_names(rows, [name == "room 12a" for name in rows])
    assert len(model.slots[4]) == 0
    assert len(learned_names(["room a", "room b"] * 60, [0, 1] * 60).slots[4]) == 2


def test_known_names_are_bounded_and_saved():
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghij"))
    often = ["".join(rng.choice(letters, 8)) for _ in range(20)]
    rows = [each for _ in range(3000) for each in ("".join(rng.choice(letters, 9)), str(rng.choice(often)))]
    y = np.array([len(set(name)) % 2 for name in rows])
    model = learned_names(rows, y)
    name_codes, counts = model.slots[4:6]
    assert 1024 <= len(name_codes) <= 2048
    assert (counts > 100).sum() == 20
    again = hashed_from_state(Saved(hashed_state(model), "hashed models"))
    for each in (model, again):
        each.score_and_learn([(1, rows[:900])], y[:900, None].astype(float), np.ones(900), int(Task.BINARY))
    assert_array_equal(model.scores([(1, rows)], len(rows)), again.scores([(1, rows)], len(rows)))
    broken = hashed_state(model)
    broken["name_letters"][0, 0] = 24
    with pytest.raises(ValueError, match="names"):
        hashed_from_state(Saved(broken, "hashed models"))


@pytest.mark.parametrize("outputs", [3, 40])
def test_classes_are_added(outputs):
    cells, y = codes(100)
    model = HashedModel(2, 1)
    model.score_and_learn(cells, y, np.ones(100), int(Task.BINARY))
    two = model.scores(cells, 100)
    while model.outputs < outputs:
        model.add_class()
    several = model.scores(cells, 100)
    np.testing.assert_allclose(several[:, :, 1] - several[:, :, 0], two[:, :, 0], rtol=1e-5, atol=1e-6)
    assert_array_equal(several[:, :, 2:], np.zeros((100, 6, outputs - 2)))


def test_a_fork_shares_and_does_not_change_the_other():
    cells, y = codes(300)
    model = HashedModel(2, 1)
    model.score_and_learn(cells, y, np.ones(300), int(Task.BINARY))
    before = model.scores(cells, 300)
    fork = model.fork()
    fork.score_and_learn(cells, 1 - y, np.ones(300), int(Task.BINARY))
    assert_array_equal(model.scores(cells, 300), before)
    assert not np.array_equal(fork.scores(cells, 300), before)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("size", [5e-324, 1e-308, 1e-160, 1e145])
def test_targets_of_any_size_leave_a_model_that_can_be_saved(loss, size):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=40), "word": rng.choice(list("abc"), 40)})
    model = AutoMKLRegressor(budget=16, loss=loss, random_state=0)
    for begin in range(0, 40, 8):
        model.partial_fit(X[begin : begin + 8], rng.integers(1, 2000, 8) * size)
        data = modelfile.to_bytes(Model(model))
        assert modelfile.to_bytes(modelfile.from_bytes(data)) == data


@pytest.mark.parametrize("size", [3000, 7])
def test_many_whole_numbers_that_repeat_are_identifiers(size):
    rng = np.random.default_rng(4)
    user, late = rng.integers(600, size=3000), rng.random(600) < 0.5
    table = pd.DataFrame({"user": 10_007 * user, "kind": rng.choice(["a", "b"], size=3000)})
    y = late[user].astype(int)
    model = AutoMKLClassifier(budget=50, random_state=0)
    parts = [
        model.score_and_learn(table[begin : begin + size], y[begin : begin + size], classes=[0, 1])
        for begin in range(0, 3000, size)
    ]
    assert np.mean((np.concatenate(parts)[2000:] > 0) != y[2000:]) < 0.1


def test_pieces_of_a_text_are_named_as_the_core_lowers_them():
    places = _text([(1, ["İstanbul Bebek"])], ["city"], 0, -1, 10, 15)  # "İ".lower() is two letters
    assert places == "city: 'bebek'"

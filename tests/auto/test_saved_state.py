"""Files of this version and of the one before load; files that do not fit together are refused."""

import copy
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.models import layer, saved_layer
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto.insight.history import History
from bomkl.modelfile import _PREFIX

OLD = Path(__file__).parents[1] / "data" / "version_0_1_0"
EXPECTED = json.loads((OLD / "expected.json").read_text())
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
FLIPPED = np.where(np.arange(300) < 150, Y > 1, Y <= 1)

MODELS = {
    "empty": lambda: AutoMKLClassifier(20, random_state=0).partial_fit(X[:3], Y[:3]),
    "below budget": lambda: AutoMKLClassifier(60, random_state=0).partial_fit(X[:40], Y[:40]),
    "full": lambda: AutoMKLClassifier(20, random_state=0).partial_fit(X[:150], Y[:150]),
    "adaptive": lambda: AutoMKLClassifier(20, drift="adapt", random_state=0).partial_fit(X, FLIPPED),
    "numbers": lambda: AutoMKLRegressor(20, random_state=0).partial_fit(X[:150], X[:150, 0]),
}


def margins(model, rows):
    return (model.decision_function if hasattr(model, "classes_") else model.predict)(rows)


@pytest.mark.parametrize("name", EXPECTED["scores"])
def test_files_of_the_first_version_load(name, tmp_path):
    path = tmp_path / "old.bomkl"
    path.write_bytes(gzip.decompress((OLD / f"{name}.bomkl.gz").read_bytes()))
    model = modelfile.load(path)
    rows = np.array(EXPECTED["rows"])
    assert_allclose(margins(model, rows), EXPECTED["scores"][name], rtol=1e-5, atol=1e-6)
    seen = model.n_seen_
    model.partial_fit(rows, model.predict(rows))
    assert model.n_seen_ == seen + len(rows)
    modelfile.save(model, path)
    assert_array_equal(margins(modelfile.load(path), rows), margins(model, rows))


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_goes_on_with_the_same_bits(name, tmp_path):
    model = MODELS[name]()
    modelfile.save(model, tmp_path / "a")
    loaded = modelfile.load(tmp_path / "a")
    modelfile.save(loaded, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    y = X[:, 0] if name == "numbers" else FLIPPED if name == "adaptive" else Y
    assert_array_equal(loaded.score_and_learn(X, y), model.score_and_learn(X, y))


@pytest.mark.parametrize("drift", [None, "adapt"])
@pytest.mark.parametrize("rows", [5, 30, 90, 170])
def test_the_same_model_is_the_same_file_however_calls_were_split(rows, drift, tmp_path):
    whole = AutoMKLClassifier(60, drift=drift, random_state=0).partial_fit(X[:rows], Y[:rows])
    split = AutoMKLClassifier(60, drift=drift, random_state=0)
    for begin in range(0, rows, 7):
        split.partial_fit(X[begin : min(begin + 7, rows)], Y[begin : min(begin + 7, rows)])
    modelfile.save(whole, tmp_path / "whole")
    modelfile.save(split, tmp_path / "split")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "split").read_bytes()


def leaves(value, path=()):
    """Paths of all values inside a state."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, dict | list) and item:
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


LISTS = ("restarts", "recent")  # of any length


def spoilt(value, of_any_length):
    """Values that no model has in the place of this one."""
    if isinstance(value, np.ndarray):
        yield value.astype(np.int16)
        yield value.reshape(1, *value.shape)
        if value.size and value.dtype.kind == "f":
            yield np.full_like(value, np.nan)
        if value.size and not of_any_length:
            yield np.concatenate([value, value])
            yield value[..., :-1]
    elif isinstance(value, bool):
        yield 3
    elif isinstance(value, int):
        yield from (-1, 2**63, 0.5, "1")
    elif isinstance(value, float):
        yield from (np.nan, np.inf, "1")
    else:
        yield from (7, {"a": 1})


def with_value(state, path, value):
    """A copy of a state with another value at a place; all else is shared, since it is only read."""
    changed = copy.copy(state)
    changed[path[0]] = value if len(path) == 1 else with_value(state[path[0]], path[1:], value)
    return changed


@pytest.mark.parametrize("name", slow_but(("empty", "full", "numbers"), MODELS))
def test_no_value_can_be_replaced_by_nonsense(name):
    model = MODELS[name]()
    whole = model.__getstate__()
    state = whole["_learner"]
    count = 0
    for path in leaves(state):
        original = state
        for key in path:
            original = original[key]
        for wrong in spoilt(original, path[-1] in LISTS):
            changed = with_value(state, path, wrong)
            with pytest.raises(ValueError, match="saved"):
                type(model)().__setstate__({**whole, "_learner": changed})
            count += 1
    assert count > 20


KEPT = {
    "a negative weight": lambda kept: kept | {"weight": -kept["weight"]},
    "a class that is not there": lambda kept: kept | {"y": kept["y"] + 3},
    "a row too few": lambda kept: {name: values[:-1] for name, values in kept.items()},
    "a value too large": lambda kept: kept | {"X": kept["X"] * 1e200},
}


@pytest.mark.parametrize("wrong", KEPT)
@pytest.mark.parametrize("name", ["empty", "below budget"])
def test_kept_rows_are_checked(name, wrong):
    model = MODELS[name]()
    whole = model.__getstate__()
    changed = copy.deepcopy(whole["_learner"])
    within = changed["learner"]
    while "inner" in within:
        within = within["inner"]["learner"]
    within["kept"] = KEPT[wrong](within["kept"])
    with pytest.raises(ValueError, match="saved"):
        type(model)().__setstate__({**whole, "_learner": changed})


def without(state, name):
    """Copy of a state that has no value of a name anywhere."""
    if isinstance(state, dict):
        return {key: without(value, name) for key, value in state.items() if key != name}
    return [without(each, name) for each in state] if isinstance(state, list) else state


def test_models_saved_before_there_were_squares_go_on_without(monkeypatch):
    monkeypatch.setattr("bomkl.auto.features.features._WIDEST", 8)  # three columns have no room for their squares
    model = AutoMKLClassifier(60, random_state=0).partial_fit(X[:40], Y[:40])
    state = model.__getstate__()
    loaded = AutoMKLClassifier()
    loaded.__setstate__({**state, "_learner": without(state["_learner"], "squares")})
    monkeypatch.undo()
    assert "additive" not in loaded.kernels_
    assert_array_equal(loaded.score_and_learn(X, Y), model.score_and_learn(X, Y))


def test_models_saved_with_the_sum_of_all_squared_errors_go_on_from_it():
    model = AutoMKLRegressor(20, drift="adapt", random_state=0).partial_fit(X, X[:, 0])
    state = model.__getstate__()
    saved = saved_layer(state, "adaptive")
    rows = saved.pop("error_size")[1]
    saved["squared_error"] = np.array([4.0 * rows, rows])
    loaded = AutoMKLRegressor()
    loaded.__setstate__(state)
    assert layer(loaded, "adaptive").unit() == pytest.approx(2.0)
    assert saved_layer(loaded.__getstate__(), "adaptive")["error_size"][1] == rows
    assert np.isfinite(loaded.score_and_learn(X, X[:, 0])).all()


def test_models_saved_without_the_decays_of_labels_keep_those_they_had():
    model = AutoMKLClassifier(20, drift="adapt", random_state=0).partial_fit(X, FLIPPED)
    state = model.__getstate__()
    loaded = AutoMKLClassifier()
    loaded.__setstate__({**state, "_learner": without(state["_learner"], "decays")})
    assert_array_equal(layer(loaded, "adaptive").fast.decays, [0.5, 0.95])
    again = AutoMKLClassifier()
    again.__setstate__(loaded.__getstate__())
    assert_array_equal(again.score_and_learn(X, FLIPPED), loaded.score_and_learn(X, FLIPPED))


def test_an_open_block_larger_than_a_block_is_refused(tmp_path):
    data = gzip.decompress((OLD / "auto_three_classes.bomkl.gz").read_bytes())
    assert b'"open":8' in data
    magic, version, header, arrays = _PREFIX.unpack(data[: _PREFIX.size])
    body = data[_PREFIX.size :][:header].replace(b'"open":8', b'"open":2147483647')
    changed = _PREFIX.pack(magic, version, len(body), arrays) + body + data[_PREFIX.size + header : -32]
    path = tmp_path / "hostile.bomkl"
    path.write_bytes(changed + hashlib.sha256(changed).digest())
    with pytest.raises(modelfile.ModelFileError, match="less than a block"):
        modelfile.load(path)


@pytest.mark.parametrize(("column", "wrong"), [(0, 1e300), (3, 1e200), (4, -1e200)])
def test_predictions_still_to_be_added_up_are_checked(column, wrong):
    model = AutoMKLRegressor(16, random_state=0).partial_fit(X[:50], X[:50, 0])
    state = model._history.to_state()
    state["pending"][7, column] = wrong
    with pytest.raises(ValueError, match="'pending' of the saved history must be targets, predictions"):
        History.from_state(state, True, 1)

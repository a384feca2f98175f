"""Auto estimators on tables: the same bits for any split, part of the model, errors that name the cell."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.modelfile import load, save
from bomkl.tables.errors import TableError

pd = pytest.importorskip("pandas")


def rows(n: int = 150, seed: int = 0, classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    city = rng.choice(["Oslo", "Bonn", "Lima"], n)
    when = pd.Timestamp("2024-02-27") + pd.to_timedelta(np.arange(n), unit="h")
    score = size + (city == "Lima") + 0.3 * rng.normal(size=n)
    frame = pd.DataFrame({"size": size, "city": city, "when": when}).mask(rng.random((n, 3)) < 0.1)
    return frame, np.array(["no", "yes", "maybe"])[np.digitize(score, np.linspace(0, 1, classes - 1))]


def fitted(kind: type, drift: str | None = None, classes: int = 3, n: int = 150) -> tuple[Any, Any, Any]:
    X, y = rows(n, classes=classes)
    targets = y if kind is AutoMKLClassifier else (y == "yes") + 0.5 * (y == "maybe")
    return kind(budget=40, drift=drift, random_state=0), X, targets


BOTH = pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])


@BOTH
@pytest.mark.parametrize("drift", [None, "adapt"])
def test_any_split_of_a_table_gives_the_same_bits(kind, drift):
    model, X, y = fitted(kind, drift)
    parts = clone(model)
    cuts = [0, 1, 2, 30, 31, 90, 150]
    labels = {"classes": ["maybe", "no", "yes"]} if kind is AutoMKLClassifier else {}
    whole = clone(model)
    expected = whole.score_and_learn(X, y, **labels)
    scores = []
    for begin, end in itertools.pairwise(cuts):
        before = None
        if begin:
            before = parts.decision_function(X[begin:end]) if labels else parts.predict(X[begin:end])
        scores.append(parts.score_and_learn(X[begin:end], y[begin:end], **labels))
        if before is not None:
            np.testing.assert_allclose(before[0], scores[-1][0], rtol=1e-5)
        parts = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(np.concatenate(scores), expected)
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))


@BOTH
def test_a_frame_of_numbers_is_the_same_bits_as_its_matrix(kind):
    X = np.random.default_rng(0).normal(size=(120, 4))
    y = (X[:, 0] > 0).astype(float)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.arange(120))
    matrix = frame.to_numpy(dtype=float)
    one, two = (kind(budget=40, random_state=0) for _ in range(2))
    np.testing.assert_array_equal(one.score_and_learn(frame, y), two.score_and_learn(matrix, y))
    np.testing.assert_array_equal(one.predict(frame), two.predict(matrix))
    assert one.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(one.support_vectors_, two.support_vectors_)
    holes = frame.assign(a=np.nan)
    assert np.isfinite(one.partial_fit(holes, y).predict(holes)).all()
    with pytest.raises(ValueError, match="Got NaN in row 0, column 0"):
        two.predict(holes.to_numpy(dtype=float))


@BOTH
def test_the_encoder_is_part_of_the_model(kind, tmp_path):
    model, X, y = fitted(kind)
    model.fit(X, y)
    save(model, tmp_path / "m.bomkl")
    for again in (load(tmp_path / "m.bomkl"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        again.partial_fit(X, y)
        assert again.encoder_.n_rows_ == 300
    save(load(tmp_path / "m.bomkl"), tmp_path / "again.bomkl")
    assert (tmp_path / "m.bomkl").read_bytes() == (tmp_path / "again.bomkl").read_bytes()
    assert clone(model).encoder_ is None
    model.fit(X[["size"]].fillna(0.0), y)
    assert model.n_features_in_ == 1


@BOTH
def test_rows_as_dicts_and_tables_of_other_makes(kind):
    model, X, y = fitted(kind)
    expected = model.fit(X, y).predict(X[:20])
    records = X.astype(object).where(X.notna(), None).to_dict("records")
    np.testing.assert_array_equal(model.predict(records[:20]), expected)
    np.testing.assert_array_equal(model.predict(records[0]), expected[:1])
    pa = pytest.importorskip("pyarrow")
    np.testing.assert_array_equal(model.predict(pa.Table.from_pandas(X[:20])), expected)


@BOTH
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda X: X.assign(size=["big"] + [1.0] * (len(X) - 1)),
            "'size' must hold finite numbers. Got 'big' in row 0",
        ),
        (lambda X: X.assign(when="soon"), "'when' must hold dates .* Got 'soon' in row 0"),
        (lambda X: X.drop(columns="city"), "city"),
        (lambda X: X.assign(town="Oslo"), "town"),
        (lambda X: X[["city", "size", "when"]], "order"),
        (lambda X: [{"size": 1.0, "town": "Oslo"}] * len(X), "'town' was not there before"),
        (lambda X: X.to_numpy(), "learned from a table and needs one with the columns"),
    ],
)
def test_bad_tables_are_named_and_change_nothing(kind, change, message):
    model, X, y = fitted(kind)
    model.fit(X, y)
    before = pickle.dumps(model)
    for call in (lambda bad: model.partial_fit(bad, y), model.predict):
        with pytest.raises(ValueError, match=message):
            call(change(X))
    assert pickle.dumps(model) == before


@BOTH
def test_a_first_table_that_is_refused_leaves_the_model_new(kind):
    model, X, y = fitted(kind)
    with pytest.raises(TableError, match="'when' must hold"):
        model.partial_fit(X.assign(when=[["x"]] * len(X)), y)
    assert model.encoder_ is None
    assert not hasattr(model, "n_features_in_")


def test_rows_of_weight_zero_do_not_touch_the_encoder():
    model, X, y = fitted(AutoMKLClassifier, classes=2)
    weight = np.ones(len(y))
    weight[50:60] = 0
    one = clone(model).fit(X, y, sample_weight=weight)
    two = clone(model).fit(X[weight > 0], y[weight > 0])
    assert repr(one.encoder_.state()) == repr(two.encoder_.state())
    three = clone(model)
    three.score_and_learn(X, y, sample_weight=weight)
    assert repr(three.encoder_.state()) == repr(two.encoder_.state())


def test_importances_and_explanations_have_the_names_of_columns():
    model, X, y = fitted(AutoMKLClassifier, classes=2, n=400)
    X["noise"] = np.random.default_rng(3).normal(size=len(X))
    model.set_params(budget=200).fit(X, y)
    importances = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    assert np.isclose(sum(importances.values()), 1)
    assert max(importances, key=importances.get) == "size"
    explanation = model.explain(X[:1])
    assert set(explanation.columns) == set(X.columns)
    assert "size" in str(explanation)
    matrix = AutoMKLClassifier(budget=50, random_state=0).fit(X[["noise"]].to_numpy(), y)
    assert matrix.feature_importances_.tolist() == [1.0]
    assert set(matrix.explain(X[["noise"]].to_numpy()[:1]).columns) == {0}


def test_onnx_refuses_a_model_of_tables_with_texts():
    pytest.importorskip("onnx")
    from bomkl.onnx import to_onnx

    model, X, y = fitted(AutoMKLClassifier)
    with pytest.raises(TypeError, match="learned from a table"):
        to_onnx(model.fit(X, y))
    to_onnx(model.fit(X[["size"]].fillna(0.0), y))


def test_declared_types():
    X = pd.DataFrame({"zip": [10115, 20095] * 30})
    y = ["a", "b"] * 30
    model = AutoMKLClassifier(budget=20, types={"zip": "category"}, random_state=0).fit(X, y)
    assert model.encoder_.kinds_ == {"zip": "category"}
    with pytest.raises(TableError, match="'zap' has a type"):
        model.set_params(types={"zap": "category"}).fit(X, y)

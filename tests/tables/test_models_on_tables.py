"""Estimators on tables: the same bits for any split, part of the model, errors that name the cell."""

from __future__ import annotations

import itertools
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, merge, paper
from bomkl.learners import FOGD, RBP
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
    targets = y if is_classifier(kind()) else (y == "yes") + 0.5 * (y == "maybe")
    return kind(budget=40, random_state=0, **({"drift": drift} if drift else {})), X, targets


KINDS = [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor]
ALL = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(
    ("kind", "drift"), [*((kind, None) for kind in KINDS), *((kind, "adapt") for kind in KINDS[:2])]
)
def test_any_split_of_a_table_gives_the_same_bits(kind, drift):
    model, X, y = fitted(kind, drift)
    parts = clone(model)
    cuts = [0, 1, 2, 30, 31, 90, 150]
    labels = {"classes": ["maybe", "no", "yes"]} if is_classifier(model) else {}
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


@ALL
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
    if "missing" in two.get_params():
        assert np.isfinite(two.predict(holes.to_numpy(dtype=float))).all()
        two.set_params(missing="refuse")
    with pytest.raises(ValueError, match="Got NaN in row 0, column 0"):
        two.predict(holes.to_numpy(dtype=float))


@ALL
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


@ALL
def test_rows_as_dicts_and_tables_of_other_makes(kind):
    model, X, y = fitted(kind)
    expected = model.fit(X, y).predict(X[:20])
    records = X.astype(object).where(X.notna(), None).to_dict("records")
    np.testing.assert_array_equal(model.predict(records[:20]), expected)
    np.testing.assert_array_equal(model.predict(records[0]), expected[:1])
    pa = pytest.importorskip("pyarrow")
    np.testing.assert_array_equal(model.predict(pa.Table.from_pandas(X[:20])), expected)
    labels, weights = pa.array(y), pa.array(np.ones(len(y)))  # which have no dtype
    np.testing.assert_array_equal(model.fit(X, labels, sample_weight=weights).predict(X[:20]), expected)


@ALL
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.assign(size=[1.0] * (len(X) - 1) + [np.inf]), "'size' must hold finite numbers. Got inf in row"),
        (lambda X: X.assign(city=[["Oslo"]] * len(X)), "'city' must hold numbers, strings, .* Got .* in row 0"),
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


@ALL
def test_frames_with_some_sparse_columns_are_tables(kind):
    model, X, y = fitted(kind)
    expected = model.fit(X.assign(flag=(np.arange(len(X)) % 3 == 0).astype(float)), y).predict(X.assign(flag=1.0))
    dummies = pd.arrays.SparseArray(np.arange(len(X)) % 3 == 0, dtype=pd.SparseDtype(float, 0.0))
    found = model.fit(X.assign(flag=dummies), y).predict(X.assign(flag=1.0))
    np.testing.assert_array_equal(found, expected)


@ALL
def test_sparse_columns_that_leave_out_gaps_or_have_no_common_type_are_a_table(kind):
    model, X, y = fitted(kind)
    plain = pd.DataFrame({"size": X["size"].fillna(0.0), "flag": np.arange(len(X)) % 3 == 0})
    expected = model.fit(plain, y).predict(plain)
    sparse = plain.astype({"size": pd.SparseDtype(float, np.nan), "flag": pd.SparseDtype(bool, False)})
    np.testing.assert_array_equal(model.fit(sparse, y).predict(sparse), expected)


@ALL
def test_columns_of_one_name_are_refused(kind):
    model, X, y = fitted(kind)
    with pytest.raises(TableError, match="The column 'size' is there twice"):
        model.fit(X[["size", "size"]], y)


def test_a_table_that_is_not_in_memory_is_refused_with_advice():
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"Got LazyFrame; pass what its collect\(\) gives"):
        AutoMKLClassifier().partial_fit(pl.DataFrame({"a": [1, 2]}).lazy(), [0, 1])


@ALL
def test_one_row_as_a_list_of_dicts(kind):
    table = [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 0.5}]
    model = kind(random_state=0).partial_fit(table, [0, 1])
    assert model.predict_one(table[:1]) == model.predict_one(table[0])
    model.learn_one(table[:1], 1)
    with pytest.raises(ValueError, match=r"take one row at a time. Got 2 rows"):
        model.learn_one(table, 1)
    assert model.n_seen_ == 3


@ALL
def test_how_an_array_is_stored_does_not_change_what_a_model_of_a_frame_learns(kind):
    numbers = np.random.default_rng(0).normal(size=(40, 3)).round()
    frame, y = pd.DataFrame(numbers, columns=["a", "b", "c"]), np.arange(40) % 2
    models = [kind(random_state=0).partial_fit(frame, y) for _ in range(3)]
    for row, target in zip(10 + numbers[:5], y, strict=False):
        models[0].learn_one(row, target)
        models[1].learn_one(np.repeat(row, 2)[::2], target)
        models[2].learn_one(row.astype(np.float32), target)
    for model in models[1:]:
        assert model.encoder_.n_rows_ == models[0].encoder_.n_rows_
        np.testing.assert_array_equal(model.predict_one({"a": 1.0}), models[0].predict_one({"a": 1.0}))
        np.testing.assert_array_equal(model.predict(frame), models[0].predict(frame))


@ALL
@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize(
    "table", [{"a": 1.0, "b": 2.0}, [{"a": 1.0, "b": 2.0}], pd.DataFrame({"a": [pd.Timestamp("2024-01-01")], "b": [1]})]
)
def test_a_table_for_a_model_of_matrices_is_named(kind, table):
    numbers = np.arange(8.0).reshape(4, 2)
    model = kind(random_state=0).fit(numbers, np.arange(4) % 2)
    before = model.predict(numbers)
    for call in (model.predict, lambda X: model.partial_fit(X, [0])):
        with pytest.raises(ValueError, match="learned from a matrix and needs rows of 2 numbers"):
            call(table)
    np.testing.assert_array_equal(model.predict(numbers), before)


@ALL
def test_a_first_table_that_is_refused_leaves_the_model_new(kind):
    model, X, y = fitted(kind)
    with pytest.raises(TableError, match="'when' must hold"):
        model.partial_fit(X.assign(when=[["x"]] * len(X)), y)
    assert model.encoder_ is None
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("kind", [AutoMKLClassifier, BudgetMKLClassifier])
def test_rows_of_weight_zero_do_not_touch_the_encoder(kind):
    model, X, y = fitted(kind, classes=2)
    weight = np.ones(len(y))
    weight[50:60] = 0
    one = clone(model).fit(X, y, sample_weight=weight, shuffle=False)
    two = clone(model).fit(X[weight > 0], y[weight > 0], shuffle=False)
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
    assert repr(explanation) == str(explanation)
    assert len(repr(explanation).splitlines()) < 20  # it printed all of its arrays
    html = explanation._repr_html_()
    assert html.startswith("<table>")
    assert '<th scope="row">size</th>' in html
    matrix = AutoMKLClassifier(budget=50, random_state=0).fit(X[["noise"]].to_numpy(), y)
    assert matrix.feature_importances_.tolist() in ([0.0], [1.0])
    assert set(matrix.explain(X[["noise"]].to_numpy()[:1]).columns) == {0}


@ALL
def test_onnx_refuses_a_model_of_tables_with_texts(kind):
    pytest.importorskip("onnx")
    from bomkl.onnx import to_onnx

    model, X, y = fitted(kind)
    with pytest.raises(TypeError, match="learned from a table"):
        to_onnx(model.fit(X, y))
    to_onnx(model.fit(X[["size"]].fillna(0.0), y))


@pytest.mark.parametrize("kind", [AutoMKLClassifier, BudgetMKLClassifier])
def test_declared_types(kind):
    X = pd.DataFrame({"zip": [10115, 20095] * 30})
    y = ["a", "b"] * 30
    model = kind(budget=20, types={"zip": "category"}, random_state=0).fit(X, y)
    assert model.encoder_.kinds_ == {"zip": "category"}
    with pytest.raises(TableError, match="'zap' has a type"):
        model.set_params(types={"zap": "category"}).fit(X, y)
    model.set_params(types={"zip": "category"}).fit(X, y)
    with pytest.raises(ValueError, match=r"'types' parameter .* was changed .* after learning had begun"):
        model.set_params(types=None).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"'types' parameter .* must be None for a matrix: it names columns of tables"):
        kind(budget=20, types={0: "category"}).fit(X.to_numpy(), y)


@ALL
def test_one_row_at_a_time_is_the_same_as_a_table(kind, tmp_path):
    model, X, y = fitted(kind, classes=2, n=60)
    model.partial_fit(X[:40], y[:40])
    other = pickle.loads(pickle.dumps(model))
    expected = other.score_and_learn(X[40:], y[40:])
    records = X.astype(object).where(X.notna(), None).to_dict("records")[40:]
    for row, record in enumerate(records):
        one = X.iloc[40 + row : 41 + row] if row == 3 else X.iloc[40 + row] if row == 4 else record
        assert model.predict_one(one) == model.predict([record])[0]
        assert model.learn_one(one, y[40 + row]) == expected[row]
    save(model, tmp_path / "one")
    save(other, tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with pytest.raises(ValueError, match="one row at a time"):
        model.predict_one(X[:2])


@pytest.mark.parametrize(
    "name", ["Perceptron(*)", "OMKC(DD)", "RBP", "Forgetron", "BOGD", "BPAS", "OMKC(FOGD)", "OMKC(NOGD)"]
)
def test_every_algorithm_of_the_paper_takes_tables(name, tmp_path):
    X, y = rows(120)
    budget = 10 if name.isalpha() or "OGD" in name else None
    model = paper.algorithm(name, budget=budget).set_params(random_state=0).fit(X, y)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["size", "city", "when"]
    save(model, tmp_path / "m")
    save(load(tmp_path / "m"), tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
    again = load(tmp_path / "again").partial_fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), model.partial_fit(X, y).decision_function(X))


def test_a_frame_in_single_precision_is_the_same_bits_as_its_matrix():
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(X, columns=list("abc"))
    one, two = (BudgetMKLClassifier(random_state=0) for _ in range(2))
    np.testing.assert_array_equal(one.score_and_learn(frame, y), two.score_and_learn(X, y))
    assert one.support_vectors_.dtype == np.float32
    np.testing.assert_array_equal(one.learn_one(X[0], 1), two.learn_one(X[0], 1))
    before = pickle.dumps(one)
    with pytest.raises(ValueError, match="'b' must hold numbers within float32"):
        one.partial_fit(frame.astype(float).assign(b=[0.0, 1e40] + [0.0] * 78), y)
    assert pickle.dumps(one) == before


def test_budget_models_of_tables_are_merged_if_their_columns_mean_the_same():
    head, X, y = fitted(BudgetMKLClassifier, classes=2)
    head.partial_fit(X[:90], y[:90])
    one, two = (pickle.loads(pickle.dumps(head)) for _ in range(2))
    one.partial_fit(X[90:110], y[90:110])
    two.partial_fit(X[110:], y[110:])
    merged = merge([one, two])
    assert merged.encoder_.n_rows_ == two.encoder_.n_rows_ == 130
    assert np.mean(merged.predict(X) == y) > 0.6
    np.testing.assert_array_equal(merged.decision_function(X), merge([one, two]).decision_function(X))
    swapped = X.assign(city=X["city"].map({"Oslo": "Lima", "Lima": "Oslo", "Bonn": "Rome"}))
    with pytest.raises(ValueError, match="Model 1 encodes its table in other columns than model 0: 'city="):
        merge([one, clone(head).fit(swapped, y)])
    plain = X[["size"]].fillna(0.0)
    numbers = [clone(head).fit(plain[part], y[part]) for part in (slice(75), slice(75, None))]
    assert merge(numbers).n_seen_ == 150
    matrix = clone(head).fit(plain.to_numpy(), y)
    with pytest.raises(ValueError, match="Model 1 has learned from a matrix, but model 0 from a table"):
        merge([numbers[0], matrix])


def test_a_budget_model_is_saved_as_a_whole_call_left_it():
    model, X, y = fitted(BudgetMKLClassifier, classes=2, n=400)
    model.set_params(learner=RBP())
    model.partial_fit(X[:20], y[:20])
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            copy = pickle.loads(pickle.dumps(model))
            seen.add((copy.n_seen_, copy.encoder_.n_rows_))
            assert np.isfinite(model.decision_function(X[:5])).all()

    reader = threading.Thread(target=read)
    reader.start()
    for begin in range(20, 400, 20):
        model.partial_fit(X[begin : begin + 20], y[begin : begin + 20])
    stop.set()
    reader.join()
    assert seen
    assert all(rows == encoded for rows, encoded in seen)


def test_a_kernel_cannot_save_the_model_of_a_table_that_is_learning():
    def nosy(X, Z):
        if hasattr(model, "_engine"):
            model.__getstate__()
        return X @ Z.T

    X, y = rows(30)
    model = BudgetMKLClassifier(kernels=[nosy], random_state=0)
    model.partial_fit(X, y)  # there is nothing of it yet
    with pytest.raises(RuntimeError, match="A kernel cannot use the model that is calling it"):
        model.partial_fit(X, y)
    assert model.n_seen_ == 30


def test_fourier_features_are_of_the_encoded_columns():
    X, y = rows(60)
    model = paper.algorithm("OMKC(FOGD)", budget=5).set_params(random_state=0, learner=FOGD(n_frequencies=5)).fit(X, y)
    assert model.nbytes_ > 0
    assert model.predict(X[:3]).shape == (3,)


@ALL
def test_objects_and_lists_in_rows_become_columns(kind):
    nested: list[Any] = [{"place": {"city": "xy"[i % 2], "floor": i % 3}, "sizes": [i % 5]} for i in range(40)]
    plain: list[Any] = [
        {"place.city": row["place"]["city"], "place.floor": row["place"]["floor"], "sizes.0": row["sizes"][0]}
        for row in nested
    ]
    y = [i * i % 3 % 2 for i in range(40)]
    models = [kind(budget=20, random_state=0) for _ in range(2)]
    for model, X in zip(models, (nested, plain), strict=True):
        model.partial_fit(X[:20], y[:20])
        for x, target in zip(X[20:], y[20:], strict=True):
            model.learn_one(x, target)
        np.testing.assert_array_equal(model.predict(nested), model.predict(plain))
    np.testing.assert_array_equal(models[0].predict(plain), models[1].predict(plain))

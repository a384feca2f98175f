"""Streams that break formulas, and input that is refused and changes nothing."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
LATE = np.r_[np.zeros(1000, dtype=int), np.tile([0, 1, 1], 34)[:100]]
SPANS = 10.0 ** np.array([-12, -6, 6, 12])
OUTLIERS = np.where(np.arange(400)[:, None] % 100 == 99, 1e9, X)
STREAMS = {
    "constant columns": (np.hstack([X, np.ones((400, 2)), np.full((400, 1), -1e9)]), Y, 50),
    "constant rows": (np.ones((400, 3)), Y, 50),
    "zero rows": (np.zeros((400, 3)), Y, 50),
    "two different rows": (np.repeat(X[:2], 200, axis=0), Y, 50),
    "one class for a thousand rows": (RNG.normal(size=(1100, 3)), LATE, 50),
    "one class": (X, np.zeros(400, dtype=int), 50),
    "columns from 1e-12 to 1e12": (X * SPANS, Y, 50),
    "columns from 1e-300 to 1e300": (X * 10.0 ** np.array([-300, -100, 100, 300]), Y, 50),
    "outliers": (OUTLIERS, Y, 50),
    "budget beyond the stream": (X[:200], Y[:200], 100_000),
    "budget 1": (X, Y, 1),
    "budget 2": (X, Y, 2),
    "budget 65": (X, Y, 65),
    "one column": (X[:, :1], Y, 50),
    "500 columns": (RNG.normal(size=(300, 500)), Y[:300], 50),
    "one row": (X[:1], Y[:1], 50),
}


@pytest.mark.filterwarnings("ignore:budget=. is very small")
@pytest.mark.parametrize("drift", slow_but([None], [None, "adapt"]))
@pytest.mark.parametrize("name", STREAMS)
def test_scores_are_always_finite(name, drift):
    rows, y, budget = STREAMS[name]
    classifier = AutoMKLClassifier(budget, drift, random_state=0)
    assert np.isfinite(classifier.score_and_learn(rows, y)).all()
    assert np.isfinite(classifier.predict_proba(rows)).all()
    regressor = AutoMKLRegressor(budget, drift=drift, random_state=0)
    assert np.isfinite(regressor.score_and_learn(rows, y.astype(float))).all()
    for model in (classifier, regressor):
        assert model.kernel_weights_.sum() == pytest.approx(1)
        assert np.isfinite(model.component_errors_).all()
        assert np.isfinite(model.explain(rows[0]).rows).all()
        assert len(model.support_vectors_) <= budget


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_extreme_targets_and_weights(loss):
    for y in (np.where(Y == 1, 1e140, -1e140), np.where(np.arange(400) == 200, 1e12, Y), 1e-300 * Y):
        assert np.isfinite(AutoMKLRegressor(50, loss, random_state=0).score_and_learn(X, y)).all()
    weight = RNG.choice([0, 1e-12, 1, 1e300], 400)
    for model in (AutoMKLClassifier(50, random_state=0), AutoMKLRegressor(50, loss, random_state=0)):
        assert np.isfinite(model.score_and_learn(X, Y, sample_weight=weight)).all()


def test_targets_that_are_too_large_are_refused():
    model = AutoMKLRegressor(50, random_state=0).fit(X, Y)
    before = model.predict(X)
    for call in (lambda: model.partial_fit(X[:2], [1.0, -1e151]), lambda: model.learn_one(X[0], -1e151)):
        with pytest.raises(ValueError, match=r"y must lie within 1e\+150. Row [01] has -1e\+151 instead"):
            call()
    assert (model.predict(X) == before).all()


def with_value(value):
    rows = X[:3].copy()
    rows[1, 2] = value
    return rows


REFUSED = [
    (
        {"X": with_value(np.nan)},
        r"finite numbers. Got NaN in row \d+, column \d+ instead. Tables may have missing values",
    ),
    ({"X": with_value(np.inf)}, r"Got inf in row \d+, column \d+ instead.$"),
    ({"X": X[:3, :2]}, "has 2 features, but .* is expecting 4"),
    ({"X": X[:2]}, "rows|inconsistent"),
    ({"y": [0, 1, np.nan]}, "NaN"),
    ({"sample_weight": [1, -1, 1]}, r"'sample_weight' parameter of .* must be not negative. Got -1.0"),
    ({"sample_weight": [1, np.nan, 1]}, "NaN"),
    ({"sample_weight": [1, 1]}, "sample_weight"),
    ({"sample_weight": [1, "a", 1]}, r"'sample_weight' parameter of .* must be numbers. Got 'a'"),
]


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_refused_input_changes_nothing(kind, wrong, message):
    model = kind(50, missing="refuse", random_state=0).partial_fit(X[:100], Y[:100])
    before = pickle.dumps(model)
    arguments = {"X": X[:3], "y": [0, 1, 0], "sample_weight": [1, 1, 1]} | wrong
    with pytest.raises(ValueError, match=message):
        model.partial_fit(**arguments)
    if "features" not in message:
        with pytest.raises(ValueError, match=message):
            model.fit(**arguments)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 0}, r"The 'budget' parameter of AutoMKL.* must be an int >= 1. Got 0 instead."),
        ({"budget": 1.5}, "Got 1.5 instead"),
        ({"drift": "yes"}, r"'drift' parameter of .* must be 'auto', None or 'adapt'. Got 'yes' instead."),
        ({"budget": 2**31}, "an int of at most 2147483647"),
        ({"n_jobs": 0}, "None or an int other than 0"),
    ],
)
def test_refused_parameters(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings).fit(X, Y)


def test_refused_loss_and_class_weight():
    with pytest.raises(ValueError, match=r"'loss' parameter of AutoMKLRegressor must be one of \['squared', 'huber'\]"):
        AutoMKLRegressor(loss="absolute").fit(X, Y)
    for class_weight in ("even", np.ones(2), {0: -1.0}, {0: np.inf}, {0: np.nan}, {0: None}, {9: -1.0}, {0: 10**400}):
        with pytest.raises(ValueError, match=r"'class_weight' parameter of AutoMKLClassifier must be"):
            AutoMKLClassifier(class_weight=class_weight).fit(X, Y)


def test_weights_of_classes_that_do_not_come():
    slip = AutoMKLClassifier(class_weight={9: 2.0}, random_state=0)
    with pytest.raises(ValueError, match=r"The classes, .* are not in class_weight"):  # scikit-learn's rule and words
        slip.fit(X, Y)
    assert slip.partial_fit(X, Y).n_seen_ == len(Y)  # it may still come
    with pytest.warns(UserWarning, match="only one class"):
        AutoMKLClassifier(class_weight="balanced").fit(X, Y, sample_weight=(Y[0] == Y).astype(float))


@pytest.mark.parametrize(("y", "key"), [(Y, "1"), (Y.astype(str), 1)])
def test_class_weights_of_labels_of_another_type_are_refused(y, key):
    with pytest.raises(ValueError, match=r"'class_weight' parameter .* a dict whose keys are labels such as"):
        AutoMKLClassifier(50, class_weight={key: 5.0}).fit(X, y)


def test_no_row_of_positive_weight():
    with pytest.raises(ValueError, match=r"[Ww]eights .*zero"):
        AutoMKLClassifier().fit(X, Y, sample_weight=np.zeros(400))
    for model in (AutoMKLClassifier(50, random_state=0), AutoMKLRegressor(50, random_state=0)):
        model.partial_fit(X, Y).score_and_learn(X[:3], Y[:3], sample_weight=[0, 0, 0])
        assert model.n_seen_ == 400


def test_constant_columns_change_scores_by_rounding_only():
    wide = np.hstack([X, np.zeros((400, 9)), np.full((400, 1), 7.0)])
    scores = AutoMKLClassifier(50, random_state=0).score_and_learn(X, Y)
    np.testing.assert_allclose(AutoMKLClassifier(50, random_state=0).score_and_learn(wide, Y), scores, atol=1e-3)


BROKEN_SPARSE = [
    ("csr", "indices", 5, -1, "column numbers from 0 to 3. Got -1"),
    ("csr", "indices", 5, 4, "column numbers from 0 to 3. Got 4"),
    ("csr", "indices", 5, 2_000_000, "column numbers from 0 to 3. Got 2000000"),
    ("csr", "indptr", 1, 10**6, "ascending row pointers from 0 to at most 12. Got 1000000"),
    ("csr", "indptr", 3, 10**6, "ascending row pointers from 0 to at most 12. Got 1000000"),
    ("csr", "indptr", 2, -1, "ascending row pointers from 0 to at most 12. Got -1"),
    ("csr", "indptr", 2, 0, "ascending row pointers from 0 to at most 12. Got 0"),
    ("csr", "indptr", 0, 1, "ascending row pointers from 0 to at most 12. Got 1"),
    ("csc", "indptr", 2, 10**6, "ascending column pointers from 0 to at most 12. Got 1000000"),
    ("csc", "indices", 2, 3, "row numbers from 0 to 2. Got 3"),
    ("bsr", "indices", 0, 10**6, "column numbers from 0 to 3. Got 1000000"),
    ("coo", "row", 0, 10**6, "row numbers from 0 to 2. Got 1000000"),
    ("coo", "col", 0, -1, "column numbers from 0 to 3. Got -1"),
]


@pytest.mark.parametrize("model", [AutoMKLClassifier(50), AutoMKLRegressor(50), BudgetMKLRegressor(budget=50)], ids=str)
@pytest.mark.parametrize(("format", "part", "place", "value", "message"), BROKEN_SPARSE)
def test_sparse_rows_whose_parts_do_not_fit_are_refused(model, format, part, place, value, message):
    broken = csr_matrix(X[:3]).asformat(format)
    getattr(broken, part)[place] = value
    model = clone(model).partial_fit(X[:100], Y[:100])
    before = pickle.dumps(model)
    for call in (lambda: model.predict(broken), lambda: model.partial_fit(broken, Y[:3])):
        with pytest.raises(ValueError, match=message):
            call()
    assert pickle.dumps(model) == before


HIDDEN = np.ma.masked_array(X[:3], mask=[[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor])
def test_what_a_mask_hides_is_not_learned(kind):
    model = kind(budget=50, random_state=0).partial_fit(X[:100], Y[:100])
    before = pickle.dumps(model)
    weight = np.ma.masked_array(np.ones(3), mask=[0, 1, 0])
    calls = [
        lambda: model.predict(HIDDEN),
        lambda: model.partial_fit(HIDDEN, Y[:3]),
        lambda: model.predict_one(HIDDEN[1]),
        lambda: model.learn_one(HIDDEN[1], 1),
        lambda: model.partial_fit(X[:3], Y[:3], sample_weight=weight),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"must not be masked. Leave the rows without a value out."):
            call()
    assert pickle.dumps(model) == before
    nothing_hidden = np.ma.masked_array(X[:3])
    assert (model.predict(nothing_hidden) == model.predict(X[:3])).all()
    assert model.predict_one(nothing_hidden[0]) == model.predict_one(X[0])


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor])
def test_complex_weights_are_refused(kind):
    with pytest.raises(ValueError, match=r"sample_weight|Complex"):
        kind(budget=50).fit(X, Y, sample_weight=np.full(400, 1 + 2j))


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor])
def test_types_of_columns_need_a_table(kind):
    with pytest.raises(ValueError, match=r"'types' parameter of .* must be None for a matrix"):
        kind(budget=50, types={2: "category"}).fit(X, Y)
    model = kind(budget=50, random_state=0).fit(X, Y)
    model.set_params(types={2: "category"})
    before = pickle.dumps(model)
    for call in (lambda: model.partial_fit(X[:3], Y[:3]), lambda: model.learn_one(X[0], Y[0])):
        with pytest.raises(ValueError, match=r"The 'types' parameter of .* was changed from None to \{2: 'category'\}"):
            call()
    assert pickle.dumps(model) == before
    assert pickle.dumps(pickle.loads(before).set_params(types=None).partial_fit(X[:3], Y[:3])) != before


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
@pytest.mark.parametrize("name", ["new_columns", "missing"])
def test_settings_that_may_change_are_checked_when_they_do(kind, name):
    model = kind(budget=50, random_state=0).partial_fit(X, Y).set_params(**{name: "rubbish"})
    before = pickle.dumps(model)
    for call in (lambda: model.partial_fit(X[:3], Y[:3]), lambda: model.learn_one(X[0], Y[0])):
        with pytest.raises(ValueError, match=rf"The '{name}' parameter of .* must be one of .* Got 'rubbish' instead"):
            call()
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
def test_types_that_are_none_are_refused_for_matrices_as_well(kind):
    with pytest.raises(ValueError, match=r"The type of the column 'a' must be one of"):
        kind(types={"a": "float"}).fit(X, Y)


def test_one_sparse_row_of_any_format():
    model = AutoMKLClassifier(50, random_state=0).fit(X, Y)
    for form in ("csr", "dok", "lil", "coo"):
        assert model.predict_one(csr_matrix(X[:1]).asformat(form)) == model.predict_one(X[0])


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("update", ["rows", "rounds"])
def test_targets_of_any_size_are_learned_alike(loss, update):
    y = X[:, 0] * X[:, 1]
    model = AutoMKLRegressor(50, loss, update=update, random_state=0)
    expected = model.score_and_learn(X, y)
    for scale in (2.0**-660, 2.0**-1000):
        small = clone(model)
        np.testing.assert_allclose(small.score_and_learn(X, scale * y) / scale, expected, rtol=1e-9, atol=1e-9)
        if update == "rows":
            widths = [np.diff(each.predict_interval(X[:50]), axis=1) for each in (small, model)]
            np.testing.assert_allclose(widths[0] / scale, widths[1], rtol=1e-6)


def test_a_target_of_none_is_refused():
    model = AutoMKLRegressor(50, random_state=0).partial_fit(X[:100], Y[:100])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="Got None in row 1"):
        model.partial_fit(X[:3], np.array([0.5, None, 1.0], dtype=object))
    assert pickle.dumps(model) == before


def test_labels_of_another_type_are_refused():
    model = AutoMKLClassifier(50, random_state=0).partial_fit(X[:100], Y[:100])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"labels of one type. Got 'a' after labels such as"):
        model.partial_fit(X[:1], ["a"])
    assert pickle.dumps(model) == before


def test_what_hardly_makes_sense_is_warned_of():
    with pytest.warns(UserWarning, match="only one class, 1"):
        AutoMKLClassifier(50).fit(X, np.ones(400, dtype=int))
    for kind in (AutoMKLClassifier, AutoMKLRegressor):
        with pytest.warns(UserWarning, match="budget=3 is very small"):
            kind(3).fit(X, Y)


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
@pytest.mark.parametrize("weight", [[0, 0], (0, 0), np.zeros(2), pd.Series([0, 0])], ids=type)
def test_rows_of_no_weight_in_midstream_change_nothing(kind, weight):
    model = kind(20, random_state=0).partial_fit(X[:60], Y[:60])
    before = pickle.dumps(model)
    assert pickle.dumps(model.partial_fit(X[:2], Y[:2], sample_weight=weight)) == before
    assert len(model.score_and_learn(X[:2], Y[:2], sample_weight=weight)) == 2


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor])
@pytest.mark.parametrize(
    "call",
    [
        "fit",
        "partial_fit",
        "score_and_learn",
        "predict",
        "decision_function",
        "predict_proba",
        "learn_one",
        "predict_one",
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_gap_in_a_matrix_is_named_by_every_call(kind, call, sparse):
    settings = {"budget": 50, "missing": "refuse"} if kind.__name__.startswith("Auto") else {}
    model = kind(**settings, random_state=0).partial_fit(X[:100], Y[:100])
    if not hasattr(model, call):
        return
    rows = with_value(np.nan)
    if call.endswith("_one"):
        arguments, place = [rows[1]], "row 0, column 2"
    else:
        arguments, place = [csr_matrix(rows) if sparse else rows], "row 1, column 2"
    if call in ("fit", "partial_fit", "score_and_learn"):
        arguments.append([0, 1, 0])
    elif call == "learn_one":
        arguments.append(1)
    with pytest.raises(
        ValueError, match=f"finite numbers. Got NaN in {place} instead. Tables may have missing values"
    ) as error:
        getattr(model, call)(*arguments)
    assert "HistGradientBoosting" not in str(error.value)


class Wrapped:
    """Rows that tell nothing, or nothing true, of their shape."""

    def __init__(self, rows, **attributes):
        self.rows = rows
        vars(self).update(attributes)

    def __len__(self):
        return len(self.rows)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype=dtype)


@pytest.mark.parametrize("said", [{}, {"shape": (50, 7)}, {"shape": (50,)}], ids=["nothing", "too wide", "too few"])
@pytest.mark.parametrize(
    "model",
    [AutoMKLClassifier(20), AutoMKLClassifier(20, update="rounds"), BudgetMKLClassifier()],
    ids=["rows", "rounds", "Budget"],
)
def test_what_rows_say_of_their_shape_is_not_believed(model, said):
    model = clone(model).partial_fit(Wrapped(X[:50], **said), Y[:50])
    assert model.n_features_in_ == 4
    before = pickle.dumps(model)
    for rows in (Wrapped(X[:50, :3], **said), Wrapped(X[:50, :3], shape=(50, 4))):
        with pytest.raises(ValueError, match=r"X .*features, but \w+ is expecting 4 features"):
            model.partial_fit(rows, Y[:50])
    assert pickle.dumps(model) == before

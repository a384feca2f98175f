"""Progressive validation against counting by hand."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bomkl import AutoMKLClassifier
from bomkl.evaluate import Progress, ProgressiveValidation, Tally, progressive_validation, read_progress


class Scripted(ClassifierMixin, BaseEstimator):
    """Gives the first column as its margin, and remembers what it was asked to learn."""

    def __init__(self, classes=(0, 1)):
        self.classes = classes

    def score_and_learn(self, X, y, classes=None):
        self.classes_ = np.asarray(self.classes if classes is None else classes)
        self.learned = [*getattr(self, "learned", []), *y.tolist()]
        m = len(self.learned)
        self.kernels_ = ["first", "second"]
        self.kernel_weights_ = np.array([1 / (1 + m), m / (1 + m)])
        self.n_support_ = np.array([m, 2 * m])
        return X[:, 0] if len(self.classes_) == 2 else X


class ScriptedRegressor(RegressorMixin, Scripted):
    pass


def split(X, y, size):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_errors_are_those_counted_by_hand_for_any_blocks(size):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 1)), rng.integers(0, 2, 300)
    X[::10] = 0.0  # a zero margin is a mistake
    wrong = (2 * y - 1) * X[:, 0] <= 0
    model = Scripted()
    records = list(progressive_validation(model, split(X, y, size)))
    assert [r.rows for r in records] == [64, 128, 256, 300]
    np.testing.assert_allclose([r.error for r in records], [wrong[: r.rows].mean() for r in records])
    np.testing.assert_allclose(
        [r.error_since_last for r in records],
        [wrong[a:b].mean() for a, b in [(0, 64), (64, 128), (128, 256), (256, 300)]],
    )
    assert model.learned == y.tolist()
    assert (records[-1].support_vectors, records[-1].top_kernel) == (900, "second")
    assert records[0].to_dict()["kernel_support"] == (64, 128)


def test_every():
    X, y = np.ones((10, 1)), np.ones(10, dtype=int)
    assert [r.rows for r in progressive_validation(Scripted(), split(X, y, 4), every=5)] == [5, 10]
    assert [r.rows for r in progressive_validation(Scripted(), split(X, y, 4), every=4)] == [4, 8, 10]
    assert list(progressive_validation(Scripted(), [], every=4)) == []
    with pytest.raises(ValueError, match="The 'every' parameter of progressive_validation must be an int >= 1"):
        list(progressive_validation(Scripted(), [], every=0))


def test_multiclass_strings_and_given_classes():
    margins = np.array([[0.1, 0.5, 0.2], [0.9, 0.5, 0.2], [0.1, 0.1, 0.2]])
    y = np.array(["b", "b", "c"])
    (record,) = progressive_validation(Scripted(), [(margins, y)], classes=["a", "b", "c"])
    assert record.error == pytest.approx(1 / 3)


def test_regression_is_measured_by_absolute_error():
    X, y = np.array([[1.0], [2.0]]), np.array([1.5, 0.0])
    (record,) = progressive_validation(ScriptedRegressor(), [(X, y)])
    assert record.error == pytest.approx(1.25)


def test_no_kernels():
    assert Progress(1, 0.0, 0.0, 0).top_kernel == ""


def test_records_come_back_from_json(tmp_path):
    X, y = np.ones((100, 1)), np.ones(100, dtype=int)
    records = list(progressive_validation(Scripted(), [(X, y)], every=30))
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(record.to_dict()) + "\n" for record in records))
    assert read_progress(path) == records
    for text in ("nonsense", "[1]", '{"rows": 3}'):
        with pytest.raises(ValueError, match="Line 1 is not one that 'bomkl eval --json' writes"):
            read_progress([text])


def test_a_validation_that_is_saved_and_gone_on_with():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 1)), rng.integers(0, 2, 300)
    whole = list(progressive_validation(Scripted(), [(X, y)]))
    model = Scripted()
    first = ProgressiveValidation(model)
    records = list(first.learn(X[:100], y[:100]))
    second = ProgressiveValidation(model, tally=Tally(**asdict(first.tally)))
    records += [*second.learn(X[100:], y[100:]), *second.finish()]
    assert records == whole


@pytest.mark.parametrize("first", ["on time", "late"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_while_one_label_is_known_it_is_what_is_predicted(first, size):
    rng = np.random.default_rng(0)
    other = {"on time": "late", "late": "on time"}[first]
    X, y = rng.normal(size=(20, 2)), np.array([first] * 12 + [other] + [first] * 7)
    model = AutoMKLClassifier(budget=20, random_state=0)
    *_, last = progressive_validation(model, split(X[:13], y[:13], size))
    assert last.error == 2 / 13  # the first row of each label
    one, grouped = (AutoMKLClassifier(budget=20, random_state=0) for _ in range(2))
    *_, alone = progressive_validation(one, split(X, y, 1))
    *_, together = progressive_validation(grouped, split(X, y, size))
    assert together == alone


@pytest.mark.parametrize("size", [2, 7, 100])
def test_errors_do_not_depend_on_blocks_when_labels_come_one_after_another(size):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)), np.array([*"abca", *rng.choice([*"abc"], 40), *rng.choice([*"abcd"], 16)])
    one, grouped = (AutoMKLClassifier(budget=20, random_state=0) for _ in range(2))
    *_, alone = progressive_validation(one, split(X, y, 1))
    *_, together = progressive_validation(grouped, split(X, y, size))
    assert together.error == alone.error


def test_files_that_were_scanned_tell_how_many_rows_there_are(tmp_path):
    from bomkl.streams import open_stream

    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "1,x\n2,y\n" * 50)
    stream = open_stream([str(path)])
    assert stream.n_rows is None
    stream.scan()
    assert stream.n_rows == 100


def test_a_bar_shows_the_error_so_far(capsys):
    from bomkl._support.progress import learning_bar

    with learning_bar(600, verbose=1, error=lambda: 0.125) as parts:
        assert [part.stop for part in parts(0, 600)][-1] == 600
    assert "error 0.125" in capsys.readouterr().err

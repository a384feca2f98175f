"""``train`` and ``eval``: what the library learns, the same here."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sklearn.base import clone
from tests.command_line import bomkl, make_rows

from bomkl import AutoMKLClassifier, BudgetMKLClassifier, modelfile


@pytest.mark.parametrize(
    ("algorithm", "estimator"), [("SPA", BudgetMKLClassifier), ("auto", AutoMKLClassifier), (None, AutoMKLClassifier)]
)
def test_train_is_what_the_library_learns(svm, tmp_path, algorithm, estimator):
    X, y = make_rows(500)
    expected = estimator(random_state=0).partial_fit(X, y)
    bomkl("train", svm, "-o", tmp_path / "m", "-q", *(["-a", algorithm] if algorithm else []))
    loaded = modelfile.load(tmp_path / "m")
    assert type(loaded) is estimator
    np.testing.assert_allclose(loaded.decision_function(X), expected.decision_function(X), rtol=1e-9, atol=1e-12)
    assert loaded.mistakes_ == expected.mistakes_


def test_predictions(svm, model, tmp_path):
    X, _ = make_rows(500)
    loaded = modelfile.load(model)
    done = bomkl("predict", model, svm)
    assert done.stdout.split() == [str(label) for label in loaded.predict(X)]
    assert done.stderr == ""
    margins = bomkl("predict", model, svm, "--kind", "margins").stdout.split()
    np.testing.assert_allclose(np.array(margins, dtype=float), loaded.decision_function(X), rtol=1e-12)
    bomkl("predict", model, svm, "-o", tmp_path / "out")
    assert (tmp_path / "out").read_text() == done.stdout
    unlabelled = "".join(line.split(" ", 1)[1] for line in svm.read_text().splitlines(keepends=True))
    assert bomkl("predict", model, "-", input=unlabelled).stdout == done.stdout
    refused = bomkl("predict", model, svm, "--kind", "probabilities")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "a BudgetMKLClassifier has no probabilities" in refused.stderr


def test_probabilities(svm, tmp_path):
    bomkl("train", svm, "-o", tmp_path / "m", "-q", "--budget", 100)
    head, *lines = bomkl("predict", tmp_path / "m", svm, "--kind", "probabilities").stdout.splitlines()
    expected = modelfile.load(tmp_path / "m").predict_proba(make_rows(500)[0])
    assert head == "-1\t1"
    np.testing.assert_array_equal(np.array([line.split() for line in lines], dtype=float), expected)
    lines = bomkl("predict", tmp_path / "m", svm, "-k", "probabilities", "--json").stdout.splitlines()
    assert json.loads(lines[7]) == {"probabilities": {"-1": expected[7, 0], "1": expected[7, 1]}}


def test_strings_several_classes_and_columns_in_another_order(pets, tmp_path):
    model = tmp_path / "m"
    assert bomkl("train", pets, "-o", model, "--label", "kind", "-q", "--passes", 3).exit_code == 0
    (tmp_path / "new.csv").write_text("coat,weight\nlong,31\nnone,0.2\nshort,5\nwoolly,5\n")
    assert bomkl("predict", model, tmp_path / "new.csv").stdout.split()[:3] == ["dog", "fish", "cat"]
    margins = bomkl("predict", model, tmp_path / "new.csv", "-k", "margins").stdout.splitlines()
    assert margins[0] == "cat\tdog\tfish"
    assert [len(line.split("\t")) for line in margins] == [3] * 5
    (tmp_path / "short.csv").write_text("coat\nlong\n")
    done = bomkl("predict", model, tmp_path / "short.csv")
    assert done.stdout.split() == ["dog"]
    assert done.stderr == "bomkl: The column 'weight' is not in the table: its values are missing. Rows: 1.\n"


MIXED = "size,city,when,label\n" + "".join(
    f"{'' if i % 11 == 3 else i % 7 - 3.5},{'' if i % 13 == 5 else ['Oslo', 'Bonn', 'Lima'][i % 3]},"
    f"2024-03-{1 + i // 24 % 28:02d}T{i % 24:02d}:00:00,{'late' if (i * i) % 5 < 2 else 'on time'}\n"
    for i in range(240)
)


@pytest.mark.parametrize("algorithm", ["auto", "SPA", "Forgetron", "OMKC(FOGD)"])
def test_texts_gaps_and_dates_are_encoded_alike_here_and_in_python(tmp_path, algorithm):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "rows.csv").write_text(MIXED)
    frame = pandas.read_csv(tmp_path / "rows.csv")
    y = frame.pop("label").to_numpy()
    options = ["-a", algorithm, "-q", "--budget", 20]
    assert bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m", *options).exit_code == 0
    model = modelfile.load(tmp_path / "m")
    assert model.feature_names_in_.tolist() == ["size", "city", "when"]
    assert model.encoder_.kinds_ == {"size": "number", "city": "category", "when": "date"}
    shown = bomkl("predict", tmp_path / "m", tmp_path / "rows.csv", "-k", "margins").stdout.split()
    np.testing.assert_array_equal(np.array(shown, dtype=float), model.decision_function(frame))
    in_python = clone(model).partial_fit(frame, y, classes=np.unique(y))
    np.testing.assert_array_equal(in_python.decision_function(frame), model.decision_function(frame))
    modelfile.save(in_python, tmp_path / "python")
    again = bomkl("predict", tmp_path / "python", "-", "-k", "margins", "--label", "label", input=MIXED)
    assert again.stdout.split() == shown
    lines = "".join(line.rsplit(",", 1)[0] + "\n" for line in MIXED.splitlines())
    assert bomkl("predict", tmp_path / "m", "-", "-k", "margins", input=lines).stdout.split() == shown


def test_a_model_trained_by_the_library_predicts_too(svm, tmp_path):
    X, y = make_rows(500)
    modelfile.save(BudgetMKLClassifier(random_state=0).fit(X, y), tmp_path / "m")
    assert len(bomkl("predict", tmp_path / "m", svm).stdout.split()) == 500
    assert "BudgetMKLClassifier" in bomkl("inspect", tmp_path / "m").stdout
    refused = bomkl("train", svm, "-o", tmp_path / "m", "--resume")
    assert refused.exit_code == 1
    assert "no run to resume" in refused.stderr


def test_regression(tmp_path):
    path = tmp_path / "rows.csv"
    points = np.random.default_rng(0).uniform(-3, 3, 600)
    path.write_text("x,label\n" + "".join(f"{x},{np.sin(x)}\n" for x in points))
    assert bomkl("train", path, "-o", tmp_path / "m", "-a", "BudgetMKLRegressor", "-q").exit_code == 0
    predictions = np.array(bomkl("predict", tmp_path / "m", path).stdout.split(), dtype=float)
    assert np.abs(predictions - np.sin(points)).mean() < 0.15
    assert "epsilon=0.1" in bomkl("inspect", tmp_path / "m").stdout


def test_eval_writes_the_table_to_stderr_and_figures_to_stdout(svm):
    done = bomkl("eval", svm)
    assert done.stdout.splitlines()[0] == "rows\t500"
    lines = done.stderr.splitlines()
    assert lines[0].split() == ["rows", "error", "rate", "since", "last", "all", "SVs", "top", "kernel"]
    assert done.stdout.splitlines()[1].startswith("error rate\t0.")
    assert [line.split()[0] for line in lines[1:]] == ["64", "128", "256", "500"]
    assert bomkl("eval", svm, "-q").stderr == ""


def test_eval_json(svm, model):
    done = bomkl("eval", svm, "-a", "SPA", "--json", "--every", 200)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["rows"] for record in records] == [200, 400, 500]
    assert records[-1]["error"] == pytest.approx(modelfile.load(model).mistakes_ / 500)
    assert len(records[0]["kernel_weights"]) == len(records[0]["kernels"]) == 16


def test_eval_of_a_compressed_pipe(svm):
    done = bomkl("eval", "-", "--features", 3, input=gzip.compress(svm.read_bytes()))
    assert done.stdout == bomkl("eval", svm).stdout


@pytest.mark.slow
def test_rare_features_that_come_late_in_a_pipe():
    early, late = "+1 1:1 5:1\n-1 2:1\n" * 10_000, "+1 7:1\n"
    assert bomkl("eval", "-", "-q", "--budget", 10, input=early + late).exit_code == 0
    refused = bomkl("eval", "-", "-q", "--budget", 10, input=early + "+1 9:1\n")
    assert refused.exit_code == 1
    assert "<stdin>:20001: feature 9 is beyond the 8 that were told or found" in refused.stderr
    assert bomkl("eval", "-", "-q", "--budget", 10, "--features", 9, input=early + "+1 9:1\n").exit_code == 0


@pytest.mark.parametrize("algorithm", ["BOMKC(RBP)", "SPA", "OMKC(DD)", "Perceptron(*)"])
def test_algorithms_by_name(svm, tmp_path, algorithm):
    assert bomkl("eval", svm, "-a", algorithm, "-q").exit_code == 0
    assert bomkl("train", svm, "-o", tmp_path / "m", "-a", algorithm, "-q").exit_code == 0
    assert bomkl("predict", tmp_path / "m", svm).exit_code == 0


def test_weights_are_what_the_library_learns(tmp_path):
    X, y = make_rows(300)
    weight = np.random.default_rng(0).integers(0, 3, 300)
    lines = [f"{a},{w},{b},{c},{label}\n" for (a, b, c), w, label in zip(X.tolist(), weight, y, strict=True)]
    (tmp_path / "rows.csv").write_text("a,w,b,c,label\n" + "".join(lines))
    for algorithm, kind in (("SPA", BudgetMKLClassifier), ("auto", AutoMKLClassifier)):
        done = bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m", "--weight", "w", "-a", algorithm, "-q")
        assert done.exit_code == 0
        expected = kind(random_state=0).partial_fit(X, y, sample_weight=weight)
        margins = bomkl("predict", tmp_path / "m", tmp_path / "rows.csv", "-k", "margins").stdout.split()
        np.testing.assert_allclose(np.array(margins, float), expected.decision_function(X), rtol=1e-6, atol=1e-6)
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text + "1,-2,1,1,1\n")
    done = bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m2", "--weight", "w", "-q")
    assert "rows.csv:302: column w: the weight must be a finite number >= 0: '-2'" in done.stderr
    done = bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m2", "--weight", "wt")
    assert "there is no weight column 'wt'" in done.stderr


@pytest.mark.parametrize("algorithm", ["auto", "SPA", "auto-regression"])
def test_predictions_while_learning(svm, tmp_path, algorithm):
    _, y = make_rows(500)
    args = ["train", svm, "-o", tmp_path / "m", "-q", "-a", algorithm, "--predictions"]
    assert bomkl(*args, tmp_path / "p").exit_code == 0
    lines = (tmp_path / "p").read_text().split()
    model = modelfile.load(tmp_path / "m")
    assert len(lines) == 500
    if algorithm == "auto-regression":
        assert np.isfinite(np.array(lines, dtype=float)).all()
    else:
        # a margin of zero counts as a mistake, and is a prediction of the first class
        assert 0 <= model.mistakes_ - sum(int(line) != label for line, label in zip(lines, y, strict=True)) <= 1
    assert bomkl(*args, "-").stdout.split() == lines


def test_progress_of_training_as_json(svm, tmp_path):
    done = bomkl("train", svm, "-o", tmp_path / "m", "-q", "-a", "auto-regression", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["rows"] for record in records] == [64, 128, 256, 500]
    assert {record["metric"] for record in records} == {"mean absolute error"}
    shown = bomkl("train", svm, "-o", tmp_path / "m", "-a", "auto-regression").stderr
    assert shown.splitlines()[0].split()[:2] == ["rows", "MAE"]

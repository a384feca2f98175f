"""``predict`` and ``score``."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn import metrics
from tests.command_line import bomkl, make_rows, svm_text
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, modelfile


def test_scores_of_a_classifier(tmp_path):
    X, y = make_rows(600)
    (tmp_path / "train.svm").write_text("".join(svm_text(600).splitlines(keepends=True)[:400]))
    (tmp_path / "test.svm").write_text("".join(svm_text(600).splitlines(keepends=True)[400:]))
    bomkl("train", tmp_path / "train.svm", "-o", tmp_path / "m", "-q", "--budget", 100)
    found = json.loads(bomkl("score", tmp_path / "m", tmp_path / "test.svm", "--json").stdout)
    model = modelfile.load(tmp_path / "m")
    predicted, probability = model.predict(X[400:]), model.predict_proba(X[400:])
    assert found["rows"] == 200
    assert found["accuracy"] == pytest.approx((predicted == y[400:]).mean())
    assert found["log loss"] == pytest.approx(metrics.log_loss(y[400:], probability))
    assert found["AUC"] == pytest.approx(metrics.roc_auc_score(y[400:], probability[:, 1]))
    assert found["labels"] == [-1, 1]
    assert found["confusion"] == metrics.confusion_matrix(y[400:], predicted).tolist()
    shown = bomkl("score", tmp_path / "m", tmp_path / "test.svm").stdout
    assert shown.splitlines()[1] == f"accuracy\t{found['accuracy']:.6f}"
    assert "label  predicted" in shown


@pytest.mark.parametrize("label", ["label", "size"])
def test_a_score_counts_each_row_of_a_new_column_once(tmp_path, label):
    rows = [f"{i % 7},{i},{'ab'[i % 2]},{i % 5}" for i in range(60)]
    for name, column in (("learned", "age"), ("renamed", "Age")):
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{column},size,label,b", *rows]) + "\n")
    bomkl("train", tmp_path / "learned.csv", "-o", tmp_path / "m", "--label", label, "--budget", "20", "-q")
    said = bomkl("score", tmp_path / "m", tmp_path / "renamed.csv").stderr
    assert "'Age' is ignored: it was not there before. Rows: 60." in said


def test_scores_of_several_classes_with_weights_and_a_label_that_is_new(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y, weight = np.array(["a", "b", "c"])[(X > 0).sum(axis=1)], rng.integers(0, 4, 400)
    lines = [f"{u},{v},{w},{label}\n" for (u, v), w, label in zip(X.tolist(), weight, y, strict=True)]
    (tmp_path / "rows.csv").write_text("u,v,w,label\n" + "".join(lines))
    options = ["--weight", "w", "--budget", 50, "-q"]
    assert bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m", *options).exit_code == 0
    model = modelfile.load(tmp_path / "m")
    found = json.loads(bomkl("score", tmp_path / "m", tmp_path / "rows.csv", "--json").stdout)
    table = {"u": X[:, 0], "v": X[:, 1]}
    predicted, probability = model.predict(table), model.predict_proba(table)
    assert found["accuracy"] == pytest.approx(np.average(predicted == y, weights=weight))
    assert found["log loss"] == pytest.approx(metrics.log_loss(y, probability, sample_weight=weight))
    expected = metrics.roc_auc_score(y, probability, sample_weight=weight, multi_class="ovr")
    assert found["AUC"] == pytest.approx(expected)
    (tmp_path / "new.csv").write_text("u,v,w,label\n1,1,1,zebra\n1,1,1,c\n")
    found = json.loads(bomkl("score", tmp_path / "m", tmp_path / "new.csv", "--json").stdout)
    assert found["labels"] == ["a", "b", "c", "zebra"]
    assert sum(found["confusion"][3]) == 1
    assert found["log loss"] > 10


def test_scores_of_a_regressor(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 500)
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{each},{np.sin(each) + 1e6}\n" for each in x))
    bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m", "-q", "-a", "auto-regression", "--budget", 50)
    found = json.loads(bomkl("score", tmp_path / "m", tmp_path / "rows.csv", "--json").stdout)
    predicted = np.array(bomkl("predict", tmp_path / "m", tmp_path / "rows.csv").stdout.split(), dtype=float)
    truth = np.sin(x) + 1e6
    assert found["mean absolute error"] == pytest.approx(np.abs(predicted - truth).mean())
    assert found["root mean squared error"] == pytest.approx(metrics.root_mean_squared_error(truth, predicted))
    assert found["R2"] == pytest.approx(metrics.r2_score(truth, predicted), abs=1e-6)


def test_a_model_that_has_learned_nothing_cannot_predict(svm, tmp_path):
    modelfile.save(AutoMKLClassifier(), tmp_path / "m")
    for name in ("predict", "score"):
        done = bomkl(name, tmp_path / "m", svm)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "has not learned from any row yet" in done.stderr
    assert bomkl("inspect", tmp_path / "m").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "redirection", slow_but(["1>&- 2>&-", "1>/dev/full"], ["1>&-", "2>&-", "0<&-", "1>&- 2>&-", "1>/dev/full"])
)
def test_closed_and_full_outputs(model, svm, redirection):
    command = f"'{sys.executable}' -m bomkl predict {model} {svm} {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == (1 if "1>" in redirection else 0)
    if redirection in ("1>&-", "1>/dev/full"):
        assert done.stderr.startswith("bomkl: error: ")
        assert len(done.stderr.splitlines()) == 1

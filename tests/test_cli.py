"""The command line as its users see it: what goes where, exit codes, and runs that are killed."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn import metrics
from sklearn.base import clone
from tests.command_line import bomkl, make_rows, svm_text

from bomkl import AutoMKLClassifier, BudgetMKLClassifier, merge, modelfile
from bomkl.cli.settings import parse_value, set_parameter
from bomkl.kernels import Gaussian, Linear


@pytest.fixture
def pets(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("weight,coat,kind\n" + "4.5,short,cat\n30,long,dog\n0.1,none,fish\n" * 20)
    return path


@pytest.fixture
def model(svm, tmp_path):
    path = tmp_path / "m.bomkl"
    assert bomkl("train", svm, "-o", path, "-a", "SPA", "-q").exit_code == 0
    return path


# train and predict


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


# eval


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


# settings


def test_options_and_files_agree_and_options_go_first(svm, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'algorithm = "BOMKC(SPA)"\nbudget = 20\nseed = 7\n'
        '[parameters]\n"learner.eta" = 0.2\nkernels = "[Gaussian(2**-1), Linear()]"\n'
        '[rows]\nformat = "svmlight"\n'
    )
    options = [
        "-a",
        "SPA",
        "--budget",
        20,
        "--seed",
        7,
        "-p",
        "learner.eta=0.2",
        "-p",
        "kernels=[Gaussian(0.5), Linear()]",
    ]
    assert bomkl("eval", svm, "--config", config).stdout == bomkl("eval", svm, *options).stdout
    bomkl("train", svm, "-o", tmp_path / "m", "--config", config, "-p", "learner.eta=0.3", "-q")
    model = modelfile.load(tmp_path / "m")
    assert (model.learner.eta, model.budget, model.random_state, model.kernels) == (
        0.3,
        20,
        7,
        [Gaussian(0.5), Linear()],
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-a", "SVM"], "There is no algorithm 'SVM'"),
        (
            ["-a", "SVM"],
            "must be one of auto, auto-regression, BudgetMKLClassifier, BudgetMKLRegressor, Perceptron(*),",
        ),
        (["-a", "auto_regression"], "Did you mean 'auto-regression'?"),
        (["-a", "auto-regression", "--classes", "1,-1"], "--classes is for classifiers, but auto-regression"),
        (["--budget", 0], "The 'budget' parameter of BudgetMKLClassifier must be an int >= 1. Got 0 instead."),
        (["-a", "auto", "--budget", 0], "The 'budget' parameter of AutoMKLClassifier must be an int >= 1. Got 0"),
        (["--seed", -1], "--seed must be an int from 0 to 4294967295. Got -1 instead."),
        (["-p", "kernels=3"], "The 'kernels' parameter of BudgetMKLClassifier must be"),
        (["-p", "depth=3"], "has no parameter 'depth'"),
        (["-p", "learner.depth=3"], "has no setting 'depth'"),
        (["-p", "learner.eta=-1"], "The 'eta' parameter of SPA must be"),
        (["-p", "learner"], "must be NAME=VALUE"),
        (["-p", "kernels=[__import__('os')]"], "is not a valid value"),
        (["-p", "learner=SPA(1, 2, 3, 4)"], "SPA(1, 2, 3, 4)"),
        (["--missing", "often"], "--missing must be 'error', 'skip', 'keep' or a finite number. Got 'often' instead."),
        (["--format", "xls"], "--format must be one of"),
        (["--categorical", "one-hot"], "--categorical must be one of"),
        (["--categorical", "hash"], "--categorical is for bomkl convert: a model encodes texts itself"),
        (["--buckets", "8"], "--buckets is for bomkl convert: a model encodes texts itself"),
        (["--on-bad-line", "fix"], "--on-bad-line must be one of"),
        (["--delimiter", "ab"], "--delimiter must be one character. Got 'ab' instead."),
        (["--features", 0], "--features must be an int >= 1. Got 0 instead."),
        (["--classes", ""], "--classes must be two or more different labels, separated by commas"),
        (["--classes", "1,"], "Got '1,' instead."),
        (["--classes", "yes,no"], "--classes must be numbers, as the labels of the rows are. Got 'yes,no' instead."),
        (["--config", "absent.toml"], "absent.toml: No such file"),
    ],
)
def test_wrong_settings(svm, args, message):
    done = bomkl("eval", svm, "-a", "SPA", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("bomkl: error: ")


def test_wrong_settings_in_a_file(svm, tmp_path):
    for text, message in (
        ("depth = 3", "depth"),
        ("= 3", "Invalid"),
        ("[rows]\nsep = 3", "sep"),
        ("[rows]\ndelimiter = 3", "--delimiter must be one character. Got 3 instead."),
        ("[rows]\nignore = [[1]]", "ignore in the table [rows] must be a list of columns. Got [[1]] instead."),
        ('[rows]\nignore = "age"', "ignore in the table [rows] must be a list of columns. Got 'age' instead."),
        ("rows = 3", "rows must be a table, [rows]. Got 3 instead."),
        ("parameters = 3", "parameters must be a table, [parameters]. Got 3 instead."),
        ("classes = [1, 2]", "--classes must be two or more different labels"),
        ('seed = "one"', "--seed must be an int"),
        ('budget = "some"', "'budget' parameter"),
    ):
        (tmp_path / "c.toml").write_text(text)
        done = bomkl("eval", svm, "--config", tmp_path / "c.toml")
        assert done.exit_code == 2
        assert message in done.stderr


def test_values():
    assert parse_value("[1, -2.5, 'a', None]") == [1, -2.5, "a", None]
    assert parse_value("{0: 2.0, 1: 1}") == {0: 2.0, 1: 1}
    assert parse_value("so, what?") == "so, what?"
    with pytest.raises(ValueError, match="kernels is 'paper' and has no setting"):
        set_parameter(BudgetMKLClassifier(), "kernels.sigma", "3")


# errors


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("", [], "there are no rows"),
        ("a,label\n", ["--format", "csv"], "there are no rows"),
        ("a,label\n1,x\n2,x\n", ["--format", "csv"], "there is only one class (x); name all of them with --classes"),
        (
            "a,label\n1,x\n2,y\ninf,x\n" + "1,x\n" * 20,
            ["--format", "csv"],
            "rows:4: column a: not a finite number: 'inf'",
        ),
        ("1 1:1\n-1 1:z\n", [], "rows:2: column 6: the value is not a finite number: 'z'"),
        ("1 1:1\n-1 1:2\n3 1:1\n", ["--classes", "1,-1"], "rows:3: the label is none of the classes [1, -1]: '3.0'"),
        ("1 1:1\n-1 3:2\n", ["--features", "2"], "rows:2: feature 3 is beyond the 2 "),
        ("a,b\n1,2\n", ["--format", "csv"], "there is no label column 'label'. The columns are ['a', 'b']."),
        (
            "1 0:1\n-1 1:1\n",
            [],
            "rows:1: column 3: indices start at 1 (--zero-based reads files that start at 0): '0:1'",
        ),
        (
            "a,label\n1,2\n2,x\n",
            ["--format", "csv", "-a", "auto-regression"],
            "rows:3: column label: the label is not a number: 'x'",
        ),
    ],
)
def test_bad_rows(tmp_path, text, args, message):
    (tmp_path / "rows").write_text(text)
    for command in (["eval"], ["train", "-o", tmp_path / "m"]):
        done = bomkl(*command, tmp_path / "rows", *args)
        assert done.exit_code == 1
        assert message in done.stderr
        assert done.stderr.splitlines()[-1].startswith("bomkl: error: ")
        assert not (tmp_path / "m").exists()


def test_bad_lines_are_skipped_and_counted(svm, model):
    lines = svm.read_text().splitlines(keepends=True)
    svm.write_text("".join([*lines[:9], "1 x:3\n", *lines[9:300], "nonsense\n", *lines[300:]]))
    done = bomkl("train", svm, "-o", f"{model}2", "-a", "SPA", "--on-bad-line", "skip", "-q")
    assert done.exit_code == 0
    assert "2 bad lines were skipped; the first: " in done.stderr
    assert "rows.svm:10: column 3: not an index:value pair: 'x:3'" in done.stderr
    assert modelfile.load(f"{model}2").mistakes_ == modelfile.load(model).mistakes_


def test_missing_files_and_bad_models(svm, tmp_path):
    for args in (
        ["eval", "absent.svm"],
        ["predict", "absent", svm],
        ["inspect", "absent"],
        ["predict", svm, svm],
        ["inspect", svm],
    ):
        done = bomkl(*args)
        assert done.exit_code == 1
        assert done.stderr.startswith("bomkl: error: ")
    assert bomkl("train", svm).exit_code == 2
    assert bomkl("frobnicate").exit_code == 2


@pytest.fixture
def no_rows(monkeypatch):
    """Fails a test in which rows are opened."""

    def opened(*args, **kwargs):
        raise AssertionError("rows were opened")

    monkeypatch.setattr("bomkl.streams.open_stream", opened)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent/out.png", "there is no folder '{}/absent'; make it first"),
        ("rows.svm/out.png", "'{}/rows.svm' is not a folder"),
        ("folder.png", "that is not the name of a file"),
        ("folder.png/", "that is not the name of a file"),
    ],
)
def test_outputs_are_checked_before_the_rows_are_read(svm, model, tmp_path, no_rows, name, problem):
    (tmp_path / "folder.png").mkdir()
    path = f"{tmp_path}/{name}"
    for option, args in (
        ("--output", ["train", svm, "-o", path]),
        ("--plot", ["eval", svm, "--plot", path]),
        ("--output", ["predict", model, svm, "-o", path]),
        ("--output", ["convert", svm, "-o", path]),
    ):
        done = bomkl(*args)
        assert (done.exit_code, done.stdout) == (2, "")
        message = f"{option} must name a file that can be written. Got {path!r} instead: {problem.format(tmp_path)}."
        assert done.stderr == f"bomkl: error: {message}\n"


def test_outputs_that_may_not_be_written(svm, tmp_path, no_rows, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    for args in (["train", svm, "-o", tmp_path / "m"], ["convert", svm, "-o", tmp_path / "x"]):
        done = bomkl(*args)
        assert done.exit_code == 2
        assert f"the folder '{tmp_path}' or the file cannot be written to" in done.stderr
    refused = bomkl("train", svm, "-o", os.devnull)
    assert refused.exit_code == 2
    assert "that is not a regular file" in refused.stderr


def test_what_is_read_is_not_written_over(svm, model, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.svm").write_bytes(svm.read_bytes())
    (tmp_path / "link").symlink_to(svm)
    before = {path: path.read_bytes() for path in (svm, model, folder / "a.svm")}
    for option, args in [
        ("--output", ["convert", svm, "-o", svm]),
        ("--output", ["convert", svm, "-o", tmp_path / "link"]),
        ("--output", ["convert", folder, "-o", folder / "a.svm"]),
        ("--output", ["convert", tmp_path / "r*.svm", "-o", svm]),
        ("--output", ["predict", model, svm, "-o", svm]),
        ("--output", ["predict", model, svm, "-o", model]),
        ("--output", ["score", model, svm, "-o", svm]),
        ("--output", ["train", svm, "-o", svm]),
        ("--predictions", ["train", svm, "-o", tmp_path / "new", "--predictions", svm]),
        ("--predictions", ["train", svm, "-o", model, "--predictions", model]),
    ]:
        done = bomkl(*args)
        assert done.exit_code == 2, args
        assert done.stderr.startswith(f"bomkl: error: {option} must name a file that can be written. Got ")
        assert done.stderr.endswith("the command uses this file already; choose another.\n")
        assert {path: path.read_bytes() for path in before} == before


def test_the_model_and_the_predictions_are_two_files(svm, tmp_path):
    done = bomkl("train", svm, "-o", tmp_path / "m", "--predictions", f"{tmp_path}/./m", "-q")
    assert done.exit_code == 2
    assert "the command uses this file already" in done.stderr
    assert not (tmp_path / "m").exists()


def test_outputs_that_are_devices(svm, model):
    assert bomkl("predict", model, svm, "-o", os.devnull).exit_code == 0
    assert bomkl("convert", svm, "-o", os.devnull).exit_code == 0


def test_plots_have_a_known_ending(svm, tmp_path, no_rows):
    pytest.importorskip("matplotlib")
    for name in ("x.foo", "x"):
        done = bomkl("eval", svm, "--plot", tmp_path / name)
        assert done.exit_code == 2
        assert "--plot must name an image such as error.png, error.svg or error.pdf." in done.stderr


def test_string_labels_of_a_regression_are_bad_lines(tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n" + "1,2\n2,x\n3,4\n" * 9)
    done = bomkl("eval", tmp_path / "rows.csv", "-a", "BudgetMKLRegressor", "-q", "--on-bad-line", "skip")
    assert done.stdout.splitlines()[0] == "rows\t18"
    assert "9 bad lines were skipped; the first: " in done.stderr
    assert "rows.csv:3: column label: the label is not a number: 'x'" in done.stderr


def test_version_and_help():
    assert bomkl("--version").stdout.startswith("bomkl ")
    shown = bomkl("--help").stdout
    for name in ("train", "predict", "eval", "inspect", "convert", "demo", "reproduce", "datasets"):
        assert f"  {name} " in shown
    assert "--checkpoint-every" in bomkl("train", "--help").stdout


def test_the_command_line_starts_without_heavy_imports():
    check = "import sys, bomkl.cli; print([m for m in ('numpy', 'scipy', 'sklearn', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout.strip() == "[]"


def test_benchmarks_are_found_in_a_clone_only(monkeypatch, tmp_path):
    assert "--seeds" in bomkl("bench", "peers", "--help").stdout
    listed = bomkl("bench", "--help").stdout
    assert "  targets           the speed that the engine should reach" in listed
    assert "peers_methods" not in listed
    assert "--out FOLDER" in bomkl("bench", "hard_budget", "--help").stdout
    assert bomkl("bench", "hard_budget", "--rows", 9).exit_code == 2
    refused = bomkl("bench", "absent")
    assert refused.exit_code == 2
    assert "one of" in refused.stderr
    monkeypatch.chdir(tmp_path)
    assert "in a clone" in bomkl("bench").stderr


# inspect and convert


def test_inspect(model):
    content = json.loads(bomkl("inspect", model, "--json").stdout)
    assert (content["rows"], content["features"], content["classes"]) == (500, 3, [-1, 1])
    assert sum(kernel["weight"] for kernel in content["kernels"]) == pytest.approx(1)
    assert [entry["rows"] for entry in content["notes"]["history"]] == [64, 128, 256, 500]
    shown = bomkl("inspect", model).stdout
    for text in ("BudgetMKLClassifier", "Gaussian(sigma=1.0)", "complete", "since last"):
        assert text in shown


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl", "rows2.svm"])
def test_convert_there_and_back(svm, tmp_path, name):
    assert bomkl("convert", svm, "-o", tmp_path / name).exit_code == 0
    assert bomkl("convert", tmp_path / name).stdout == bomkl("convert", svm).stdout
    assert bomkl("convert", svm, "--to", "xls").exit_code == 2


def test_convert_writes_to_devices_and_pipes(svm):
    assert bomkl("convert", svm, "-o", "/dev/null").exit_code == 0
    pipe = f"'{sys.executable}' -m bomkl convert {svm} -o /dev/stdout | wc -l"
    assert int(subprocess.run(["bash", "-c", pipe], capture_output=True, text=True).stdout) == 500


def test_convert_strings(pets):
    done = bomkl("convert", pets, "--label", "kind")
    assert done.stdout.splitlines()[:3] == ["0 1:4.5 4:1", "1 1:30 2:1", "2 1:0.1 3:1"]


# score, weights and predictions while learning


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


def test_inspect_writes_numbers_as_numbers(model):
    content = json.loads(bomkl("inspect", model, "--json").stdout)
    assert content["parameters"]["random_state"] == 0
    assert content["parameters"]["budget"] is None
    assert content["parameters"]["normalize_step"] is False
    assert content["parameters"]["learner"] == "SPA(eta=0.1, alpha=1.0, beta=3.0)"


# folders, names of columns, late classes


def test_folders(svm, tmp_path):
    (tmp_path / "parts").mkdir()
    lines = svm.read_text().splitlines(keepends=True)
    for number in range(5):
        (tmp_path / "parts" / f"part-{number}.svm").write_text("".join(lines[100 * number : 100 * (number + 1)]))
    (tmp_path / "parts" / "_SUCCESS").write_text("")
    (tmp_path / "parts" / ".hidden").write_text("nonsense")
    assert bomkl("eval", tmp_path / "parts").stdout == bomkl("eval", svm).stdout
    (tmp_path / "empty").mkdir()
    assert "there are no files in this folder" in bomkl("eval", tmp_path / "empty").stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--label", "kimd"], "there is no label column 'kimd'. Did you mean 'kind'? The columns are ['weight', "),
        (["--label", "kind", "--ignore", "wieght"], "no column 'wieght' to leave out. Did you mean 'weight'?"),
        (["--label", "kind", "--strings", "wght"], "there is no column 'wght' to take as strings. Did you mean 'w"),
        (["--label", "kind", "--weight", "wight"], "there is no weight column 'wight'. Did you mean 'weight'?"),
        (["--label", "9"], "there is no label column 9. The columns are ['weight', 'coat', 'kind']."),
    ],
)
def test_mistyped_columns(pets, tmp_path, args, message):
    for inputs, text in ((pets, None), ("-", pets.read_text())):
        done = bomkl("eval", inputs, *args, input=text)
        assert done.exit_code == 1
        assert message in done.stderr


def test_a_class_that_comes_late_in_a_pipe(tmp_path):
    text = "a,label\n" + "1,x\n2,y\n" * 2000 + "3,z\n" * 50
    assert bomkl("train", "-", "-o", tmp_path / "m", "-q", "--budget", 20, input=text).exit_code == 0
    assert modelfile.load(tmp_path / "m").classes_.tolist() == ["x", "y", "z"]
    (tmp_path / "rows.csv").write_text(text)
    assert bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m2", "-q", "--budget", 20).exit_code == 0
    first, second = (modelfile.load(tmp_path / name).predict_proba for name in ("m", "m2"))
    rows = {"a": [1.0, 3.0]}
    assert first(rows).tolist() == second(rows).tolist()


def test_python_dash_m_and_completion():
    done = subprocess.run([sys.executable, "-m", "bomkl", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout[:6]) == (0, "bomkl ")
    shown = bomkl("--help").stdout
    assert "--install-completion" in shown


def test_a_model_that_has_learned_nothing_cannot_predict(svm, tmp_path):
    modelfile.save(AutoMKLClassifier(), tmp_path / "m")
    for name in ("predict", "score"):
        done = bomkl(name, tmp_path / "m", svm)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "has not learned from any row yet" in done.stderr
    assert bomkl("inspect", tmp_path / "m").exit_code == 0


@pytest.mark.parametrize("redirection", ["1>&-", "2>&-", "0<&-", "1>&- 2>&-", "1>/dev/full"])
def test_closed_and_full_outputs(model, svm, redirection):
    command = f"'{sys.executable}' -m bomkl predict {model} {svm} {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == (1 if "1>" in redirection else 0)
    if redirection in ("1>&-", "1>/dev/full"):
        assert done.stderr.startswith("bomkl: error: ")
        assert len(done.stderr.splitlines()) == 1


# one encoder for tables, here and in Python


def flights(n=200):
    rng = np.random.default_rng(0)
    rows = [
        {
            "when": f"2013-0{1 + row % 9}-1{row % 10}T{row % 24:02}:00:00Z",
            "carrier": ["UA", "AA", "B6"][int(rng.integers(3))],
            "wind": None if row % 7 == 3 else round(float(rng.normal()), 3),
            "night": bool(row % 2),
        }
        for row in range(n)
    ]
    return rows, ["late" if row["carrier"] == "UA" or (row["wind"] or 0) > 1 else "on time" for row in rows]


def test_a_table_learned_here_predicts_in_python_and_the_reverse(tmp_path):
    pd = pytest.importorskip("pandas")
    rows, y = flights()
    frame = pd.DataFrame(rows)
    text = frame.assign(late=y).to_csv(index=False)
    (tmp_path / "rows.csv").write_text(text)
    for inputs, given in ((tmp_path / "rows.csv", None), ("-", text)):
        args = ["train", inputs, "--label", "late", "-o", tmp_path / "m", "-q", "--budget", 50]
        assert bomkl(*args, input=given).exit_code == 0
        printed = bomkl("predict", tmp_path / "m", tmp_path / "rows.csv").stdout.splitlines()
        again = pd.read_csv(tmp_path / "rows.csv").drop(columns="late")
        assert printed == modelfile.load(tmp_path / "m").predict(again).tolist()
        head, *lines = bomkl(
            "predict", tmp_path / "m", tmp_path / "rows.csv", "-k", "probabilities"
        ).stdout.splitlines()
        assert head == "late\ton time"
        found = np.array([line.split("\t") for line in lines], dtype=float)
        np.testing.assert_array_equal(found, modelfile.load(tmp_path / "m").predict_proba(again))
    model = AutoMKLClassifier(budget=50, random_state=0).fit(frame, y)
    modelfile.save(model, tmp_path / "python")
    head, *lines = bomkl("predict", tmp_path / "python", tmp_path / "rows.csv", "-k", "probabilities",
                         "--label", "late").stdout.splitlines()  # fmt: skip
    np.testing.assert_array_equal(np.array([line.split("\t") for line in lines], float), model.predict_proba(frame))


def test_columns_of_mixed_kinds_are_texts_if_told_so_in_blocks_of_any_size(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("flag,day,x,label\ntrue,2024-01-01,1,0\nmaybe,soon,2,1\nfalse,2024-01-02,3,0\n")
    for size in (1, 1024):
        done = bomkl("train", rows, "-o", tmp_path / "m", "-q", "--block-rows", size)
        assert done.exit_code == 0
        told = "column 'flag' holds truth values. Other values, such as 'maybe', count as missing."
        assert f"{told} For a column of texts, use --strings 'flag'. Rows: 1." in done.stderr
        texts = ["--strings", "flag", "--strings", "day", "--strings", "label"]
        assert bomkl("train", rows, "-o", tmp_path / f"m{size}", "-q", "--block-rows", size, *texts).exit_code == 0
    assert (tmp_path / "m1").read_bytes() == (tmp_path / "m1024").read_bytes()
    kinds = modelfile.load(tmp_path / "m1").encoder_.kinds_
    assert kinds == {"flag": "category", "day": "category", "x": "number"}
    assert bomkl("predict", tmp_path / "m1", rows).exit_code == 0


@pytest.mark.parametrize("option", ["label", "weight", "ignore", "strings"])
def test_options_for_columns_are_refused_where_columns_have_no_names(svm, model, option):
    for args in (["eval", svm], ["score", model, svm]):
        done = bomkl(*args, f"--{option}", "age")
        assert done.exit_code == 1
        assert f"rows.svm: columns have no names here. --{option} must be left out. Got" in done.stderr


@pytest.mark.parametrize("name", ["later.csv", "later.jsonl", "later.arrow"])
def test_columns_that_are_new_later_are_left_out_if_told_so(tmp_path, name):
    first, later, path = tmp_path / "first.csv", {"a": [1.0, 2.0], "b": ["x", "y"]}, tmp_path / name
    first.write_text("a,label\n1,0\n2,1\n")
    if name.endswith("csv"):
        path.write_text("a,b\n1,x\n2,y\n")
    elif name.endswith("jsonl"):
        path.write_text('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n')
    else:
        pa = pytest.importorskip("pyarrow")
        with pa.ipc.new_file(str(path), pa.table(later).schema) as sink:
            sink.write_table(pa.table(later))
    assert bomkl("train", first, "-q", "-o", tmp_path / "m").exit_code == 0
    refused = bomkl("predict", tmp_path / "m", path, "--new-columns", "refuse")
    assert refused.exit_code == 1
    assert "before" in refused.stderr
    expected = bomkl("predict", tmp_path / "m", first, "-k", "margins").stdout
    for option in ([], ["--new-columns", "ignore"]):
        done = bomkl("predict", tmp_path / "m", path, "-k", "margins", *option)
        assert done.stdout == expected
        assert "The column 'b' is ignored: it was not there" in done.stderr
        assert "Rows: 2." in done.stderr
    assert bomkl("predict", tmp_path / "m", path, "-k", "margins", "--ignore", "b").stdout == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,5", "numbers, write them as 1234.5"),
        ("1.234,50 €", "numbers, write them as 1234.5"),
        ("12%", "numbers, write them as 1234.5"),
        ("31.12.2024", "dates, write them as 2024-02-29T12:00"),
        ("12/31/2024 10:05", "dates, write them as 2024-02-29T12:00"),
        ("A-12", None),
        ("10.0.0.1", None),
    ],
)
def test_texts_that_look_like_numbers_or_dates_are_told(tmp_path, text, told):
    rows = tmp_path / "rows.tsv"
    rows.write_text(f"a\tlabel\n{text}\t0\nx\t1\n", encoding="utf-8")
    message = f"bomkl: column a holds texts such as {text!r}. To use them as {told}." if told else None
    done = bomkl("train", rows, "-o", tmp_path / "m")
    assert [line for line in done.stderr.splitlines() if line.startswith("bomkl:")] == ([message] if told else [])
    assert bomkl("train", rows, "-o", tmp_path / "m", "-q").stderr == (f"{message}\n" if told else "")
    assert "bomkl:" not in bomkl("train", rows, "-o", tmp_path / "m", "--strings", "a").stderr
    assert "columns      a=category" in bomkl("inspect", tmp_path / "m").stdout


def test_texts_of_a_file_with_types_are_not_told_if_they_are_numbers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "rows.arrow"
    table = pa.table({"a": ["-5", "+1.5"], "label": [0, 1]})
    with pa.ipc.new_file(str(path), table.schema) as sink:
        sink.write_table(table)
    assert "holds texts" not in bomkl("train", path, "-o", tmp_path / "m").stderr


def test_a_pipe_with_times_of_day_is_a_table(tmp_path):
    text = "when,label\n" + "2024-01-01 10:05,1\n2024-01-02 11:06,0\n" * 5
    assert bomkl("train", "-", "-o", tmp_path / "m", "-q", input=text).exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.kinds_ == {"when": "date"}


def test_a_column_without_values_in_python_is_told_by_its_first_value_here(tmp_path):
    model = AutoMKLClassifier(budget=10).partial_fit([{"a": None, "b": 1.0}, {"a": None, "b": 2.0}], [0, 1])
    modelfile.save(model, tmp_path / "m")
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1.5,2\n")
    found = bomkl("predict", tmp_path / "m", rows, "-k", "margins")
    with pytest.warns(UserWarning, match="'a' is ignored"):
        expected = model.decision_function([{"a": 1.5, "b": 2.0}])[0]
    assert found.stdout == f"{expected}\n"
    assert "'a' is ignored" in found.stderr


def test_a_model_of_a_matrix_still_reads_svmlight(svm, tmp_path):
    X, y = make_rows(500)
    modelfile.save(AutoMKLClassifier(budget=50, random_state=0).fit(X, y), tmp_path / "m")
    assert bomkl("predict", tmp_path / "m", svm).exit_code == 0


def test_stored_rows_and_support_vectors_are_told_apart(tmp_path):
    (tmp_path / "rows.svm").write_text(svm_text(300))
    done = bomkl("eval", tmp_path / "rows.svm", "-q", "--budget", 50)
    figures = dict(line.split("\t") for line in done.stdout.splitlines())
    assert int(figures["stored rows"]) <= 50 < int(figures["support vectors of all kernels"])


def test_warnings_survive_quiet(tmp_path):
    (tmp_path / "rows.csv").write_text("price,label\n" + "$3,a\n$4,b\n" * 10)
    done = bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m")
    assert "column price holds texts such as '$3'" in done.stderr
    command = [sys.executable, "-m", "bomkl", "eval", tmp_path / "rows.csv", "-q", "--budget", "5"]
    warned = subprocess.run(command, capture_output=True, text=True)
    assert "bomkl: warning: budget=5 is very small" in warned.stderr
    assert "evaluate.py" not in warned.stderr


def test_errors_name_the_model_file_and_not_the_lock_beside_it(svm, tmp_path, monkeypatch):
    real = os.open

    def refuse(path, *args, **kwargs):
        if str(path).endswith((".lock", ".tmp")):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    done = bomkl("train", svm, "-o", tmp_path / "m")
    assert (done.exit_code, done.stderr) == (1, f"bomkl: error: {tmp_path / 'm'}: Permission denied\n")


# merge


def test_merge(svm, tmp_path):
    parts = [tmp_path / "one", tmp_path / "two"]
    for seed, path in enumerate(parts):
        (tmp_path / f"{seed}.svm").write_text(svm_text(300, seed=seed))
        bomkl("train", tmp_path / f"{seed}.svm", "-a", "SPA", "--budget", 20, "-q", "-o", path)
    done = bomkl("merge", *parts, "-o", tmp_path / "m")
    assert (done.exit_code, done.stdout) == (0, "rows\t600\n")
    expected = merge([modelfile.load(path) for path in parts])
    X, _ = make_rows(50, seed=7)
    np.testing.assert_array_equal(modelfile.load(tmp_path / "m").decision_function(X), expected.decision_function(X))
    assert bomkl("predict", tmp_path / "m", svm).exit_code == 0
    assert "1.svm" in bomkl("inspect", tmp_path / "m").stdout
    assert "no run to resume" in bomkl("train", svm, "-o", tmp_path / "m", "--resume").stderr


def test_merge_names_files_in_its_errors(svm, tmp_path):
    for name, options in (("one", ["-a", "SPA"]), ("two", ["-a", "SPA", "--budget", 5]), ("three", [])):
        bomkl("train", svm, "-q", "-o", tmp_path / name, *options)
    for other, reason in (("two", "has other settings than"), ("three", "All models must be of one class")):
        refused = bomkl("merge", tmp_path / "one", tmp_path / other, "-o", tmp_path / "m")
        assert refused.exit_code == 1
        assert reason in refused.stderr
        assert str(tmp_path / other) in refused.stderr
    taken = bomkl("merge", tmp_path / "one", tmp_path / "two", "-o", tmp_path / "one")
    assert taken.exit_code == 2
    assert "the command uses this file already" in taken.stderr


# other ways to write tables


def test_decimal_commas(tmp_path):
    (tmp_path / "de.csv").write_text("size;city;label\n" + '"1,5";Ulm;a\n2.345,5;Rom;b\n-3,25;Rom;a\n' * 4)
    (tmp_path / "en.csv").write_text("size,city,label\n" + "1.5,Ulm,a\n2345.5,Rom,b\n-3.25,Rom,a\n" * 4)
    assert bomkl("train", tmp_path / "de.csv", "--decimal", ",", "-q", "-o", tmp_path / "de").exit_code == 0
    assert bomkl("train", tmp_path / "en.csv", "-q", "-o", tmp_path / "en").exit_code == 0
    models = [modelfile.load(tmp_path / name) for name in ("de", "en")]
    assert models[0].encoder_.kinds_ == {"size": "number", "city": "category"}
    rows = [{"size": 7.0, "city": "Rom"}]
    np.testing.assert_array_equal(models[0].decision_function(rows), models[1].decision_function(rows))
    predicted = [bomkl("predict", tmp_path / name, tmp_path / f"{name}.csv").stdout for name in ("de", "en")]
    assert predicted[0] == predicted[1]
    assert bomkl("train", tmp_path / "de.csv", "--decimal", "x", "-o", tmp_path / "m").exit_code == 2


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("name,label\n'a, b',x\n'it''s',y\n", ["--quote", "'"]),
        ('name,label\n"a, b",x\n"it\'s",y\n', []),
        ("name,label\na\\, b,x\nit's,y\n", ["--escape", "\\"]),
    ],
)
def test_quoted_and_escaped_texts(tmp_path, text, options):
    (tmp_path / "rows.csv").write_text(text)
    assert bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m", *options).exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.first_categories() == {"name": "a, b"}


def test_backslashes_before_quotes_lead_to_advice(tmp_path):
    (tmp_path / "rows.csv").write_text('name,label\n"a \\"b\\" c",x\n"d",y\n')
    refused = bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m")
    assert "read them with --escape '\\'" in refused.stderr
    assert bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m", "--escape", "\\").exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.first_categories() == {"name": 'a "b" c'}


def test_lists_and_objects_in_json(tmp_path):
    rows = [
        {"v": [i % 3, {"w": i % 2}], "user": {"age": i, "none": []}, "skip": [1, 2], "label": "xy"[i % 2]}
        for i in range(20)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bomkl("train", tmp_path / "rows.jsonl", "-q", "-o", tmp_path / "m", "--ignore", "skip")
    assert (done.exit_code, done.stderr) == (0, "")
    assert list(modelfile.load(tmp_path / "m").encoder_.kinds_) == ["v.0", "v.1.w", "user.age"]
    (tmp_path / "twice.jsonl").write_text('{"a": {"b": 1}, "a.b": 2, "label": 1}\n')
    refused = bomkl("train", tmp_path / "twice.jsonl", "-q", "-o", tmp_path / "m2")
    assert "two values have the name 'a.b'" in refused.stderr

"""Settings of options and of files, and wrong ones."""

from __future__ import annotations

import pytest
from tests.command_line import bomkl

from bomkl import BudgetMKLClassifier, modelfile
from bomkl.cli.settings import parse_value, set_parameter
from bomkl.kernels import Gaussian, Linear


def test_options_and_files_agree_and_options_go_first(svm, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'algorithm = "BOMKC(SPA)"\nbudget = 20\nseed = 7\n'
        '[parameters]\n"learner.eta" = 0.2\nkernels = "[Gaussian(2**-1), Linear()]"\n'
        '[rows]\nformat = "svmlight"\n'
    )
    options = ["-a", "SPA", "--budget", 20, "--seed", 7]
    options += ["-p", "learner.eta=0.2", "-p", "kernels=[Gaussian(0.5), Linear()]"]
    assert bomkl("eval", svm, "--config", config).stdout == bomkl("eval", svm, *options).stdout
    bomkl("train", svm, "-o", tmp_path / "m", "--config", config, "-p", "learner.eta=0.3", "-q")
    model = modelfile.load(tmp_path / "m")
    assert (model.learner.eta, model.budget, model.random_state) == (0.3, 20, 7)
    assert model.kernels == [Gaussian(0.5), Linear()]


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
        (
            ["--missing", "often"],
            "The 'missing' parameter of open_stream must be 'error', 'skip', 'keep' or a finite number. Got 'often'",
        ),
        (["--format", "xls"], "The 'format' parameter of open_stream must be one of"),
        (
            ["--categorical", "one-hot"],
            "'--categorical': Value error, 'one-hot' is not one of 'vocabulary', 'hash', 'error'",
        ),
        (["--categorical", "hash"], "--categorical is for bomkl convert: a model encodes strings itself"),
        (["--buckets", "8"], "--buckets is for bomkl convert: a model encodes strings itself"),
        (["--on-bad-line", "fix"], "'--on-bad-line': Value error, 'fix' is not one of 'stop', 'skip'"),
        (["--delimiter", "ab"], "The 'delimiter' parameter of open_stream must be one character. Got 'ab' instead."),
        (["--features", 0], "The 'n_features' parameter of open_stream must be an int >= 1. Got 0 instead."),
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
    assert done.stderr.startswith(("bomkl: error: ", "Usage: "))


def test_wrong_settings_in_a_file(svm, tmp_path):
    for text, message in (
        ("depth = 3", "depth"),
        ("= 3", "Invalid"),
        ("[rows]\nsep = 3", "sep"),
        ("[rows]\ndelimiter = 3", "The 'delimiter' parameter of open_stream must be one character. Got 3 instead."),
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

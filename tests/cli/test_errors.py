"""Rows and files that cannot be read: what is said, and the exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from tests.command_line import bomkl

from bomkl import modelfile


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("", [], "there are no rows"),
        ("a,label\n", ["--format", "csv"], "there are no rows"),
        (
            "a,label\n1,x\n2,x\n",
            ["--format", "csv", "-a", "BOMKC(SPA)"],
            "there is only one class (x); name all of them with --classes",
        ),
        (
            "a,label\n1,x\n2,y\ninf,x\n" + "1,x\n" * 20,
            ["--format", "csv"],
            "rows:4: column a: not a finite number: 'inf'",
        ),
        ("1 1:1\n-1 1:z\n", [], "rows:2: column 6: the value is not a finite number: 'z'"),
        ("1 1:1\n-1 1:2\n3 1:1\n", ["--classes", "1,-1"], "rows:3: the label is none of the classes [1, -1]: '3.0'"),
        ("1 1:1\n-1 3:2\n", ["--features", "2"], "rows:2: feature 3 is beyond the 2 "),
        (
            "a,b\n1,2\n",
            ["--format", "csv"],
            "there is no label column 'label'. The option 'label' names another. The columns are ['a', 'b'].",
        ),
        (
            "age,b\n1,2\n",
            ["--format", "csv"],
            "there is no label column 'label'. The option 'label' names another. The columns are ['age', 'b'].",
        ),
        (
            "a,label\n" + "".join(f"1,{i}.5\n" for i in range(1001)),
            ["--format", "csv"],
            "more than 1000 different labels; these are not classes. For regression, use AutoMKLRegressor or "
            "--algorithm auto-regression.",
        ),
        (
            "1 0:1\n-1 1:1\n",
            [],
            "rows:1: column 3: indices start at 1 (the option 'zero_based' is for files that start at 0): '0:1'",
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


def test_string_labels_of_a_regression_are_bad_lines(tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n" + "1,2\n2,x\n3,4\n" * 9)
    done = bomkl("eval", tmp_path / "rows.csv", "-a", "BudgetMKLRegressor", "-q", "--on-bad-line", "skip")
    assert done.stdout.splitlines()[0] == "rows\t18"
    assert "9 bad lines were skipped; the first: " in done.stderr
    assert "rows.csv:3: column label: the label is not a number: 'x'" in done.stderr


@pytest.mark.slow
def test_warnings_survive_quiet(tmp_path):
    (tmp_path / "rows.csv").write_text("price,label\n" + "$3,a\n$4,b\n" * 10)
    done = bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m")
    assert "column price holds strings such as '$3'" in done.stderr
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


def test_a_file_of_one_class_gives_the_model_that_a_pipe_gives(tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,x\n")
    found = bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "file")
    assert (found.exit_code, found.stderr.count("there is only one class (x)")) == (0, 1)
    piped = bomkl("train", "-", "--format", "csv", "-o", tmp_path / "pipe", input="a,label\n1,x\n2,x\n")
    assert piped.exit_code == 0
    one, other = (modelfile.load(tmp_path / name) for name in ("file", "pipe"))
    assert modelfile.to_bytes(modelfile.Model(one)) == modelfile.to_bytes(modelfile.Model(other))


def test_help_that_cannot_be_written_is_one_line_of_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        found = subprocess.run(
            [sys.executable, "-m", "bomkl", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    message = f"bomkl: error: standard output: {os.strerror(errno.ENOSPC)}\n"
    assert (found.returncode, found.stderr) == (1, message)

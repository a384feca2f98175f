"""What is written: checked before rows are read, never over an input, full and closed devices."""

from __future__ import annotations

import os

import pytest
from tests.command_line import bomkl


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


def test_plots_have_a_known_ending(svm, tmp_path, no_rows):
    pytest.importorskip("matplotlib")
    for name in ("x.foo", "x"):
        done = bomkl("eval", svm, "--plot", tmp_path / name)
        assert done.exit_code == 2
        assert "--plot must name an image such as error.png, error.svg or error.pdf." in done.stderr

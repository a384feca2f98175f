"""The two commands as a user types them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from bomkl.experiments import algorithms, commands, datasets
from bomkl.experiments.datasets import DatasetSpec
from bomkl.experiments.results import open_for_append, read_results

pytest.importorskip("matplotlib")


@pytest.fixture
def invoke() -> Callable[..., Result]:
    app = typer.Typer()
    app.command("reproduce")(commands.reproduce)
    app.add_typer(commands.datasets_app, name="datasets")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_reproduce_with_an_algorithm_of_ones_own(
    invoke: Callable[..., Result], plugin: Path, toy_german: DatasetSpec, tmp_path: Path
) -> None:
    algorithms._registered.clear()
    words = (
        "reproduce",
        "--datasets",
        "german",
        "--algorithms",
        "toy,broken",
        "--runs",
        "2",
        "--jobs",
        "1",
        "--offline",
    )
    result = invoke(*words, "--plugin", plugin, "--out", tmp_path / "out")
    assert result.exit_code == 1  # a cell failed
    assert "Table 1, german (1,000 rows, 24 columns)" in result.stdout
    assert "not run: Table 1, german: failed: RuntimeError: made to fail (broken)" in result.stdout
    assert "failed: german, broken, seed 0: RuntimeError: made to fail (toy_algorithms.py:" in result.stderr
    assert (tmp_path / "out" / "report.html").is_file()
    again = invoke(*words[:4], "toy", *words[5:], "--plugin", plugin, "--out", tmp_path / "out")
    assert again.exit_code == 0
    assert len(read_results(tmp_path / "out" / "rows.jsonl").rows) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--datasets", "germann"), "Unknown data set 'germann'; did you mean 'german'? Known: german, svmguide3"),
        (("--algorithms", "OMKC(X)"), "Known: Perceptron(*), OMKC(U)"),
        (("--table", "3"), "The 'table' parameter of reproduce must be 1 or 2. Got 3 instead."),
        (("--figure", "2"), "The 'figure' parameter of reproduce must be 1. Got 2 instead."),
        (("--runs", "0"), "The 'runs' parameter of reproduce must be an int >= 1. Got 0 instead."),
        (("--plugin", "nowhere.py"), "nowhere.py"),
    ],
)
def test_bad_options(invoke: Callable[..., Result], tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = invoke("reproduce", *words, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_interrupt_says_how_to_go_on(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(request: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bomkl.experiments.pipeline.reproduce", interrupted)
    result = invoke("reproduce", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr


def test_two_runs_into_one_folder(
    invoke: Callable[..., Result], plugin: Path, toy_german: DatasetSpec, tmp_path: Path
) -> None:
    pytest.importorskip("fcntl")
    words = ("reproduce", "--datasets", "german", "--algorithms", "toy", "--jobs", "1", "--offline", "--out", tmp_path)
    with open_for_append(tmp_path / "rows.jsonl"):
        result = invoke(*words)
    assert result.exit_code == 1
    assert "in use by another run" in result.stderr


def test_datasets_list(invoke: Callable[..., Result], toy_german: DatasetSpec) -> None:
    lines = invoke("datasets", "list").stdout.splitlines()
    assert lines[0].split()[:5] == ["german", "1,000", "x", "24", "here"]
    text = "\n".join(lines)
    assert "kdd08          102,294 x 117  missing" in text
    assert "susy         1,000,000 x 18   large" in text
    assert "licence: CC BY 4.0" in text


def test_datasets_fetch_and_path(invoke: Callable[..., Result], toy_german: DatasetSpec, data_folder: Path) -> None:
    assert invoke("datasets", "fetch", "GERMAN").stdout.strip() == str(data_folder / "german.npz")
    assert invoke("datasets", "path").stdout.splitlines() == [str(data_folder), str(datasets.cache_folder())]
    missing = invoke("datasets", "fetch", "kdd08")
    assert missing.exit_code == 1
    assert "put kdd08.npz or Info.txt + Features.txt into the folder" in missing.stderr
    unknown = invoke("datasets", "fetch", "kdd09")
    assert unknown.exit_code == 2
    assert "did you mean 'kdd08'?" in unknown.stderr

"""The commands as a user types them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from bomkl_lab import commands
from bomkl_lab.experiments import algorithms, datasets
from bomkl_lab.experiments.datasets import DatasetSpec
from bomkl_lab.experiments.results import open_for_append, read_results

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
        (("--datasets", "germann"), "Unknown data set 'germann'. Did you mean 'german'? Known: german, svmguide3"),
        (("--algorithms", "OMKC(X)"), "Known: Perceptron(*), OMKC(U)"),
        (("--table", "3"), "The 'table' parameter of reproduce must be 1 or 2. Got 3 instead."),
        (("--figure", "2"), "The 'figure' parameter of reproduce must be 1. Got 2 instead."),
        (("--runs", "0"), "The 'runs' parameter of reproduce must be an int >= 1. Got 0 instead."),
        (("--plugin", "nowhere.py"), "nowhere.py"),
        (("--datasets", ""), "--datasets must hold names separated by commas, such as german,a9a. Got '' instead"),
        (("--algorithms", " , "), "--algorithms must hold names separated by commas, such as SPA,RBP. Got ' , '"),
        (
            ("--table", "2", "--datasets", "german"),
            "No cell matches what was asked for: Table 2; data sets german. Table 2 has the data sets a9a, magic04",
        ),
        (
            ("--table", "2", "--algorithms", "OMKC(U)"),
            "No cell matches what was asked for: Table 2; algorithms OMKC(U). Table 2 has the data sets",
        ),
    ],
)
def test_bad_options(invoke: Callable[..., Result], tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = invoke("reproduce", *words, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "own.py: the plugin cannot be run: SyntaxError: "),
        ("import os\n\nos.nothing()", "own.py, line 3: the plugin cannot be run: AttributeError: module 'os' has no"),
        ("raise SystemExit(3)", "own.py, line 1: the plugin cannot be run: SystemExit: 3"),
        (
            "from bomkl_lab.experiments import register_algorithm as r\nr('OMKC(U)', int)",
            "ValueError: The 'name' parameter",
        ),
    ],
)
def test_plugins_that_fail(invoke: Callable[..., Result], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.py").write_text(text)
    result = invoke("reproduce", "--plugin", tmp_path / "own.py", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_folders_that_cannot_hold_a_run(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bomkl_lab.experiments.pipeline.reproduce", lambda request: pytest.fail("it was run"))
    (tmp_path / "file").write_text("")
    (tmp_path / "run" / "rows.jsonl").mkdir(parents=True)
    for out, problem in (
        (tmp_path / "file", "it is a file"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / "run", f"{tmp_path / 'run' / 'rows.jsonl'} is not a file"),
    ):
        result = invoke("reproduce", "--out", out)
        assert result.exit_code == 2
        rule = "The 'out' parameter of reproduce must be a folder that can be written to."
        assert result.stderr == f"{rule} Got '{out}' instead ({problem}); choose another with --out.\n"
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    result = invoke("reproduce", "--out", tmp_path)
    assert result.exit_code == 2
    assert "(permission denied)" in result.stderr


def test_a_full_disk_is_one_line(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(request: object) -> None:
        raise OSError(28, "No space left on device", "rows.jsonl")

    monkeypatch.setattr("bomkl_lab.experiments.pipeline.reproduce", full)
    result = invoke("reproduce", "--out", tmp_path)
    assert (result.exit_code, result.stderr) == (1, "rows.jsonl: No space left on device\n")


def test_interrupt_says_how_to_go_on(
    invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(request: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bomkl_lab.experiments.pipeline.reproduce", interrupted)
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
    assert "Did you mean 'kdd08'?" in unknown.stderr


def test_data_in_the_package_are_found_and_nothing_to_run_is_a_failure(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "data_folders", lambda: [tmp_path, *datasets.BUNDLED])
    monkeypatch.setattr("bomkl_lab.experiments.pipeline.data_folders", lambda: [tmp_path, *datasets.BUNDLED])
    assert datasets.load_dataset("magic04").X.shape == (19020, 10)
    words = ("reproduce", "--algorithms", "OMKC(U)", "--offline", "--jobs", "1", "--out", tmp_path / "out")
    done = invoke(*words, "--datasets", "svmguide3")
    assert done.exit_code == 1
    assert "Nothing could be run: none of the data sets is here." in done.stderr

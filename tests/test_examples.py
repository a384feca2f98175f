"""The examples run, print something and leave nothing behind."""

import runpy
import sys
import tempfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
NEEDS = {
    "river_pipeline": "river",
    "onnx_export": "onnxruntime",
    "ray_partitions": "ray",
    "spark_partitions": "pyspark",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr()
    assert printed.out
    assert printed.err == ""
    assert list(here.iterdir()) == []


def test_every_example_is_listed() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.glob("*.py") if f"`{path.name}`" not in listed] == []

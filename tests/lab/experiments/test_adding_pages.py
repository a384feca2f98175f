"""The pages that show how to add an algorithm and a data set are short, and what they show works."""

import re
from pathlib import Path

import pytest

from bomkl_lab.experiments import algorithms
from bomkl_lab.experiments.datasets import DatasetSpec
from bomkl_lab.experiments.pipeline import Request, reproduce

DOCS = Path(__file__).parents[3] / "docs"


def examples(page: str) -> list[str]:
    pytest.importorskip("matplotlib")
    if not DOCS.is_dir():
        pytest.skip("the documentation is not part of this installation")
    return re.findall(r"```(?:python|sh)\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_an_algorithm(toy_german: DatasetSpec, tmp_path: Path) -> None:
    example = examples("adding-an-algorithm.md")[0]
    assert len(example.splitlines()) < 40
    plugin = tmp_path / "my_algorithms.py"
    plugin.write_text(example)
    algorithms.load_plugin(plugin)
    names = ("majority", "Projectron pool", "linear SGD")
    assert algorithms.registered_algorithms() == names
    request = Request(tables=(1,), datasets=("german",), algorithms=names, runs=2, out=tmp_path, download=False)
    outcome = reproduce(request)
    assert outcome.failures == ()
    (block,) = outcome.blocks
    assert [entry.algorithm for entry in block.entries] == list(names)
    rates = [entry.mistake.mean for entry in block.entries if entry.mistake]
    assert len(rates) == 3
    assert rates[2] < 25 < rates[0]  # the toy data are nearly linear
    assert block.entries[1].svs is not None
    assert block.entries[2].svs is None


def test_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, maker, command = examples("adding-a-data-set.md")
    assert len(spec.splitlines()) < 10
    monkeypatch.chdir(tmp_path)
    exec(maker, {})
    monkeypatch.setenv("BOMKL_DATA", "data")
    Path("my_data.py").write_text(spec)
    algorithms.load_plugin(Path("my_data.py"))
    names = re.findall(r'--algorithms "(.*?)"', command)[0].split(",")
    request = Request(tables=(1,), datasets=("circles",), algorithms=tuple(names), runs=2, out=tmp_path / "out")
    outcome = reproduce(request)
    assert outcome.failures == ()
    (block,) = outcome.blocks
    assert [entry.algorithm for entry in block.entries] == names
    assert all(entry.mistake.mean < 30 for entry in block.entries if entry.mistake)

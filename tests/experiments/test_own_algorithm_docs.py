"""The page that shows how to add an algorithm is short, and what it shows works."""

import re
from pathlib import Path

import pytest

from bomkl.experiments import algorithms
from bomkl.experiments.datasets import DatasetSpec
from bomkl.experiments.pipeline import Request, reproduce

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-algorithm.md"


def test_the_example_runs(toy_german: DatasetSpec, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    if not PAGE.is_file():
        pytest.skip("the documentation is not part of this installation")
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
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

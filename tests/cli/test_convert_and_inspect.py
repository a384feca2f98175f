"""``convert`` and ``inspect``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.command_line import bomkl


def test_inspect(model):
    content = json.loads(bomkl("inspect", model, "--json").stdout)
    assert (content["rows"], content["features"], content["classes"]) == (500, 3, [-1, 1])
    assert sum(kernel["weight"] for kernel in content["kernels"]) == pytest.approx(1)
    assert [entry["rows"] for entry in content["notes"]["history"]] == [64, 128, 256, 500]
    expected = {"random_state": 0, "budget": None, "normalize_step": False}
    assert content["parameters"].items() >= expected.items()  # numbers as numbers
    assert content["parameters"]["learner"] == "SPA(eta=0.1, alpha=1.0, beta=3.0)"
    shown = bomkl("inspect", model).stdout
    for text in ("BudgetMKLClassifier", "Gaussian(sigma=1.0)", "complete", "since last"):
        assert text in shown


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl", "rows2.svm"])
def test_convert_there_and_back(svm, tmp_path, name):
    assert bomkl("convert", svm, "-o", tmp_path / name).exit_code == 0
    assert bomkl("convert", tmp_path / name).stdout == bomkl("convert", svm).stdout
    assert bomkl("convert", svm, "--to", "xls").exit_code == 2


def test_commands_write_to_devices_and_pipes(svm, model):
    for command in (["convert", svm], ["predict", model, svm]):
        assert bomkl(*command, "-o", "/dev/null").exit_code == 0
    pipe = f"'{sys.executable}' -m bomkl convert {svm} -o /dev/stdout | wc -l"
    assert int(subprocess.run(["bash", "-c", pipe], capture_output=True, text=True).stdout) == 500


def test_convert_strings(pets):
    done = bomkl("convert", pets, "--label", "kind")
    assert done.stdout.splitlines()[:3] == ["0 1:4.5 4:1", "1 1:30 2:1", "2 1:0.1 3:1"]

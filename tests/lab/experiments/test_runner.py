"""The runner: rows, failures, resuming, and what is left after it was killed or interrupted."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.slow import slow_but

from bomkl_lab.experiments import runner
from bomkl_lab.experiments.adapters import score_and_learn_of
from bomkl_lab.experiments.datasets import DatasetSpec
from bomkl_lab.experiments.protocol import Cell
from bomkl_lab.experiments.results import read_results, reproducible_part
from bomkl_lab.experiments.runner import estimated_cost, run_cells

SCRIPT = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it for its children
import dataclasses, sys
from pathlib import Path
from bomkl_lab.experiments import algorithms, datasets
from bomkl_lab.experiments.protocol import make_cell
from bomkl_lab.experiments.runner import run_cells

plugin, out, jobs, algorithm = sys.argv[1:]
algorithms.load_plugin(Path(plugin))
datasets.register_dataset(dataclasses.replace(datasets.get_spec("german"), sha256=None))
cells = [make_cell("german", algorithm, seed) for seed in range(8)]
print("ready", flush=True)
try:
    run_cells(cells, Path(out), int(jobs))
except KeyboardInterrupt:
    sys.exit(130)
"""


def toy_cells(algorithm: str = "toy", runs: int = 3) -> list[Cell]:
    return [Cell("german", algorithm, seed) for seed in range(runs)]


def test_row_holds_everything(plugin: Path, toy_german: DatasetSpec, tmp_path: Path) -> None:
    results = run_cells(toy_cells(runs=1), tmp_path / "rows.jsonl")
    (row,) = results.rows.values()
    assert row["status"] == "ok"
    assert (row["rows"], row["columns"]) == (1000, 24)
    assert row["support"] == sum(row["support_per_kernel"]) == 2 * row["mistakes"]
    assert row["weights"] == [0.25, 0.75]
    assert row["seconds"] > 0
    assert 10 < row["peak_memory_mib"] < 100_000
    assert set(row["machine"]) == {"cpu", "cores", "system", "python"}
    assert row["version"]
    assert row["threads"] == 1
    assert row["cell"]["dtype"] == "float32"
    curve = row["curve"]
    assert len(curve["rows"]) == runner.CURVE_POINTS
    assert len(row["weights_curve"]["weights"]) == len(row["weights_curve"]["rows"]) == 50
    assert curve["rows"][-1] == 1000
    assert curve["mistakes"][-1] == row["mistakes"]
    assert curve["support"][-1] == row["support"]
    assert curve["seconds"] == sorted(curve["seconds"])


def test_permutation_and_random_state_come_from_the_seed(plugin: Path, toy_german: DatasetSpec, tmp_path: Path) -> None:
    rows = run_cells(toy_cells(runs=2), tmp_path / "a.jsonl").rows
    again = run_cells(toy_cells(runs=2), tmp_path / "b.jsonl").rows
    assert [reproducible_part(row) for row in rows.values()] == [reproducible_part(row) for row in again.values()]
    assert len({tuple(row["curve"]["mistakes"]) for row in rows.values()}) == 2
    assert "weights_curve" not in rows[toy_cells()[1].key()]


def test_second_run_computes_only_what_is_missing(plugin: Path, toy_german: DatasetSpec, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    run_cells(toy_cells(runs=2), path)
    before = path.read_bytes()
    run_cells(toy_cells(runs=2), path)
    assert path.read_bytes() == before
    run_cells(toy_cells(runs=3), path)
    assert path.read_bytes().startswith(before)
    assert path.read_bytes().count(b"\n") == 3


def test_failed_cell_is_a_row_with_its_error(plugin: Path, toy_german: DatasetSpec, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    results = run_cells([*toy_cells(runs=1), *toy_cells("broken", runs=1)], path)
    failed = results.rows[toy_cells("broken")[0].key()]
    assert failed["status"] == "failed"
    assert failed["error"] == "RuntimeError: made to fail"
    assert failed["place"].startswith("toy_algorithms.py:")
    assert len(results.finished()) == 1
    run_cells(toy_cells("broken", runs=1), path)
    assert path.read_bytes().count(b"\n") == 2
    run_cells(toy_cells("broken", runs=1), path, retry_failed=True)
    assert path.read_bytes().count(b"\n") == 3


def test_margins_that_are_not_finite_fail_the_cell(toy_german: DatasetSpec) -> None:
    class Bad:
        def score_and_learn(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.full(len(y), np.nan)

    row = runner.run_cell(toy_cells()[0], lambda budget, random_state: Bad(), toy_german)
    assert row["error"] == "FloatingPointError: margins of rows 0 to 5 are not all finite"


@pytest.mark.slow
def test_two_processes_give_the_same_rows(plugin: Path, toy_german: DatasetSpec, tmp_path: Path) -> None:
    one = run_cells(toy_cells(), tmp_path / "one.jsonl", jobs=1).rows
    two = run_cells(toy_cells(), tmp_path / "two.jsonl", jobs=2).rows
    assert {key: reproducible_part(row) for key, row in one.items()} == {
        key: reproducible_part(row) for key, row in two.items()
    }


def start(plugin: Path, out: Path, jobs: int, algorithm: str = "slow toy") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(plugin), str(out), str(jobs), algorithm]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait_for_rows(path: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, "no row was written"
        time.sleep(0.01)


def wait_for_workers_to_end(group: int) -> None:
    deadline = time.monotonic() + 120
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            assert time.monotonic() < deadline, "workers outlived the process that started them"
            time.sleep(0.05)


@pytest.mark.slow
def test_killed_at_random_moments_the_rows_end_up_the_same(
    plugin: Path, toy_german: DatasetSpec, tmp_path: Path
) -> None:
    undisturbed = run_cells(toy_cells("slow toy", 8), tmp_path / "whole.jsonl").rows
    path = tmp_path / "killed.jsonl"
    moments = random.Random(5)
    for rows, jobs in ((1, 1), (4, 2)):
        with start(plugin, path, jobs) as process:
            wait_for_rows(path, rows)
            time.sleep(moments.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
        wait_for_workers_to_end(process.pid)
    # A kill in the middle of a write, which is too short to hit by chance.
    path.write_bytes(path.read_bytes()[:-100])
    with start(plugin, path, jobs=1) as process:
        assert process.wait(120) == 0
    results = read_results(path)
    assert {key: reproducible_part(row) for key, row in results.rows.items()} == {
        key: reproducible_part(row) for key, row in undisturbed.items()
    }
    assert len(results.problems) == 1


@pytest.mark.slow
@pytest.mark.parametrize("jobs", slow_but((1,), (1, 2)))
def test_interrupt_leaves_complete_rows_only(plugin: Path, toy_german: DatasetSpec, tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "rows.jsonl"
    with start(plugin, path, jobs, "waits") as process:
        wait_for_rows(path, 2)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to every process of the group
        assert process.wait(120) == 130
    results = read_results(path)
    assert results.problems == []
    assert len(results.rows) == 2
    assert path.read_bytes().endswith(b"\n")


def test_longest_cells_are_estimated_by_the_papers_times() -> None:
    assert estimated_cost(Cell("a9a", "OMKC(U)", 0)) == 1178.5
    assert estimated_cost(Cell("susy-sample", "BOMKC(RBP)", 0)) == pytest.approx(158.2 * 0.040924)
    assert estimated_cost(Cell("a9a", "mine", 0)) > 0


def test_partial_fit_models_predict_before_they_learn() -> None:
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, 1, -1).astype(np.int8)

    class NeverOneRow(GaussianNB):  # naive Bayes needs two rows before its variances make sense
        def predict(self, X: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                return super().predict(X)

    learn = score_and_learn_of(NeverOneRow())
    margins = np.concatenate([learn(X[:7], y[:7]), learn(X[7:], y[7:])])
    assert margins[0] == 0
    assert set(margins[1:]) <= {-1.0, 1.0}
    assert np.mean(y * margins <= 0) < 0.3


def test_what_cannot_learn_online_is_refused() -> None:
    with pytest.raises(TypeError, match="object has neither score_and_learn nor partial_fit"):
        score_and_learn_of(object())

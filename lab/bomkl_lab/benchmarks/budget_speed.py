"""`bomkl bench budget_speed`: the paper's budget learners beside an older version of bomkl (`--baseline PYTHON`).

PYTHON is the interpreter of an environment that has the older version. Both learn from the same permutation with the
budgets of Table 2, in as many calls as `bomkl reproduce` makes, in turn, each time in a new process. Seconds are
processor time; the fastest run of each counts. Both must make the same mistakes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.baseline import figures
from bomkl_lab.benchmarks.common.rows import Row, markdown
from bomkl_lab.benchmarks.end_to_end import paper_cell
from bomkl_lab.experiments.datasets import load_dataset
from bomkl_lab.experiments.protocol import BUDGET_RIVALS, KERNELS
from bomkl_lab.experiments.runner import CURVE_POINTS

DATASETS = ("magic04", "ijcnn1")
TURNS = 3
RUNS_PER_TURN = 2

_LEARN = f"""
from bomkl_lab.experiments.algorithms import factory_of
ends = np.unique(np.linspace(0, len(y), {CURVE_POINTS} + 1).round().astype(int))
best = float("inf")
for _ in range({RUNS_PER_TURN}):
    model = factory_of(NAME)(budget=BUDGET, random_state=0)
    seconds = 0.0
    for begin, end in zip(ends[:-1], ends[1:]):
        start = process_time()
        model.score_and_learn(X[begin:end], y[begin:end], classes=[-1, 1])
        seconds += process_time() - start
    best = min(best, seconds)
print(json.dumps({{"seconds": best, "mistakes": int(model.mistakes_)}}))
"""


def beside(python: Path, dataset: str, algorithm: str, rows: int | None, turns: int = TURNS) -> Row:
    """One algorithm on one data set, by an older version and here."""
    cell, data = paper_cell(dataset, algorithm), load_dataset(dataset)
    order = np.random.default_rng(cell.seed).permutation(len(data.y))[:rows]
    X, y = np.ascontiguousarray(data.X[order]), data.y[order]
    script = f"NAME, BUDGET = {algorithm!r}, {cell.budget!r}\n{_LEARN}"
    pythons = {"older": python, "now": Path(sys.executable)}
    runs: dict[str, list[dict[str, float]]] = {version: [] for version in pythons}
    for _ in range(turns):
        for version, each in pythons.items():
            runs[version].append(figures(each, script, X, y))
    mistakes = {int(run["mistakes"]) for each in runs.values() for run in each}
    if len(mistakes) > 1:
        raise SystemExit(f"{algorithm} on {dataset}: the versions made {sorted(mistakes)} mistakes")
    older, now = (min(run["seconds"] for run in runs[version]) for version in pythons)
    values = KERNELS * (cell.budget or 0) * len(y)
    return {
        "dataset": dataset,
        "algorithm": algorithm,
        "budget": cell.budget,
        "rows": len(y),
        "older_seconds": older,
        "seconds": now,
        "ratio": older / now,
        "values_per_second": values / now,
        "mistakes": mistakes.pop(),
    }


def table(rows: Sequence[Row]) -> str:
    header = ["data", "algorithm", "budget", "rows", "older, s", "now, s", "ratio", "G kernel values/s", "mistakes"]
    lines = [
        [
            row["dataset"],
            row["algorithm"],
            str(row["budget"]),
            f"{row['rows']:,}",
            f"{row['older_seconds']:.3f}",
            f"{row['seconds']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['values_per_second'] / 1e9:.2f}",
            f"{row['mistakes']:,}",
        ]
        for row in rows
    ]
    return markdown(header, lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument(
        "--baseline", type=Path, metavar="PYTHON", required=True, help="interpreter with an older version"
    )
    options.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    options.add_argument("--rows", type=int, help="learn at most so many rows of each stream")
    options.add_argument("--turns", type=int, default=TURNS, help="how often each version runs")
    chosen = options.parse_args()
    cells = [(dataset, algorithm) for dataset in chosen.datasets for algorithm in BUDGET_RIVALS]
    rows = []
    with progress_bar(len(cells), "streams", "stream") as bar:
        for dataset, algorithm in cells:
            rows.append(beside(chosen.baseline, dataset, algorithm, chosen.rows, chosen.turns))
            bar.update()
    print(table(rows))

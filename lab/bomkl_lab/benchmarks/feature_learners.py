"""`bomkl bench feature_learners`: FOGD and NOGD compared with SPA and BPAS at the same memory.

SPA and BPAS have the budget of the paper's second table. FOGD gets as many frequencies, and NOGD as many support rows,
as fit into the memory of the smaller of the two. All four combine scores by Hedge and update every kernel; FOGD has the
paper's Gaussian kernels, the others all sixteen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bomkl import BudgetMKLClassifier
from bomkl._support.progress import progress_bar
from bomkl.kernels import paper_gaussians, paper_kernels
from bomkl.learners import BPAS, FOGD, NOGD, SPA
from bomkl_lab.benchmarks.common.measure import one_thread, timed
from bomkl_lab.benchmarks.common.rows import Row, means, parser, report
from bomkl_lab.experiments.datasets import MissingDataError, load_dataset
from bomkl_lab.experiments.published import published_budget

DATASETS = ("magic04", "a9a", "ijcnn1", "codrna")
LEARNERS = ("SPA", "BPAS", "FOGD", "NOGD")
SIZING_ROWS = 3000


def make(learner: str, size: int) -> BudgetMKLClassifier:
    """Make the model of a learner: `size` support rows for each kernel, or frequencies."""
    if learner == "FOGD":
        return BudgetMKLClassifier(paper_gaussians(), FOGD(n_frequencies=size), selection_delta=None, random_state=0)
    rule = {"SPA": SPA(), "BPAS": BPAS(), "NOGD": NOGD()}[learner]
    return BudgetMKLClassifier(learner=rule, budget=size, selection_delta=None, random_state=0)


def largest_size(learner: str, nbytes: int, X: Any, y: Any) -> int:
    """Largest size whose memory, after enough rows to fill it, is at most `nbytes`."""
    low, high = 1, nbytes // (8 * len(paper_gaussians()))  # FOGD has more than one number for each kernel and frequency
    if learner == "NOGD":
        high = int((nbytes / (8 * NOGD().rank * len(paper_kernels()))) ** 0.5)  # its matrices alone
    n = 20 if learner == "FOGD" else SIZING_ROWS
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        fits = make(learner, middle).fit(X[:n], y[:n]).nbytes_ <= nbytes
        low, high = (middle, high) if fits else (low, middle)
    return low


def run(dataset: str, learner: str, size: int, X: Any, y: Any, order: Any) -> tuple[Row, int]:
    """One permutation of one data set."""
    X, y = np.ascontiguousarray(X[order]), y[order]
    model = make(learner, size)
    seconds, _ = timed(lambda: model.score_and_learn(X, y))
    row = {"dataset": dataset, "learner": learner, "size": size, "mistakes": 100 * model.mistakes_ / len(y)}
    return row | {"seconds": seconds, "kib": model.nbytes_ / 1024}, model.nbytes_


def measure(datasets: tuple[str, ...], permutations: int, n_rows: int | None) -> Iterator[Row]:
    """Give a row for each data set and learner: means over permutations."""
    with progress_bar(len(datasets) * len(LEARNERS) * permutations, "streams", "stream") as bar:
        for dataset in datasets:
            try:
                data = load_dataset(dataset)
            except MissingDataError as error:
                yield {"dataset": dataset, "not_run": str(error)}
                continue
            sizes = dict.fromkeys(("SPA", "BPAS"), published_budget(dataset))
            rows: list[Row] = []
            for seed in range(permutations):
                order = np.random.default_rng(seed).permutation(len(data.y))[:n_rows]
                memory: list[int] = []
                for learner in LEARNERS:
                    if learner not in sizes:
                        sizes[learner] = largest_size(learner, min(memory), data.X[order], data.y[order])
                    row, nbytes = run(dataset, learner, sizes[learner], data.X, data.y, order)
                    memory.append(nbytes)
                    rows.append(row | {"rows": len(order)})
                    bar.update()
            for row in means(rows, ("dataset", "learner")):
                found = [each["mistakes"] for each in rows if each["learner"] == row["learner"]]
                yield row | {"deviation": float(np.std(found))}


def show(row: Row) -> str:
    if "not_run" in row:
        return f"{row['dataset']:8} not run: {row['not_run']}"
    return (
        f"{row['dataset']:8} {row['learner']:5} size {row['size']:6.0f}  {row['kib']:7.0f} KiB  "
        f"mistakes {row['mistakes']:6.2f} +- {row['deviation']:4.2f} %  {row['seconds']:7.2f} s"
        f"  ({row['runs']} x {row['rows']:,.0f} rows)"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--permutations", type=int, default=10, help="streams of every data set")
    options.add_argument("--rows", type=int, help="only the first so many rows of each permutation")
    options.add_argument("--datasets", default=",".join(DATASETS), help="separated by commas")
    chosen = options.parse_args()
    one_thread()
    names = tuple(chosen.datasets.split(","))
    report("feature_learners", measure(names, chosen.permutations, chosen.rows), show, chosen.out)

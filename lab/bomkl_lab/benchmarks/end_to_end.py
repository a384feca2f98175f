"""`bomkl bench end_to_end`: rows a second of the paper's algorithms, FOGD and NOGD on every data set of this machine.

Each row also says how many kernel values were summed a second, and what share of the machine's limit that is. The limit
is the time that the arithmetic alone would take: 2 d operations for each row and stored row at the speed of a matrix
product, and one exponential for each value of a Gaussian kernel at the speed of the engine's own exponential on numbers
in the cache, both measured in the same run in the precision of the algorithm. Both use the same units, so the times add
up. FOGD has frequencies in place of stored rows, and cosines and sines in place of kernel values and exponentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bomkl._support.progress import progress_bar
from bomkl.kernels import Gaussian
from bomkl.learners import FOGD
from bomkl.paper import ALGORITHMS, BUDGET_ALGORITHMS, FEATURE_ALGORITHMS, BestKernelPerceptron
from bomkl_lab.benchmarks.common.limits import Limits, measure_limits
from bomkl_lab.benchmarks.common.measure import one_thread, timed
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.experiments.algorithms import factory_of
from bomkl_lab.experiments.datasets import find_local, get_spec, load_dataset, registry
from bomkl_lab.experiments.protocol import QUICK_DATASETS, Cell, table_cells
from bomkl_lab.experiments.published import published_table

MEASURED = (*ALGORITHMS, *FEATURE_ALGORITHMS)
CHUNK = 2_000
SECONDS = 10.0


def paper_cell(dataset: str, algorithm: str) -> Cell:
    """Return the cell of Table 2 for algorithms with a budget, where it has the data set; else one without a budget."""
    whole = get_spec(dataset).stands_for or dataset
    with_budget = BUDGET_ALGORITHMS + FEATURE_ALGORITHMS
    table = 2 if algorithm in with_budget and whole in published_table(2) else 1
    return table_cells(table, dataset, [algorithm], [0])[0]


def estimator_of(cell: Cell, X: Any, y: Any) -> Any:
    """Make a cell's estimator. Perceptron(*) gets its kernel from the first rows: choosing it is not what is timed."""
    estimator = factory_of(cell.algorithm)(budget=cell.budget, random_state=cell.seed, **dict(cell.parameters))
    if isinstance(estimator, BestKernelPerceptron):
        chosen = BestKernelPerceptron(random_state=0).fit(X[:CHUNK], y[:CHUNK], shuffle=False).kernels_
        estimator.set_params(kernels=chosen)
    return estimator


def sizes(estimator: Any) -> Any:
    """Count stored rows, kernel values that a row takes now, and those of them that are of Gaussian kernels."""
    if not hasattr(estimator, "n_support_"):
        return np.zeros(3)
    if isinstance(estimator.learner, FOGD):
        frequencies = float(estimator.learner.n_frequencies)
        waves = 2 * frequencies * len(estimator.kernels_)
        return np.array([frequencies, waves, waves])
    support = np.atleast_1d(estimator.n_support_)
    gaussian = [isinstance(kernel, Gaussian) for kernel in estimator.kernels_]
    return np.array([len(estimator.support_vectors_), support.sum(), support[gaussian].sum()], dtype=float)


def run(cell: Cell, X: Any, y: Any, most_seconds: float, limits: dict[str, Limits]) -> Row:
    """Learn a stream until it ends or the time is up; the row says how much of it was learned."""
    estimator = estimator_of(cell, X, y)
    dtype = estimator.dtype or cell.dtype
    seconds, done = 0.0, 0
    work, before = np.zeros(3), sizes(estimator)  # support hardly changes within a chunk, or grows evenly
    while done < len(y) and seconds < most_seconds:
        part = slice(done, done + CHUNK)
        taken, _ = timed(lambda part=part: estimator.partial_fit(X[part], y[part], classes=[-1, 1]))
        seconds += taken
        after = sizes(estimator)
        work += len(y[part]) * (before + after) / 2
        before = after
        done = min(part.stop, len(y))
    pairs, values, exps = work
    least = limits[dtype].least_seconds(2 * X.shape[1] * pairs, exps, 0)
    return {
        "dataset": cell.dataset,
        "algorithm": cell.algorithm,
        "d": X.shape[1],
        "rows": done,
        "of_rows": len(y),
        "dtype": dtype,
        "seconds": seconds,
        "rows_per_second": done / seconds,
        "values_per_second": values / seconds,
        "of_limit": (least["sgemm"] + least["exp"]) / seconds,
        "gemm_gflops": limits[dtype].flops / 1e9,
        "exps_per_second": limits[dtype].exps,
        "mistakes": estimator.mistakes_,
        "support": int(estimator.n_support_.sum()),
        "mebibytes": estimator.nbytes_ / 2**20,
    }


def available() -> list[str]:
    """Return the data sets that need no download; a sample only where the whole is missing."""
    here = [name for name, spec in registry().items() if find_local(spec)]
    return [name for name in here if registry()[name].stands_for not in here]


def measure(
    datasets: Sequence[str] | None = None,
    algorithms: Sequence[str] = MEASURED,
    rows: int | None = None,
    most_seconds: float = SECONDS,
) -> Iterator[Row]:
    """All rows, data set by data set; by default those that are here."""
    datasets = available() if datasets is None else datasets
    limits = {dtype: measure_limits(dtype=dtype) for dtype in ("float32", "float64")}
    with progress_bar(len(datasets) * len(algorithms), "streams", "stream") as bar:
        for dataset in datasets:
            data = load_dataset(dataset)
            order = np.random.default_rng(0).permutation(len(data.y))[:rows]
            X, y = data.X[order], data.y[order]
            for algorithm in algorithms:
                yield run(paper_cell(dataset, algorithm), X, y, most_seconds, limits)
                bar.update()


def show(row: Row) -> str:
    cut = "" if row["rows"] == row["of_rows"] else f", the first {row['rows']:,} rows"
    return (
        f"{row['dataset']:12} {row['algorithm']:17} {row['rows_per_second']:>10,.0f} rows/s {row['seconds']:7.2f} s "
        f"{row['values_per_second'] / 1e9:5.2f} G values/s, {row['of_limit']:4.0%} of the limit "
        f"{100 * row['mistakes'] / row['rows']:6.2f} % mistakes {row['support']:>8,} SVs{cut}"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK_DATASETS)}")
    options.add_argument("--datasets", nargs="+", choices=registry(), help="by default all that are here")
    options.add_argument("--algorithms", nargs="+", choices=MEASURED, default=MEASURED)
    options.add_argument("--rows", type=int, help="learn at most so many rows of each stream")
    options.add_argument("--seconds", type=float, default=SECONDS, help="stop a stream after so long")
    chosen = options.parse_args()
    one_thread()
    datasets = chosen.datasets or (QUICK_DATASETS if chosen.quick else None)
    report("end_to_end", measure(datasets, chosen.algorithms, chosen.rows, chosen.seconds), show, chosen.out)

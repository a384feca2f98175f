"""`bomkl bench end_to_end`: rows a second of the paper's algorithms on every data set of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.common.measure import one_thread, timed
from benchmarks.common.rows import Row, parser, report
from bomkl.experiments.algorithms import factory_of
from bomkl.experiments.datasets import find_local, get_spec, load_dataset, registry
from bomkl.experiments.protocol import QUICK_DATASETS, Cell, table_cells
from bomkl.experiments.published import published_table
from bomkl.paper import ALGORITHMS, BUDGET_ALGORITHMS, BestKernelPerceptron
from bomkl.progress import progress_bar

CHUNK = 2_000
SECONDS = 10.0


def paper_cell(dataset: str, algorithm: str) -> Cell:
    """Return the cell of Table 2 for algorithms with a budget, where it has the data set; else one without a budget."""
    whole = get_spec(dataset).stands_for or dataset
    table = 2 if algorithm in BUDGET_ALGORITHMS and whole in published_table(2) else 1
    return table_cells(table, dataset, [algorithm], [0])[0]


def estimator_of(cell: Cell, X: Any, y: Any) -> Any:
    """Make a cell's estimator. Perceptron(*) gets its kernel from the first rows: choosing it is not what is timed."""
    estimator = factory_of(cell.algorithm)(budget=cell.budget, random_state=cell.seed, **dict(cell.parameters))
    if isinstance(estimator, BestKernelPerceptron):
        chosen = BestKernelPerceptron(random_state=0).fit(X[:CHUNK], y[:CHUNK]).kernels_
        estimator.set_params(kernels=chosen)
    return estimator


def run(cell: Cell, X: Any, y: Any, most_seconds: float) -> Row:
    """Learn a stream until it ends or the time is up; the row says how much of it was learned."""
    estimator = estimator_of(cell, X, y)
    seconds, done = 0.0, 0
    while done < len(y) and seconds < most_seconds:
        part = slice(done, done + CHUNK)
        taken, _ = timed(lambda part=part: estimator.partial_fit(X[part], y[part], classes=[-1, 1]))
        seconds += taken
        done = min(part.stop, len(y))
    return {
        "dataset": cell.dataset,
        "algorithm": cell.algorithm,
        "d": X.shape[1],
        "rows": done,
        "of_rows": len(y),
        "dtype": estimator.dtype or cell.dtype,
        "seconds": seconds,
        "rows_per_second": done / seconds,
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
    algorithms: Sequence[str] = ALGORITHMS,
    rows: int | None = None,
    most_seconds: float = SECONDS,
) -> Iterator[Row]:
    """All rows, data set by data set; by default those that are here."""
    datasets = available() if datasets is None else datasets
    with progress_bar(len(datasets) * len(algorithms), "streams", "stream") as bar:
        for dataset in datasets:
            data = load_dataset(dataset)
            order = np.random.default_rng(0).permutation(len(data.y))[:rows]
            X, y = data.X[order], data.y[order]
            for algorithm in algorithms:
                yield run(paper_cell(dataset, algorithm), X, y, most_seconds)
                bar.update()


def show(row: Row) -> str:
    cut = "" if row["rows"] == row["of_rows"] else f", the first {row['rows']:,} rows"
    return (
        f"{row['dataset']:12} {row['algorithm']:17} {row['rows_per_second']:>10,.0f} rows/s {row['seconds']:7.2f} s "
        f"{100 * row['mistakes'] / row['rows']:6.2f} % mistakes {row['support']:>8,} SVs{cut}"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK_DATASETS)}")
    options.add_argument("--datasets", nargs="+", choices=registry(), help="by default all that are here")
    options.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=ALGORITHMS)
    options.add_argument("--rows", type=int, help="learn at most so many rows of each stream")
    options.add_argument("--seconds", type=float, default=SECONDS, help="stop a stream after so long")
    chosen = options.parse_args()
    one_thread()
    datasets = chosen.datasets or (QUICK_DATASETS if chosen.quick else None)
    report("end_to_end", measure(datasets, chosen.algorithms, chosen.rows, chosen.seconds), show, chosen.out)


if __name__ == "__main__":
    main()

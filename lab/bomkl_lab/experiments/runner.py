"""Cells in, rows out: in parallel processes, resumable, one process appending."""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bomkl._support.progress import progress_bar
from bomkl_lab.experiments import environment
from bomkl_lab.experiments.adapters import score_and_learn_of
from bomkl_lab.experiments.algorithms import Factory, factory_of, with_foresight
from bomkl_lab.experiments.datasets import Dataset, DatasetSpec, get_spec, load_dataset
from bomkl_lab.experiments.protocol import Cell
from bomkl_lab.experiments.published import published_table
from bomkl_lab.experiments.results import Results, Row, open_for_append, read_results

CURVE_POINTS = 200
WEIGHTS_CURVE_SEED = 0
"""Kernel weights along the stream are sixteen curves a run: they are kept for this permutation only, and coarser."""
POINTS_PER_WEIGHTS_POINT = 4
CERTAINLY_LONG = 50.0
"""Estimated cost above which a run takes more than seconds on any machine."""


def run_cells(cells: Iterable[Cell], path: Path, jobs: int = 1, retry_failed: bool = False) -> Results:
    """Run the cells that a results file does not hold yet, appending one row for each.

    Parameters
    ----------
    cells : iterable of Cell
        What to run; repetitions run once.
    path : Path
        The results file.
    jobs : int, default=1
        Number of processes.
    retry_failed : bool, default=False
        Whether a cell whose row is a failure runs again.

    Returns
    -------
    Results
        The file's content afterwards, and the problems found in it before.
    """
    before = read_results(path)
    wanted = {cell.key(): cell for cell in cells}
    missing = [cell for key, cell in wanted.items() if _is_missing(before.rows.get(key), retry_failed)]
    if missing:
        with open_for_append(path) as results_file:
            _run(missing, results_file.append, jobs)
    return Results(read_results(path).rows, before.problems)


def _is_missing(row: Row | None, retry_failed: bool) -> bool:
    return row is None or (retry_failed and row["status"] == "failed")


def _run(cells: Sequence[Cell], append: Any, jobs: int) -> None:
    from joblib import Parallel, delayed

    # The longest first, so that no process is left alone with a long cell at the end.
    ordered = sorted(cells, key=estimated_cost, reverse=True)
    tasks = (delayed(run_cell)(cell, factory_of(cell.algorithm), get_spec(cell.dataset)) for cell in ordered)
    processes = min(jobs, len(ordered))
    costs = {cell.key(): estimated_cost(cell) for cell in ordered}
    cost_left = total = sum(costs.values())
    started = time.perf_counter()
    bar_format = "{desc}: {n_fmt}/{total_fmt} cells |{bar:20}| {rate_fmt}, {elapsed} so far{postfix}"
    with progress_bar(len(ordered), "running", "cell", bar_format=bar_format) as bar:
        if total > CERTAINLY_LONG:
            bar.refresh()  # rather than nothing until the first cell is done
        try:
            for row in Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=1)(tasks):
                append(row)
                cost_left -= costs[Cell.from_dict(row["cell"]).key()]
                left = (time.perf_counter() - started) * cost_left / max(total - cost_left, 1e-9)
                bar.set_postfix_str(f"about {_clock(left)} left", refresh=False)
                bar.update()
        except KeyboardInterrupt:
            _stop_workers()
            raise


def _stop_workers() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes}:{rest:02d}"


@functools.cache
def _published_seconds() -> dict[tuple[str, str], float]:
    return {
        (dataset, algorithm): row.seconds
        for table in (1, 2)
        for dataset, block in published_table(table).items()
        for algorithm, row in block.items()
    }


def estimated_cost(cell: Cell) -> float:
    """Return about how long a cell takes beside others: the authors' own seconds where they printed them."""
    spec = get_spec(cell.dataset)
    whole = spec.stands_for or spec.name
    seconds = _published_seconds().get((whole, cell.algorithm))
    if seconds is None:
        return 1e-3 * spec.rows
    return seconds * spec.rows / get_spec(whole).rows


@functools.lru_cache(maxsize=1)
def _dataset(spec: DatasetSpec, dtype: str) -> Dataset:
    return load_dataset(spec, dtype)


def run_cell(cell: Cell, factory: Factory, spec: DatasetSpec) -> Row:
    """Run one cell and return its row; whatever goes wrong becomes a row with the error.

    Parameters
    ----------
    cell : Cell
        What to run.
    factory : callable
        Makes the estimator.
    spec : DatasetSpec
        The cell's data set. Both are passed along because a worker process knows nothing of what was registered.

    Returns
    -------
    dict
        The row, as plain JSON values.
    """
    if multiprocessing.parent_process() is not None:
        _behave_as_worker()
    row: Row = {"cell": cell.as_dict(), "status": "ok"}
    row |= {"version": environment.versions()["bomkl"], "threads": 1, "machine": environment.machine()}
    try:
        return row | _measure(cell, factory, _dataset(spec, cell.dtype))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return row | {"status": "failed", "error": f"{type(error).__name__}: {error}", "place": place}


@functools.cache
def _behave_as_worker() -> None:
    """Leave Ctrl-C, which reaches the whole process group, to the process that appends; end when that one has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _measure(cell: Cell, factory: Factory, data: Dataset) -> Row:
    order = np.random.default_rng(cell.seed).permutation(len(data.y))
    X, y = data.X[order], data.y[order]
    estimator = factory(budget=cell.budget, random_state=cell.seed, **dict(cell.parameters))
    estimator = with_foresight(estimator, data.spec, cell.dtype)
    environment.reset_peak_memory()
    learn = score_and_learn_of(estimator)

    ends = np.unique(np.linspace(0, len(y), CURVE_POINTS + 1).round().astype(int))[1:]
    curve: dict[str, list[Any]] = {"rows": ends.tolist(), "mistakes": [], "support": [], "seconds": []}
    weights_curve: dict[str, list[Any]] = {"rows": [], "weights": []}
    mistakes, hinge, seconds, start = 0, 0.0, 0.0, 0
    for point, end in enumerate(ends, start=1):
        began = time.perf_counter()
        margins = learn(X[start:end], y[start:end])
        seconds += time.perf_counter() - began
        if not np.all(np.isfinite(margins)):
            raise FloatingPointError(f"margins of rows {start} to {end} are not all finite")
        agreement = y[start:end] * margins
        mistakes += int(np.count_nonzero(agreement <= 0))
        hinge += float(np.maximum(0.0, 1.0 - agreement).sum())
        curve["mistakes"].append(mistakes)
        curve["support"].append(_total(getattr(estimator, "n_support_", None)))
        curve["seconds"].append(_short(seconds))
        if point % POINTS_PER_WEIGHTS_POINT == 0 and hasattr(estimator, "kernel_weights_"):
            weights_curve["rows"].append(int(end))
            weights_curve["weights"].append(_short_list(estimator.kernel_weights_, digits=3))
        start = int(end)

    support = getattr(estimator, "n_support_", None)
    row: Row = {
        "rows": len(y),
        "columns": X.shape[1],
        "dtype": getattr(estimator, "dtype", None) or cell.dtype,
        "mistakes": mistakes,
        "hinge_loss": _short(hinge, 8),
        "seconds": _short(seconds),
        "peak_memory_mib": round(environment.peak_memory_mib(), 1),
        "support": _total(support),
        "support_per_kernel": None if support is None else np.ravel(support).tolist(),
        "weights": _optional_list(estimator, "kernel_weights_"),
        "kernel_mistakes": _optional_list(estimator, "kernel_mistakes_"),
        "kernels": _kernel_names(estimator),
        "coefficient_sums": _coefficient_sums(estimator),
        "curve": curve,
    }
    if cell.seed == WEIGHTS_CURVE_SEED and weights_curve["rows"]:
        row["weights_curve"] = weights_curve
    return row


def _total(support: Any) -> int | None:
    return None if support is None else int(np.sum(support))


def _short(value: float, digits: int = 6) -> float:
    return float(f"{value:.{digits}g}")


def _short_list(values: Any, digits: int = 6) -> list[float]:
    return [_short(value, digits) for value in np.ravel(values).tolist()]


def _optional_list(estimator: Any, name: str) -> list[float] | None:
    values = getattr(estimator, name, None)
    return None if values is None else _short_list(values)


def _kernel_names(estimator: Any) -> list[str] | None:
    kernels = getattr(estimator, "kernels_", None)
    return None if kernels is None else [kernel_name(kernel) for kernel in kernels]


def _coefficient_sums(estimator: Any) -> list[float] | None:
    """Return each kernel's sum of absolute coefficients: it bounds the score of a Gaussian component."""
    coefficients = getattr(estimator, "dual_coef_", None)
    return None if coefficients is None else _short_list(np.abs(coefficients).sum(axis=-2))


def kernel_name(kernel: Any) -> str:
    """Return a short name of a kernel, for rows and figures.

    Examples
    --------
    >>> from bomkl.kernels import Gaussian, Polynomial
    >>> kernel_name(Polynomial(degree=2)), kernel_name(Gaussian(sigma=0.25)), kernel_name(Gaussian(sigma=0.3))
    ('poly 2', 'sigma 2^-2', 'sigma 0.3')
    """
    sigma, degree = getattr(kernel, "sigma", None), getattr(kernel, "degree", None)
    if degree is not None:
        return f"poly {degree}"
    if sigma is None:
        return str(kernel)
    exponent = math.log2(sigma)
    return f"sigma 2^{exponent:g}" if exponent.is_integer() else f"sigma {sigma:g}"

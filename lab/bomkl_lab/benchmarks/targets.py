"""`bomkl bench targets`: the speed that the engine should reach: target, measured, met or not.

Bounds on the seconds of BOMKC(SPA) are those of a core whose sgemm reaches 80 GFLOP/s, scaled by what this one's does
in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse

from bomkl import BudgetMKLClassifier, paper
from bomkl._support.progress import progress_bar
from bomkl.kernels import Gaussian
from bomkl.learners import SPA
from bomkl_lab.benchmarks import growth
from bomkl_lab.benchmarks.common.generated import model_with_pool, susy_like
from bomkl_lab.benchmarks.common.limits import SGEMM_FLOPS, measure_limits, sgemm
from bomkl_lab.benchmarks.common.measure import best_in_turn, in_turn, one_thread, timed
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.roofline import BATCH, dense_cell, fused_work
from bomkl_lab.experiments.datasets import MissingDataError, load_dataset

SCALED_TO = 80e9  # floating point operations per second of the core that the bounds were written for
POOL = 10_000
LINEAR = 1.15  # an exponent up to here counts as linear: two short runs are never disturbed quite alike


def at_least(what: str, bound: float, seen: float, unit: str, **more: Any) -> Row:
    return {"what": what, "sense": ">=", "bound": bound, "seen": seen, "unit": unit, "met": seen >= bound, **more}


def at_most(what: str, bound: float, seen: float, unit: str, **more: Any) -> Row:
    return {"what": what, "sense": "<=", "bound": bound, "seen": seen, "unit": unit, "met": seen <= bound, **more}


def fused_evaluation() -> Iterator[Row]:
    bytes_per_second = measure_limits().bytes
    for d, limit, bound in ((123, "sgemm", 0.7), (500, "sgemm", 0.7), (8, "exp", 0.5)):
        row = next(dense_cell("one Gaussian", d, POOL, bytes_per_second, seconds=1.0))
        what = f"dense fused evaluation, d = {d}, of {limit}"
        yield at_least(what, bound, row[f"of_{limit}"], "", sgemm_gflops=row["sgemm_gflops"])


def stream_of(name: str) -> tuple[Any, Any]:
    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(len(data.y))
    return np.ascontiguousarray(data.X[order]), data.y[order]


def whole_stream(what: str, algorithm: str, X: Any, y: Any, bound: float, scaled: bool, rounds: int = 3) -> Row:
    """Time learning a stream beside sgemm; `scaled` says whether the bound is one for 80 GFLOP/s."""
    models: list[Any] = []

    def learn() -> None:
        models.append(paper.algorithm(algorithm).set_params(random_state=0).partial_fit(X, y))

    seconds, of_sgemm = best_in_turn(learn, sgemm(), seconds=0, rounds=rounds)
    flops = SGEMM_FLOPS / of_sgemm
    bound *= SCALED_TO / flops if scaled else 1
    facts = {"rows": len(y), "support": int(models[-1].n_support_.sum()), "sgemm_gflops": flops / 1e9}
    return at_most(what, bound, seconds, "s", **facts)


def spa_on_a9a() -> Iterator[Row]:
    X, y = stream_of("a9a")
    yield whole_stream("BOMKC(SPA) on a9a, dense", "BOMKC(SPA)", X, y, 0.6, scaled=True)
    yield whole_stream("BOMKC(SPA) on a9a, CSR", "BOMKC(SPA)", scipy.sparse.csr_matrix(X), y, 0.25, scaled=True)


def spa_on_codrna() -> Iterator[Row]:
    yield whole_stream("BOMKC(SPA) on codrna", "BOMKC(SPA)", *stream_of("codrna"), 2.0, scaled=True, rounds=2)


def omkc_on_magic04() -> Iterator[Row]:
    yield whole_stream("OMKC(DD) on magic04", "OMKC(DD)", *stream_of("magic04"), 2.0, scaled=False, rounds=2)


def two_threads() -> Iterator[Row]:
    d = 22
    model = model_with_pool([Gaussian(1.0)], POOL, d)
    X = np.random.default_rng(1).standard_normal((4 * BATCH, d), dtype=np.float32)
    one, two = best_in_turn(fused_work(model, X, 1), fused_work(model, X, 2), seconds=2.0, clock=perf_counter)
    yield at_least(f"two threads, pool of {POOL:,}, d = {d}", 1.7, one / two, "times one")


def million_rows() -> Iterator[Row]:
    X, y = susy_like(1_000_000)
    model = BudgetMKLClassifier(learner=SPA(beta=300.0), random_state=0)
    seconds, _ = timed(lambda: model.partial_fit(X, y))
    facts = {"rows": len(y), "support": int(model.n_support_.sum())}
    yield at_most("a million rows like SUSY's, beta = 300", 3.0, seconds, "s", **facts)


def one_row() -> Iterator[Row]:
    """Take the middle time of learning one row from Python."""
    X, y = susy_like(100_000, 22)
    model = BudgetMKLClassifier(learner=SPA(beta=30.0), random_state=0)  # so slow to store that 1,000 SVs stay so
    start = 0
    while start == 0 or model.n_support_.sum() < 1_000:
        model.partial_fit(X[start : start + 100], y[start : start + 100])
        start += 100
    rest = iter(range(start, len(y)))

    def learn() -> None:
        t = next(rest)
        model.learn_one(X[t], y[t])

    (times,) = in_turn(learn, seconds=0, rounds=500)
    facts = {"support": int(model.n_support_.sum())}
    yield at_most("learn_one at 1,000 SVs, d = 22", 30.0, 1e6 * float(np.median(times)), "microseconds", **facts)


def linear_growth() -> Iterator[Row]:
    """Take the worse of the fit and the slope at the end, where costs that do not grow count least."""
    for row in growth.measure(scale=2):
        if row.get("against") in ("rows", "rows x support"):
            what = f"exponent of {row['series']}, {row['against']}, along {row['along']}"
            yield at_most(what, LINEAR, max(row["exponent"], row["last_exponent"] or 0), "")


LINES: dict[str, Callable[[], Iterator[Row]]] = {
    "dense fused evaluation": fused_evaluation,
    "BOMKC(SPA) on a9a": spa_on_a9a,
    "BOMKC(SPA) on codrna": spa_on_codrna,
    "OMKC(DD) on magic04": omkc_on_magic04,
    "two threads": two_threads,
    "a million rows": million_rows,
    "one row": one_row,
    "linear growth": linear_growth,
}


def measure() -> Iterator[Row]:
    """All lines; one whose data set is missing says so."""
    with progress_bar(len(LINES), "lines", "line") as bar:
        for name, line in LINES.items():
            try:
                yield from line()
            except MissingDataError as error:
                yield {"what": name, "not_run": str(error)}
            bar.update()


def show(row: Row) -> str:
    if "not_run" in row:
        return f"{row['what']:66} not run: {row['not_run']}"
    met = "met" if row["met"] else "NOT MET"
    return f"{row['what']:66} {row['sense']} {row['bound']:6.3g}  seen {row['seen']:6.3g} {row['unit']:12} {met}"


def main() -> None:
    chosen = parser(__doc__).parse_args()
    one_thread()
    report("targets", measure(), show, chosen.out)

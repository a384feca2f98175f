"""`bomkl bench roofline`: how close the engine comes to the limit of one core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from bomkl import paper
from bomkl._support.progress import progress_bar
from bomkl.kernels import Gaussian, paper_kernels
from bomkl_lab.benchmarks.common.generated import model_with_pool, text_like
from bomkl_lab.benchmarks.common.limits import limits_from, measure_limits, work_at_limits
from bomkl_lab.benchmarks.common.measure import Work, best_in_turn, one_thread
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.experiments.datasets import MissingDataError, load_dataset

DIMENSIONS = (8, 22, 123, 500)
POOLS = (100, 1_000, 10_000, 100_000)
BATCH = 504
POOL_KERNELS: dict[str, list[Any]] = {"one Gaussian": [Gaussian(1.0)], "16 kernels": paper_kernels()}
TEXT_ROWS = 500
DENSE_AT_MOST = 2e8  # numbers; wider data are not made dense


def fused_work(model: Any, X: Any, n_threads: int = 1) -> Work:
    """Score a batch in the compiled engine, without the checks of the rows."""
    return lambda: model._engine.score(X, False, n_threads)


def dense_cell(kernels: str, d: int, pool: int, bytes_per_second: float, seconds: float = 0.5) -> Iterator[Row]:
    """Measure scoring in the engine and through `decision_function`, for one pool."""
    model = model_with_pool(POOL_KERNELS[kernels], pool, d)
    X = np.random.default_rng(1).standard_normal((BATCH, d), dtype=np.float32) / np.float32(np.sqrt(d))
    gaussians = sum(isinstance(kernel, Gaussian) for kernel in POOL_KERNELS[kernels])
    paths = {"fused": fused_work(model, X), "decision_function": lambda: model.decision_function(X)}
    times = best_in_turn(*paths.values(), *work_at_limits(), seconds=seconds, rounds=5)
    limits = limits_from(times[len(paths) :], bytes_per_second)
    pairs = BATCH * pool
    least = limits.least_seconds(2 * d * pairs, gaussians * pairs, X.nbytes + 4 * d * pool)
    limit = max(least, key=least.__getitem__)
    for path, taken in zip(paths, times, strict=False):
        yield {
            "kernels": kernels,
            "path": path,
            "d": d,
            "pool": pool,
            "pairs_per_second": pairs / taken,
            "limit": limit,
            "fraction": least[limit] / taken,
            "of_sgemm": least["sgemm"] / taken,
            "of_exp": least["exp"] / taken,
            "sgemm_gflops": limits.flops / 1e9,
            "exps_per_second": limits.exps,
        }


def dense_rows(
    dimensions: Sequence[int], pools: Sequence[int], kinds: Iterable[str] = POOL_KERNELS, seconds: float = 0.5
) -> Iterator[Row]:
    """Measure the limits, then all pools."""
    limits = measure_limits()
    yield {
        "kernels": "limits",
        "sgemm_gflops": limits.flops / 1e9,
        "exps_per_second": limits.exps,
        "bytes_per_second": limits.bytes,
    }
    cells = [(kernels, d, pool) for kernels in kinds for d in dimensions for pool in pools]
    with progress_bar(len(cells), "pools", "pool") as bar:
        for cell in cells:
            yield from dense_cell(*cell, limits.bytes, seconds)
            bar.update()


def sparse_streams(text_rows: int) -> Iterator[tuple[str, scipy.sparse.csr_matrix, Any]]:
    """Rows that are mostly zeros: a9a if it is there, and generated text."""
    try:
        data = load_dataset("a9a", "float32")
        yield "a9a", scipy.sparse.csr_matrix(data.X), data.y
    except MissingDataError as error:
        print(f"a9a left out: {error}")
    yield "text-like", *text_like(text_rows)


def sparse_cell(name: str, X: scipy.sparse.csr_matrix, y: Any, seconds: float = 0.5) -> Iterator[Row]:
    """BOMKC(SPA) on CSR rows and on the same rows made dense: learning the stream, then scoring its first rows."""
    forms = {"CSR": X} | ({"dense": X.toarray()} if np.prod(X.shape) <= DENSE_AT_MOST else {})
    models: dict[str, Any] = {}

    def learn(form: str) -> None:
        models[form] = paper.algorithm("BOMKC(SPA)").set_params(random_state=0).partial_fit(forms[form], y)

    def score(form: str) -> None:
        models[form].decision_function(forms[form][:BATCH])

    learning = best_in_turn(*(partial(learn, form) for form in forms), seconds=seconds, rounds=1)
    scoring = best_in_turn(*(partial(score, form) for form in forms), seconds=seconds, rounds=1)
    for form, learned, scored in zip(forms, learning, scoring, strict=True):
        support = int(models[form].n_support_.sum())
        yield {
            "kernels": "sparse",
            "stream": name,
            "rows_as": form,
            "rows": len(y),
            "d": X.shape[1],
            "nonzeros_per_row": X.nnz / len(y),
            "support": support,
            "mistakes": models[form].mistakes_,
            "learn_rows_per_second": len(y) / learned,
            "score_pairs_per_second": min(BATCH, len(y)) * support / scored,
            "mebibytes": models[form].nbytes_ / 2**20,
        }


def show(row: Row) -> str:
    if row["kernels"] == "limits":
        return (
            f"one core: sgemm {row['sgemm_gflops']:.1f} GFLOP/s, exp {row['exps_per_second'] / 1e9:.2f} G/s, "
            f"reading {row['bytes_per_second'] / 1e9:.1f} GB/s"
        )
    if row["kernels"] == "sparse":
        return (
            f"{row['stream']:10} {row['rows_as']:6} d = {row['d']:,}: {row['learn_rows_per_second']:,.0f} rows/s, "
            f"{row['support']:,} SVs in {row['mebibytes']:.1f} MiB, {row['score_pairs_per_second'] / 1e9:.3f} G pairs/s"
        )
    return (
        f"{row['kernels']:13} {row['path']:18} d = {row['d']:>3} pool {row['pool']:>7,}: "
        f"{row['pairs_per_second'] / 1e9:6.3f} G pairs/s, {row['fraction']:4.0%} of {row['limit']}"
    )


def measure(pools: Sequence[int] = POOLS, text_rows: int = TEXT_ROWS) -> Iterator[Row]:
    """All rows."""
    yield from dense_rows(DIMENSIONS, pools)
    for stream in sparse_streams(text_rows):
        yield from sparse_cell(*stream)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="leave out the largest pools")
    options.add_argument("--text-rows", type=int, default=TEXT_ROWS, help="length of the generated sparse stream")
    chosen = options.parse_args()
    one_thread()
    report("roofline", measure(POOLS[:-1] if chosen.quick else POOLS, chosen.text_rows), show, chosen.out)

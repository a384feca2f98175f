"""`bomkl bench gpu`: learning in rounds on a GPU, rows a second and error against budget, beside the processor.

Needs PyTorch and a GPU. What is measured: the device's limits (float32 products, copies), a generated stream from
host memory at several budgets, both engines on the data sets at the same budget and seed, and one long stream.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.common.generated import susy_like
from benchmarks.common.rows import Row, parser, report
from benchmarks.peers import stream
from bomkl import AutoMKLClassifier
from bomkl.experiments.datasets import MissingDataError

BUDGETS = (250, 1000, 4000, 8000, 16000)
SETS = ("german", "svmguide3", "madelon", "magic04", "a9a", "ijcnn1", "susy-sample", "codrna")
CALL = 1 << 20  # rows a call of the long stream


def limits() -> Row:
    """Multiply matrices and copy memory, which the device does near its peak."""
    import torch

    a = torch.randn((8192, 8192), device="cuda")
    out = torch.empty_like(a)
    products = seconds_on_device(lambda: torch.mm(a, a, out=out), 10)
    x = torch.empty(1 << 29, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    copies = seconds_on_device(lambda: y.copy_(x), 10)
    return {
        "what": "limits",
        "device": torch.cuda.get_device_name(),
        "sgemm_teraflops": 2 * 8192**3 / products / 1e12,
        "bytes_per_second": 2 * 4 * x.numel() / copies,
    }


def seconds_on_device(work: Any, times: int) -> float:
    """Seconds of one call, after one that is not counted."""
    import torch

    work()
    torch.cuda.synchronize()
    begin = perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (perf_counter() - begin) / times


def operations(model: AutoMKLClassifier, columns: int) -> float:
    """Floating-point operations of a row: kernel values, whitening and information of each component."""
    ranks = [component.regression.rank for component in model._learner.components]
    return float(sum(2 * rank * columns + 4 * rank * rank for rank in ranks))


def learn(X: Any, y: Any, budget: int, device: str, seed: int = 0, n_jobs: int | None = None) -> tuple[Any, float]:
    """Learn a stream in calls; the model, and the seconds it took."""
    model = AutoMKLClassifier(budget, update="rounds", device=device, n_jobs=n_jobs, random_state=seed)
    begin = perf_counter()
    for start in range(0, len(y), CALL):
        model.partial_fit(X[start : start + CALL], y[start : start + CALL])
    return model, perf_counter() - begin


def by_budget(rows: int, sgemm: float, budgets: list[int]) -> Iterator[Row]:
    """Rows a second from host memory once the pool is pruned, at several budgets."""
    X, y = susy_like(rows)
    for budget in budgets:
        head = min(4 * budget, rows // 2)
        more = min(rows - head, max(1 << 16, int(4e9 / budget**1.7) * 100))
        model, _ = learn(X[:head], y[:head], budget, "cuda")
        begin = perf_counter()
        model.partial_fit(X[head : head + more], y[head : head + more])
        seconds = perf_counter() - begin
        speed = more / seconds
        yield {
            "what": "budget",
            "budget": budget,
            "rows": more,
            "rank": max(component.regression.rank for component in model._learner.components),
            "rows_per_second": speed,
            "of_sgemm": speed * operations(model, X.shape[1]) / 1e12 / sgemm,
            "mistakes": model.mistakes_ / model.n_seen_,
        }


def data_sets(budget: int, names: list[str], devices: list[str]) -> Iterator[Row]:
    """Mistakes and seconds of the engines on the data sets, same budget, seed and order."""
    for name in names:
        try:
            X, y = stream(name, 0)
        except MissingDataError as error:
            yield {"what": "data set", "dataset": name, "not_run": str(error)}
            continue
        for device in devices:
            model, seconds = learn(X, y, budget, device, n_jobs=-1)
            yield {
                "what": "data set",
                "dataset": name,
                "device": device,
                "budget": budget,
                "rows": len(y),
                "seconds": seconds,
                "mistakes": model.mistakes_ / model.n_seen_,
            }


def long_stream(rows: int, budget: int, compared: int) -> Iterator[Row]:
    """One long stream in calls of about a million rows, made as they are learned; the processor on its beginning."""
    model = AutoMKLClassifier(budget, update="rounds", device="cuda", random_state=0)
    core = AutoMKLClassifier(budget, update="rounds", n_jobs=-1, random_state=0)
    rows_of, labels = susy_like(8 * CALL)  # used again with small shifts: made as fast as it is learned
    learning, memory = 0.0, []
    for call in tqdm(range(-(-rows // CALL)), desc="long stream", unit_scale=CALL, unit=" rows"):
        part = slice(call % 8 * CALL, (call % 8 + 1) * CALL)
        X, y = rows_of[part] + np.float32(1e-3) * (call // 8), labels[part]
        begin = perf_counter()
        model.partial_fit(X, y)
        learning += perf_counter() - begin
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        if core.__dict__.get("_learner") is None or core.n_seen_ < compared:
            core.partial_fit(X, y)
            yield {
                "what": "beginning",
                "rows": model.n_seen_,
                "mistakes": model.mistakes_ / model.n_seen_,
                "mistakes_of_the_core": core.mistakes_ / core.n_seen_,
            }
    yield {
        "what": "long stream",
        "budget": budget,
        "rows": model.n_seen_,
        "seconds": learning,
        "rows_per_second": model.n_seen_ / learning,
        "seconds_for_a_billion": 1e9 * learning / model.n_seen_,
        "mistakes": model.mistakes_ / model.n_seen_,
        "memory_growth": memory[-1] / memory[len(memory) // 4] - 1,
    }


def show(row: Row) -> str:
    if "not_run" in row:
        return f"{row['dataset']:12} not run: {row['not_run']}"
    if row["what"] == "limits":
        return (
            f"{row['device']}: float32 products {row['sgemm_teraflops']:.1f} TFLOP/s, "
            f"copies {row['bytes_per_second'] / 1e12:.2f} TB/s"
        )
    if row["what"] == "budget":
        return (
            f"budget {row['budget']:>6,}, rank {row['rank']:>5,}: {row['rows_per_second']:>12,.0f} rows/s, "
            f"{row['of_sgemm']:.0%} of sgemm, {row['mistakes']:.2%} wrong"
        )
    if row["what"] == "data set":
        return (
            f"{row['dataset']:12} {row['device']:5} budget {row['budget']:>6,}: {row['mistakes']:.2%} wrong, "
            f"{row['seconds']:.2f} s"
        )
    if row["what"] == "beginning":
        return (
            f"first {row['rows']:>11,} rows: {row['mistakes']:.3%} wrong, "
            f"the processor {row['mistakes_of_the_core']:.3%}"
        )
    return (
        f"{row['rows']:,} rows at budget {row['budget']:,}: {row['seconds']:.1f} s, "
        f"{row['rows_per_second']:,.0f} rows/s, {row['mistakes']:.2%} wrong, "
        f"memory {row['memory_growth']:+.1%}; a billion rows: {row['seconds_for_a_billion'] / 60:.1f} min"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=4_000_000, help="generated rows for the budgets")
    options.add_argument("--long", type=int, default=100_000_000, help="rows of the long stream; 0: none")
    options.add_argument("--datasets", default=",".join(SETS), help="data sets, separated by commas")
    options.add_argument("--devices", default="cuda,cpu", help="for the data sets")
    options.add_argument("--budgets", default=",".join(map(str, BUDGETS)), help="budgets, separated by commas")
    options.add_argument("--budget", type=int, default=1000, help="for the data sets and the long stream")
    chosen = options.parse_args()

    def rows() -> Iterator[Row]:
        first = limits()
        yield first
        if chosen.datasets:
            yield from data_sets(chosen.budget, chosen.datasets.split(","), chosen.devices.split(","))
        if chosen.long:
            yield from long_stream(chosen.long, chosen.budget, 2 * CALL)
        if chosen.budgets:
            budgets = [int(text) for text in chosen.budgets.split(",")]
            yield from by_budget(chosen.rows, first["sgemm_teraflops"], budgets)

    report("gpu", rows(), show, chosen.out)


if __name__ == "__main__":
    main()

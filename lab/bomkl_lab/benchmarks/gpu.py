"""`bomkl bench gpu`: rows a second and error on a GPU, compared with the processor.

Needs PyTorch and a GPU. What is measured: the device's limits (float32 products, copies), a generated stream from
host memory at several budgets in rounds and row by row, both engines on the data sets at the same budget and seed,
error against seconds on one of them, and one long stream.
"""

from __future__ import annotations

import pickle
import resource
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

from bomkl import AutoMKLClassifier
from bomkl_lab.benchmarks.common.generated import susy_like
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.peers_streams import stream
from bomkl_lab.experiments.datasets import MissingDataError

BUDGETS = (250, 1000, 4000, 8000, 16000)
CURVE = (250, 500, 1000, 2000, 4000, 8000)  # budgets of error against seconds
CORE_CURVE = 4000  # the largest of them for the processor
SETS = ("german", "svmguide3", "madelon", "magic04", "a9a", "ijcnn1", "susy-sample", "codrna")
ROW_BY_ROW = 20_000  # rows of a data set at most, where the processor learns row by row as well
FULL_RANK = 64  # columns of generated rows whose kernel matrices have full rank
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
    learner: Any = model._learner
    ranks = [component.regression.rank for component in learner.components]
    return float(sum(2 * rank * columns + 4 * rank * rank for rank in ranks))


def learn(
    X: Any, y: Any, budget: int, device: str, n_jobs: int | None = None, update: str = "rounds"
) -> tuple[Any, float]:
    """Learn a stream in calls; the model, and the seconds it took."""
    model = AutoMKLClassifier(budget, update=update, device=device, n_jobs=n_jobs, random_state=0)
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
        core = pickle.loads(pickle.dumps(model)).set_params(device="cpu", n_jobs=-1)
        few = min(more, max(2048, int(131072 * (1000 / budget) ** 1.7)))
        begin = perf_counter()
        core.partial_fit(X[:few], y[:few])
        core_speed = few / (perf_counter() - begin)
        yield {
            "what": "budget",
            "budget": budget,
            "rows": more,
            "rank": max(component.regression.rank for component in model._leader.components),
            "rows_per_second": speed,
            "rows_per_second_of_the_core": core_speed,
            "of_sgemm": speed * operations(model, X.shape[1]) / 1e12 / sgemm,
            "mistakes": model.mistakes_ / model.n_seen_,
        }


def by_rank(sgemm: float, budgets: list[int]) -> Iterator[Row]:
    """Fraction of the limit in long rounds, of rows with so many columns that no landmark stands for another."""
    X, y = susy_like(1 << 20, FULL_RANK)
    for budget in budgets:
        rows = min(len(y), int(1e14 / budget**2) // 8192 * 8192)
        model, _ = learn(X[: 5 * budget], y[: 5 * budget], budget, "cuda")
        model.partial_fit(X[:rows], y[:rows])
        begin = perf_counter()
        model.partial_fit(X[:rows], y[:rows])
        speed = rows / (perf_counter() - begin)
        yield {
            "what": "rank",
            "budget": budget,
            "rows": rows,
            "columns": FULL_RANK,
            "ranks": sorted(component.regression.rank for component in model._leader.components),
            "rows_per_second": speed,
            "of_sgemm": speed * operations(model, FULL_RANK) / 1e12 / sgemm,
        }


def row_by_row(rows: int, budgets: list[int]) -> Iterator[Row]:
    """Rows a second from host memory when each row is learned from at once, with trees and without."""
    X, y = susy_like(rows)
    for budget in budgets:
        for trees in (False, True):
            head = 4 * budget + 4096
            more = min(rows - head, int(4e8 / budget))
            model = AutoMKLClassifier(budget, device="cuda", trees=trees, n_jobs=-1, random_state=0)
            model.partial_fit(X[:head], y[:head]).partial_fit(X[head : head + 16384], y[head : head + 16384])
            begin = perf_counter()
            model.partial_fit(X[head : head + more], y[head : head + more])
            speed = more / (perf_counter() - begin)
            core = pickle.loads(pickle.dumps(model)).set_params(device="cpu")
            few = max(1024, int(2e7 / budget))
            begin = perf_counter()
            core.partial_fit(X[:few], y[:few])
            yield {
                "what": "row by row",
                "budget": budget,
                "trees": trees,
                "rows_per_second": speed,
                "rows_per_second_of_the_core": few / (perf_counter() - begin),
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
            for update in ("rounds", "rows"):
                n = ROW_BY_ROW if update == "rows" else len(y)
                yield {"what": "data set", **learned(name, X[:n], y[:n], budget, device, update)}


def learned(name: str, X: Any, y: Any, budget: int, device: str, update: str) -> Row:
    """Mistakes and seconds of one engine on one data set."""
    model, seconds = learn(X, y, budget, device, n_jobs=-1, update=update)
    return {
        "dataset": name,
        "device": device,
        "update": update,
        "budget": budget,
        "rows": len(y),
        "seconds": seconds,
        "mistakes": model.mistakes_ / model.n_seen_,
    }


def error_against_seconds(name: str, budgets: list[int], devices: list[str]) -> Iterator[Row]:
    """Mistakes and seconds on one data set, from small budgets to large ones."""
    X, y = stream(name, 0)
    for device in devices:
        for budget in budgets:
            if device == "cuda" or budget <= CORE_CURVE:
                yield {"what": "curve", **learned(name, X, y, budget, device, "rounds")}


def draw(rows: list[Row], path: Path) -> None:
    """Draw error against seconds."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for device, label, beside in (("cpu", "processor, all cores", (4, 5)), ("cuda", "GPU", (-8, -13))):
        points = [each for each in rows if each["device"] == device]
        axes.plot([each["seconds"] for each in points], [100 * each["mistakes"] for each in points], "o-", label=label)
        for each in points:
            place = (each["seconds"], 100 * each["mistakes"])
            axes.annotate(f"{each['budget']:,}", place, xytext=beside, textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.margins(0.08, 0.12)  # room for the numbers
    axes.set_xlabel("seconds")
    axes.set_ylabel("wrong, %")
    axes.set_title(f"{rows[0]['dataset']}: {rows[0]['rows']:,} rows in rounds; numbers are budgets")
    axes.legend()
    figure.savefig(path)


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
            f"{row['of_sgemm']:.0%} of sgemm, {row['mistakes']:.2%} wrong; "
            f"the processor {row['rows_per_second_of_the_core']:,.0f} rows/s"
        )
    if row["what"] == "rank":
        return (
            f"budget {row['budget']:>6,}, {row['columns']} columns, rank {row['ranks'][-1]:>5,}: "
            f"{row['rows_per_second']:>12,.0f} rows/s, {row['of_sgemm']:.0%} of sgemm"
        )
    if row["what"] == "row by row":
        return (
            f"row by row, budget {row['budget']:>6,}, {'with' if row['trees'] else 'without'} trees: "
            f"{row['rows_per_second']:>9,.0f} rows/s, {row['mistakes']:.2%} wrong; "
            f"one core {row['rows_per_second_of_the_core']:,.0f} rows/s"
        )
    if row["what"] in ("data set", "curve"):
        return (
            f"{row['dataset']:12} {row['device']:5} {row['update']:6} budget {row['budget']:>6,}: "
            f"{row['mistakes']:.2%} wrong, {row['seconds']:.2f} s"
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
    options.add_argument("--rank-budgets", default="2000,4000,8000,16000", help="budgets for the fraction of the limit")
    options.add_argument("--row-budgets", default="250,1000,4000", help="budgets row by row, separated by commas")
    options.add_argument("--curve", default="ijcnn1", help="data set for error against seconds; empty: none")
    options.add_argument("--budget", type=int, default=1000, help="for the data sets and the long stream")
    chosen = options.parse_args()

    def rows() -> Iterator[Row]:
        first = limits()
        yield first
        if chosen.datasets:
            yield from data_sets(chosen.budget, chosen.datasets.split(","), chosen.devices.split(","))
        if chosen.row_budgets:
            yield from row_by_row(2_000_000, [int(text) for text in chosen.row_budgets.split(",")])
        if chosen.curve:
            curve = []
            for row in error_against_seconds(chosen.curve, list(CURVE), chosen.devices.split(",")):
                curve.append(row)
                yield row
            if chosen.out and find_spec("matplotlib"):
                draw(curve, Path(chosen.out) / "gpu.svg")
        if chosen.long:
            yield from long_stream(chosen.long, chosen.budget, 2 * CALL)
        if chosen.budgets:
            budgets = [int(text) for text in chosen.budgets.split(",")]
            yield from by_budget(chosen.rows, first["sgemm_teraflops"], budgets)
        if chosen.rank_budgets:
            yield from by_rank(first["sgemm_teraflops"], [int(text) for text in chosen.rank_budgets.split(",")])

    report("gpu", rows(), show, chosen.out)

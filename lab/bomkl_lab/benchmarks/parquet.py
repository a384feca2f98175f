"""`bomkl bench parquet`: millions of Parquet rows with two worker processes: time and memory.

Writes generated rows to a folder (--folder keeps it), learns from it with bomkl.dask on a LocalCluster, and then with
`bomkl train --workers`. With --out it draws the memory of each worker against the time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.scale import generated

FILE_ROWS = 1_000_000
GROUP_ROWS = 100_000
MEBIBYTE = 2**20


def write(folder: Path, rows: int, columns: int) -> None:
    """Write files of a million rows each that are not there yet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number in tqdm(range(-(-rows // FILE_ROWS)), "writing", disable=not sys.stderr.isatty(), leave=False):
        path, size = folder / f"{number:03}.parquet", min(FILE_ROWS, rows - number * FILE_ROWS)
        if path.exists():
            continue
        X, y = generated(size, number, columns)
        table = {f"x{i}": X[:, i].astype(np.float32) for i in range(columns)} | {"y": y}
        pq.write_table(pa.table(table), path, row_group_size=GROUP_ROWS)


@contextmanager
def sampled(pids: Any, every: float) -> Iterator[list[tuple[float, int, int]]]:
    """Take (seconds, number of the process, bytes in memory) meanwhile; pids() gives the processes of the moment."""
    import psutil

    samples: list[tuple[float, int, int]] = []
    stop, start = threading.Event(), perf_counter()

    def sample() -> None:
        while not stop.wait(every):
            for number, pid in enumerate(pids()):
                try:
                    samples.append((perf_counter() - start, number, psutil.Process(pid).memory_info().rss))
                except psutil.NoSuchProcess:
                    continue

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def on_dask(folder: Path, budget: int, workers: int) -> tuple[Row, list[tuple[float, int, int]]]:
    from distributed import Client, LocalCluster

    from bomkl.dask import AutoMKLClassifier

    with LocalCluster(workers, threads_per_worker=1, dashboard_address=":0") as made, Client(made) as client:
        pids = [each.pid for each in made.workers.values()]
        start = perf_counter()
        with sampled(lambda: pids, 1.0) as samples:
            model = AutoMKLClassifier(budget, client, random_state=0).fit(str(folder)).to_local()
        seconds = perf_counter() - start
    return row("bomkl.dask", model.n_seen_, model.mistakes_, budget, seconds, samples), samples


def on_command_line(folder: Path, budget: int, workers: int) -> tuple[Row, list[tuple[float, int, int]]]:
    import psutil

    from bomkl import modelfile

    output = folder.parent / "model.bomkl"
    command = [sys.executable, "-m", "bomkl", "train", str(folder), "--label", "y", "-o", str(output), "--seed", "0"]
    start = perf_counter()
    with subprocess.Popen([*command, "--workers", str(workers), "--budget", str(budget)]) as process:
        own = psutil.Process(process.pid)

        def workers_of() -> list[int]:
            if not own.is_running():
                return []
            return [each.pid for each in own.children() if "spawn_main" in " ".join(each.cmdline())]

        with sampled(workers_of, 1.0) as samples:
            code = process.wait()
    if code:
        raise SystemExit(code)
    model = modelfile.load(output)
    os.unlink(output)
    seconds = perf_counter() - start
    return row("train --workers", model.n_seen_, model.mistakes_, budget, seconds, samples), samples


def row(kind: str, rows: int, mistakes: int, budget: int, seconds: float, samples: list[tuple[float, int, int]]) -> Row:
    late = [size for at, _, size in samples if at > seconds / 4]
    return {
        "kind": kind,
        "rows": rows,
        "budget": budget,
        "seconds": seconds,
        "progressive": 100 * mistakes / rows,
        "least_mebibytes": min(late) / MEBIBYTE,
        "most_mebibytes": max(late) / MEBIBYTE,
    }


def show(row: Row) -> str:
    return (
        f"{row['kind']:<16} {row['rows']:,} rows, budget {row['budget']}, {row['seconds']:.0f} s, progressive error "
        f"{row['progressive']:.2f} %; each worker {row['least_mebibytes']:.0f} to {row['most_mebibytes']:.0f} MiB "
        "after a quarter of the time"
    )


def draw(runs: dict[str, list[tuple[float, int, int]]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(runs), figsize=(10, 3.5), layout="constrained", sharey=True, squeeze=False)
    for ax, (kind, samples) in zip(axes[0], runs.items(), strict=True):
        for number in sorted({each for _, each, _ in samples}):
            own = [(at, size / MEBIBYTE) for at, each, size in samples if each == number]
            ax.plot(*zip(*own, strict=True), label=f"worker {number + 1}")
        ax.set(xlabel="seconds", title=kind, ylim=(0, None))
        ax.legend()
    axes[0][0].set_ylabel("memory, MiB")
    figure.savefig(path)


def main() -> None:
    given = arguments()
    runs: dict[str, list[tuple[float, int, int]]] = {}

    def rows() -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.folder or Path(temporary) / "table"
            folder.mkdir(parents=True, exist_ok=True)
            write(folder, given.rows, given.columns)
            for kind, learn in (("bomkl.dask", on_dask), ("train --workers", on_command_line)):
                if kind in given.kind:
                    found, runs[kind] = learn(folder, given.budget, given.workers)
                    yield found

    report("parquet", rows(), show, given.out)
    if given.out:
        draw(runs, given.out / "parquet.svg")


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--columns", type=int, default=8)
    options.add_argument("--budget", type=int, default=100)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--folder", type=Path, help="where the files are, or are to be written and kept")
    options.add_argument("--kind", action="append", choices=("bomkl.dask", "train --workers"))
    given = options.parse_args()
    given.kind = given.kind or ["bomkl.dask", "train --workers"]
    return given

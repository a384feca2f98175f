"""`bomkl bench dask_kills`: killed workers and clients, and sums in any order, give the same model.

Learns the same generated table without an engine, with sums in a drawn order, with 1, 2 and 4 worker processes, with
workers killed at random, with a client that is killed (SIGKILL) and begins again from its checkpoint, and with a
partition that needs more memory than its worker has until the cause is gone. Prints the digest of every model: all
must be the same.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from bomkl import AutoMKLClassifier as Local
from bomkl.partitions import Job, drawn_rows, piece_sums, summary
from bomkl_lab.benchmarks.common.rows import Row, parser, report

COLOURS = np.array(["red", "green", "blue", "grey"])


def partition(number: int, rows: int) -> Any:
    """Make a table with numbers, gaps, texts and weights."""
    import pandas as pd

    rng = np.random.default_rng([number, rows])
    X = rng.normal(size=(rows, 4))
    colour = rng.integers(4, size=rows)
    y = X[:, 0] * X[:, 1] + X[:, 2] + (colour == 2) > 0
    X[rng.random(rows) < 0.1, 3] = np.nan
    return pd.DataFrame(X, columns=list("abcd")).assign(
        colour=COLOURS[colour], weight=rng.integers(3, size=rows).astype(float), y=np.where(y, "yes", "no")
    )


def sizes(rows: int, partitions: int) -> list[int]:
    """Give unequal sizes to partitions; the first is empty."""
    parts = np.random.default_rng(partitions).dirichlet(np.ones(partitions - 1)) * rows
    return [0, *np.maximum(parts.astype(int), 1).tolist()]


def digest(model: Any) -> str:
    """Give what all that a model knows comes to."""
    return digest_of(model, partition(10**6, 200).drop(columns=["y", "weight"]))


def digest_of(model: Any, rows: Any) -> str:
    """Digest means, information and scores of rows."""
    text = hashlib.sha256(model.decision_function(rows).tobytes())
    for component in model._leader.components:
        text.update(component.regression.w.tobytes() + component.regression.matrix.tobytes())
    return text.hexdigest()[:16]


# ---------------------------------------------------------------- without an engine


def plainly(counts: list[int], budget: int, order: int | None = None) -> Any:
    """Learn in a loop; with a drawn order of the sums where it has a seed."""
    tables = []
    for number, rows in enumerate(counts):
        table = partition(number, rows)
        tables.append((table.drop(columns=["y", "weight"]), table["y"].to_numpy(), table["weight"].to_numpy()))
    job = Job(Local(budget, update="rounds", random_state=0), [summary(*table) for table in tables])
    job.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
    while pieces := job.next_round():
        if order is not None:
            random.Random(order + job.done).shuffle(pieces)
        for piece in pieces:
            job.add(piece_sums(job.static(), job.means(), piece, *tables[piece.partition]))
        job.end_round()
    return job.model


# ---------------------------------------------------------------- on a cluster


@contextmanager
def cluster(workers: int, memory: str | int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield a cluster of processes and its client."""
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": memory, "silence_logs": 50}
    with LocalCluster(workers, **settings) as made, Client(made) as client:
        yield made, client


def on_dask(client: Any, counts: list[int], budget: int, checkpoint: str | None = None) -> Any:
    """Learn with bomkl.dask."""
    from dask.delayed import delayed

    from bomkl.dask import AutoMKLClassifier

    parts = [delayed(partition, pure=True)(number, rows) for number, rows in enumerate(counts)]
    model = AutoMKLClassifier(budget, client, checkpoint, random_state=0).fit(parts, sample_weight="weight")
    return model.to_local()


@contextmanager
def killing(made: Any, most: int, every: float, seed: int) -> Iterator[list[int]]:
    """Kill workers at random meanwhile."""
    draw, killed, stop = random.Random(seed), list[int](), threading.Event()

    def kill() -> None:
        while len(killed) < most and not stop.wait(draw.uniform(0.5 * every, 1.5 * every)):
            # one that is killed before it has reported for work is not started again by Dask
            known = made.scheduler_info["workers"]
            pids = [each.pid for each in made.workers.values() if each.worker_address in known]
            victims = [pid for pid in pids if pid and pid not in killed]
            if not known:  # where Dask did not manage to start them again
                made.scale(len(made.worker_spec) + 1)
            if victims:
                pid = draw.choice(victims)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


def with_kills(counts: list[int], budget: int, workers: int, kills: int, every: float) -> Iterator[tuple[Any, int]]:
    """Learn as often as it takes to kill so many workers; yield each model and how many were killed for it."""
    left, seed = kills, 0
    while left > 0:
        with cluster(workers) as (made, client), killing(made, left, every, seed) as killed:
            model = on_dask(client, counts, budget)
        left, seed = left - len(killed), seed + 1
        yield model, len(killed)


def with_a_killed_client(counts: list[int], budget: int, rounds: int) -> tuple[Any, int]:
    """Let the process of a client die after some rounds, and learn on from its checkpoint in this one."""
    from bomkl import modelfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.bomkl"
        command = [sys.executable, "-m", "bomkl", "bench", "dask_kills", "--client", str(path), "--budget", str(budget)]
        command += ["--sizes", ",".join(map(str, counts)), "--dies-after", str(rounds)]
        died = subprocess.run(command, check=False).returncode
        if died != -signal.SIGKILL:
            raise RuntimeError(f"the client ended with {died} before {rounds} rounds")
        seen = modelfile.load(path).n_seen_
        with cluster(1) as (_, other):
            return on_dask(other, counts, budget, str(path)), seen


def die_after(rounds: int) -> None:
    """Let this process be killed when it has the sums of one more round than these."""
    ends, end_round = count(1), Job.end_round

    def counted(job: Job) -> None:
        if next(ends) > rounds:
            os.kill(os.getpid(), signal.SIGKILL)
        end_round(job)

    Job.end_round = counted  # type: ignore[method-assign,assignment]


def hungry_partition(number: int, rows: int, hungry: str) -> Any:
    """Make a table, and hold more and more memory meanwhile if there is a file that says so."""
    held = []
    while Path(hungry).exists():
        held.append(np.ones(2_500_000))
        sleep(0.05)
    return partition(number, rows)


def out_of_memory(counts: list[int], budget: int) -> tuple[Any, str]:
    """Learn until a partition needs more memory than its workers may have; then learn on without its hunger."""
    from dask.delayed import delayed

    from bomkl.dask import AutoMKLClassifier

    with tempfile.TemporaryDirectory() as folder, cluster(2, "700MB") as (made, client):
        checkpoint, hungry = Path(folder) / "checkpoint.bomkl", Path(folder) / "hungry"
        parts = [delayed(partition, pure=True)(number, rows) for number, rows in enumerate(counts)]
        last = len(counts) - 1
        parts[last] = delayed(hungry_partition)(last, counts[last], str(hungry))
        model = AutoMKLClassifier(budget, client, str(checkpoint), random_state=0)

        def turn() -> None:
            while not checkpoint.exists() and not stop.wait(0.005):
                pass
            hungry.touch()

        stop = threading.Event()
        thread = threading.Thread(target=turn, daemon=True)
        thread.start()
        try:
            model.fit(parts, sample_weight="weight")
            message = "no error"
        except ValueError as error:
            message = str(error)
        finally:
            stop.set()
            thread.join()
        hungry.unlink()
        if not made.scheduler_info["workers"]:
            made.scale(len(made.worker_spec) + 1)
        return AutoMKLClassifier(budget, client, str(checkpoint), random_state=0).fit(
            parts, sample_weight="weight"
        ).to_local(), message


# ---------------------------------------------------------------- all runs


def runs(rows: int, partitions: int, budget: int, kills: int, every: float) -> Iterator[Row]:
    """Learn in all ways."""
    counts = sizes(rows, partitions)
    start = perf_counter()

    def row(kind: str, model: Any, **more: Any) -> Row:
        nonlocal start
        seconds, start = perf_counter() - start, perf_counter()
        return {"kind": kind, "rows": model.n_seen_, "digest": digest(model), "seconds": seconds, **more}

    yield row("no engine", plainly(counts, budget))
    for seed in (1, 2):
        yield row(f"no engine, sums in drawn order {seed}", plainly(counts, budget, seed))
    for workers in (1, 2, 4):
        with cluster(workers) as (_, client):
            yield row(f"{workers} workers", on_dask(client, counts, budget))
    for model, killed in with_kills(counts, budget, 4, kills, every):
        yield row("4 workers, some killed", model, killed=killed)
    for rounds in (2, 6):
        model, seen = with_a_killed_client(counts, budget, rounds)
        yield row(f"client killed after {seen} rows", model)
    model, message = out_of_memory(counts, budget)
    yield row("out of memory once", model, message=message)


def show(row: Row) -> str:
    killed = f"  {row['killed']} workers killed" if "killed" in row else ""
    message = f" ({row['message']})" if "message" in row else ""
    return f"{row['digest']}  {row['rows']:>9,} rows  {row['seconds']:6.1f} s  {row['kind']}{killed}{message}"


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--partitions", type=int, default=24)
    options.add_argument("--budget", type=int, default=200)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--every", type=float, default=2.0, help="seconds between kills, on average")
    options.add_argument("--client", help="be the client that is killed, with this checkpoint")
    options.add_argument("--dies-after", type=int, default=2, help="rounds after which that client is killed")
    options.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")])
    return options.parse_args()


def main() -> None:
    given = arguments()
    if given.client:
        die_after(given.dies_after)
        with cluster(1) as (_, client):
            on_dask(client, given.sizes, given.budget, given.client)
        return
    found = report(
        "dask_kills", runs(given.rows, given.partitions, given.budget, given.kills, given.every), show, given.out
    )
    different = {row["digest"] for row in found}
    killed = sum(row.get("killed", 0) for row in found)
    print(f"{len(found)} models, {killed} workers killed, {len(different)} different digest(s)")
    if len(different) > 1:
        raise SystemExit(1)

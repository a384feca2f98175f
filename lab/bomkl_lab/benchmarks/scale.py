"""`bomkl bench scale`: learning in rounds: speed by threads and workers, accuracy by partitions.

Five parts (--part). `speed` learns generated rows row by row and in rounds, with each number of threads (--threads
1,2,4,8); the kinds take turns, so that their ratios are of the same moments. Beside them run as many processes that
share nothing: no threads can do better on the machine. `shares` measures on one thread what can be shared out and plans
it for more of them. `accuracy` splits data sets into 1 to 64 partitions and compares the held-out error with that of
learning row by row, over permutations (--seeds 0,1,2,3,4); neither has trees. `sorted` learns a table that is sorted by
label with bomkl.dask. `projection` measures bytes and seconds of a round's parts and computes from them what a billion
rows would take on 100 cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from heapq import heapreplace
from pathlib import Path
from time import perf_counter, process_time, thread_time, time
from typing import Any

import numpy as np
from tqdm import tqdm

from bomkl import AutoMKLClassifier
from bomkl.auto.rounds.sums import Sums
from bomkl.partitions import Job, drawn_rows, piece_sums, summary
from bomkl_lab.benchmarks.common.rows import Row, parser, report

SETS = ("susy", "ijcnn1", "magic04", "a9a", "codrna")
PARTS = ("speed", "shares", "accuracy", "sorted", "projection")
ROWS = 60_000  # of a set at most, of which a fifth is held out
ROWS_OF_ROWS = 60_000  # that the engine that learns row by row is timed on
ROWS_APART = 40_000  # that each of several processes learns from
GROUPS = 16  # partitions whose sums are added before they are sent on


def generated(rows: int, seed: int = 0, columns: int = 18) -> tuple[Any, Any]:
    """Make rows with a curved boundary in eight of their columns, and noise."""
    rng = np.random.default_rng([seed, rows])
    X = rng.normal(size=(rows, columns))
    signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] ** 2 - np.abs(X[:, 4]) + X[:, 5:8].sum(axis=1) / 2
    return X, (signal + rng.logistic(size=rows) / 2 > 0.2).astype(np.int64)


def data_set(name: str, seed: int) -> tuple[Any, Any] | None:
    """Load a set from the folder BOMKL_DATA or ../shared/data, in the order of a seed; None where it is not there."""
    path = Path(os.environ.get("BOMKL_DATA", "../shared/data")) / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"]
    order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    return X[order], y[order]


# ---------------------------------------------------------------- speed


def speed(rows: int, budget: int, threads: list[int], repeats: int, name: str | None) -> Iterator[Row]:
    X, y = (data_set(name, 0) if name else None) or generated(rows)
    head = 4 * budget
    kinds = [("rows", 1)] + [("rounds", n) for n in threads]
    rates: dict[tuple[str, int], float] = {}
    started = {
        update: pickle.dumps(
            AutoMKLClassifier(budget, update=update, trees=False, random_state=0).fit(X[:head], y[:head])
        )
        for update in ("rows", "rounds")
    }
    for _ in tqdm(range(repeats), "speed", disable=not sys.stderr.isatty(), leave=False):
        for update, n_jobs in kinds:
            end = head + ROWS_OF_ROWS if update == "rows" else len(y)
            rate = rows_per_second(started[update], X[head:end], y[head:end], n_jobs)
            rates[update, n_jobs] = max(rates.get((update, n_jobs), 0.0), rate)
    limits = dict(apart(started["rounds"], budget, threads))
    for update, n_jobs in kinds:
        rate = rates[update, n_jobs]
        threaded = update == "rounds"
        yield {
            "part": "speed",
            "data": name or "generated",
            "budget": budget,
            "update": update,
            "threads": n_jobs,
            "rows_per_second": rate,
            "of_rows_engine": rate / rates["rows", 1],
            "efficiency": rate * threads[0] / rates["rounds", threads[0]] / n_jobs if threaded else None,
            "efficiency_of_processes": limits[n_jobs] * threads[0] / limits[threads[0]] / n_jobs if threaded else None,
        }


def rows_per_second(started: bytes, X: Any, y: Any, n_jobs: int) -> float:
    """Learn with a copy of a model; threads and caches are warm."""
    model = pickle.loads(started).set_params(n_jobs=n_jobs)
    model.partial_fit(X[:64], y[:64])
    start = perf_counter()
    model.partial_fit(X[64:], y[64:])
    return (len(y) - 64) / (perf_counter() - start)


def apart(started: bytes, budget: int, counts: list[int]) -> Iterator[tuple[int, float]]:
    """Rows a second of so many processes that share nothing but the machine: what it has to give to threads."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(counts), context) as pool:
        for n in (max(counts), *counts):  # the first time all of them start
            times = list(pool.map(_learn_apart, [started] * n, [budget] * n, [ROWS_APART] * n))
            yield n, n * ROWS_APART / (max(end for _, end in times) - min(begin for begin, _ in times))


def _learn_apart(started: bytes, budget: int, rows: int) -> tuple[float, float]:
    X, y = generated(4 * budget + rows)
    model = pickle.loads(started)
    begin = time()
    model.partial_fit(X[4 * budget :], y[4 * budget :])
    return begin, time()


def shares(rows: int, budget: int, threads: list[int]) -> Iterator[Row]:
    """Measure what threads can share out and what they cannot, on one of them, and plan the shares for more of them.

    Processor time, so that a busy machine does not matter. The plan knows nothing of memory that threads compete for.
    """
    X, y = generated(rows)
    head = 4 * budget
    learner: Any = AutoMKLClassifier(budget, update="rounds", random_state=0).fit(X[:head], y[:head])._learner
    measured: list[list[float]] = []

    def run(function: Any, items: Any) -> list[Any]:
        measured.append([])
        results = []
        for item in items:
            start = thread_time()
            results.append(function(item))
            measured[-1].append(thread_time() - start)
        return results

    start = thread_time()
    learner.score_and_learn(X[head:], y[head:].astype(np.float64), np.ones(rows - head), run)
    whole = thread_time() - start
    serial = whole - sum(map(sum, measured))
    for n in threads:
        planned = serial + sum(planned_seconds(each, n) for each in measured)
        yield {
            "part": "shares",
            "data": "generated",
            "rows": rows,
            "budget": budget,
            "threads": n,
            "serial_share": serial / whole,
            "efficiency": whole / planned / n,
        }


def planned_seconds(seconds: list[float], threads: int) -> float:
    """Time until all shares are done, where each thread takes the next share when it is done with one."""
    ends = [0.0] * threads
    for each in seconds:
        heapreplace(ends, ends[0] + each)
    return max(ends)


# ---------------------------------------------------------------- accuracy


def in_partitions(X: Any, y: Any, partitions: int, budget: int, seed: int) -> Any:
    """Learn as a cluster would, one partition after the other."""
    tables = list(zip(np.array_split(X, partitions), np.array_split(y, partitions), strict=True))
    model = AutoMKLClassifier(budget, update="rounds", random_state=seed)
    job = Job(model, [summary(*table) for table in tables])
    job.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
    while pieces := job.next_round():
        for piece in pieces:
            job.add(piece_sums(job.static(), job.means(), piece, *tables[piece.partition]))
        job.end_round()
    return job.model


def accuracy(seeds: list[int], partitions: list[int], budget: int, sets: list[str]) -> Iterator[Row]:
    for name in sets:
        for seed in seeds:
            found = data_set(name, seed)
            if found is None:
                continue
            X, y = found
            n = len(y) * 4 // 5
            learners = {
                "row by row": lambda: AutoMKLClassifier(budget, trees=False, random_state=seed).fit(X[:n], y[:n]),  # noqa: B023
                "rounds": lambda: AutoMKLClassifier(budget, update="rounds", random_state=seed).fit(X[:n], y[:n]),  # noqa: B023
            }
            learners |= {
                f"{count} partitions": lambda count=count: in_partitions(X[:n], y[:n], count, budget, seed)  # noqa: B023
                for count in partitions
            }
            base = None
            for kind, learn in learners.items():
                model = learn()
                error = 100 * float((model.predict(X[n:]) != y[n:]).mean())
                progressive = 100 * model.mistakes_ / model.n_seen_
                base = base or (error, progressive)
                yield {
                    "part": "accuracy",
                    "data": name,
                    "seed": seed,
                    "kind": kind,
                    "held_out": error,
                    "more_than_row_by_row": error - base[0],
                    "progressive": progressive,
                }


def mean_accuracy(rows: list[Row]) -> Iterator[Row]:
    """Mean over all sets and seeds, of each kind."""
    measured = [row for row in rows if row["part"] == "accuracy"]
    for kind in dict.fromkeys(row["kind"] for row in measured):
        own = [row for row in measured if row["kind"] == kind]
        yield {
            "part": "mean",
            "data": f"{len({row['data'] for row in own})} sets, {len({row['seed'] for row in own})} seeds",
            "kind": kind,
            "held_out": float(np.mean([row["held_out"] for row in own])),
            "more_than_row_by_row": float(np.mean([row["more_than_row_by_row"] for row in own])),
            "progressive": float(np.mean([row["progressive"] for row in own])),
        }


def sorted_by_label(budget: int, seeds: list[int], partitions: int = 8) -> Iterator[Row]:
    """Learn codrna with bomkl.dask from partitions that are sorted by label, and from the same rows in random order."""
    import dask.array as da

    from bomkl.dask import AutoMKLClassifier as DaskClassifier

    for seed in seeds:
        found = data_set("codrna", seed)
        if found is None:
            return
        X, y = found
        n = len(y) * 4 // 5
        for order, places in (("random", np.arange(n)), ("sorted", np.argsort(y[:n], kind="stable"))):
            chunk = -(-n // partitions)
            rows = da.from_array(X[places], chunks=(chunk, X.shape[1]))
            model = (
                DaskClassifier(budget, random_state=seed).fit(rows, da.from_array(y[places], chunks=chunk)).to_local()
            )
            error = 100 * float((model.predict(X[n:]) != y[n:]).mean())
            yield {"part": "sorted", "data": "codrna", "seed": seed, "order": order, "held_out": error}


# ---------------------------------------------------------------- projection


def projection(budget: int, total: float, cores: int) -> Iterator[Row]:
    """Measure each part of a round, in processor time, and add up what they take where they do not run side by side."""
    rows = 16 * budget
    X, y = generated(rows)
    job = Job(AutoMKLClassifier(budget, update="rounds", random_state=0), [summary(X, y)])
    job.learn_head([drawn_rows(piece, X, y) for piece in job.head_pieces()])
    seconds = {"sums": np.inf, "adding": np.inf, "end": np.inf}
    while pieces := job.next_round():
        static, means = job.static(), job.means()
        start = process_time()
        gains = [piece_sums(static, means, piece, X, y) for piece in pieces]
        size = sum(piece.end - piece.begin for piece in pieces)
        seconds["sums"] = min(seconds["sums"], (process_time() - start) / size)
        for each in gains:
            job.add(each)
        empty = Sums.zeros(gains[0].sums.shape, gains[0].sums.log_rows)
        start = process_time()
        empty.add(gains[0].sums)
        seconds["adding"] = min(seconds["adding"], process_time() - start)
        start = process_time()
        job.end_round()
        seconds["end"] = min(seconds["end"], process_time() - start)
    up, down = len(pickle.dumps(gains[0])), len(pickle.dumps(means))
    rounds = int(np.ceil(np.log(total / (4 * budget)) / np.log(1.25)))
    pieces_of_all = total / 100_000
    computing = total * seconds["sums"] / cores
    merging = rounds * seconds["end"] + pieces_of_all / GROUPS * seconds["adding"]
    sending = (pieces_of_all * up / GROUPS + rounds * down * cores) / 1e9  # at 1 GB/s into one machine
    whole = computing + merging + sending
    yield {
        "part": "projection",
        "data": "generated",
        "budget": budget,
        "rows": total,
        "cores": cores,
        "rows_per_second_and_core": 1 / seconds["sums"],
        "bytes_up_a_piece": up,
        "bytes_down_a_round": down,
        "bytes_of_head": len(pickle.dumps(job.static())),
        "rounds": rounds,
        "seconds_of_a_merge": seconds["end"],
        "seconds_computing": computing,
        "seconds_merging": merging,
        "seconds_sending": sending,
        "minutes": whole / 60,
        "efficiency": computing / whole,
    }


def show(row: Row) -> str:
    if row["part"] == "speed":
        efficiency = (
            ""
            if row["efficiency"] is None
            else f"  efficiency {100 * row['efficiency']:4.0f} % "
            f"(processes apart: {100 * row['efficiency_of_processes']:.0f} %)"
        )
        return (
            f"{row['data']:<10} {row['update']:<7} {row['threads']:>2} threads {row['rows_per_second']:>9,.0f} rows/s "
            f"{row['of_rows_engine']:5.2f} times learning row by row{efficiency}"
        )
    if row["part"] == "sorted":
        return (
            f"{row['data']:<10} bomkl.dask, {row['order']} order, seed {row['seed']}: held out {row['held_out']:.3f} %"
        )
    if row["part"] == "shares":
        return (
            f"{row['data']:<10} {row['rows']:,} rows, {row['threads']:>2} threads, planned: efficiency "
            f"{100 * row['efficiency']:4.0f} %, {100 * row['serial_share']:.2f} % cannot be shared out"
        )
    if row["part"] in ("accuracy", "mean"):
        return (
            f"{row['data']:<16} {row.get('seed', ''):>4} {row['kind']:<14} held out {row['held_out']:6.3f} % "
            f"({row['more_than_row_by_row']:+.3f})  progressive {row['progressive']:6.3f} %"
        )
    return (
        f"{row['rows']:.0e} rows on {row['cores']} cores, projected: {row['minutes']:.1f} minutes, efficiency "
        f"{100 * row['efficiency']:.0f} %\n  measured: {row['rows_per_second_and_core']:,.0f} rows/s a core, "
        f"{row['bytes_up_a_piece']:,} bytes up a piece, {row['bytes_down_a_round']:,} down a round, "
        f"{row['bytes_of_head']:,} once, {row['seconds_of_a_merge']:.3f} s a merge, {row['rounds']} rounds"
    )


def draw(rows: list[Row], path: Path) -> None:
    """Draw efficiency by threads, and held-out error by partitions less that of learning row by row."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for part, number, style, label in (
        ("speed", "efficiency", "o-", "threads"),
        ("speed", "efficiency_of_processes", "o:", "processes that share nothing"),
        ("shares", "efficiency", "o--", "planned from measured shares"),
    ):
        own = [row for row in rows if row["part"] == part and row[number] is not None]
        if len(own) > 1:
            left.plot([row["threads"] for row in own], [100 * row[number] for row in own], style, label=label)
            left.set_xscale("log", base=2)
            left.set_xticks([row["threads"] for row in own], [row["threads"] for row in own])
    left.set(xlabel="threads", ylabel="% of that many times one thread", title="Efficiency", ylim=(0, 110))
    if left.lines:
        left.legend(loc="lower left")
    measured = [row for row in rows if row["part"] == "accuracy"]
    kinds = [kind for kind in dict.fromkeys(row["kind"] for row in measured) if kind != "row by row"]
    for name in dict.fromkeys(row["data"] for row in measured):
        points = [
            float(np.mean([r["more_than_row_by_row"] for r in measured if r["data"] == name and r["kind"] == kind]))
            for kind in kinds
        ]
        right.plot(range(len(kinds)), points, "o-", label=name)
    right.axhline(0, color="grey", linewidth=0.8)
    right.set_xticks(range(len(kinds)), [kind.removesuffix(" partitions") for kind in kinds])
    right.set(xlabel="partitions", ylabel="points", title="Held-out error above learning row by row")
    if measured:
        right.legend()
    figure.savefig(path)


def whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--part", choices=PARTS, action="append")
    options.add_argument("--threads", type=whole_numbers, default=[1, 2], metavar="1,2,4,8")
    options.add_argument("--rows", type=int, default=100_000, help="generated rows of the speed part")
    options.add_argument("--budget", type=int, default=1000)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--data", help="speed on one of the data sets instead of generated rows")
    options.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    options.add_argument("--seeds", type=whole_numbers, default=[0, 1, 2, 3, 4], metavar="0,1,2")
    options.add_argument("--partitions", type=whole_numbers, default=[1, 2, 8, 64], metavar="1,2,8,64")
    options.add_argument("--total", type=float, default=1e9, help="rows of the projection")
    options.add_argument("--cores", type=int, default=100, help="cores of the projection")
    given = options.parse_args()
    given.part = given.part or list(PARTS)
    return given


def main() -> None:
    given = arguments()

    def rows() -> Iterator[Row]:
        if "speed" in given.part:
            yield from speed(given.rows, given.budget, given.threads, given.repeats, given.data)
        if "shares" in given.part:
            yield from shares(given.rows, given.budget, given.threads)
        if "accuracy" in given.part:
            measured = []
            for row in accuracy(given.seeds, given.partitions, given.budget, given.sets):
                measured.append(row)
                yield row
            yield from mean_accuracy(measured)
        if "sorted" in given.part:
            yield from sorted_by_label(given.budget, given.seeds)
        if "projection" in given.part:
            yield from projection(given.budget, given.total, given.cores)

    kept = report("scale", rows(), show, given.out)
    if given.out:
        draw(kept, given.out / "scale.svg")

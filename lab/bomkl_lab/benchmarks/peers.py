"""`bomkl bench peers`: AutoMKL compared with other online methods on the same streams: error and time.

Every method meets each row once and is judged by what it said before it saw the label. Vowpal Wabbit is handed columns
standardised by the whole data set; all others scale in the stream. The peers come with
``pip install '.[peers]' ./lab``, MOA's with ``pip install capymoa`` where there is Java. LightGBM is no peer of one
pass: it keeps all rows and is fitted anew whenever the stream has grown by half. Every method has its defaults.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from bomkl_lab.benchmarks.common.pages import show_tables
from bomkl_lab.benchmarks.common.rows import Row, keeping_parser, markdown, means, read_rows, write_rows
from bomkl_lab.benchmarks.peers_methods import METHODS, YOUNG, NotForThisError
from bomkl_lab.benchmarks.peers_streams import DATASETS, IN_TIME, NUMBERS, PAPER, stream_of
from bomkl_lab.experiments.datasets import MissingDataError

PROBE = 2000  # first rows, which tell how long the whole would take
KEY = ("data", "method", "seed")
OURS = "AutoMKL"
REFITTED = "LightGBM refitted"  # no method of one pass
SHORT = {  # what the short table of the paper's data sets shows, and what it is called there
    OURS: "AutoMKL",
    "VW logistic": "Vowpal Wabbit",
    "VW nn 10": "VW `--nn 10`",
    "River LogReg": "River LogReg",
    "River ARF": "River ARF",
    "Nystroem+SGD": "Nystroem + SGD",
}
PUBLISHED = {  # of BOMKC(SPA), by Lu, Hoi, Sahoo and Zhao
    "german": "30.2",
    "svmguide3": "23.5",
    "madelon": "36.6",
    "magic04": "19.8",
    "a9a": "16.1",
    "ijcnn1": "7.8",
    "susy-sample": "34.6 on 1,000,000 rows",
    "codrna": "4.3 on 271,617 rows",
}


def measure(name: str, method: str, seed: int, n_jobs: int, minutes: float) -> dict[str, Any]:
    """Errors in percent, log loss and seconds; only the speed on the first rows where the whole would take too long.

    The error of regression is the root mean squared one, in percent of the deviation of the target.
    """
    data = stream_of(name, seed)
    rows = len(data.y)
    if rows > PROBE and method != OURS:
        start = process_time()
        METHODS[method](data.head(PROBE), n_jobs)
        speed = PROBE / (process_time() - start)
        if rows / speed > 60 * minutes:
            return {"not_run": {"rows_per_second": round(speed), "minutes": round(rows / speed / 60, 1)}}
    start, cpu = perf_counter(), process_time()
    said = METHODS[method](data, n_jobs)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    times = {"seconds": seconds, "cpu_seconds": cpu, "rows_per_second": rows / seconds}
    if data.classes:
        wrong = said.argmax(axis=1) != data.y
        loss = -np.log(np.clip(said[np.arange(rows), data.y], 1e-13, 1)).mean()
        figures = {"mistakes": 100 * wrong.mean(), "first_500": 100 * wrong[:YOUNG].mean(), "log_loss": loss}
    else:
        figures = {"mistakes": 100 * np.sqrt(np.mean((said - data.y) ** 2))}
    return {name: round(float(value), 4) for name, value in (figures | times).items()}


def tables(rows: list[Row]) -> list[str]:
    """Mistakes, wins, log loss, the first 500 rows, seconds and runs, with a column a method; and two short tables."""
    averages = means([row for row in rows if "not_run" not in row], ("data", "method"))
    skipped = {(row["data"], row["method"]): row["not_run"] for row in rows if "not_run" in row}
    found = {(row["data"], row["method"]): row for row in averages}
    names = [name for name in DATASETS if any(row["data"] == name for row in rows)]
    known = list(dict.fromkeys([OURS, *(row["method"] for row in rows if row["method"] not in METHODS), *METHODS]))
    methods = [method for method in known if any(row["method"] == method for row in rows)]

    def table(title: str, names: list[str], show: Callable[[Row], str]) -> str:
        def cell(key: tuple[str, str]) -> str:
            if key in skipped:
                return "not run: {rows_per_second} rows/s, {minutes} min".format(**skipped[key])
            return show(found[key]) if key in found else ""

        return markdown([title, *methods], [[name, *(cell((name, method)) for method in methods)] for name in names])

    classes = [name for name in names if name not in NUMBERS]
    return [
        table("mistakes %", names, lambda row: f"{row['mistakes']:.2f}"),
        wins(rows, methods[1:]),
        table("log loss", classes, lambda row: f"{row['log_loss']:.4f}"),
        table(
            f"mistakes %, first {YOUNG} rows",
            classes,
            lambda row: f"{row['first_500']:.2f}" if "first_500" in row else "",
        ),
        table("CPU seconds", names, lambda row: f"{row['cpu_seconds']:.1f}"),
        table("permutations", names, lambda row: str(row["runs"])),
        best_table(found, names),
        short_table(found),
    ]


def best_table(found: dict[tuple[str, str], Row], names: list[str]) -> str:
    """One line a data set: AutoMKL, the best of the others in one pass, and trees that keep all rows."""

    def cell(row: Row | None) -> str:
        loss = f" ({row['log_loss']:.3f})" if row and "log_loss" in row else ""
        return f"{row['mistakes']:.2f}{loss}" if row else ""

    lines = []
    for name in names:
        others = [found[name, each] for each in METHODS if each not in (OURS, REFITTED) and (name, each) in found]
        best = min(others, key=lambda row: row["mistakes"], default=None)
        said = f"{cell(best)} {best['method']}" if best else ""
        lines.append([name, cell(found.get((name, OURS))), said, cell(found.get((name, REFITTED)))])
    return markdown(["mistakes % (log loss)", OURS, "best of the others in one pass", REFITTED], lines)


def short_table(found: dict[tuple[str, str], Row]) -> str:
    """Mistakes on the paper's data sets, the least in bold, beside what the paper has."""
    lines = []
    for name in PAPER:
        each = {method: found[name, method]["mistakes"] for method in SHORT if (name, method) in found}
        least = min(each.values(), default=0.0)
        cells = [f"{each[method]:.1f}" if method in each else "" for method in SHORT]
        cells = [
            f"**{cell}**" if each.get(method) == least else cell for cell, method in zip(cells, SHORT, strict=True)
        ]
        lines.append([name, *cells, PUBLISHED[name]])
    return markdown(["mistakes % in one pass", *SHORT.values(), "the paper's BOMKC(SPA)"], lines)


def wins(rows: list[Row], others: list[str]) -> str:
    """On how many data sets AutoMKL has fewer mistakes and a lower log loss than each other method, of how many.

    Means are over the permutations that both were run on.
    """
    found = {tuple(row[name] for name in KEY): row for row in rows if "not_run" not in row}

    def count(field: str, other: str) -> str:
        pairs: dict[str, list[float]] = {}
        for (name, method, seed), row in found.items():
            ours = found.get((name, OURS, seed), {})
            if method == other and field in row and field in ours:
                pairs.setdefault(name, []).append(ours[field] - row[field])
        return f"{sum(sum(each) < 0 for each in pairs.values())} of {len(pairs)}" if pairs else ""

    lines = [[label, *(count(field, other) for other in others)] for field, label in FIELDS.items()]
    return markdown(["AutoMKL is better on", *others], lines)


FIELDS = {"mistakes": "mistakes (regression: RMSE)", "log_loss": "log loss"}


def plot(rows: list[Row], path: Path) -> None:
    """Draw error against seconds on the paper's data sets, one panel each."""
    import matplotlib.pyplot as plt

    averages = means([row for row in rows if "not_run" not in row], ("data", "method"))
    names = [name for name in PAPER if any(row["data"] == name for row in averages)]
    shown = [method for method in METHODS if any(row["method"] == method and row["data"] in names for row in averages)]
    colours = [*(f"C{place}" for place in range(10)), "black", "darkgoldenrod", "navy"]  # matplotlib's cycle has ten
    # Text that stays text and the same file for the same rows; two columns and large letters for small screens.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bomkl", "font.size": 15, "font.family": "sans-serif"})
    lines = math.ceil(len(names) / 2)
    figure, axes = plt.subplots(
        lines, 2, figsize=(8, 1.6 + 2.4 * lines), sharex=True, squeeze=False, layout="constrained"
    )
    styles = dict(zip(shown, "*o^sDvPXp<>hd", strict=False))
    for ax, name in zip(axes.flat, names, strict=False):
        for place, (method, marker) in enumerate(styles.items()):
            points = [
                (row["cpu_seconds"], row["mistakes"])
                for row in averages
                if (row["data"], row["method"]) == (name, method)
            ]
            size = 260 if method == "AutoMKL" else 80
            ax.scatter(
                *zip(*points, strict=True) if points else ((), ()),
                s=size,
                c=colours[place],
                marker=marker,
                label=method,
                zorder=3,
            )
        ax.set(title=name, xscale="log", ymargin=0.15)
        ax.grid(alpha=0.3)
        ax.minorticks_off()
    for ax in axes.flat[len(names) :]:
        ax.remove()
    figure.supxlabel("CPU seconds for the whole stream, one thread")
    figure.supylabel("mistakes, %")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = keeping_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS, help="default: all")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, help="default: all")
    parser.add_argument(
        "--seeds", type=int, default=1, help="permutations 0, 1, ... to average over; 0 measures nothing"
    )
    parser.add_argument("--jobs", type=int, default=1, help="threads of AutoMKL")
    parser.add_argument(
        "--name", default=OURS, help="name to keep results of AutoMKL under, for runs of another version of bomkl"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="leave a peer out where it would take longer")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw error against seconds")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    for name, method in itertools.product(options.datasets, options.methods):
        for seed in range(options.seeds if name not in IN_TIME else min(options.seeds, 1)):
            key = dict(zip(KEY, (name, options.name if method == OURS else method, seed), strict=True))
            if any("not_run" not in row and key.items() <= row.items() for row in rows):
                continue
            try:
                row = key | measure(name, method, seed, options.jobs, options.minutes)
            except (MissingDataError, NotForThisError) as error:
                print(f"not run: {name}, {method}: {error}", file=sys.stderr)
                break
            print(row, flush=True)
            rows = [old for old in rows if not key.items() <= old.items()] + [row]
            write_rows(options.rows, rows)
            if "not_run" in row:
                break
    show_tables(options, tables(rows))
    if options.plot:
        plot(rows, options.plot)

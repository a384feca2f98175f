"""`bomkl bench drift`: AutoMKL and River's models that watch for drift, on streams that change.

Every row is predicted before its label is used. The real streams, electricity prices of New South Wales, 50 years of
weather in Nebraska and flights, come in the order of time. The first 20,000 prices and the weather are read from the
source distribution of scikit-multiflow 0.4.1, which must lie in a folder of `bomkl datasets path`, as must the other
two, ``elec-late.npz`` and ``flights.npz``; without their file they are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
import tarfile
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from benchmarks.common.pages import put_tables
from benchmarks.common.rows import Row, add_into, add_rows, markdown, means, read_rows, write_rows
from benchmarks.peers_methods import from_log_odds, peer, river_forest, river_logistic, river_stream
from benchmarks.peers_streams import Stream, stream
from bomkl import AutoMKLClassifier
from bomkl.experiments.datasets import MissingDataError, data_folders

KEY = ("stream", "method")
AFTER = 500  # rows after a change whose error is shown in brackets
ARCHIVE = "scikit-multiflow-0.4.1.tar.gz"
SHA256 = "ed4f791107cb7f789f0bb0620c50e743a4d397905146a4d06c62eb98607aa101"


def arrays(rows: Any) -> tuple[Any, Any]:
    """River's (features, label) pairs as arrays."""
    pairs = list(rows)
    return np.array([list(x.values()) for x, _ in pairs], dtype=np.float64), np.array([int(y) for _, y in pairs])


def sea() -> tuple[Any, Any]:
    synth = peer("river.datasets.synth")
    parts = [arrays(synth.SEA(variant=k, noise=0.1, seed=k).take(2500)) for k in range(4)]
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def hyperplane() -> tuple[Any, Any]:
    make = peer("river.datasets.synth").Hyperplane
    return arrays(make(seed=0, n_drift_features=10, mag_change=0.01, noise_percentage=0.05).take(10_000))


def flipped() -> tuple[Any, Any]:
    X, y = stream("magic04", 0)
    X, y = X[:10_000], y[:10_000]
    return X, np.where(np.arange(len(y)) < 5000, y, 1 - y)


def steady() -> tuple[Any, Any]:
    X, y = stream("susy-sample", 0)
    return X[:6000], y[:6000]


def in_time(name: str) -> Callable[[], tuple[Any, Any]]:
    return lambda: stream(name, 0)


def recorded(name: str) -> Callable[[], tuple[Any, Any]]:
    def read() -> tuple[Any, Any]:
        folders = data_folders()
        archive = next((folder / ARCHIVE for folder in folders if (folder / ARCHIVE).is_file()), None)
        if archive is None:
            raise MissingDataError(f"{name} needs {ARCHIVE}, from PyPI, in one of {', '.join(map(str, folders))}.")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
            raise MissingDataError(f"{archive} is not the file that is meant: its SHA-256 must be {SHA256}.")
        with tarfile.open(archive) as files:
            member = files.extractfile(f"scikit-multiflow-0.4.1/src/skmultiflow/data/datasets/{name}.csv")
            assert member is not None
            table = np.loadtxt(member, delimiter=",", skiprows=1)[:20_000]
        return table[:, :-1], table[:, -1].astype(np.int64)

    return read


STREAMS: dict[str, tuple[Callable[[], tuple[Any, Any]], tuple[int, ...]]] = {  # rows, and where they change abruptly
    "SEA, 4 concepts of 2500 rows, 10 % noise": (sea, (2500, 5000, 7500)),
    "rotating hyperplane, 10 columns, 5 % noise": (hyperplane, ()),
    "magic04, labels flipped after 5000 of 10,000": (flipped, (5000,)),
    "electricity, first 20,000 rows in time": (recorded("elec"), ()),
    "weather, 18,159 days in time": (recorded("weather"), ()),
    "electricity, the other 25,312 rows in time": (in_time("elec-late"), ()),
    "flights, 20,460 rows in time": (in_time("flights"), ()),
    "susy, 6000 rows, no drift": (steady, ()),
}


def auto(drift: str | None) -> Callable[..., Any]:
    def run(data: Stream, n_jobs: int) -> Any:
        model = AutoMKLClassifier(drift=drift, random_state=0)
        return from_log_odds(model.score_and_learn(data.X, data.y, classes=[0, 1]))

    return run


def last_label(data: Stream, n_jobs: int) -> Any:
    return from_log_odds(np.concatenate([[0], data.y[:-1] - 0.5]))


def bagging() -> Any:
    return peer("river.ensemble").ADWINBaggingClassifier(river_logistic(), n_models=10, seed=0)


def adaptive_tree() -> Any:
    return peer("river.tree").HoeffdingAdaptiveTreeClassifier(seed=0)


METHODS: dict[str, Callable[..., Any]] = {
    "default": auto(None),
    '`drift="adapt"`': auto("adapt"),
    "River ARF, 10 trees": river_stream(river_forest),
    "River ADWIN bagging of 10 logistic regressions": river_stream(bagging),
    "River Hoeffding adaptive tree": river_stream(adaptive_tree),
    "the label before": last_label,
}


def measure(name: str, method: str) -> Row:
    read, changes = STREAMS[name]
    X, y = read()
    start = process_time()
    said = METHODS[method](Stream(X, y, 2, True), 1)
    wrong = (said[:, 1] > 0.5) != y
    seconds = process_time() - start
    after = [100 * wrong[change : change + AFTER].mean() for change in changes]
    figures = {"mistakes": 100 * wrong.mean(), "cpu_seconds": seconds} | ({"after": np.mean(after)} if after else {})
    return {key: round(float(value), 3) for key, value in figures.items()}


def table(rows: list[Row]) -> str:
    """One line a stream, one column a method; in brackets the rows after a change, in parentheses CPU seconds."""
    found = {(row["stream"], row["method"]): row for row in means(rows, KEY)}
    lines = []
    for name in STREAMS:
        cells = []
        for method in METHODS:
            row = found.get((name, method))
            after = f" [{row['after']:.1f}]" if row and "after" in row else ""
            cells.append(f"{row['mistakes']:.2f}{after} ({row['cpu_seconds']:.1f} s)" if row else "")
        lines.append([name, *cells])
    return markdown(["stream", *METHODS], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_rows(parser)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, help="none: show only")
    add_into(parser)
    options = parser.parse_args()
    rows = read_rows(options.rows) if options.rows else []
    for name, method in itertools.product(STREAMS, options.methods):
        key = dict(zip(KEY, (name, method), strict=True))
        if any(key.items() <= row.items() for row in rows):
            continue
        try:
            rows.append(key | measure(name, method))
        except MissingDataError as error:
            print(f"not run: {name}, {method}: {error}", file=sys.stderr)
        if options.rows:
            write_rows(options.rows, rows)
    print(table(rows))
    for page in options.into:
        put_tables(page, [table(rows)])


if __name__ == "__main__":
    main()

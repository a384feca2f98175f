"""`bomkl bench auto_speed`: rows per second of AutoMKLClassifier against budget, columns and classes, one thread.

Rows are drawn at random. They are counted by CPU time once the budget is full and the pool is pruned, which is what a
long stream costs. With ``--baseline PYTHON``, the interpreter of an environment with an older version, both versions
learn from whole streams instead, in turn, and what is shown is rows per second, at default settings.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import process_time

import numpy as np

from bomkl import AutoMKLClassifier
from bomkl.auto.constants import PRUNE_AT
from bomkl_lab.benchmarks.common.baseline import figures
from bomkl_lab.benchmarks.common.rows import markdown
from bomkl_lab.benchmarks.peers_streams import stream

REPEATS = 5  # pieces that are timed; the fastest is the one least disturbed by other work on the machine
PIECE = 2048
STREAMS = ("magic04", "susy-sample")
STREAM_ROWS = 20_000

_STREAM = """
start = process_time()
model = AutoMKLClassifier(random_state=0)
for begin in range(0, len(y), 1000):
    model.partial_fit(X[begin : begin + 1000], y[begin : begin + 1000])
print(json.dumps({"seconds": process_time() - start}))
"""


def rows_per_second(budget: int, d: int, n_classes: int) -> float:
    rng = np.random.default_rng(0)
    before = (PRUNE_AT + 1) * budget
    X = rng.normal(size=(before + REPEATS * PIECE, d))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], np.linspace(-2, 2, n_classes + 1)[1:-1])
    model = AutoMKLClassifier(budget, random_state=0)
    model.partial_fit(X[:before], y[:before], classes=range(n_classes))
    times = []
    for begin in range(before, len(X), PIECE):
        start = process_time()
        model.score_and_learn(X[begin : begin + PIECE], y[begin : begin + PIECE])
        times.append(process_time() - start)
    return PIECE / min(times)


def beside(python: Path) -> list[list[str]]:
    """Rows per second of whole streams, here and by an older version, and the ratio; the fastest run of each counts."""
    lines = []
    for name in STREAMS:
        X, y = (each[:STREAM_ROWS] for each in stream(name, 0))
        runs = [[figures(each, _STREAM, X, y)["seconds"] for each in (python, Path(sys.executable))] for _ in range(3)]
        old, new = (len(y) / min(seconds) for seconds in zip(*runs, strict=True))
        lines.append([name, str(len(y)), f"{old:,.0f}", f"{new:,.0f}", f"{new / old:.2f}"])
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--baseline", type=Path, metavar="PYTHON", help="interpreter with an older version")
    if (baseline := options.parse_args().baseline) is not None:
        print(markdown(["data", "rows", "older, rows/s", "now, rows/s", "ratio"], beside(baseline)))
        return
    cases = [(budget, 18, 2) for budget in (100, 300, 1000, 2000)]
    cases += [(300, d, 2) for d in (5, 50, 200, 500)]
    cases += [(300, 18, n_classes) for n_classes in (3, 10, 26)]
    lines = [[*map(str, case), f"{round(rows_per_second(*case), -2):,.0f}"] for case in cases]
    print(markdown(["budget", "columns", "classes", "rows/s"], lines))

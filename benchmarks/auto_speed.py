"""`bomkl bench auto_speed`: rows per second of AutoMKLClassifier against budget, columns and classes, one thread.

Rows are drawn at random. They are counted by CPU time once the budget is full and the pool is pruned, which is what a
long stream costs.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from benchmarks.common.rows import markdown
from bomkl import AutoMKLClassifier
from bomkl.auto.constants import PRUNE_AT

REPEATS = 5  # pieces that are timed; the fastest is the one least disturbed by other work on the machine
PIECE = 2048


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


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    cases = [(budget, 18, 2) for budget in (100, 300, 1000, 2000)]
    cases += [(300, d, 2) for d in (5, 50, 200, 500)]
    cases += [(300, 18, n_classes) for n_classes in (3, 10, 26)]
    lines = [[*map(str, case), f"{round(rows_per_second(*case), -2):,.0f}"] for case in cases]
    print(markdown(["budget", "columns", "classes", "rows/s"], lines))


if __name__ == "__main__":
    main()

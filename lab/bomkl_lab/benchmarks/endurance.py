"""`bomkl bench endurance`: AutoMKL on millions of rows: finite scores, positive covariances, constant memory.

Rows of a slowly turning problem with weights from 0.1 to 100 (their logarithms even), classes and numbers, with and
without drift="adapt". After each tenth of the rows the least eigenvalue of every covariance is taken.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from tqdm import tqdm

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl._support.tiles import unpacked
from bomkl_lab.benchmarks.common.rows import Row, parser, report

COLUMNS = 3
CALL = 20_000  # rows a call


def block(number: int, classes: bool) -> tuple[Any, Any, Any]:
    """Rows, labels or targets, and weights of one call, from its number alone."""
    rng = np.random.default_rng([7, number])
    X = rng.normal(size=(CALL, COLUMNS))
    angle = 0.05 * (number + np.arange(CALL) / CALL)
    signal = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) + X[:, 0] * X[:, 2] / 2
    noise = rng.normal(size=CALL)
    y = (signal + noise / 2 > 0).astype(np.int64) if classes else signal + noise / 10
    return X, y, 10 ** rng.uniform(-1, 2, size=CALL)


def covariances(model: Any) -> Iterator[tuple[Any, Any]]:
    for learner in getattr(model._learner, "models", [model._learner]):
        for component in learner.components:
            if not hasattr(component, "regression"):  # trees have no covariance
                continue
            regression = component.regression
            yield unpacked(regression.P)[:, : regression.rank].astype(np.float64), regression.trace[0]
        yield from ((P, np.inf) for P in learner.combination.stack_covariance)


def resident() -> int:
    """Largest memory so far, in KiB; on macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(classes: bool, drift: str | None, rows: int, budget: int) -> Iterator[Row]:
    model = (AutoMKLClassifier if classes else AutoMKLRegressor)(budget, drift=drift, random_state=0)
    calls = max(rows // CALL, 1)
    start, error, least, largest, memory = process_time(), 0.0, np.inf, 0.0, []
    name = f"{'classes' if classes else 'numbers'}, drift={drift!r}"
    for number in tqdm(range(calls), name, disable=not sys.stderr.isatty(), leave=False):
        X, y, weight = block(number, classes)
        extra = {"classes": [0, 1]} if classes else {}
        scores = model.score_and_learn(X, y, sample_weight=weight, **extra)
        if not np.isfinite(scores).all():
            raise SystemExit(f"{name}: a score is not finite in call {number}")
        error += float(((scores > 0) != y).mean() if classes else ((scores - y) ** 2).mean())
        if (number + 1) % max(calls // 10, 1) == 0 or number + 1 == calls:
            found = [(np.linalg.eigvalsh(P)[0], np.trace(P) / limit) for P, limit in covariances(model)]
            least = min(least, *(value for value, _ in found))
            largest = max(largest, *(value for _, value in found))
            memory.append(resident())
    yield {
        "stream": name,
        "rows": calls * CALL,
        "error": error / calls,
        "least_eigenvalue": float(least),
        "trace_of_limit": float(largest),
        "memory_growth_kib": memory[-1] - memory[0],
        "us_a_row": 1e6 * (process_time() - start) / (calls * CALL),
        "holds": bool(least > 0 and largest <= 1.001),
    }


def show(row: Row) -> str:
    return (
        f"{row['stream']:<26} {row['rows']:>12,} rows  error {row['error']:.4f}  least eigenvalue "
        f"{row['least_eigenvalue']:.2e}  trace/limit {row['trace_of_limit']:.3f}  "
        f"memory {row['memory_growth_kib']:+d} KiB  "
        f"{row['us_a_row']:.1f} us a row  {'holds' if row['holds'] else 'BROKEN'}"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000_000, help="rows of each of the four streams")
    options.add_argument("--budget", type=int, default=16)
    options.add_argument("--targets", choices=("classes", "numbers"), help="only these; both unless told")
    options.add_argument("--drift", choices=("none", "adapt"), help="only this; both unless told")
    chosen = options.parse_args()
    rows = (
        row
        for targets in ("classes", "numbers")
        for drift in (None, "adapt")
        if chosen.targets in (None, targets) and chosen.drift in (None, drift or "none")
        for row in measure(targets == "classes", drift, chosen.rows, chosen.budget)
    )
    kept = report("endurance", rows, show, chosen.out)
    if not all(row["holds"] for row in kept):
        raise SystemExit("a covariance is not positive definite or too large")

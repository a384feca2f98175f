"""`bomkl bench one_row`: AutoMKL one row at a time: usual and slowest rows.

With ``--baseline PYTHON``, the interpreter of an environment with an older version, one-row calls of that version are
timed in a process of their own, in turn with this one's. Predictions are timed twice: alone, and in turn with learning,
which takes what they need out of the caches.

Of the slowest row the processor's time counts, which does not depend on what else runs. Python's garbage collector has
its full collection before the first row: it looks at every object of every module that was imported, which takes about
50 ms with scikit-learn and pandas and has nothing to do with the rows. A program that cannot wait for that calls
``gc.freeze()`` before its stream begins.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from bomkl_lab.benchmarks.common.baseline import figures
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.peers_streams import stream

BUDGET = 1000
FIRST = 5000  # rows among which the slowest is looked for
TIMED = 300

_OLDER = """
start = len(y) - {timed}
model = AutoMKLClassifier({budget}, random_state=0).partial_fit(X[:start], y[:start])
times = {{"predict_alone": [], "predict": [], "partial_fit": []}}
for i in range(start, len(y)):
    begin = perf_counter()
    model.predict(X[i : i + 1])
    times["predict_alone"].append(perf_counter() - begin)
for i in range(start, len(y)):
    for name, arguments in (("predict", (X[i : i + 1],)), ("partial_fit", (X[i : i + 1], y[i : i + 1]))):
        begin = perf_counter()
        getattr(model, name)(*arguments)
        times[name].append(perf_counter() - begin)
print(json.dumps({{name: float(np.median(each)) for name, each in times.items()}}))
"""


def timed(function: Callable[..., Any], *arguments: Any, clock: Callable[[], float] = perf_counter) -> float:
    start = clock()
    function(*arguments)
    return clock() - start


def measure(baseline: Path | None) -> Iterator[Row]:
    from bomkl import AutoMKLClassifier

    X, y = stream("magic04", 0)
    model = AutoMKLClassifier(BUDGET, random_state=0)
    model.partial_fit(X[:1], y[:1], classes=[0, 1])
    collection = timed(gc.collect, clock=thread_time)
    times = np.array(
        [
            [timed(model.predict_one, X[i], clock=thread_time), timed(model.learn_one, X[i], y[i], clock=thread_time)]
            for i in range(1, FIRST)
        ]
    )
    slowest = times.argmax(axis=0)
    yield {
        "what": f"slowest of the first {FIRST} rows",
        "predict_one_ms": 1e3 * times[:, 0].max(),
        "learn_one_ms": 1e3 * times[:, 1].max(),
        "at": (slowest + 1).tolist(),
        "collection_ms": 1e3 * collection,
    }
    for start in (BUDGET + 200, 5 * BUDGET):
        model = AutoMKLClassifier(BUDGET, random_state=0).partial_fit(X[:start], y[:start])
        rows = range(start, start + TIMED)
        alone = float(np.median([timed(model.predict_one, X[i]) for i in rows]))
        times = np.array([[timed(model.predict_one, X[i]), timed(model.learn_one, X[i], y[i])] for i in rows])
        predict, learn = np.median(times, axis=0)
        row = {
            "what": f"median after {start} rows",
            "predict_one_alone_ms": 1e3 * alone,
            "predict_one_ms": 1e3 * predict,
            "learn_one_ms": 1e3 * learn,
        }
        if baseline is not None:
            old = figures(baseline, _OLDER.format(timed=TIMED, budget=BUDGET), X[: start + TIMED], y[: start + TIMED])
            row |= {
                "predict_alone_ratio": old["predict_alone"] / alone,
                "predict_ratio": old["predict"] / predict,
                "learn_ratio": old["partial_fit"] / learn,
            }
        yield row


def show(row: Row) -> str:
    numbers = "  ".join(f"{name} {value}" for name, value in row.items() if name not in ("bench", "what"))
    return f"{row['what']:<36}{numbers}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--baseline", type=Path, metavar="PYTHON", help="interpreter with an older version")
    chosen = options.parse_args()
    report("one_row", measure(chosen.baseline), show, chosen.out)

"""`bomkl bench one_row`: AutoMKL one row at a time; its slowest rows, and how it compares to calls with one row.

With ``--before FOLDER``, a folder into which an older version was installed, one-row calls of that version are timed in
a process of their own, in turn with this one's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common.rows import Row, parser, report
from benchmarks.peers_streams import stream

BUDGET = 1000
FIRST = 5000  # rows among which the slowest is looked for
TIMED = 300

_BEFORE = """
import json, sys
sys.meta_path = [each for each in sys.meta_path if "editable" not in type(each).__module__.lower()]
sys.path.insert(0, sys.argv[1])
import numpy as np
from time import perf_counter
from bomkl import AutoMKLClassifier
X, y = np.load(sys.argv[2]), np.load(sys.argv[3])
start, timed = int(sys.argv[4]), int(sys.argv[5])
model = AutoMKLClassifier(1000, random_state=0).partial_fit(X[:start], y[:start])
times = {"predict": [], "partial_fit": []}
for i in range(start, start + timed):
    for name, arguments in (("predict", (X[i : i + 1],)), ("partial_fit", (X[i : i + 1], y[i : i + 1]))):
        begin = perf_counter()
        getattr(model, name)(*arguments)
        times[name].append(perf_counter() - begin)
print(json.dumps({name: float(np.median(each)) for name, each in times.items()}))
"""


def timed(function: Callable[..., Any], *arguments: Any) -> float:
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


def measure(before: Path | None) -> Iterator[Row]:
    from bomkl import AutoMKLClassifier

    X, y = stream("magic04", 0)
    model = AutoMKLClassifier(BUDGET, random_state=0)
    model.partial_fit(X[:1], y[:1], classes=[0, 1])
    times = np.array([[timed(model.predict_one, X[i]), timed(model.learn_one, X[i], y[i])] for i in range(1, FIRST)])
    slowest = times.argmax(axis=0)
    yield {
        "what": f"slowest of the first {FIRST} rows",
        "predict_one_ms": 1e3 * times[:, 0].max(),
        "learn_one_ms": 1e3 * times[:, 1].max(),
        "at": (slowest + 1).tolist(),
    }
    for start in (BUDGET + 200, 5 * BUDGET):
        model = AutoMKLClassifier(BUDGET, random_state=0).partial_fit(X[:start], y[:start])
        rows = range(start, start + TIMED)
        times = np.array([[timed(model.predict_one, X[i]), timed(model.learn_one, X[i], y[i])] for i in rows])
        predict, learn = np.median(times, axis=0)
        row = {"what": f"median after {start} rows", "predict_one_ms": 1e3 * predict, "learn_one_ms": 1e3 * learn}
        if before is not None:
            old = older(before, X, y, start)
            row |= {"predict_ratio": old["predict"] / predict, "learn_ratio": old["partial_fit"] / learn}
        yield row


def older(folder: Path, X: Any, y: Any, start: int) -> dict[str, float]:
    """Median times of one-row calls of the version in a folder."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        paths = [os.path.join(scratch, name) for name in ("X.npy", "y.npy")]
        np.save(paths[0], X[: start + TIMED])
        np.save(paths[1], y[: start + TIMED])
        arguments = [sys.executable, "-c", _BEFORE, str(folder), *paths, str(start), str(TIMED)]
        found: dict[str, float] = json.loads(
            subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
        )
    return found


def show(row: Row) -> str:
    figures = "  ".join(f"{name} {value}" for name, value in row.items() if name not in ("bench", "what"))
    return f"{row['what']:<36}{figures}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--before", type=Path, metavar="FOLDER", help="an older version, installed with pip --target")
    chosen = options.parse_args()
    report("one_row", measure(chosen.before), show, chosen.out)


if __name__ == "__main__":
    main()

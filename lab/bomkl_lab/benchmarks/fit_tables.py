"""`bomkl bench fit_tables`: `fit` on tables as they are found: sorted by label, with empty cells, and large.

* ``order``: error on rows held out, after `fit` on the same rows sorted by their label and in a random order.
* ``gaps``: what a tenth of the cells costs if it is empty, in arrays with NaN, in tables, and for batch trees.
* ``memory``: what `fit` takes beside the rows; ``--baseline PYTHON`` compares with another version.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor
from bomkl_lab.benchmarks.common.baseline import figures
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.peers_streams import PAPER, stream

LOADED = {"iris": load_iris, "wine": load_wine, "digits": load_digits, "diabetes": load_diabetes}
NUMBERS = ("diabetes",)
GAPS = ("magic04", "ijcnn1", "california")
EMPTY = 0.1  # share of the cells
HELD_OUT = 4  # one row of so many
# Linux only: ru_maxrss cannot be set back, so that reading the rows would hide what `fit` takes
_MEMORY = """
def kib(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))
model = AutoMKLClassifier(budget=50, random_state=0)
model.fit(X[:3000], y[:3000])  # imports what the first call needs
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = kib("VmRSS:")
model.fit(X, y)
print(json.dumps({"kib": kib("VmHWM:") - before}))
"""


def table(name: str, most: int) -> tuple[Any, Any]:
    """Rows and labels in a random order, at most so many."""
    X, y = LOADED[name](return_X_y=True) if name in LOADED else stream(name, 0)
    order = np.random.default_rng(0).permutation(len(y))[:most]
    return X[order], (y[order] - y.mean()) / y.std() if name in NUMBERS else y[order]


def error(model: Any, X: Any, y: Any) -> float:
    """Share of wrong labels, or of the variance that is not explained."""
    return 1.0 - float(model.score(X, y))


def order(most: int, seeds: int) -> Iterator[Row]:
    """Sorted and shuffled rows."""
    for name in (*LOADED, *PAPER):
        X, y = table(name, most)
        number = name in NUMBERS
        families = {
            "Auto": AutoMKLRegressor if number else AutoMKLClassifier,
            "Budget": BudgetMKLRegressor if number else BudgetMKLClassifier,
        }
        for family, kind in families.items():
            found = []
            for seed in range(seeds):
                test = np.random.default_rng(seed).permutation(len(y)) % HELD_OUT == 0
                train = np.flatnonzero(~test)
                scale = X[train].std(axis=0) + 1e-12 if family == "Budget" else 1.0  # Auto models scale by themselves
                by_label = train[np.argsort(y[train], kind="stable")]
                fits = (kind(random_state=seed).fit(X[rows] / scale, y[rows]) for rows in (by_label, train))
                found.append([error(model, X[test] / scale, y[test]) for model in fits])
            errors = np.array(found)
            yield {
                "part": "order",
                "data": name,
                "rows": len(y),
                "model": family,
                "sorted": float(errors[:, 0].mean()),
                "shuffled": float(errors[:, 1].mean()),
                "noise": float((errors[:, 0] - errors[:, 1]).std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0,
            }


def gaps(most: int, seeds: int) -> Iterator[Row]:
    """Rows with empty cells."""
    kinds: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
        "Auto, array with NaN": (lambda seed: AutoMKLClassifier(random_state=seed), np.asarray),
        "Auto, DataFrame": (lambda seed: AutoMKLClassifier(random_state=seed), pd.DataFrame),
        "HistGradientBoosting": (lambda seed: HistGradientBoostingClassifier(random_state=seed), np.asarray),
    }
    for name in GAPS:
        X, y = table(name, most)
        errors: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            test = rng.permutation(len(y)) % HELD_OUT == 0
            blanked = np.where(rng.random(X.shape) < EMPTY, np.nan, X)
            for kind, (make, form) in kinds.items():
                whole, empty = (
                    error(make(seed).fit(form(rows[~test]), y[~test]), form(rows[test]), y[test])
                    for rows in (X, blanked)
                )
                errors[kind].append((whole, empty))
        for kind, found in errors.items():
            whole, empty = np.mean(found, axis=0).tolist()
            yield {
                "part": "gaps",
                "data": name,
                "rows": len(y),
                "model": kind,
                "whole": whole,
                "blanked": empty,
                "loss": empty - whole,
            }


def memory(rows: int, baseline: Path | None) -> Iterator[Row]:
    """Peak memory of `fit` beside the rows."""
    X = np.random.default_rng(0).normal(size=(rows, 20))
    y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    pythons = {"this version": Path(sys.executable)} | ({"baseline": baseline} if baseline else {})
    for name, python in pythons.items():
        mib = figures(python, _MEMORY, X, y)["kib"] / 1024
        yield {"part": "memory", "model": name, "rows": rows, "table_mib": X.nbytes / 2**20, "fit_mib": mib}


def show(row: Row) -> str:
    if row["part"] == "memory":
        whole = row["table_mib"] + row["fit_mib"]
        return f"{row['model']:<14}table {row['table_mib']:7.1f} MiB, fit {row['fit_mib']:7.1f} MiB more: {whole:7.1f}"
    first = f"{row['data']:<13}{row['rows']:>7,} rows  {row['model']:<22}"
    if row["part"] == "order":
        return f"{first}sorted {row['sorted']:.4f}  shuffled {row['shuffled']:.4f}  (± {row['noise']:.4f})"
    return f"{first}whole {row['whole']:.4f}  blanked {row['blanked']:.4f}  loss {row['loss']:+.4f}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--part", choices=("order", "gaps", "memory"), action="append", help="only this; may be given again"
    )
    options.add_argument("--most", type=int, default=10_000, help="rows of each data set (default: 10000)")
    options.add_argument("--seeds", type=int, default=3, help="random splits (default: 3)")
    options.add_argument("--memory-rows", type=int, default=1_000_000, help="rows of 20 numbers (default: 1000000)")
    options.add_argument("--baseline", type=Path, metavar="PYTHON", help="Python with another version of bomkl")
    given = options.parse_args()

    def measure() -> Iterator[Row]:
        wanted = given.part or ("order", "gaps", "memory")
        if "order" in wanted:
            yield from order(given.most, given.seeds)
        if "gaps" in wanted:
            yield from gaps(given.most, given.seeds)
        if "memory" in wanted:
            yield from memory(given.memory_rows, given.baseline)

    report("fit_tables", measure(), show, given.out)

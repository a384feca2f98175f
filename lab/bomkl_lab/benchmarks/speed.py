"""`bomkl bench speed`: the engine compared with NumPy and with the limits of one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from bomkl import BudgetMKLClassifier
from bomkl._support.progress import progress_bar
from bomkl.combiners import Hedge
from bomkl.demo import load_demo_data
from bomkl.kernels import paper_kernels
from bomkl.learners import Perceptron
from bomkl_lab.benchmarks import roofline
from bomkl_lab.benchmarks.common.measure import one_thread, timed
from bomkl_lab.benchmarks.common.numpy_baseline import omkc_mistakes, spa_mistakes
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.experiments.datasets import MissingDataError, load_dataset

POOL = 2_000


def against_numpy(name: str, X: Any, y: Any, ours: Any, numpy_version: Callable[..., tuple[int, int]]) -> Row:
    """Time both on the same rows, the shorter run three times for its median; the mistakes must tell the same story."""
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.ascontiguousarray(X[order]), y[order]
    models = [clone(ours).set_params(random_state=0) for _ in range(3)]
    seconds = sorted(timed(lambda model=model: model.score_and_learn(X, y))[0] for model in models)[1]
    model = models[0]
    numpy_seconds, (mistakes, support) = timed(lambda: numpy_version(X, y, paper_kernels()))
    return {
        "what": name,
        "seconds": seconds,
        "numpy_seconds": numpy_seconds,
        "ratio": numpy_seconds / seconds,
        "mistakes": model.mistakes_ / len(y),
        "numpy_mistakes": mistakes / len(y),
        "support": int(model.n_support_.sum()),
        "numpy_support": int(support),
    }


def spa_on_a9a() -> Row:
    data = load_dataset("a9a", "float32")
    return against_numpy("BOMKC(SPA) on a9a", data.X, data.y, BudgetMKLClassifier(), spa_mistakes)


def omkc_on_magic04() -> Row:
    omkc = BudgetMKLClassifier(
        learner=Perceptron(), combiner=Hedge(loss="zero_one"), combination="vote", selection_delta=None
    )
    return against_numpy("OMKC(DD) on magic04", *load_demo_data(), omkc, omkc_mistakes)


def measure() -> Iterator[Row]:
    """All rows: limits, fused evaluation at several d, whole runs."""
    yield from roofline.dense_rows(roofline.DIMENSIONS, [POOL], ["one Gaussian"])
    with progress_bar(2, "whole runs", "run") as bar:
        for run in (spa_on_a9a, omkc_on_magic04):
            try:
                yield run()
            except MissingDataError as error:
                yield {"what": run.__name__, "not_run": str(error)}
            bar.update()


def show(row: Row) -> str:
    if "kernels" in row:
        return roofline.show(row)
    if "not_run" in row:
        return f"{row['what']:20} not run: {row['not_run']}"
    times = f"bomkl {row['seconds']:.2f} s, NumPy {row['numpy_seconds']:.2f} s, {row['ratio']:.0f} times faster"
    return (
        f"{row['what']:20} {times}; mistakes {row['mistakes']:.2%} and {row['numpy_mistakes']:.2%}, "
        f"SVs {row['support']:,} and {row['numpy_support']:,}"
    )


def main() -> None:
    chosen = parser(__doc__).parse_args()
    one_thread()
    report("speed", measure(), show, chosen.out)

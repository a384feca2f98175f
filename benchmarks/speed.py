"""`bomkl bench speed`: the engine against this core's limits and against NumPy, one thread, ratios from one run."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from time import perf_counter

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402 - the thread limits must be set first

from benchmarks.numpy_baseline import omkc_mistakes, spa_mistakes  # noqa: E402
from bomkl import BudgetMKLClassifier, _core  # noqa: E402
from bomkl.combiners import Hedge, Uniform  # noqa: E402
from bomkl.demo import load_demo_data  # noqa: E402
from bomkl.kernels import Gaussian, paper_kernels  # noqa: E402
from bomkl.learners import Perceptron  # noqa: E402


def best_seconds(work, repeats):
    """Shortest of several runs: the one least disturbed by other work on the machine."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def sgemm_gflops():
    a = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    return 2 * 1024**3 / best_seconds(lambda: a @ a, 100) / 1e9


def exp_per_second():
    x = -np.random.default_rng(0).uniform(0, 20, 4096).astype(np.float32)
    return len(x) / best_seconds(lambda: _core.exp_many(x.copy()), 2000)


def fused_pairs_per_second(d):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(4096, d)) / np.sqrt(d)).astype(np.float32)
    model = BudgetMKLClassifier([Gaussian(1.0)], Perceptron(), Uniform(), selection_delta=None)
    model.partial_fit(X, rng.integers(0, 2, len(X)))
    rows = X[:504]
    seconds = best_seconds(lambda: model._engine.score(rows, False, 1), 100)
    return model.n_support_.sum() * len(rows) / seconds


def against_limits():
    sgemm, exps = sgemm_gflops(), exp_per_second()
    print(f"{_core.instruction_set()}, float32, one thread: sgemm {sgemm:.1f} GFLOP/s, exp {exps / 1e9:.2f} G/s\n")
    print(f"{'d':>5} {'pairs/s':>10} {'GFLOP/s':>8} {'of sgemm':>9} {'of exp':>7}   fused inner product, Gaussian, sum")
    rows = []
    for d in (8, 22, 123, 500):
        pairs = fused_pairs_per_second(d)
        gflops = 2 * d * pairs / 1e9
        print(f"{d:>5} {pairs / 1e9:>8.2f} G {gflops:>8.1f} {gflops / sgemm:>8.0%} {pairs / exps:>6.0%}")
        rows.append({"d": d, "pairs_per_second": pairs, "of_sgemm": gflops / sgemm, "of_exp": pairs / exps})
    return rows


def against_numpy(name, X, y, ours, numpy_version):
    """Time both on the same rows; the mistakes must tell the same story, or the comparison means nothing."""
    start = perf_counter()
    model = ours.set_params(random_state=0)
    model.score_and_learn(X, y)
    mid = perf_counter()
    mistakes, n_support = numpy_version()
    seconds, numpy_seconds = mid - start, perf_counter() - mid
    rate, numpy_rate = 100 * model.mistakes_ / len(y), 100 * mistakes / len(y)
    print(
        f"{name:<22} {seconds:>8.2f} s {numpy_seconds:>8.2f} s {numpy_seconds / seconds:>7.0f} x"
        f" {rate:>8.2f} {numpy_rate:>8.2f} {model.n_support_.sum():>9,} {n_support:>9,}",
        flush=True,
    )
    return {"name": name, "seconds": seconds, "numpy_seconds": numpy_seconds, "ratio": numpy_seconds / seconds}


def whole_runs():
    from bomkl.experiments.datasets import MissingDataError, load_dataset

    print(f"\n{'float32, one thread':<22} {'bomkl':>10} {'NumPy':>10} {'ratio':>9} {'mist. %':>8} {'':>8} {'SVs':>9}")
    rows = []
    try:
        data = load_dataset("a9a", "float32")
    except MissingDataError as error:
        print(f"a9a left out: {error}")
    else:
        order = np.random.default_rng(0).permutation(len(data.y))
        X, y = np.ascontiguousarray(data.X[order]), data.y[order]
        rows.append(
            against_numpy(
                "BOMKC(SPA) on a9a", X, y, BudgetMKLClassifier(), lambda: spa_mistakes(X, y, paper_kernels(), 0)
            )
        )
    X, y = load_demo_data()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.ascontiguousarray(X[order]), y[order]
    omkc = BudgetMKLClassifier(
        learner=Perceptron(), combiner=Hedge(loss="zero_one"), combination="vote", selection_delta=None
    )
    rows.append(against_numpy("OMKC(DD) on magic04", X, y, omkc, lambda: omkc_mistakes(X, y, paper_kernels())))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = {"limits": against_limits(), "numpy": whole_runs()}
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

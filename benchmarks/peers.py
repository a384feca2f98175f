"""`bomkl bench peers`: AutoMKL and what a user would pick instead, on the same streams, error and time.

Every method meets each row once and is judged by what it said before it saw the label. Vowpal Wabbit is handed columns
standardised by the whole data set; all others scale in the stream. The peers come with ``pip install 'bomkl[peers]'``.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from bomkl import AutoMKLClassifier
from bomkl.experiments.converters import read_npz
from bomkl.experiments.datasets import fetch, get_spec

DATASETS = ("german", "svmguide3", "madelon", "magic04", "a9a", "ijcnn1", "susy-sample", "codrna")
LIMIT = {"codrna": 60_000}
YOUNG = 500  # rows of the column "first 500"


def peer(module: str) -> Any:
    """Import a peer, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(
            f"{module} is not installed: pip install 'bomkl[peers]', or leave it out with --methods"
        ) from error


def log_odds(p: float) -> float:
    return math.log(max(p, 1e-12) / max(1 - p, 1e-12))


def auto(X, y, n_jobs):
    return AutoMKLClassifier(random_state=0, n_jobs=n_jobs).score_and_learn(X, y, classes=[0, 1])


def vowpal_wabbit(options: str) -> Callable[..., Any]:
    def run(X, y, n_jobs):
        workspace = peer("vowpalwabbit").Workspace(f"{options} --quiet")
        deviation = X.std(axis=0)
        Z = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        out = np.empty(len(y))
        for t, row in enumerate(Z):
            text = " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row) if value != 0)
            example = workspace.parse(f"{1 if y[t] else -1} | {text}")
            workspace.learn(example)  # the prediction in the example is the one before the update
            out[t] = example.get_simplelabel_prediction()
            workspace.finish_example(example)
        workspace.finish()
        return out

    return run


def river_stream(make: Callable[[], Any]) -> Callable[..., Any]:
    def run(X, y, n_jobs):
        model = make()
        out = np.empty(len(y))
        for t, row in enumerate(X.tolist()):
            x = dict(enumerate(row))
            out[t] = log_odds(model.predict_proba_one(x).get(True, 0.5 if t == 0 else 0.0))
            model.learn_one(x, bool(y[t]))
        return out

    return run


def river_logistic() -> Any:
    linear, optim, preprocessing = (peer(f"river.{name}") for name in ("linear_model", "optim", "preprocessing"))
    return preprocessing.StandardScaler() | linear.LogisticRegression(optimizer=optim.AdaGrad(0.1))


def river_forest() -> Any:
    return peer("river.forest").ARFClassifier(n_models=10, seed=0)


def nystroem_sgd(X, y, n_jobs):
    """Landmarks and scales from the first 500 rows, which a linear model scores; batches of 50 rows."""
    young = min(YOUNG, len(y))
    scaler = StandardScaler().fit(X[:young])
    kernel = Nystroem(n_components=min(500, young), gamma=1 / X.shape[1], random_state=0).fit(
        scaler.transform(X[:young])
    )
    linear, mapped = (SGDClassifier("log_loss", learning_rate="constant", eta0=0.05, random_state=0) for _ in range(2))
    out = np.zeros(len(y))
    for begin in range(0, len(y), 50):
        rows = slice(begin, begin + 50)
        Z = scaler.transform(X[rows])
        F = kernel.transform(Z)
        if begin:
            out[rows] = linear.decision_function(Z) if begin < young else mapped.decision_function(F)
        mapped.partial_fit(F, y[rows], classes=[0, 1])
        if begin < young:
            linear.partial_fit(Z, y[rows], classes=[0, 1])
    return out


METHODS: dict[str, Callable[..., Any]] = {
    "AutoMKL": auto,
    "VW logistic": vowpal_wabbit("--loss_function logistic"),
    "VW nn 10": vowpal_wabbit("--loss_function logistic --nn 10"),
    "River LogReg": river_stream(river_logistic),
    "River ARF": river_stream(river_forest),
    "Nystroem+SGD": nystroem_sgd,
}


def stream(name: str, seed: int) -> tuple[Any, Any]:
    """Rows as they are distributed: no method may count on columns scaled beforehand."""
    X, y = read_npz(fetch(get_spec(name)))
    order = np.random.default_rng(seed).permutation(len(y))[: LIMIT.get(name)]
    return X[order].astype(np.float64), (y[order] > 0).astype(np.int64)


def measure(name: str, method: str, seeds: range, n_jobs: int) -> list[float]:
    """Mean error, error of the first 500 rows, log loss, and seconds."""
    rows = []
    for seed in seeds:
        X, y = stream(name, seed)
        start = perf_counter()
        scores = np.clip(METHODS[method](X, y, n_jobs), -30, 30)
        seconds = perf_counter() - start
        wrong = (scores > 0) != y
        loss = np.logaddexp(0, np.where(y > 0, -scores, scores)).mean()
        rows.append((100 * wrong.mean(), 100 * wrong[:YOUNG].mean(), loss, seconds, len(y) / seconds))
    return np.mean(rows, axis=0).tolist()


def plot(results: dict[str, list[tuple[str, list[float]]]], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(14, 6), layout="constrained")
    for ax, (name, entries) in zip(axes.flat, results.items(), strict=False):
        for method, (error, _, _, seconds, _) in entries:
            ax.scatter(seconds, error, label=method)
        ax.set(title=name, xscale="log", xlabel="seconds", ylabel="mistakes, %")
    axes.flat[0].legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=1, help="permutations 0, 1, ... to average over")
    parser.add_argument("--jobs", type=int, default=1, help="threads of AutoMKL")
    parser.add_argument("--plot", metavar="FILE", help="draw error against seconds")
    options = parser.parse_args()
    print(
        f"{'data':12} {'method':14} {'mistakes %':>10} {'first 500':>10} {'log loss':>9} {'seconds':>8} {'rows/s':>8}"
    )
    results: dict[str, list[tuple[str, list[float]]]] = {}
    for name in options.datasets:
        for method in options.methods:
            numbers = measure(name, method, range(options.seeds), options.jobs)
            results.setdefault(name, []).append((method, numbers))
            error, young, loss, seconds, speed = numbers
            print(
                f"{name:12} {method:14} {error:10.2f} {young:10.2f} {loss:9.4f} {seconds:8.1f} {speed:8.0f}", flush=True
            )
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()

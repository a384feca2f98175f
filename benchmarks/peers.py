"""`bomkl bench peers`: AutoMKL and what a user would pick instead, on the same streams, error and time.

Every method meets each row once and is judged by what it said before it saw the label. Vowpal Wabbit is handed columns
standardised by the whole data set; all others scale in the stream. The peers come with ``pip install 'bomkl[peers]'``.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.common.rows import Row, markdown, means, read_rows, write_rows
from bomkl import AutoMKLClassifier
from bomkl.experiments.converters import read_npz
from bomkl.experiments.datasets import fetch, get_spec

DATASETS = ("german", "svmguide3", "madelon", "magic04", "a9a", "ijcnn1", "susy-sample", "codrna")
LIMIT = {"codrna": 60_000}
YOUNG = 500  # rows of the column "first 500"
PROBE = 2000  # first rows, which tell how long the whole would take
KEY = ("data", "method", "seed")


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


def mapped_sgd(kernel_map: Callable[..., Any]) -> Callable[..., Any]:
    """Map and scales from the first 500 rows, which a linear model scores; batches of 50 rows."""

    def run(X, y, n_jobs):
        young = min(YOUNG, len(y))
        scaler = StandardScaler().fit(X[:young])
        kernel = kernel_map(n_components=min(500, young), gamma=1 / X.shape[1], random_state=0)
        kernel.fit(scaler.transform(X[:young]))
        linear, mapped = (
            SGDClassifier("log_loss", learning_rate="constant", eta0=0.05, random_state=0) for _ in range(2)
        )
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

    return run


METHODS: dict[str, Callable[..., Any]] = {
    "AutoMKL": auto,
    "VW logistic": vowpal_wabbit("--loss_function logistic"),
    "VW nn 10": vowpal_wabbit("--loss_function logistic --nn 10"),
    "River LogReg": river_stream(river_logistic),
    "River ARF": river_stream(river_forest),
    "Nystroem+SGD": mapped_sgd(Nystroem),
    "RBFSampler+SGD": mapped_sgd(RBFSampler),
}


def stream(name: str, seed: int) -> tuple[Any, Any]:
    """Rows as they are distributed: no method may count on columns scaled beforehand."""
    X, y = read_npz(fetch(get_spec(name)))
    order = np.random.default_rng(seed).permutation(len(y))[: LIMIT.get(name)]
    return X[order].astype(np.float64), (y[order] > 0).astype(np.int64)


def measure(name: str, method: str, seed: int, n_jobs: int, minutes: float) -> dict[str, Any]:
    """Errors in percent, log loss and seconds; only the speed on the first rows where the whole would take too long."""
    X, y = stream(name, seed)
    if len(y) > PROBE and method != "AutoMKL":
        start = process_time()
        METHODS[method](X[:PROBE], y[:PROBE], n_jobs)
        speed = PROBE / (process_time() - start)
        if len(y) / speed > 60 * minutes:
            return {"not_run": {"rows_per_second": round(speed), "minutes": round(len(y) / speed / 60, 1)}}
    start, cpu = perf_counter(), process_time()
    scores = np.clip(METHODS[method](X, y, n_jobs), -30, 30)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    wrong = (scores > 0) != y
    loss = np.logaddexp(0, np.where(y > 0, -scores, scores)).mean()
    figures = {
        "mistakes": 100 * wrong.mean(),
        "first_500": 100 * wrong[:YOUNG].mean(),
        "log_loss": loss,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "rows_per_second": len(y) / seconds,
    }
    return {name: round(float(value), 4) for name, value in figures.items()}


def tables(rows: list[Row]) -> str:
    """Mistakes and CPU seconds, log loss, and the first 500 rows: one line a data set, one column a method."""
    averages = means([row for row in rows if "not_run" not in row], ("data", "method"))
    skipped = {(row["data"], row["method"]): row["not_run"] for row in rows if "not_run" in row}
    found = {(row["data"], row["method"]): row for row in averages}
    names = [name for name in DATASETS if any(row["data"] == name for row in rows)]
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]

    def table(title: str, show: Callable[[Row], str]) -> str:
        def cell(key: tuple[str, str]) -> str:
            if key in skipped:
                return "not run: {rows_per_second} rows/s, {minutes} min".format(**skipped[key])
            return show(found[key]) if key in found else ""

        return markdown([title, *methods], [[name, *(cell((name, method)) for method in methods)] for name in names])

    parts = (
        table("mistakes %, CPU seconds", lambda row: f"{row['mistakes']:.2f}, {row['cpu_seconds']:.1f} s"),
        table("log loss", lambda row: f"{row['log_loss']:.4f}"),
        table(f"mistakes %, first {YOUNG} rows", lambda row: f"{row['first_500']:.2f}"),
        table("permutations", lambda row: str(row["runs"])),
    )
    return "\n\n".join(parts)


def plot(rows: list[Row], path: Path) -> None:
    """Draw error against seconds, one panel a data set."""
    import matplotlib.pyplot as plt

    averages = means([row for row in rows if "not_run" not in row], ("data", "method"))
    names = [name for name in DATASETS if any(row["data"] == name for row in averages)]
    # Text that stays text and the same file for the same rows; two columns and large letters for small screens.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bomkl", "font.size": 15, "font.family": "sans-serif"})
    lines = math.ceil(len(names) / 2)
    figure, axes = plt.subplots(
        lines, 2, figsize=(8, 1.6 + 2.4 * lines), sharex=True, squeeze=False, layout="constrained"
    )
    styles = dict(zip(METHODS, "*o^sDvP", strict=True))
    for ax, name in zip(axes.flat, names, strict=False):
        for place, (method, marker) in enumerate(styles.items()):
            points = [
                (row["cpu_seconds"], row["mistakes"])
                for row in averages
                if (row["data"], row["method"]) == (name, method)
            ]
            size = 260 if method == "AutoMKL" else 80
            ax.scatter(
                *zip(*points, strict=True) if points else ((), ()), size, f"C{place}", marker, label=method, zorder=3
            )
        ax.set(title=name, xscale="log", ymargin=0.15)
        ax.grid(alpha=0.3)
    for ax in axes.flat[len(names) :]:
        ax.remove()
    figure.supxlabel("CPU seconds for the whole stream, one thread")
    figure.supylabel("mistakes, %")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument(
        "--seeds", type=int, default=1, help="permutations 0, 1, ... to average over; 0 measures nothing"
    )
    parser.add_argument("--jobs", type=int, default=1, help="threads of AutoMKL")
    parser.add_argument("--minutes", type=float, default=5.0, help="leave a peer out where it would take longer")
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="keep results here; what is there already is shown, not measured again",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw error against seconds")
    options = parser.parse_args()
    rows = read_rows(options.rows) if options.rows else []
    for name, method in itertools.product(options.datasets, options.methods):
        for seed in range(options.seeds):
            key = dict(zip(KEY, (name, method, seed), strict=True))
            if any("not_run" not in row and key.items() <= row.items() for row in rows):
                continue
            row = key | measure(name, method, seed, options.jobs, options.minutes)
            print(row, flush=True)
            rows = [old for old in rows if not key.items() <= old.items()] + [row]
            if options.rows:
                write_rows(options.rows, rows)
            if "not_run" in row:
                break
    print(tables(rows))
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()

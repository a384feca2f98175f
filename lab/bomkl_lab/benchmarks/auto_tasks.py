"""`bomkl bench auto_tasks`: several classes and numbers: AutoMKL compared with River's linear models.

Every row is predicted before its label is used. River's models have the best of several step sizes in hindsight.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, make_friedman1

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.pages import put_tables
from bomkl_lab.benchmarks.common.rows import add_into, markdown
from bomkl_lab.benchmarks.peers_methods import peer
from bomkl_lab.benchmarks.peers_streams import stream
from bomkl_lab.experiments.datasets import MissingDataError

CALIBRATED = ("magic04", "a9a", "susy-sample")


def shuffled(X: Any, y: Any) -> tuple[Any, Any]:
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def river_predictions(name: str, X: Any, y: Any, loss: Callable[[Any, Any], Any]) -> Any:
    """Predict row by row with a linear model behind River's scalers, 0 while it has no answer; keep the least loss."""
    linear, optim, preprocessing = (peer(f"river.{part}") for part in ("linear_model", "optim", "preprocessing"))
    found = []
    for make, step in itertools.product((optim.SGD, optim.AdaGrad), (0.01, 0.1, 1.0)):
        model = getattr(linear, name)(optimizer=make(step))
        if name == "LinearRegression":
            model = preprocessing.TargetStandardScaler(regressor=model)
        model = preprocessing.StandardScaler() | model
        out = []
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            x = dict(enumerate(row))
            out.append(model.predict_one(x) or 0)
            model.learn_one(x, label)
        found.append(np.array(out))
    return min(found, key=lambda predicted: np.nan_to_num(loss(predicted, y), nan=np.inf).mean())


def wrong_label(predicted: Any, y: Any) -> Any:
    return predicted != y


def squared_error(predicted: Any, y: Any) -> Any:
    return (predicted - y) ** 2


def classes() -> Iterator[list[str]]:
    X, y = shuffled(*load_digits(return_X_y=True))
    for name, known in (("AutoMKL", range(10)), ("AutoMKL, classes added as they come", None)):
        model = AutoMKLClassifier(random_state=0)
        scores = model.score_and_learn(X, y, classes=known)
        wrong = model.classes_[scores.argmax(axis=1)] != y
        yield ["digits, mistakes %", name, f"{100 * wrong.mean():.1f}", f"{100 * wrong[-500:].mean():.1f}"]
    wrong = wrong_label(river_predictions("SoftmaxRegression", X, y, wrong_label), y)
    yield [
        "digits, mistakes %",
        "River SoftmaxRegression",
        f"{100 * wrong.mean():.1f}",
        f"{100 * wrong[-500:].mean():.1f}",
    ]


def numbers() -> Iterator[list[str]]:
    streams = {
        "friedman1, 3000 rows, noise 1": make_friedman1(3000, noise=1.0, random_state=0),
        "diabetes": shuffled(*load_diabetes(return_X_y=True)),
    }
    for name, (X, y) in streams.items():
        found = {
            "AutoMKL": AutoMKLRegressor(random_state=0).score_and_learn(X, y),
            "River LinearRegression": river_predictions("LinearRegression", X, y, squared_error),
        }
        for method, predicted in found.items():
            error = squared_error(predicted, y)
            yield [f"{name}, squared error", method, f"{error.mean():.4g}", f"{error[len(y) // 2 :].mean():.4g}"]


def calibration(name: str) -> list[str]:
    """Mean predicted and observed share of the positive class by tenths of the prediction, and their mean distance."""
    X, y = stream(name, 0)
    predicted = 1 / (1 + np.exp(-AutoMKLClassifier(random_state=0).score_and_learn(X, y, classes=[0, 1])))
    tenth = np.minimum((10 * predicted).astype(int), 9)
    cells, error = [], 0.0
    for k in range(10):
        rows = tenth == k
        cells.append(f"{predicted[rows].mean():.3f}/{y[rows].mean():.3f}".replace("0.", "."))
        error += rows.mean() * abs(predicted[rows].mean() - y[rows].mean())
    return [name, *cells, f"{error:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_into(parser)
    options = parser.parse_args()
    tasks = markdown(["task", "method", "all rows", "the last (500; of numbers, half)"], [*classes(), *numbers()])
    print(tasks)
    lines = []
    with progress_bar(len(CALIBRATED), "streams", "stream") as bar:
        for name in CALIBRATED:
            try:
                lines.append(calibration(name))
            except MissingDataError as error:
                lines.append([name, f"not run: {error}"])
            bar.update()
    tenths = [f"{k / 10:.1f}-{(k + 1) / 10:.1f}".replace("0.", ".") for k in range(10)]
    calibrated = markdown(["data", *tenths, "expected calibration error"], lines)
    print(calibrated)
    for page in options.into:
        put_tables(page, [tasks, calibrated])

"""Streams of numbers: those that `bomkl bench intervals` judges, and those that its settings were chosen on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets

from bomkl_lab.experiments.datasets import MissingDataError, data_folders

Stream = Callable[[], tuple[Any, Any]]
ROWS, SHORT = 8000, 450


def stored(name: str) -> tuple[Any, Any]:
    """Rows and targets of a file in ``BOMKL_DATA`` or ``../shared/data``."""
    for folder in data_folders():
        if (path := folder / f"{name}.npz").exists():
            with np.load(path) as file:
                return file["X"].astype(np.float64), file["y"].astype(np.float64)
    raise MissingDataError(f"{name}.npz is in none of {', '.join(map(str, data_folders()))}.")


def shuffled(X: Any, y: Any) -> tuple[Any, Any]:
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def column(name: str, number: int) -> tuple[Any, Any]:
    """One column of a stored file, to be predicted from the others."""
    X = stored(name)[0]
    X = X[np.random.default_rng(1).permutation(len(X))[:ROWS]]
    return np.delete(X, number, axis=1), X[:, number]


def first_column(load: Callable[..., Any]) -> tuple[Any, Any]:
    X, _ = load(return_X_y=True)
    return shuffled(X[:, 1:], X[:, 0])


def made(low: float, high: float, columns: int, target: Callable[[Any, np.random.Generator], Any]) -> tuple[Any, Any]:
    """Rows drawn evenly, and a target with noise."""
    rng = np.random.default_rng(5)
    X = rng.uniform(low, high, (ROWS, columns))
    return X, target(X, rng)


def noise(X: Any, rng: np.random.Generator, deviation: float) -> Any:
    return deviation * rng.normal(size=len(X))


JUDGED: dict[str, tuple[Stream, str | None]] = {
    "diamonds": (lambda: stored("diamonds"), None),
    "hotel": (lambda: stored("hotel"), "adapt"),
    "friedman1": (lambda: datasets.make_friedman1(10_000, noise=1.0, random_state=0), None),
    "diabetes": (lambda: shuffled(*datasets.load_diabetes(return_X_y=True)), None),
}

CHOSEN_ON: dict[str, tuple[Stream, str | None]] = {
    "friedman2": (lambda: datasets.make_friedman2(ROWS, noise=125.0, random_state=1), None),
    "friedman3": (lambda: datasets.make_friedman3(ROWS, noise=0.1, random_state=1), None),
    "sparse": (lambda: datasets.make_sparse_uncorrelated(ROWS, 10, random_state=1), None),
    "linear": (lambda: datasets.make_regression(ROWS, 12, n_informative=8, noise=20.0, random_state=1), None),
    "sines": (
        lambda: made(
            -2, 2, 6, lambda X, r: np.sin(3 * X[:, 0]) * X[:, 1] + np.cos(2 * X[:, 2] * X[:, 3]) + noise(X, r, 0.3)
        ),
        None,
    ),
    "ishigami": (
        lambda: made(
            -np.pi,
            np.pi,
            5,
            lambda X, r: np.sin(X[:, 0]) * (1 + 0.1 * X[:, 2] ** 4) + 7 * np.sin(X[:, 1]) ** 2 + noise(X, r, 1.0),
        ),
        None,
    ),
    "additive": (
        lambda: made(
            0,
            1,
            10,
            lambda X, r: (
                8 * np.cos(4 * X[:, 0] * X[:, 3]) + 15 * np.abs(X[:, 1] - 0.4) + 6 * X[:, 2] ** 3 + noise(X, r, 1.0)
            ),
        ),
        None,
    ),
    "uneven": (  # noise that depends on the row
        lambda: made(-2, 2, 5, lambda X, r: np.sin(2 * X[:, 0]) + np.exp(0.7 * X[:, 1]) * noise(X, r, 0.2)),
        None,
    ),
    **{
        f"{name} column {number}": ((lambda name=name, number=number: column(name, number)), None)
        for name, number in (
            ("california", 0),
            ("california", 6),
            ("covtype", 0),
            ("phoneme", 0),
            ("letter", 4),
            ("satimage", 3),
            ("churn", 1),
        )
    },
    "cancer": (lambda: first_column(datasets.load_breast_cancer), None),
    "short friedman2": (lambda: datasets.make_friedman2(SHORT, noise=250.0, random_state=2), None),
    "short friedman3": (lambda: datasets.make_friedman3(SHORT, noise=0.3, random_state=2), None),
}

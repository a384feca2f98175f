"""Streams that `bomkl bench unseen` makes itself: rows and labels or targets from a random generator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import datasets

ROWS = 3000  # at most, of every stream


def chance(rng: np.random.Generator, log_odds: Any) -> Any:
    """Labels of given log odds."""
    return (rng.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds))).astype(int)


def copies(rng: np.random.Generator) -> tuple[Any, Any]:
    """Constant columns and three copies of each other column, one of them in another unit."""
    X, y = datasets.make_classification(ROWS, 8, n_informative=5, random_state=int(rng.integers(2**31)))
    return np.hstack([X, X, 1000 * X + 5, np.ones((ROWS, 4))]), y


def cauchy(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.standard_cauchy((ROWS, 8))
    return X, chance(rng, 4 * np.arctan(X[:, 0]) - 3 * np.arctan(X[:, 1]) + 2 * np.sign(X[:, 2] * X[:, 3]))


def log_normal(rng: np.random.Generator) -> tuple[Any, Any]:
    Z = rng.normal(size=(ROWS, 10))
    return np.exp(2 * Z + np.arange(10)), chance(rng, 2 * Z[:, 0] - 2 * Z[:, 1] + 2 * Z[:, 2] * Z[:, 3])


def ordinals(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.integers(0, 10, (ROWS, 8))
    return X, chance(rng, 1.0 * (X[:, 0] + X[:, 1] - X[:, 2] - X[:, 3]) + 2 * (X[:, 4] > 6))


def parity(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.integers(0, 2, (ROWS, 10))
    return X, X[:, :3].sum(axis=1) % 2


def words(rng: np.random.Generator) -> tuple[Any, Any]:
    """Count 100 words, of which 15 are more frequent in one of three classes each."""
    y = rng.integers(0, 3, ROWS)
    rate = np.full((3, 100), 0.1)
    rate[np.repeat([0, 1, 2], 5), np.arange(15)] = 0.6
    return rng.poisson(rate[y]), y


def categories(rng: np.random.Generator) -> tuple[Any, Any]:
    """Five columns of 12 words; the label depends on each and on one pair."""
    codes = rng.integers(0, 12, (ROWS, 5))
    single, pair = rng.normal(size=(5, 12)), 1.5 * rng.normal(size=(12, 12))
    odds = single[np.arange(5), codes].sum(axis=1) + pair[codes[:, 0], codes[:, 1]]
    return (codes[:, :, None] == np.arange(12)).reshape(ROWS, -1), chance(rng, odds)


def checkerboard(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.uniform(0, 4, (ROWS, 2))
    y = np.floor(X).sum(axis=1).astype(int) % 2
    return X, np.where(rng.random(ROWS) < 0.05, 1 - y, y)


def spirals(rng: np.random.Generator) -> tuple[Any, Any]:
    y, t = rng.integers(0, 2, ROWS), 4 * np.pi * np.sqrt(rng.random(ROWS))
    X = np.column_stack([t * np.cos(t + np.pi * y), t * np.sin(t + np.pi * y)])
    return X + 0.7 * rng.normal(size=X.shape), y


def logistic(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.normal(size=(ROWS, 50))
    return X, chance(rng, X @ rng.normal(scale=0.4, size=50))


def spreads(rng: np.random.Generator) -> tuple[Any, Any]:
    """Let the classes differ in the spread of the columns only: best for naive Bayes."""
    y = rng.integers(0, 2, ROWS)
    scale = np.exp(0.25 * rng.normal(size=(2, 30)))
    return scale[y] * rng.normal(size=(ROWS, 30)), y


def means_of_classes(rng: np.random.Generator) -> tuple[Any, Any]:
    """Independent columns whose means depend on one of ten classes: best for naive Bayes."""
    y = rng.integers(0, 10, ROWS)
    return 0.6 * rng.normal(size=(10, 20))[y] + rng.normal(size=(ROWS, 20)), y


def nothing(rng: np.random.Generator) -> tuple[Any, Any]:
    """Labels that do not depend on the columns, 30 % of one class."""
    return rng.normal(size=(ROWS, 20)), (rng.random(ROWS) < 0.3).astype(int)


def boxes(rng: np.random.Generator) -> tuple[Any, Any]:
    """Sum of steps at thresholds of the columns and of their pairs."""
    X = rng.random((ROWS, 10))
    y = 2.0 * (X[:, 0] > 0.3) + (X[:, 1] > 0.7) * (X[:, 2] < 0.5) * 3 - (X[:, 3] > 0.5) * (X[:, 4] > 0.2)
    return X, y + 0.3 * rng.normal(size=ROWS)


def heavy(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.normal(size=(ROWS, 10))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * rng.standard_t(2.5, ROWS)


def counts(rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.normal(size=(ROWS, 8))
    return X, rng.poisson(np.exp(0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.5 * X[:, 2] * (X[:, 3] > 0)))


def walk(rng: np.random.Generator) -> tuple[Any, Any]:
    """Walk at random, with columns that tell part of the steps."""
    steps = rng.normal(size=(ROWS, 3))
    return steps[:, :2], np.cumsum(steps.sum(axis=1))


def seasons(rng: np.random.Generator) -> tuple[Any, Any]:
    """Make a daily wave whose height drifts; one column is the hour, another matters in the afternoon."""
    t = np.arange(ROWS)
    level = np.cumsum(0.05 * rng.normal(size=ROWS))
    x = rng.normal(size=ROWS)
    hour = t % 24
    y = (2 + level) * np.sin(2 * np.pi * hour / 24) + x * (hour > 12) + 0.3 * rng.normal(size=ROWS)
    return np.column_stack([hour, x]), y


def runs(rng: np.random.Generator) -> tuple[Any, Any]:
    """Labels that come in runs of about 10, and columns that tell them apart a little."""
    y = np.cumsum(rng.random(ROWS) < 0.1) % 2
    return rng.normal(size=(ROWS, 6)) + 0.5 * y[:, None] * np.array([1, 1, 0, 0, 0, 0]), y


def shifting_shares(rng: np.random.Generator) -> tuple[Any, Any]:
    """Three classes whose shares rise and fall, the columns of each class as ever."""
    t = np.arange(ROWS) / 400
    share = np.exp(2 * np.sin(np.column_stack([t, t + 2.1, t + 4.2])))
    y = (rng.random(ROWS)[:, None] > np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    return 1.2 * np.eye(3, 8)[y] + rng.normal(size=(ROWS, 8)), y


def moving_columns(rng: np.random.Generator) -> tuple[Any, Any]:
    """Columns whose means wander and whose scale grows, the label by where a row lies in the moving cloud."""
    Z = rng.normal(size=(ROWS, 6))
    centre = np.cumsum(0.03 * rng.normal(size=(ROWS, 6)), axis=0)
    scale = np.exp(np.linspace(0, 1.5, ROWS))[:, None]
    return scale * (Z + centre), chance(rng, 3 * (Z[:, 0] * Z[:, 1] + Z[:, 2]))


def rotating(rng: np.random.Generator) -> tuple[Any, Any]:
    """Two classes that turn around each other, and four columns of noise."""
    y, angle = rng.integers(0, 2, ROWS), np.linspace(0, 4 * np.pi, ROWS) + rng.uniform(0, 2 * np.pi)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (2 * y - 1)[:, None]
    return np.hstack([X, np.zeros((ROWS, 4))]) + rng.normal(size=(ROWS, 6)), y

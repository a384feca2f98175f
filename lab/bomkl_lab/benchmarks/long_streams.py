"""The streams of `bomkl bench long`: as many rows as asked for, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bomkl_lab.experiments.datasets import MissingDataError, data_folders


@dataclass(frozen=True)
class LongStream:
    """Rows in the order of their coming, an array or a table, with labels 0 and 1 or numbers."""

    X: Any
    y: Any
    numbers: bool

    def rows(self, begin: int, end: int) -> Any:
        """Return some rows."""
        return self.X.iloc[begin:end] if isinstance(self.X, pd.DataFrame) else self.X[begin:end]


Made = tuple[Any, Any]


def random_trees(rng: Any, X: Any, trees: int, depth: int) -> Any:
    """Add up the leaves of random trees, which are normal numbers."""
    score = np.zeros(len(X))
    for _ in range(trees):
        node = np.zeros(len(X), dtype=np.int64)
        for level in range(depth):
            column, cut = rng.integers(X.shape[1], size=2**level), rng.normal(size=2**level) * 0.8
            node = 2 * node + (X[np.arange(len(X)), column[node]] > cut[node])
        score += rng.normal(size=2**depth)[node]
    return score


def teacher(rows: int, seed: int = 7) -> Made:
    """Classes by 60 random trees of depth 7, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12))
    score = random_trees(rng, X, 60, 7)
    return X, (rng.random(rows) < 1 / (1 + np.exp(-0.8 * score))).astype(np.int64)


def smooth(rows: int, seed: int = 9) -> Made:
    """Classes by a random network of two layers, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 16))
    h = np.tanh(np.tanh(X @ rng.normal(size=(16, 64)) * 0.7) @ rng.normal(size=(64, 32)) * 0.5)
    score = h @ rng.normal(size=32)
    return X, (score + 0.3 * rng.normal(size=rows) > np.median(score)).astype(np.int64)


def bumps(rows: int, seed: int = 3) -> Made:
    """Classes by 200 Gaussian bumps, which kernels fit well."""
    rng = np.random.default_rng(seed)
    X, centres, heights = rng.normal(size=(rows, 8)), rng.normal(size=(200, 8)), rng.normal(size=200)
    score = np.empty(rows)
    for s in range(0, rows, 10_000):
        x = X[s : s + 10_000]
        squared = (x**2).sum(axis=1)[:, None] - 2 * x @ centres.T + (centres**2).sum(axis=1)
        score[s : s + 10_000] = np.exp(-squared / 4) @ heights
    return X, (rng.random(rows) < 1 / (1 + np.exp(-4 * score / score.std()))).astype(np.int64)


def numbers(rows: int, seed: int = 11) -> Made:
    """Numbers by 40 random trees of depth 6; the noise has a quarter of their deviation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12))
    score = random_trees(rng, X, 40, 6)
    return X, score / score.std() + 0.25 * rng.normal(size=rows)


def waves(rows: int, seed: int = 4) -> Made:
    """Numbers by twelve plane waves, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 10))
    score = np.sin(X @ rng.normal(size=(10, 12)) * 0.9 + rng.uniform(0, 6, size=12)) @ rng.normal(size=12)
    return X, score / score.std() + 0.3 * rng.normal(size=rows)


def flights(name: str) -> Callable[[int], Made]:
    """Whether flights are late, in the order of time: a table with texts."""

    def read(rows: int) -> Made:
        folders = data_folders()
        paths = [folder / part / f"{name}.npz" for folder in folders for part in ("", "long")]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise MissingDataError(f"{name}.npz, with a column `late`, is in none of {', '.join(map(str, folders))}.")
        columns = np.load(path)
        table = pd.DataFrame({k: columns[k].astype(object if columns[k].dtype.kind == "U" else None) for k in columns})
        y = table.pop("late").to_numpy().astype(np.int64)
        return table.iloc[:rows], y[:rows]

    return read


MADE: dict[str, Callable[..., Made]] = {
    "teacher": teacher,
    "smooth": smooth,
    "bumps": bumps,
    "numbers": numbers,
    "waves": waves,
}
REAL = {name: flights(name) for name in ("us-flights", "nyc-flights")}
NUMBERS = ("numbers", "waves")
STREAMS = (*MADE, *REAL)


def stream(name: str, rows: int, seed: int | None = None) -> LongStream:
    """Make or read a stream; the real ones know no seed."""
    made = REAL[name](rows) if name in REAL else MADE[name](rows, **({} if seed is None else {"seed": seed}))
    return LongStream(*made, name in NUMBERS)

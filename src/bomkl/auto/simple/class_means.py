"""Class means: what few rows of a class tell (`cpp/auto/components/class_means.hpp`)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np

from bomkl._core import ClassMeans as CoreClassMeans
from bomkl.auto.features.geometry import Float
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

FAR = 64.0  # deviations beyond it tell an outlier, as in the core
LEAST_LOG_PROBABILITY = -15.0  # below the likeliest class, as in the core
_FARTHEST = 1e100


class Cloud(NamedTuple):
    """How rows in units are whitened, and the centre, variance and constant of each class then."""

    whiten: Float
    centres: Float
    widths: Float
    constants: Float


class ClassMeans:
    """Classes as normal clouds around means of their own: with the columns as axes, and with a shared covariance."""

    kind: ClassVar[str] = "class means"
    names: ClassVar[tuple[str, ...]] = ("class means", "class means correlated")

    def __init__(self, core: CoreClassMeans) -> None:
        self.core = core

    @classmethod
    def of(cls, columns: int, classes: int) -> Self:
        """Start without any rows."""
        return cls(CoreClassMeans(columns, classes))

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return self.core.nbytes

    @property
    def mean(self) -> Float:
        """Mean of all rows."""
        mean: Float = self.core.state()["mean"]
        return mean

    def score_and_learn(self, X: Float, y: Float, weight: Float, task: Task) -> Float:
        """Log probabilities (n, 2, classes) of rows, each just before it is learned from."""
        return self.core.score_and_learn(X, y, weight)

    def scores(self, X: Float) -> Float:
        """Log probabilities (n, 2, classes) of rows."""
        return self.core.scores(X)

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        self.core.add_class()

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        return type(self)(self.core.fork())

    def clouds(self) -> list[Cloud]:
        """Say in NumPy what the core scores rows with: one cloud for each of `names`."""
        a = self.core.state()
        d, n = len(a["mean"]), a["counts"][:, None]
        factor = np.zeros((d, d))
        factor[np.tril_indices(d)] = a["factor"]
        away = np.clip(np.clip(a["means"] - a["origin"], -_FARTHEST, _FARTHEST) * a["per_unit"], -FAR, FAR) * (n > 0)
        found = []
        for whiten, between in zip(
            (np.diag(1 / np.sqrt(a["axes"])), np.linalg.inv(factor).T), a["between"], strict=True
        ):
            variance = 1 / (n + 1 / between)
            constants = np.log(n + 0.5) - 0.5 * (a["per_unit"] > 0).sum() * np.log(1 + variance)
            found.append(Cloud(whiten, away @ whiten * n * variance, (1 + variance)[:, 0], constants[:, 0]))
        return found

    @property
    def units(self) -> tuple[Float, Float]:
        """What is taken from rows before anything else, and what they are multiplied by then."""
        arrays = self.core.state()
        return arrays["origin"], arrays["per_unit"]

    def column_shares(self) -> Float:
        """Share of each column in the variance of the class means, in units of the variance within classes."""
        arrays = self.core.state()
        counts, means = arrays["counts"], arrays["means"]
        away = (means - arrays["origin"])[counts > 0] * arrays["per_unit"]
        spread = (counts[counts > 0, None] * np.clip(away, -_FARTHEST, _FARTHEST) ** 2).sum(axis=0) / arrays["axes"]
        return np.asarray(spread / max(float(spread.sum()), 1e-300))

    def to_state(self) -> State:
        """Everything it has learned, as plain values and arrays."""
        return self.core.state()

    @classmethod
    def from_state(cls, saved: Saved, columns: int, outputs: int) -> Self:
        """Go on where `to_state` was called."""
        means = cls.of(columns, 0)
        saved.load(means.core)
        if means.core.classes != outputs:
            raise saved.wrong("counts", f"those of {outputs} classes", means.core.classes)
        return means

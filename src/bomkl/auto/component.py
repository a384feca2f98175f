"""Components: what the learned combination combines.

A new kind of component is a class with the methods of `Component`, its own state included, and an entry in `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features import Features, KernelFeatures, features_from_state
from bomkl.auto.geometry import Float, Single, Views
from bomkl.auto.information import Information
from bomkl.auto.newton import NewtonRegression
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

Scorer = Callable[[Views], Float]


class RegressionElsewhere(Protocol):
    """A `NewtonRegression` whose arrays are on a device: it never changes, and what changes one happens here."""

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""

    def here(self) -> NewtonRegression:
        """Copy it to the processor."""

    def means(self) -> Float:
        """Posterior mean with every row learned, (outputs, width)."""

    def scores(self, F: Single, means: Float) -> Float:
        """Score rows of features with the posterior mean of `means`."""

    def to_state(self) -> State:
        """Everything it is, as a `NewtonRegression` has it."""


@dataclass(frozen=True)
class Shape:
    """What the state of a component has to fit."""

    columns: int
    outputs: int
    stored_rows: int
    most_open: int  # rows that a block can hold by now
    task: Task


class Component(Protocol):
    """One learner of the pool."""

    kind: ClassVar[str]
    name: str

    @property
    def cost(self) -> float:
        """Work of a row, in any unit: costly components are begun first."""

    @property
    def support(self) -> NDArray[np.int64] | None:
        """Numbers of the stored rows it needs; None where it needs none."""

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Take new numbers of the same stored rows."""

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""

    def score_and_learn(self, views: Views, y: Float, weight: Float, task: Task, forget: float, seen: int) -> Float:
        """Score rows (n, outputs), each just before it is learned from; `seen` rows came before them."""

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now, whatever is learned meanwhile."""

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""

    def tend(self) -> None:
        """Do what has to be done from time to time; called whenever the row count is a multiple of `CHUNK`."""

    def close(self) -> None:
        """Take rows that were held apart so far into what was learned."""

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class, which starts at a constant score."""

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called; refuse what does not fit."""


@dataclass
class NewtonComponent:
    """Online Newton regression on features of the rows."""

    kind: ClassVar[str] = "newton"
    name: str
    features: Features
    regression: NewtonRegression | RegressionElsewhere | Information

    @classmethod
    def fitted(cls, name: str, features: Features, w: Float, covariance: Float, ridge: float) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r), and the ridge of the prior before them."""
        return cls(name, features, NewtonRegression.of(w, covariance, features.width, ridge))

    @property
    def cost(self) -> float:
        """Rank of the features."""
        return self.regression.rank

    @property
    def support(self) -> NDArray[np.int64] | None:
        """Landmarks among the stored rows."""
        return self.features.support if isinstance(self.features, KernelFeatures) else None

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Take new numbers of the same stored rows."""
        assert isinstance(self.features, KernelFeatures)
        self.features = replace(self.features, support=support)

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""
        return self.features.geometries()

    def score_and_learn(self, views: Views, y: Float, weight: Float, task: Task, forget: float, seen: int) -> Float:
        """Score rows, each just before it is learned from."""
        return self._regression_here().score_and_learn(self.features(views), y, weight, task, forget, seen)

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        means, features, regression = self.regression.means(), self.features, self.regression
        return lambda views: regression.scores(features(views), means)

    def fork(self) -> Self:
        """Return a copy that shares what it does not change."""
        regression = self.regression
        return type(self)(
            self.name, self.features, regression.fork() if isinstance(regression, NewtonRegression) else regression
        )

    def tend(self) -> None:
        """Keep the covariance positive definite; information in double precision is so by itself."""
        if isinstance(self.regression, NewtonRegression):
            self.regression.repair()

    def close(self) -> None:
        """Close the open block."""
        if not isinstance(self.regression, Information):
            self._regression_here().close()

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class."""
        if isinstance(self.regression, Information):
            self.regression.add_class(log_odds)
        else:
            self._regression_here().add_class(log_odds)

    def _regression_here(self) -> NewtonRegression:
        """Bring the regression to the processor, where it may change."""
        assert not isinstance(self.regression, Information)
        self.regression = here = self.regression.here()
        return here

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {"features": self.features.to_state(), "regression": self.regression.to_state()}

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        features = features_from_state(saved.part("features"), shape.columns, shape.stored_rows)
        regression = NewtonRegression.from_state(
            saved.part("regression"), features.rank + 1, shape.outputs, shape.most_open
        )
        return cls(name, features, regression)


class RoundsComponent(NewtonComponent):
    """The same regression when it learns in rounds: it holds information, and `rounds` says what to learn."""

    kind: ClassVar[str] = "rounds"

    @classmethod
    def fitted(cls, name: str, features: Features, w: Float, covariance: Float, ridge: float) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r), which holds the prior."""
        return cls(name, features, Information.of(w, covariance, features.width))

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        features = features_from_state(saved.part("features"), shape.columns, shape.stored_rows)
        return cls(name, features, Information.from_state(saved.part("regression"), features.rank + 1, shape.outputs))


kinds: dict[str, type[Component]] = {each.kind: each for each in (NewtonComponent, RoundsComponent)}


def component_state(component: Component) -> State:
    """State of a component of any kind."""
    return {"name": component.name, "kind": component.kind, **component.to_state()}


def component_from_state(saved: Saved, names: list[str], shape: Shape) -> Component:
    """Bring a component of any kind back; its name must be one of `names`."""
    name = saved.text("name", names)
    component = kinds[saved.text("kind", kinds)].from_state(name, saved, shape)
    saved.end()
    return component

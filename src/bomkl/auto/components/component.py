"""Components: what the learned combination combines.

A new kind of component is a class with the methods of `Component`, its own state included, and an entry in `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import NewtonPart, NewtonRegression
from bomkl.auto.components.information import Information
from bomkl.auto.components.newton import (
    feature_scores,
    fitted_regression,
    regression_from_state,
    repair,
)
from bomkl.auto.features.features import Features, KernelFeatures, features_from_state
from bomkl.auto.features.geometry import Float, Views
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

Scorer = Callable[[Views], Float]


class RegressionOnDevice(Protocol):
    """A regression whose arrays are on a device: it never changes, and what changes one happens on the processor."""

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""

    def fork(self) -> Self:
        """Return it."""

    def to_processor(self) -> NewtonRegression:
        """Copy it to the processor."""

    def means(self) -> Float:
        """Posterior mean with every row learned, (outputs, width)."""


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
    def support(self) -> NDArray[np.int64] | None:
        """Numbers of the stored rows it needs; None where it needs none."""

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Take new numbers of the same stored rows."""

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""

    def part(self, forget: float) -> Any:
        """Return what the compiled model learns with; what is learned is found in it."""

    def at(self, part: Any) -> Self:
        """Return this component with a part of a compiled model that was made from its own; None: with none."""

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now, whatever is learned meanwhile."""

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""

    def maintain(self) -> None:
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
    regression: NewtonRegression | RegressionOnDevice | Information

    @classmethod
    def fitted(cls, name: str, features: Features, w: Float, covariance: Float, ridge: float) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r), and the ridge of the prior before them."""
        return cls(name, features, fitted_regression(w, covariance, features.width, ridge))

    @property
    def support(self) -> NDArray[np.int64] | None:
        """Landmarks among the stored rows."""
        return self.features.support

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Take new numbers of the same stored rows."""
        assert isinstance(self.features, KernelFeatures)
        self.features = replace(self.features, support=support)

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""
        return self.features.geometries()

    def part(self, forget: float) -> Any:
        """Return the regression on its features."""
        return NewtonPart.of(self.features.core(), self.on_processor(), None, forget)

    def at(self, part: Any) -> Self:
        """Return this component with another regression."""
        return type(self)(self.name, self.features, part)

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        means, features, rank = self.regression.means(), self.features, self.regression.rank
        return lambda views: feature_scores(features(views), means, rank)

    def fork(self) -> Self:
        """Return a copy that shares what it does not change."""
        return self.at(self.regression.fork())

    def maintain(self) -> None:
        """Keep the covariance positive definite; a device does that itself."""
        if isinstance(self.regression, NewtonRegression):
            repair(self.regression)

    def close(self) -> None:
        """Close the open block."""
        self.on_processor().close()

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class."""
        self.on_processor().add_class(log_odds)

    def on_processor(self) -> NewtonRegression:
        """Bring the regression to the processor, where it may change."""
        self.regression = self.copied_to_processor()
        return self.regression

    def copied_to_processor(self) -> NewtonRegression:
        """Return the regression on the processor, and leave this one where it is: others may be reading it."""
        assert not isinstance(self.regression, Information)
        return self.regression if isinstance(self.regression, NewtonRegression) else self.regression.to_processor()

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {"features": self.features.to_state(), "regression": self.copied_to_processor().state()}

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        features = features_from_state(saved.part("features"), shape.columns, shape.stored_rows)
        regression = regression_from_state(saved.part("regression"), features.rank + 1, shape.outputs, shape.most_open)
        return cls(name, features, regression)


class RoundsComponent(NewtonComponent):
    """The same regression when it learns in rounds: it holds information, and `rounds` says what to learn."""

    kind: ClassVar[str] = "rounds"
    regression: Information

    @classmethod
    def fitted(cls, name: str, features: Features, w: Float, covariance: Float, ridge: float) -> Self:
        """Start from a posterior mean (r, outputs) and covariance (r, r), which holds the prior."""
        return cls(name, features, Information.of(w, covariance, features.width))

    def maintain(self) -> None:
        """Do nothing: information in double precision stays positive definite."""

    def close(self) -> None:
        """Do nothing: no rows are held apart."""

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class."""
        self.regression.add_class(log_odds)

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {"features": self.features.to_state(), "regression": self.regression.to_state()}

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

"""A component of numbers that learns the target on a curved scale.

Prices, counts and times differ by factors more than by amounts. The scale is linear where the target's shorter tail
ends and logarithmic far from there, so that it takes any target. What the component says is straightened before it is
combined with the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import NewtonPart, NewtonRegression, bend_targets, straighten_scores
from bomkl.auto.components.component import NewtonComponent, RegressionOnDevice, Scorer, Shape, kinds
from bomkl.auto.components.information import Information
from bomkl.auto.features.features import Features
from bomkl.auto.features.geometry import Float, Views
from bomkl.auto.saved import Saved, State

_BENDS_FROM = 0.2  # of the mean distance of the targets from where the curve begins
_TAIL = 0.02  # of the targets lie beyond that
_BEYOND = 0.5  # deviations that a score may lie beyond the bent targets of the kept rows
_LARGEST_BENT = 690.0  # of which the hyperbolic sine, times a unit, is a number still
_LARGEST_UNIT = 1e9


def curve_of(targets: Float) -> Float:
    """Find the curve for scaled targets: it begins where their shorter tail ends.

    Its numbers are those of `Curve` in ``cpp/auto/components/curve.hpp``. The place and scale of the targets do not
    matter.

    Examples
    --------
    >>> targets = np.array([[1.0], [10.0], [100.0], [1000.0]])
    >>> bent(curve_of(targets), targets).round(2)[:, 0]
    array([-0.89, -0.78,  0.05,  1.61])
    """
    low, middle, high = np.quantile(targets, (_TAIL, 0.5, 1 - _TAIL))
    start = low if high - middle >= middle - low else high
    unit = _BENDS_FROM * float(np.abs(targets - start).mean())
    unit = unit if unit > 1e-12 else 1.0
    plain = bent(np.array([start, unit, 0.0, 1.0, 0.0, 0.0]), targets)
    mean, deviation = float(plain.mean()), float(plain.std())
    deviation = deviation if deviation > 1e-12 else 1.0
    least, most = (plain.min() - mean) / deviation - _BEYOND, (plain.max() - mean) / deviation + _BEYOND
    return np.array([start, unit, mean, deviation, least, most])


def bent(curve: Float, targets: Float) -> Float:
    """Scaled targets on the curved scale."""
    out = np.empty(targets.shape)
    bend_targets(curve, np.ascontiguousarray(targets), out)
    return out


def slope(curve: Float, score: float) -> float:
    """How much the straightened score changes with a score of the component."""
    _, unit, mean, deviation, low, high = curve
    return float(unit * deviation * np.cosh(mean + deviation * np.clip(score, low, high)))


@dataclass
class CurvedComponent:
    """A `NewtonComponent` of bent targets, whose scores are straightened."""

    kind: ClassVar[str] = "curved"
    name: str
    inner: NewtonComponent
    curve: Float

    @property
    def features(self) -> Features:
        """Features of the rows."""
        return self.inner.features

    @property
    def regression(self) -> NewtonRegression | RegressionOnDevice | Information:
        """Regression of the bent targets on them."""
        return self.inner.regression

    @property
    def support(self) -> NDArray[np.int64] | None:
        """Landmarks among the stored rows."""
        return self.inner.support

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Take new numbers of the same stored rows."""
        self.inner.renumber(support)

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""
        return self.inner.geometries()

    def part(self, forget: float) -> Any:
        """Return the regression of bent targets."""
        return NewtonPart.of(self.features.core(), self.inner.on_processor(), self.curve, forget)

    def at(self, part: Any) -> Self:
        """Return this component with another regression."""
        return replace(self, inner=self.inner.at(part))

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        inner, curve = self.inner.scorer(), self.curve

        def scores(views: Views) -> Float:
            out = inner(views)
            straighten_scores(curve, out)
            return out

        return scores

    def fork(self) -> Self:
        """Return a copy that shares what it does not change."""
        return replace(self, inner=self.inner.fork())

    def maintain(self) -> None:
        """Keep the covariance positive definite."""
        self.inner.maintain()

    def close(self) -> None:
        """Close the open block."""
        self.inner.close()

    def add_class(self, log_odds: float) -> None:
        """Refuse: numbers have no classes."""
        raise TypeError("A component of numbers has no classes.")

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {**self.inner.to_state(), "curve": self.curve}

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        inner = NewtonComponent.from_state(name, saved, shape)
        curve = saved.array("curve", (6,))
        _, unit, mean, deviation, low, high = curve
        largest = max(abs(mean + deviation * low), abs(mean + deviation * high))
        if (
            not shape.task.is_regression
            or not (0 < unit <= _LARGEST_UNIT and deviation > 0 and low <= high)
            or largest > _LARGEST_BENT
        ):
            raise saved.wrong("curve", "one of numbers, whose scores stay finite", curve)
        return cls(name, inner, curve)


kinds[CurvedComponent.kind] = CurvedComponent

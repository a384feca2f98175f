"""What every learner offers: rows in, scores made before each label out.

A learner of rows holds a pool of kernels. A layer holds one or more learners, and makes something more of what they
say. Both have the methods of `Learner`, so layers can be put around each other; `build` says which an estimator has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import array_bytes
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task

if TYPE_CHECKING:
    from bomkl.auto.components.pool import PoolMember
    from bomkl.auto.rows.explain import Explanation


class Learner(Protocol):
    """A learner of two or more classes, or of numbers.

    How rows are split into calls changes nothing: whatever happens now and then happens at absolute row counts.
    """

    kind: ClassVar[str]  # by which files find it
    merges: ClassVar[bool]  # whether copies of it that have learned apart can be put together
    settings: LearnerSettings

    @property
    def seen(self) -> int:
        """Rows learned from."""

    @property
    def task(self) -> Task:
        """What is learned now."""

    @property
    def n_classes(self) -> int:
        """Classes known."""

    @property
    def outputs(self) -> int:
        """Scores a row."""

    @property
    def leader(self) -> PoolLearner:
        """The learner that reports look into: the one that counts most, with every row learned."""

    @property
    def inner(self) -> Learner | None:
        """The learner that this layer is around, or the first of them; None of a learner of rows."""

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""

    def use(self, device: str) -> None:
        """Go on with a device."""

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""

    def score_one(self, x: Any) -> float | Float | None:
        """Scores of one row as if it were learned from; None where `scores` has to be asked."""

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""


class PoolLearner(Learner, Protocol):
    """A learner of rows that holds a pool of kernels; layers hold such learners, and make more of them."""

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None: ...

    @property
    def names(self) -> list[str]:
        """Names of all components, those that were dropped as well."""

    def like(self, settings: LearnerSettings, n_classes: int) -> Self:
        """Return a learner of such rows, on the same device, that has not seen any."""

    def forget(self, factor: float) -> None:
        """Forget from now on, by a factor a row."""

    def target_limits(self) -> tuple[float, float]:
        """Least and largest class number or target."""

    def members(self) -> list[PoolMember]:
        """List the members of the pool, those that were dropped included."""

    def stored_rows(self) -> Float:
        """Rows in memory."""

    def kernel_weights(self) -> Float:
        """Part of each component in the combination; zero for those that were dropped."""

    def component_errors(self) -> Float:
        """Mean error of each component on the rows it has scored, each before learning from it; 0 before the first."""

    def n_support(self) -> NDArray[np.int64]:
        """Landmarks of each component."""

    def relevance_shares(self) -> Float | None:
        """Share of each column in the squared slope of the score; None where it is not known."""

    def explain(self, x: Any, sign: float, columns: Sequence[Any], output: int | None = None) -> Explanation:
        """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest.

        `columns` says what each column of the learner belongs to.
        """


C = TypeVar("C")


def shallow_copy(it: C) -> C:
    """Return a copy that shares all attributes: as `copy.copy`, in a third of the time."""
    made = object.__new__(type(it))
    made.__dict__ = vars(it).copy()
    return made


def forked(part: Any) -> Any:
    """Return an attribute for a copy of a learner: a fork of what learns, copies of lists and dicts."""
    if isinstance(part, list):
        return [forked(each) for each in part]
    if isinstance(part, dict):
        return {name: forked(each) for name, each in part.items()}
    return part.fork() if hasattr(part, "fork") else part


class Layer:
    """A learner around another, which says all that the layer does not say itself.

    Attributes that learn have a `fork`. All others but lists and dicts are replaced, never changed in place.
    """

    merges: ClassVar[bool] = False

    inner: Learner

    def __init__(self, inner: Learner, columns: int) -> None:
        self.inner, self.columns, self.settings = inner, columns, inner.settings

    @property
    def task(self) -> Task:
        """What is learned now."""
        return self.settings.task(self.n_classes)

    @property
    def n_classes(self) -> int:
        """Classes known."""
        return self.inner.n_classes

    @property
    def outputs(self) -> int:
        """Scores a row."""
        return self.n_classes if self.task is Task.MULTICLASS else 1

    @property
    def leader(self) -> PoolLearner:
        """The learner that reports look into."""
        return self.inner.leader

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return array_bytes(vars(self))

    def use(self, device: str) -> None:
        """Go on with a device."""
        self.inner.use(device)

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        return self.inner.scores(X, run)

    def score_one(self, x: Any) -> float | Float | None:
        """Scores of one row as if it were learned from; None where `scores` has to be asked."""
        return self.inner.score_one(x)

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = object.__new__(type(self))
        fork.__dict__ = {name: forked(value) for name, value in dict(vars(self)).items()}
        return fork


ONE_ROW = np.ones(1)  # its weight
T = TypeVar("T", bound=Learner)


def short_after_row(learner: T, X: Any, y: Float) -> tuple[T, Float] | None:
    """Return a copy of a learner that has learned from one row of weight 1, and the row's scores before that.

    Some learners have a short way for rows after which nothing else happens, `after_row`. For other rows, None.
    """
    short: Any = getattr(learner, "after_row", None)
    found: tuple[T, Float] | None = None if short is None else short(X, y)
    return found


def after_row(learner: T, X: Any, y: Float) -> tuple[T, Float]:
    """Return the same for any row."""
    found = short_after_row(learner, X, y)
    if found is not None:
        return found
    after = learner.fork()
    return after, after.score_and_learn(X, y, ONE_ROW)


kinds: dict[str, type[Learner]] = {}  # by which files find learners

L = TypeVar("L", bound=type[Learner])


def loadable(learner: L) -> L:
    """Let files find a class of learners by its kind."""
    kinds[learner.kind] = learner
    return learner


def learner_state(learner: Learner) -> State:
    """State of a learner of any kind, such as one that a layer holds."""
    return {"kind": learner.kind, "learner": learner.to_state()}


def learner_from_state(saved: Saved, columns: int) -> Learner:
    """Bring a learner of any kind back, with rows of so many columns; raises ValueError where anything does not fit."""
    learner = kinds[saved.text("kind", kinds)].from_state(saved.part("learner"), columns)
    saved.end()
    return learner

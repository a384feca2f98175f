"""Tree experts: components that are grown from a sample of the stream, anew as it grows.

Boosted trees stay as they were grown until the next growth. The leaves of the forest go on learning from every row, so
that its trees need not be grown again once the sample is full.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import (
    BoostedPart,
    Boosting,
    ForestPart,
    GrowingBoosted,
    GrowingForest,
    grow_boosted,
    grow_forest,
    trees_are_sound,
)
from bomkl.auto.components.component import Component, Scorer, Shape, kinds
from bomkl.auto.features.coding import Codes
from bomkl.auto.features.geometry import Float, Single, varying_columns
from bomkl.auto.limits import FLOATS, SCALED_TARGETS, SUMS
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

Numbers = NDArray[np.int32]

BOOSTED, FOREST = "boosted trees", "forest"
_ROUNDS, _LEAVES, _RATE, _RIDGE = 100, 31, 0.1, 1.0
_COLUMNS = 128  # that a boosted tree may use, drawn at random where there are more
_FEW_ROWS = 400  # up to here, a leaf of a boosted tree needs 5 rows instead of 10
_FOREST_TREES = 30


class _TreeComponent:
    """What both kinds share: codes of the columns, and no stored rows."""

    support: ClassVar[None] = None

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Do nothing: trees need no stored rows."""

    def maintain(self) -> None:
        """Do nothing: trees keep by themselves."""

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""
        return ("codes",)


def _nodes_from_state(saved: Saved, leaves: int, columns: int) -> tuple[Numbers, Numbers]:
    roots = saved.array("roots", (None,), np.int32)
    nodes = saved.array("nodes", (2 * leaves - len(roots), 2), np.int32)  # every split turns one leaf into two
    if not len(roots) or not trees_are_sound(nodes, roots, leaves, columns):
        raise saved.wrong("nodes", "trees of the columns that lead to leaves", "others")
    return nodes, roots


@dataclass
class Growing:
    """Trees of one kind that are grown from a sample, a part of them at a time."""

    trees: GrowingBoosted | GrowingForest
    made: Callable[[], Component]

    def advance(self, share: float) -> None:
        """Go on until such a share of the trees is grown."""
        self.trees.until(ceil(share * self.trees.trees))

    def finish(self) -> Component:
        """Grow all that are left, and return a new component of them."""
        self.advance(1.0)
        return self.made()


@dataclass
class BoostedTrees(_TreeComponent):
    """Trees whose leaves add up to the score of an output."""

    kind: ClassVar[str] = "boosted"
    name: str
    nodes: Numbers  # (n, 2): 256 times the column plus the cut, and the next node; of leaves -1 and the leaf's number
    roots: Numbers
    outputs: Numbers  # of each tree, the output that it is part of
    values: Single
    base: Float

    @classmethod
    def growing(cls, codes: Codes, targets: Float, weight: Float, task: Task, seed: int) -> Growing:
        """Begin to grow from a sample."""
        least = 5 if len(codes) <= _FEW_ROWS else 10
        share = min(1.0, _COLUMNS / varying_columns(codes))
        settings = Boosting(_ROUNDS, _LEAVES, least, _RATE, _RIDGE, share)
        trees = grow_boosted(codes, targets, weight, int(task), settings, seed)
        return Growing(trees, lambda: cls(BOOSTED, *trees.result()))

    def part(self, forget: float = 1.0) -> BoostedPart:
        """Return the trees; they learn only when they are grown anew."""
        return BoostedPart.of(self.nodes, self.roots, self.outputs, self.values, self.base)

    def at(self, part: Any) -> Self:
        """Return a copy, which may take a new class while this one stays as it is."""
        return copy.copy(self)

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        part = self.part()
        return lambda views: part.scores(views["codes"])

    def fork(self) -> Self:
        """Return a copy: nothing is changed in place."""
        return copy.copy(self)

    def close(self) -> None:
        """Do nothing: no rows are held apart."""

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class; of two classes, trees told the second from the first."""
        old = self.base if len(self.base) > 1 else np.array([0.0, self.base[0]])
        if len(self.base) == 1:
            self.outputs = np.ones_like(self.outputs)
        self.base = np.append(old, log_odds)

    def to_state(self) -> State:
        """Everything it is, as arrays."""
        return {name: getattr(self, name) for name in ("nodes", "roots", "outputs", "values", "base")}

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        values = saved.array("values", (None,), np.float32)
        nodes, roots = _nodes_from_state(saved, len(values), shape.columns)
        outputs = saved.array("outputs", roots.shape, np.int32, 0, shape.outputs - 1)
        return cls(name, nodes, roots, outputs, values, saved.array("base", (shape.outputs,)))


@dataclass
class Forest(_TreeComponent):
    """Trees whose leaves hold sums of weights of each class, or of weights and of weighted targets."""

    kind: ClassVar[str] = "forest"
    name: str
    task: Task
    core: ForestPart

    @classmethod
    def of(cls, name: str, nodes: Numbers, roots: Numbers, task: Task, table: Single, prior: Float) -> Self:
        """Make a forest with no open rows.

        `prior` is what an empty leaf says: probabilities; of numbers 1 and the mean.
        """
        outputs = table.shape[1] if task is Task.MULTICLASS else 1
        return cls(name, task, ForestPart.of(nodes, roots, table, prior, outputs, int(task)))

    @classmethod
    def growing(cls, codes: Codes, targets: Float, weight: Float, task: Task, seed: int) -> Growing:
        """Begin to grow from a sample, which the leaves have then learned from."""
        columns = varying_columns(codes)
        tries = max(1, round(columns / 3 if task.is_regression else np.sqrt(columns)))
        least = 3 if task.is_regression else 1
        if task.is_regression:
            mean = np.average(targets[:, 0], weights=weight)  # of targets at the limit, rounding may put it beyond
            prior = np.array([1.0, SCALED_TARGETS.clip(mean)])
        else:
            total = weight @ (targets if task is Task.MULTICLASS else np.hstack([1 - targets, targets])) + 0.5
            prior = total / total.sum()
        trees = grow_forest(codes, targets, weight, int(task), _FOREST_TREES, tries, least, seed)

        def made() -> Component:
            nodes, roots, table = trees.result()
            return cls.of(FOREST, nodes, roots, task, table, prior)

        return Growing(trees, made)

    def learn(self, codes: Codes, targets: Float, weight: Float, seen: int) -> Float:
        """Score coded rows, each just before the leaves learn from it; `seen` rows came before them."""
        return self.core.score_and_learn(codes, targets, weight, seen)

    def part(self, forget: float = 1.0) -> ForestPart:
        """Return the trees and what their leaves know."""
        return self.core

    def at(self, part: Any) -> Self:
        """Return this forest with another part."""
        return replace(self, core=part)

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        core = self.core.fork()
        return lambda views: core.scores(views["codes"])

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        return self.at(self.core.fork())

    def close(self) -> None:
        """Close the open block."""
        self.core.close()

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class."""
        self.close()
        arrays = self.core.arrays()
        prior = np.append(arrays["prior"], np.exp(log_odds))
        wider = np.pad(arrays["table"], ((0, 0), (0, 1)))
        made = self.of(self.name, arrays["nodes"], arrays["roots"], Task.MULTICLASS, wider, prior / prior.sum())
        self.task, self.core = made.task, made.core

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return nodes, roots and prior, and the table with every row learned."""
        fork = self.core.fork()
        fork.close()
        return fork.arrays()

    def to_state(self) -> State:
        """Everything it is, as arrays."""
        return self.core.arrays()

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        width = max(shape.outputs, 2)
        number = shape.task.is_regression
        table = saved.array("table", (None, width), np.float32, *(FLOATS if number else SUMS))
        nodes, roots = _nodes_from_state(saved, len(table), shape.columns)
        if number and len(table) and table[:, 0].min() < 0:
            raise saved.wrong("table", "sums of weights from 0 on", float(table[:, 0].min()))
        prior = saved.array("prior", (width,), np.float64, *(SCALED_TARGETS if number else SUMS))
        forest = cls.of(name, nodes, roots, shape.task, table, prior)
        weight = saved.array("open_weight", (None,), np.float64, *SUMS)
        n = len(weight)
        if n > shape.most_open:
            raise saved.wrong("open_weight", f"weights of at most {shape.most_open} rows, those of the open block", n)
        y = saved.array("open_y", (n, shape.outputs), np.float64, *SCALED_TARGETS)
        leaves = saved.array("open_leaves", (len(roots), n), np.int32, 0, len(table) - 1)
        forest.core.restore(leaves, y, weight)
        return forest


kinds.update({each.kind: each for each in (BoostedTrees, Forest)})
GROWING: dict[str, Callable[[Codes, Float, Float, Task, int], Growing]] = {
    BOOSTED: BoostedTrees.growing,
    FOREST: Forest.growing,
}
TREES = tuple(GROWING)


def is_tree(component: Component) -> bool:
    """Whether a component is grown from a sample."""
    return isinstance(component, _TreeComponent)

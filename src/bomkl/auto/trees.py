"""Tree experts: components that are grown from a sample of the stream, anew as it grows.

Boosted trees stay as they were grown until the next growth. The leaves of the forest go on learning from every row, so
that its trees need not be grown again once the sample is full.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import (
    BLOCK,
    GrowingBoosted,
    GrowingForest,
    boosted_scores,
    close_forest,
    forest_rows,
    forest_scores,
    grow_boosted,
    grow_forest,
    trees_are_sound,
)
from bomkl.auto.coding import Codes
from bomkl.auto.component import Component, Scorer, Shape, kinds
from bomkl.auto.geometry import Float, Single, Views, varying_columns
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

Numbers = NDArray[np.int32]

BOOSTED, FOREST = "boosted trees", "forest"
TREES = (BOOSTED, FOREST)
_ROUNDS, _LEAVES, _RATE, _RIDGE = 100, 31, 0.1, 1.0
_COLUMNS = 128  # that a boosted tree may use, drawn at random where there are more
_FEW_ROWS = 400  # up to here, a leaf of a boosted tree needs 5 rows instead of 10
_FOREST_TREES = 30
_LARGEST_MEAN = 1e6  # of scaled targets


@dataclass
class _TreeComponent:
    """What both kinds share: nodes as the core walks them, and no stored rows."""

    name: str
    nodes: Numbers  # (n, 2): 256 times the column plus the cut, and the next node; of leaves -1 and the leaf's number
    roots: Numbers

    cost: ClassVar[float] = 1.0
    support: ClassVar[None] = None

    def renumber(self, support: NDArray[np.int64]) -> None:
        """Do nothing: trees need no stored rows."""

    def tend(self) -> None:
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
        """Grow all that are left, and make a component of them that is nobody else's."""
        self.advance(1.0)
        return self.made()


@dataclass
class BoostedTrees(_TreeComponent):
    """Trees whose leaves add up to the score of an output."""

    kind: ClassVar[str] = "boosted"
    outputs: Numbers  # of each tree, the output that it is part of
    values: Single
    base: Float

    @classmethod
    def growing(cls, codes: Codes, targets: Float, weight: Float, task: Task, seed: int) -> Growing:
        """Begin to grow from a sample."""
        least = 5 if len(codes) <= _FEW_ROWS else 10
        share = min(1.0, _COLUMNS / varying_columns(codes))
        trees = grow_boosted(codes, targets, weight, int(task), _ROUNDS, _LEAVES, least, _RATE, _RIDGE, share, seed)
        return Growing(trees, lambda: cls(BOOSTED, *trees.result()))

    def score_and_learn(self, views: Views, y: Float, weight: Float, task: Task, forget: float, seen: int) -> Float:
        """Score rows; they are learned from when trees are grown anew."""
        return self._scores(views)

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        return self._scores

    def _scores(self, views: Views) -> Float:
        codes = views["codes"]
        out = np.empty((len(codes), len(self.base)))
        boosted_scores(self.nodes, self.roots, self.outputs, self.values, self.base, codes, out)
        return out

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
    """Trees whose leaves hold sums of weights of each class, or of weights and of weighted targets.

    Rows of the open block of 64 are held apart, so that forks share the table until the block is full.
    """

    kind: ClassVar[str] = "forest"
    task: Task
    table: Single
    prior: Float  # what an empty leaf says: probabilities; of numbers 1 and the mean
    open_leaves: Numbers
    open_y: Float
    open_weight: Float
    open: int = 0
    owned: bool = True  # whether the table may be changed

    @classmethod
    def of(cls, name: str, nodes: Numbers, roots: Numbers, task: Task, table: Single, prior: Float) -> Self:
        """Make a forest with no open rows."""
        outputs = table.shape[1] if task is Task.MULTICLASS else 1
        leaves = np.zeros((len(roots), BLOCK), dtype=np.int32)
        return cls(name, nodes, roots, task, table, prior, leaves, np.zeros((BLOCK, outputs)), np.zeros(BLOCK))

    @classmethod
    def growing(cls, codes: Codes, targets: Float, weight: Float, task: Task, seed: int) -> Growing:
        """Begin to grow from a sample, which the leaves have then learned from."""
        columns = varying_columns(codes)
        tries = max(1, round(columns / 3 if task.is_regression else np.sqrt(columns)))
        least = 3 if task.is_regression else 1
        if task.is_regression:
            prior = np.array([1.0, float(np.average(targets[:, 0], weights=weight))])
        else:
            total = weight @ (targets if task is Task.MULTICLASS else np.hstack([1 - targets, targets])) + 0.5
            prior = total / total.sum()
        trees = grow_forest(codes, targets, weight, int(task), _FOREST_TREES, tries, least, seed)

        def made() -> Component:
            nodes, roots, table = trees.result()
            return cls.of(FOREST, nodes, roots, task, table, prior)

        return Growing(trees, made)

    def score_and_learn(self, views: Views, y: Float, weight: Float, task: Task, forget: float, seen: int) -> Float:
        """Score rows, each just before the leaves learn from it."""
        to_boundary = BLOCK - seen % BLOCK
        if len(y) >= to_boundary:
            self._own()
        out = np.empty(y.shape)
        self.open = forest_rows(*self._arrays(), views["codes"], y, weight, self.open, to_boundary, out)
        return out

    def scorer(self) -> Scorer:
        """Return a function that scores rows by what is known now."""
        return self.fork()._scores

    def _scores(self, views: Views) -> Float:
        codes = views["codes"]
        out = np.empty((len(codes), self.open_y.shape[1]))
        forest_scores(*self._arrays(), codes, self.open, out)
        return out

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = copy.copy(self)
        self.owned = fork.owned = False
        return fork

    def _own(self) -> None:
        if not self.owned:
            self.table, self.owned = self.table.copy(), True
            self.open_leaves, self.open_y = self.open_leaves.copy(), self.open_y.copy()
            self.open_weight = self.open_weight.copy()

    def close(self) -> None:
        """Close the open block."""
        self._own()
        close_forest(*self._arrays(), self.open)
        self.open = 0

    def add_class(self, log_odds: float) -> None:
        """Make room for one more class."""
        self.close()
        prior = np.append(self.prior, np.exp(log_odds))
        wider = self.of(
            self.name,
            self.nodes,
            self.roots,
            Task.MULTICLASS,
            np.pad(self.table, ((0, 0), (0, 1))),
            prior / prior.sum(),
        )
        vars(self).update(vars(wider))

    def leaf_sums(self) -> Single:
        """Return the sums of the leaves with every row learned."""
        fork = self.fork()
        fork.close()
        return fork.table

    def _arrays(self) -> tuple[Numbers, Numbers, Single, Float, Numbers, Float, Float, int]:
        return (
            self.nodes,
            self.roots,
            self.table,
            self.prior,
            self.open_leaves,
            self.open_y,
            self.open_weight,
            int(self.task),
        )

    def to_state(self) -> State:
        """Everything it is, as arrays."""
        n = self.open
        return {
            "nodes": self.nodes,
            "roots": self.roots,
            "table": self.table,
            "prior": self.prior,
            "open_leaves": self.open_leaves[:, :n],
            "open_y": self.open_y[:n],
            "open_weight": self.open_weight[:n],
        }

    @classmethod
    def from_state(cls, name: str, saved: Saved, shape: Shape) -> Self:
        """Go on where `to_state` was called."""
        width = max(shape.outputs, 2)
        number = shape.task.is_regression
        table = saved.array("table", (None, width), np.float32, -np.inf if number else 0.0)
        nodes, roots = _nodes_from_state(saved, len(table), shape.columns)
        if number and len(table) and table[:, 0].min() < 0:
            raise saved.wrong("table", "sums of weights from 0 on", float(table[:, 0].min()))
        prior = saved.array("prior", (width,), low=-_LARGEST_MEAN if number else 0.0, high=_LARGEST_MEAN)
        forest = cls.of(name, nodes, roots, shape.task, table, prior)
        weight = saved.array("open_weight", (None,), low=0.0)
        n = forest.open = len(weight)
        if n > shape.most_open:
            raise saved.wrong("open_weight", f"weights of at most {shape.most_open} rows, those of the open block", n)
        forest.open_weight[:n] = weight
        forest.open_y[:n] = saved.array("open_y", (n, shape.outputs), low=-_LARGEST_MEAN, high=_LARGEST_MEAN)
        forest.open_leaves[:, :n] = saved.array("open_leaves", (len(roots), n), np.int32, 0, len(table) - 1)
        return forest


kinds.update({each.kind: each for each in (BoostedTrees, Forest)})
GROWING: dict[str, Callable[[Codes, Float, Float, Task, int], Growing]] = {
    BOOSTED: BoostedTrees.growing,
    FOREST: Forest.growing,
}


def is_tree(component: Component) -> bool:
    """Whether a component is grown from a sample."""
    return isinstance(component, _TreeComponent)

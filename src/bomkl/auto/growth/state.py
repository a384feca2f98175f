"""Saved learners that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bomkl.auto.components.component import Shape
from bomkl.auto.features.coding import Coding
from bomkl.auto.growth.grown_trees import GrowthJob
from bomkl.auto.growth.pace import BLOCK, NEVER
from bomkl.auto.learner import learner_from_state, learner_state
from bomkl.auto.limits import CELLS, SIZES, STANDARDISED
from bomkl.auto.network import network_from_state, network_state
from bomkl.auto.rows.held_rows import HeldRows
from bomkl.auto.saved import Saved, State
from bomkl.auto.trees.trees import BOOSTED, BoostedTrees

if TYPE_CHECKING:
    from bomkl.auto.growth.growth_learner import GrowthLearner

G = TypeVar("G", bound="GrowthLearner")


def growth_state(learner: GrowthLearner) -> State:
    """Everything it is, as plain values and arrays."""
    return {
        "inner": learner_state(learner.inner),
        "seen": learner.taken,
        "held": learner.held.to_state(),
        "grown": None if learner.core is None else _grown_state(learner),
    }


def _grown_state(learner: GrowthLearner) -> State:
    core = learner.core
    assert core is not None
    assert learner.coding is not None
    network = core.network
    begin, left, at_once = core.rehearsal
    return {
        "coding": learner.coding.to_state(),
        "values": learner.values,
        "middle": learner.middle,
        "centre": learner.scale[0],
        "spread": learner.scale[1],
        "core": core.state(),
        "limit": core.limit,
        "trees": None if learner.trees is None else learner.trees.to_state(),
        "network": None if network is None else network_state(network),
        "network_seed": 0 if network is None else learner.network_seed,
        "rehearsal": {"begin": begin, "left": left, "at_once": at_once},
        "switches": [learner.switches[number].to_state() for number in sorted(learner.switches)],
        "grow_at": learner.grow_at,
        "job": None if learner.job is None else learner.job.to_state(),
    }


def load_growth(kind: type[G], saved: Saved, columns: int) -> G:
    """Go on where `growth_state` was called; refuse what does not fit together."""
    learner = kind(learner_from_state(saved.part("inner"), columns), columns)
    learner.taken = saved.integer("seen")
    if learner.taken > learner.seen or (learner.taken < learner.seen and learner.update == "rows"):
        raise saved.wrong("inner", f"a learner of {learner.taken} rows", learner.seen)
    held, grown = saved.optional_part("held"), saved.optional_part("grown")
    coded = learner.taken >= learner.pace.coded
    if coded != (grown is not None) or (held is not None) != (not coded and learner.taken > 0):
        raise saved.wrong("grown", f"there from row {learner.pace.coded} on", grown is not None)
    low, high = CELLS if learner.task.is_regression else (0.0, learner.n_classes - 1.0)
    learner.held = HeldRows.from_state(held, None if coded else learner.taken, columns, low, high)
    if grown is not None:
        _load_grown(learner, grown)
    saved.end()
    return learner


def _load_grown(learner: GrowthLearner, saved: Saved) -> None:
    columns, seen, outputs, task = learner.columns, learner.taken, learner.outputs, learner.task
    learner.coding = Coding.from_state(saved.part("coding"), columns)
    learner.values = saved.array("values", (columns, 256), np.float32, *STANDARDISED)
    learner.middle = saved.array("middle", (columns,), np.float64, *CELLS)
    learner.scale = (saved.number("centre"), saved.number("spread", *SIZES))
    core = learner.core = learner.new_core()
    saved.part("core").load(core)
    if core.open != seen % BLOCK:
        raise saved.wrong("core", f"one with {seen % BLOCK} rows of an open block", core.open)
    core.limit = saved.integer("limit", 0, 2**32 - 1)
    trees, network, rehearsal = saved.optional_part("trees"), saved.optional_part("network"), saved.part("rehearsal")
    if trees is not None:
        learner.trees = BoostedTrees.from_state(BOOSTED, trees, Shape(columns, outputs, 0, 0, task))
        trees.end()
        core.restore_trees(learner.trees.part())
    learner.network_seed = saved.integer("network_seed")
    begin = rehearsal.integer("begin", 0, core.rows)
    left, at_once = rehearsal.integer("left", 0, core.rows - begin), rehearsal.integer("at_once")
    rehearsal.end()
    if network is not None:
        made = network_from_state(network, columns, outputs, task, learner.network_seed)
        if made.open != (0 if left else seen % BLOCK) or (left and not at_once):
            raise saved.wrong("network", f"one with {seen % BLOCK} rows that wait", made.open)
        core.restore_network(made, begin, left, at_once)
    parts = saved.parts("switches", 2)
    if len(parts) != len(learner.switches):
        raise saved.wrong("switches", f"{len(learner.switches)} parts", len(parts))
    for number, part in zip(sorted(learner.switches), parts, strict=True):
        learner.switches[number] = learner.switches[number].restored(part, seen)
    learner.grow_at = saved.integer("grow_at", seen + 1, NEVER)
    job = saved.optional_part("job")
    if job is not None:
        learner.job = GrowthJob.from_state(job, seen, core.rows, learner.n_classes)
    saved.end()

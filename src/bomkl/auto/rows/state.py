"""What a `RowLearner` is as plain values and arrays, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bomkl._core import BLOCK, Sample
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import Shape, component_from_state, component_state
from bomkl.auto.constants import FIRST_STAGE, MANY_CLASSES, SAMPLE, SAMPLE_OF_OTHERS
from bomkl.auto.drift.state import drift_from_state, drift_state
from bomkl.auto.features.coding import Codes
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.auto.limits import CELLS, SIZES, SUMS
from bomkl.auto.rows.held_rows import HeldRows
from bomkl.auto.saved import Saved, State
from bomkl.auto.trees.trees import is_tree

if TYPE_CHECKING:
    from bomkl.auto.rows.row_learner import RowLearner

_MOST_COMPONENTS = 64  # in a file; the pool is smaller


def row_learner_state(learner: RowLearner) -> State:
    """Everything it is, as plain values and arrays."""
    return {
        "settings": learner.settings.to_state(),
        "n_classes": learner.n_classes,
        "seen": learner.seen,
        "counts": learner.counts,
        "kept": learner.kept.to_state(),
        "support": None if learner.support is None else {"X": learner.support},
        "centre": learner.centre,
        "spread": learner.spread,
        "geometry": None if learner.geometry is None else learner.geometry.to_state(),
        "names": learner.names,
        "components": [component_state(each) for each in learner.components],
        "sample": None if learner.sample is None else _sample_state(learner.sample.rows()),
        "grow_from": None if learner.grow_from is None else _sample_state(learner.grow_from),
        "combination": learner.combination.to_state(),
        "error_before": learner.error_before,
        "error_rows": learner.error_rows,
        "drift": None if learner.drift is None else drift_state(learner.drift),
    }


def load_row_learner(learner: RowLearner, saved: Saved, columns: int) -> None:
    """Make a learner without rows what it was, with rows of so many columns; refuse what does not fit together."""
    budget = learner.settings.budget
    learner.seen = saved.integer("seen")
    learner.counts = saved.array("counts", (None,))
    learner.n_classes = saved.integer("n_classes", 2, max(len(learner.counts), 2))
    if len(learner.counts) != learner.n_classes or (learner.settings.regression and learner.n_classes != 2):
        raise saved.wrong("n_classes", "the number of counts, of numbers 2", learner.n_classes)
    learner.centre = saved.number("centre")
    learner.spread = saved.number("spread", *SIZES)
    _load_rows(learner, saved, columns)
    learner.names = saved.texts("names", _MOST_COMPONENTS)
    count = len(learner.names)
    learner.error_before = saved.array("error_before", (count,), np.float64, *SUMS)
    learner.error_rows = saved.array("error_rows", (count,), low=0.0, high=float(learner.seen))
    geometry = saved.optional_part("geometry")
    begun = learner.seen >= min(FIRST_STAGE, budget)
    if (geometry is None) == begun and not (begun and learner.support is None and learner.n_classes > MANY_CLASSES):
        raise saved.wrong("seen", "the row count at which the first model is built, or below without one", None)
    learner.geometry = None if geometry is None else Geometry.from_state(geometry, columns)
    stored = learner.seen if learner.support is None else len(learner.support)
    shape = Shape(columns, learner.outputs, stored, learner.seen % BLOCK, learner.task)
    learner.components = [component_from_state(part, learner.names, shape) for part in saved.parts("components", count)]
    places = learner.places()
    if places != sorted(set(places)) or bool(places) != (geometry is not None):
        raise saved.wrong("components", "in the order of their names", places)
    if learner.support is not None and learner.used_rows().tolist() != list(range(stored)):
        raise saved.wrong("support", "the landmarks of the components and no more", stored)
    learner.combination = Combination.from_state(saved.part("combination"), len(places) or count)
    _load_sample(learner, saved, columns)
    drift = saved.optional_part("drift") if saved.has("drift") else None  # none in files of earlier versions
    if drift is not None:
        learner.drift = drift_from_state(
            drift, learner.settings, learner.task, learner.n_classes, columns, learner.seen
        )
        learner.follow_drift()
        learner.check_drift()
    saved.end()


def _load_sample(learner: RowLearner, saved: Saved, columns: int) -> None:
    sample, trees = saved.optional_part("sample"), any(is_tree(each) for each in learner.components)
    if trees and not learner.settings.has_trees:
        raise saved.wrong("components", "none of trees", trees)
    if trees != (learner.geometry is not None and learner.geometry.coding is not None):
        raise saved.wrong("geometry", "one that codes columns where there are trees, and only there", trees)
    if (sample is not None) != (trees and learner.support is not None):
        raise saved.wrong("sample", "there where the budget is full and there are trees", sample is not None)
    grow_from, begun = saved.optional_part("grow_from"), learner.schedule.next_growth(learner.seen)
    if grow_from is not None and (sample is None or begun > learner.seen):  # none where growing was not worth it
        raise saved.wrong("grow_from", "there only while trees are grown", True)
    if sample is not None:
        learner.sample = _sample_from_state(learner, sample, learner.seen, columns)
    if grow_from is not None:
        learner.grow_from = _sample_from_state(learner, grow_from, begun, columns).rows()


def _load_rows(learner: RowLearner, saved: Saved, columns: int) -> None:
    kept, support = saved.optional_part("kept"), saved.optional_part("support")
    budget = learner.settings.budget
    if (kept is not None) != (learner.seen > 0 and support is None) or not (
        learner.seen >= budget if support is not None else learner.seen < budget + learner.schedule.late(budget)
    ):
        raise saved.wrong("kept", "the rows so far below the budget, and none beyond it", learner.seen)
    learner.kept = HeldRows.from_state(kept, learner.seen, columns, *learner.target_limits())
    if support is not None:
        learner.support = support.array("X", (None, columns), np.float64, *CELLS)
        support.end()


def _sample_state(rows: tuple[Codes, Float, Float]) -> State:
    """Copy coded rows, class numbers or targets, and weights."""
    codes, y, weight = rows
    return {"codes": codes.copy(), "y": y.copy(), "weight": weight.copy()}


def _sample_from_state(learner: RowLearner, saved: Saved, seen: int, columns: int) -> Sample:
    """Go on where `_sample_state` was called; class numbers or targets are within limits."""
    low, high = learner.target_limits()
    codes: Any = saved.array("codes", (None, columns), np.uint8)
    size, smaller = SAMPLE * learner.settings.budget, SAMPLE_OF_OTHERS * learner.settings.budget
    if len(codes) == smaller < seen:  # of an earlier version, or to grow trees from that do not matter
        size = smaller
    n = min(size, seen)
    if len(codes) != n:
        raise saved.wrong("codes", f"those of {n} rows", len(codes))
    y, weight = saved.array("y", (n,), low=low, high=high), saved.array("weight", (n,), np.float64, *SUMS)
    saved.end()
    return Sample.of(size, learner.settings.seed, codes, y, weight)

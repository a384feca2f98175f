"""Experts that follow drift as plain values and arrays, and back."""

from __future__ import annotations

from bomkl._core import BLOCK, DriftExperts
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.newton import regression_from_state
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task

_MOST_PARTS = 64  # of a group in a file


def drift_state(experts: DriftExperts) -> State:
    """Everything they are."""
    groups = []
    for parts, regressions, combination, rise in experts.groups:
        groups.append(
            {
                "parts": parts,
                "ranks": [each.rank for each in regressions],
                "regressions": [each.state() for each in regressions],
                "combination": None if combination is None else Combination(combination).to_state(),
                "rise": rise,
            }
        )
    return {"experts": experts.state(), "groups": groups, "stack": Combination(experts.stack).to_state()}


def drift_from_state(
    saved: Saved, settings: LearnerSettings, task: Task, n_classes: int, columns: int, seen: int
) -> DriftExperts:
    """Go on where `drift_state` was called; refuse what does not fit together."""
    experts = DriftExperts.of(int(task), n_classes, columns, settings.budget, settings.seed % 2**64, seen)
    state = saved.unread("experts")
    if not isinstance(state, dict):
        raise saved.wrong("experts", "a dict", type(state).__name__)
    experts.restore(state, n_classes)
    if experts.seen != seen:
        raise saved.wrong("experts", f"those of {seen} rows", experts.seen)
    outputs = n_classes if task is Task.MULTICLASS else 1
    groups = saved.parts("groups", len(experts.groups))
    if len(groups) != len(experts.groups):
        raise saved.wrong("groups", f"a list of {len(experts.groups)} groups", len(groups))
    for number, group in enumerate(groups):
        parts, ranks = group.integers("parts", _MOST_PARTS, 0), group.integers("ranks", _MOST_PARTS, 1)
        states, combination = group.parts("regressions", _MOST_PARTS), group.optional_part("combination")
        if not len(parts) == len(ranks) == len(states) or (combination is None) != (not parts):
            raise group.wrong("regressions", "one for each part", len(states))
        regressions = [
            regression_from_state(each, rank, outputs, seen % BLOCK) for each, rank in zip(states, ranks, strict=True)
        ]
        core = None if combination is None else Combination.from_state(combination, len(parts)).core
        experts.set_group(number, parts, regressions, core, group.unread("rise"))
        group.end()
    experts.set_stack(Combination.from_state(saved.part("stack"), experts.size).core)
    saved.end()
    return experts

"""Which components go on once the budget has been full for a while."""

from __future__ import annotations

from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import Component
from bomkl.auto.constants import KEEP, KEEP_FROM, KEEP_NARROW
from bomkl.auto.features.geometry import Float
from bomkl.auto.features.pool_kernels import ADDITIVE, NARROW
from bomkl.auto.trees.trees import is_tree


def components_to_drop(components: list[Component], combination: Combination, loss: Float) -> list[int]:
    """Choose what goes: all kernels but those of least `loss`, and trees and additive components without influence."""
    part = combination.influence()
    others = [i for i, each in enumerate(components) if is_tree(each) or each.name == ADDITIVE]
    idle = [i for i in others if part[i] < KEEP_FROM]
    kernels = [i for i, each in enumerate(components) if each.support is not None]
    kernels.sort(key=lambda i: loss[i])
    beside_trees = any(is_tree(components[i]) for i in others if i not in idle)
    kept = best_few(components, kernels) if beside_trees else kernels[:KEEP]
    return [i for i in kernels if i not in kept] + idle


def best_few(components: list[Component], kernels: list[int]) -> list[int]:
    """Kernels that go on beside trees, given the best first: what a third narrow one knows, the others know."""
    kept: list[int] = []
    narrow = 0
    for i in kernels:
        is_narrow = components[i].name in NARROW
        if len(kept) < KEEP - 1 and narrow + is_narrow <= KEEP_NARROW:
            kept.append(i)
            narrow += is_narrow
    return kept

"""Growing trees beside a stream: a part of the work with every row, so that no row has to wait for all of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bomkl.auto.components.component import Component
from bomkl.auto.features.coding import Codes
from bomkl.auto.features.geometry import Float
from bomkl.auto.parallel import Mapper
from bomkl.auto.task import Task
from bomkl.auto.trees.trees import GROWING, Growing


class Growth:
    """Trees that are grown from a sample, all at once or in steps that may lie far apart; the result is the same.

    It is a function of the rows it is given, so a learner and its fork may share one: a step that one of them takes is
    a step for both.
    """

    def __init__(
        self, names: Iterable[str], codes: Codes, targets: Float, weight: Float, task: Task, seed: int
    ) -> None:
        self.outputs, self.share = targets.shape[1], 0.0  # of the work that is done
        self._parts = {name: GROWING[name](codes, targets, weight, task, seed % 2**64) for name in names}

    def __deepcopy__(self, memo: Any) -> None:
        return None  # a copy begins anew: two learners that go on at the same time must not share it

    def advance(self, share: float) -> None:
        """Go on until such a share of the work is done."""
        self.share = share
        for each in self._parts.values():
            each.advance(share)

    def finish(self, run: Mapper) -> dict[str, Component]:
        """Do all that is left, on several threads where `run` has them; components by their names."""
        return dict(zip(self._parts, run(Growing.finish, self._parts.values()), strict=True))

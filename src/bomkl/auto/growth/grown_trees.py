"""Boosted trees that are grown from the sample beside the stream, a part with every row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from bomkl._core import Boosting, GrowingTrees, GrowthModel
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task, new_class_log_odds
from bomkl.auto.trees.trees import BOOSTED, BoostedTrees

MOST_CLASSES = 16  # each has trees of its own, which take time
_ROUNDS, _LEAVES, _RATE = 400, 255, 0.1
_TRIAL_ROUNDS, _TRIAL_LEAVES, _TRIAL_RATE = 30, 127, 0.25
_FEWEST_ROUNDS, _FEWEST_FULL_ROUNDS = 30, 50
_OF_BUDGET, _AT_LEAST = 16, 800  # rounds times columns: kernels of a small budget take little time, and so must trees
_ROWS_OF_LEAF = 400  # rows of the sample for each leaf of a tree
_FEWEST_LEAVES, _LEAST_ROWS, _RIDGE = 31, 20, 10.0
_COLUMNS, _TRIAL_COLUMNS = 128, 64  # that a tree may use, drawn at random where there are more


@dataclass(frozen=True)
class GrowthJob:
    """Trees that are being grown: from how many rows of the sample, for how many classes, and until when."""

    begun: int
    ready: int
    rows: int
    classes: int
    trial: bool  # whether few trees will do

    def start(self, core: GrowthModel, settings: LearnerSettings) -> GrowingTrees:
        """Return the work."""
        task, rows = settings.task(self.classes), self.rows
        outputs = self.classes if task is Task.MULTICLASS else 1
        leaves = min(max(rows // _ROWS_OF_LEAF, _FEWEST_LEAVES), _TRIAL_LEAVES if self.trial else _LEAVES)
        columns = min(core.columns, _TRIAL_COLUMNS if self.trial else _COLUMNS)
        full, rate = (_TRIAL_ROUNDS, _TRIAL_RATE) if self.trial else (_ROUNDS, _RATE)
        most = full if self.trial else full_rounds(settings.budget, columns)
        rounds = max(3 * most // (outputs + 2), _FEWEST_ROUNDS)  # several classes: fewer, of larger steps
        rate = min(rate * full / rounds, 0.3)
        boosting = Boosting(rounds, leaves, _LEAST_ROWS, rate, _RIDGE, columns / core.columns)
        return core.grow(rows, outputs, int(task), boosting, (settings.seed + self.begun) % 2**64)

    def share(self, seen: int) -> float:
        """How much of the work should be done at a row count."""
        return (seen - self.begun + 1) / (self.ready - self.begun + 1)

    def to_state(self) -> State:
        """Everything it is."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, saved: Saved, seen: int, rows: int, classes: int) -> Self:
        """Go on where `to_state` was called; the work is done again."""
        begun, ready = saved.integer("begun", 0, seen), saved.integer("ready", seen + 1)
        used, known = saved.integer("rows", 1, rows), saved.integer("classes", 2, classes)
        job = cls(begun, ready, used, known, saved.flag("trial"))
        saved.end()
        return job


def full_rounds(budget: int, columns: int) -> int:
    """Return how many rounds of boosting trees of so many columns have, beside kernels of a budget.

    Examples
    --------
    >>> full_rounds(1000, 12), full_rounds(1000, 60), full_rounds(50, 12)
    (400, 280, 133)
    """
    return min(max((_OF_BUDGET * budget + _AT_LEAST) // columns, _FEWEST_FULL_ROUNDS), _ROUNDS)


class Growing:
    """The work of a job. A learner and its fork share it: a step that one of them takes is a step for both."""

    def __init__(self, work: GrowingTrees) -> None:
        self._work = work

    def __deepcopy__(self, memo: Any) -> None:
        return None  # a copy begins anew: two learners that go on at the same time must not share it

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._work.nbytes

    def advance(self, share: float) -> None:
        """Go on until such a share is done; interrupts are looked for between two steps."""
        while not self._work.done and self._work.share < share:
            self._work.step()

    def finish(self, classes: int, seen: int) -> BoostedTrees:
        """Do all that is left; classes that came meanwhile are added."""
        while not self._work.done:
            self._work.step()
        trees = BoostedTrees(BOOSTED, *self._work.result())
        while max(len(trees.base), 2) < classes:
            trees = with_class(trees, seen)
        return trees


def with_class(trees: BoostedTrees, seen: int) -> BoostedTrees:
    """Return trees that know of one more class."""
    wider = replace(trees)
    wider.add_class(float(new_class_log_odds(seen)))
    return wider

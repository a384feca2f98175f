"""Learning in rounds of sums: for large tables, many cores and many machines.

Up to the budget, or 1,024 rows of a larger one, everything is as in `RowLearner`. After that the means of the
components stay fixed during a round, while every row adds to sums: the information sum h x x' and the pull
sum x (y - p) of each component, the same for the stacks of the combination, and losses. At the end of the round one
Newton step takes the sums in. Rounds grow with the rows seen, and their ends lie at absolute row counts. While the
budget is not full, everything is rebuilt from the kept rows at 2,048, 4,096, ... rows and at the budget. In rounds
nothing is changed in place, only replaced.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bomkl._core import ROUND_BLOCK
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import Component, RoundsComponent
from bomkl.auto.components.information import Information, inverse
from bomkl.auto.constants import SHARE, STACK_RIDGES
from bomkl.auto.device import engine_for
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.auto.learner import loadable
from bomkl.auto.parallel import Mapper
from bomkl.auto.rounds.engine import CoreEngine, SumEngine, joined, newton_parts, sums_shape
from bomkl.auto.rounds.sums import CombinationSums, Sums, log_rows_of, total
from bomkl.auto.rows.arrays import checked, dense_rows
from bomkl.auto.rows.held_rows import HeldRows
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings

GROWTH = 0.25  # rows of a round, as a share of the rows before it
LEAST_ROWS = 16  # of a round
ROUNDS_FROM = 1024  # rows: learning row by row with a larger budget would take longer than all that follows
KEPT_BY_STACKS = 0.5  # share of their information that the stacks keep from round to round: components get better


@loadable
class RoundLearner(RowLearner):
    """One learner of two or more classes, or of numbers, that learns in rounds."""

    kind = "rounds"
    merges = True
    builds_ahead = False  # rounds begin when the budget is full
    curves_targets = False

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None:
        super().__init__(settings, n_classes)
        self.device = "cpu"
        self.engine: SumEngine = CoreEngine()
        self.round_start = 0
        self.sums: Sums | None = None
        self.stack_information = np.empty((0, 0, 0))
        # rows of the block that is not yet full: scored, and learned together with those that fill it
        self.open = HeldRows()
        self._closed: tuple[int, RoundLearner] | None = None
        # what `merge` needs: where a copy began to learn on its own
        self.origin: Origin | None = None
        self.loaded = False
        self.mistakes_when_loaded = 0

    def use(self, device: str) -> None:
        """Go on with the engine of a device."""
        if device != self.device:
            self.device, self.engine = device, engine_for(device)

    @property
    def in_rounds(self) -> bool:
        """Whether rounds have begun."""
        return self.seen >= min(self.settings.budget, ROUNDS_FROM)

    @property
    def has_head(self) -> bool:
        """Whether the budget is full: features no longer change, and all that rows add are sums."""
        return self.seen >= self.settings.budget

    def round_end(self) -> int:
        """Row count at which the open round ends."""
        end = self.round_start + max(LEAST_ROWS, int(GROWTH * self.round_start))
        events = (self.schedule.next_stage(self.round_start), self.schedule.prune_at)
        return min([end, *(event for event in events if event > self.round_start)])

    def rows_left(self) -> int:
        """Rows until the open round ends, or until the first one begins."""
        return (self.round_end() if self.in_rounds else min(self.settings.budget, ROUNDS_FROM)) - self.seen

    # ------------------------------------------------------------ learning

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        begin = 0 if self.in_rounds else min(self.rows_left(), len(y))
        parts = [super().score_and_learn(X[:begin], y[:begin], weight[:begin], run)] if begin else []
        if self.loaded and self.has_head and begin < len(y):
            self.origin, self.loaded = Origin.of(self.leader, self.mistakes_when_loaded), False
        while begin < len(y):
            end = min(begin + self.rows_left(), len(y))
            parts.append(self._rows(X[begin:end], y[begin:end], weight[begin:end], run))
            begin = end
        return checked(joined(parts, self.outputs))

    def after_row(self, X: Float, y: Float) -> None:
        """Leave single rows to `score_and_learn`."""

    def _rows(self, X: Any, y: Float, weight: Float, run: Mapper) -> Float:
        """Score rows that lie in the open round, and add the blocks they fill to its sums."""
        opened = (self.seen - self.round_start) % ROUND_BLOCK
        ends = self.seen + len(y) == self.round_end()
        filling = min(ROUND_BLOCK - opened, len(y)) if opened else 0
        whole = len(y) if ends else filling + (len(y) - filling) // ROUND_BLOCK * ROUND_BLOCK
        parts, sums = [], [self._sums()]
        if filling:
            parts.append(self._open(X[:filling], y[:filling], weight[:filling], run))
            if opened + filling == ROUND_BLOCK or (ends and filling == len(y)):
                sums.append(self._open_sums(run))
                self.open = HeldRows()
        if whole > filling:
            targets = self.targets(y[filling:whole])
            scores, more = self.engine.sums(
                self, X[filling:whole], targets, weight[filling:whole], sums[0].log_rows, run
            )
            parts.append(scores * self.spread + self.centre)
            sums.append(more)
        if len(y) > whole:
            parts.append(self._open(X[whole:], y[whole:], weight[whole:], run))
        if len(sums) > 1:
            self.sums = total(sums, run)
        if not self.has_head:
            self.kept = self.kept.plus(dense_rows(X, 0, X.shape[0]), y, weight)
        stage = self.schedule.next_stage(self.seen)
        self.seen += len(y)
        if ends:
            self.end_round(run)
        if self.seen == stage:
            self._rebuild(run)
        return joined(parts, self.outputs)

    def _open(self, X: Any, y: Float, weight: Float, run: Mapper) -> Float:
        self.open = self.open.plus(dense_rows(X, 0, X.shape[0]), y, weight)
        return self.engine.scores(self, X, run) * self.spread + self.centre

    def _open_sums(self, run: Mapper) -> Sums:
        X, y, weight = self.open.arrays()
        return self.engine.sums(self, X, self.targets(y), weight, self._sums().log_rows, run)[1]

    def _sums(self) -> Sums:
        if self.sums is None:
            self.sums = Sums.zeros(sums_shape(self), log_rows_of(self.round_end() - self.round_start))
        return self.sums

    def end_round(self, run: Mapper = map) -> None:
        """Learn what the rows of the open round have added; the next one begins."""
        if self.seen == self.round_start:
            return
        sums = self._sums()
        if self.open:
            sums = total([sums, self._open_sums(run)], run)
            self.open = HeldRows()
        self._learn_sums(sums, run)

    def learn_round(self, sums: Sums, run: Mapper = map) -> None:
        """Learn from the sums of rows that this learner has not seen; its own open round must have none."""
        if self.seen != self.round_start:
            raise ValueError("The open round has rows of its own. End it first.")
        if self.seen + sums.rows > self.round_end():
            raise ValueError(f"The open round ends at row {self.round_end()}. Got sums of {sums.rows} rows.")
        self.seen += sums.rows
        self._learn_sums(sums, run)

    def without_information(self) -> RoundLearner:
        """Return a learner that has all that scores need but the means and the combination."""
        learner = copy.copy(self)
        learner.components = [
            RoundsComponent(each.name, each.features, Information.empty(each.regression.rank))
            for each in newton_parts(self)
        ]
        learner.open = HeldRows()
        learner.support, learner.sums, learner.origin, learner._closed = None, None, None, None
        learner.engine = CoreEngine()  # that of a device is of this process alone
        return learner

    def _learn_sums(self, sums: Sums, run: Mapper) -> None:
        """Take the sums of a round in: one Newton step of each component and stack, and Hedge on the losses."""
        parts = newton_parts(self)
        after = self.engine.learned([each.regression for each in parts], sums, run)
        self.components = [RoundsComponent(e.name, e.features, new) for e, new in zip(parts, after, strict=True)]
        gain = sums.combination_sums()
        self.stack_information, self.combination = _learned(self.stack_information, self.combination, gain)
        self.error_rows = self.error_rows.copy()
        self.error_rows[self.places()] += sums.rows
        self.round_start, self.sums = self.seen, None
        if self.seen == self.schedule.prune_at:
            self._prune()

    def add_class(self) -> None:
        """Make room for a class that has not been seen before; the open round ends here."""
        if self.in_rounds:
            self.end_round()
            self.components = copy.deepcopy(self.components)
            self.origin = None  # it has another number of classes
        super().add_class()

    def _build(self, X: Float, targets: Float, weight: Float, run: Mapper) -> tuple[Geometry, list[Component]]:
        if not self.in_rounds:
            return super()._build(X, targets, weight, run)
        return self.engine.build(X, targets, weight, self.settings, self.task, run)

    def _rebuild(self, run: Mapper) -> None:
        super()._rebuild(run)
        if self.in_rounds:
            self.round_start = self.seen
            self._take_stack_information()

    def _prune(self) -> None:
        self.components = copy.deepcopy(self.components)
        self.combination = copy.deepcopy(self.combination)
        self.error_before = self.error_before.copy()
        super()._prune()
        self.origin = None  # its components are no longer those of this learner
        self._take_stack_information()

    def _take_stack_information(self) -> None:
        self.stack_information = np.stack([inverse(each) for each in self.combination.stack_covariance])

    # ------------------------------------------------------------ what has been learned

    @property
    def leader(self) -> RoundLearner:
        """The learner that predictions are made with: it has taken in the open round, too."""
        if not self.in_rounds or self.seen == self.round_start:
            return self
        closed = self._closed
        if closed is None or closed[0] != self.seen:
            learner = copy.copy(self)
            learner._closed = None
            learner.end_round()
            closed = self._closed = self.seen, learner
        return closed[1]

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        if not self.in_rounds:
            return super().scores(X, run)
        return checked(self.engine.scores(self.leader, X, run) * self.spread + self.centre)

    def score_one(self, x: Float) -> float | Float | None:
        """Return None: rows that count together are scored by all of the round so far."""
        return None

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        rounds = None
        if self.in_rounds:
            rounds = {
                "round_start": self.round_start,
                "stack_information": self.stack_information,
                "sums": None if self.sums is None else self.sums.to_state(),
                "open": self.open.to_state(),
                "origin": None if self.origin is None else self.origin.to_state(),
            }
        return super().to_state() | {"rounds": rounds}

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        rounds = saved.optional_part("rounds")
        learner = super().from_state(saved, columns)
        if (rounds is not None) != learner.in_rounds:
            raise saved.wrong("rounds", "there from the first round on", learner.seen)
        if rounds is not None:
            learner._load_round(rounds, columns)
            learner.loaded = learner.has_head
        return learner

    def _load_round(self, saved: Saved, columns: int) -> None:
        m, stacks = len(self.components), len(STACK_RIDGES)
        if not all(isinstance(each, RoundsComponent) for each in self.components):
            raise saved.wrong("components", "all of the kind 'rounds'", None)
        self.round_start = saved.integer("round_start", min(self.settings.budget, ROUNDS_FROM), self.seen)
        self.stack_information = saved.array("stack_information", (stacks, m, m))
        sums = saved.optional_part("sums")
        self.sums = None if sums is None else Sums.from_state(sums, sums_shape(self))
        self.open = HeldRows.from_state(saved.optional_part("open"), None, columns, *self.target_limits())
        rows = len(self.open) + (0 if self.sums is None else self.sums.rows)
        if rows != self.seen - self.round_start or self.seen >= self.round_end() or len(self.open) > ROUND_BLOCK:
            raise saved.wrong("round_start", "the rows seen less those of the open round", self.round_start)
        origin = saved.optional_part("origin")
        self.origin = None if origin is None else Origin.from_state(origin, self)
        saved.end()


@dataclass(frozen=True)
class Origin:
    """What a learner was when it was loaded or copied, before it learned on its own."""

    seen: int
    mistakes: int
    regressions: list[Information]
    combination: Combination
    error_rows: Float

    @classmethod
    def of(cls, leader: RoundLearner, mistakes: int) -> Self:
        """Take it from a learner whose round is closed."""
        regressions = [each.regression for each in newton_parts(leader)]
        return cls(leader.seen, mistakes, regressions, leader.combination, leader.error_rows)

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "seen": self.seen,
            "mistakes": self.mistakes,
            "regressions": [each.to_state() for each in self.regressions],
            "combination": self.combination.to_state(),
            "error_rows": self.error_rows,
        }

    @classmethod
    def from_state(cls, saved: Saved, learner: RoundLearner) -> Self:
        """Go on where `to_state` was called; refuse what does not fit the learner."""
        seen = saved.integer("seen", learner.settings.budget, learner.seen)
        mistakes = saved.integer("mistakes", 0, seen)
        ranks = [each.regression.rank for each in newton_parts(learner)]
        parts = saved.parts("regressions", len(ranks))
        if len(parts) != len(ranks):
            raise saved.wrong("regressions", "one for each component", len(parts))
        regressions = [
            Information.from_state(part, rank, learner.outputs) for part, rank in zip(parts, ranks, strict=True)
        ]
        origin = cls(
            seen,
            mistakes,
            regressions,
            Combination.from_state(saved.part("combination"), len(ranks)),
            saved.array("error_rows", (len(learner.names),), low=0.0, high=float(learner.seen)),
        )
        saved.end()
        return origin


def _learned(information: Float, before: Combination, gain: CombinationSums) -> tuple[Float, Combination]:
    """Information of the stacks and the combination after a round."""
    after = copy.deepcopy(before)
    new = np.empty_like(information)
    for j, ridge in enumerate(STACK_RIDGES):
        # older scores came from components that knew less: forget a part of what they said, never the prior
        prior = ridge * np.eye(len(before.weights))
        kept = prior + KEPT_BY_STACKS * (information[j] - prior)
        new[j] = kept + gain.information[j]
        after.stack_covariance[j] = inverse(new[j])
        after.stack_w[j] = before.stack_w[j] + after.stack_covariance[j] @ gain.pull[j]
    after.weights = hedged(np.log(before.weights), gain.loss)
    after.log_final = np.log(hedged(before.log_final, gain.candidate_loss))
    after.loss_sum = before.loss_sum + gain.loss
    after.error_sum = before.error_sum + gain.error
    return new, after


def hedged(log_weights: Float, losses: Float) -> Float:
    """Learn the losses of a round all at once, and leave the least weight that sharing at every row would leave."""
    relative = log_weights - losses
    weights = np.exp(relative - relative.max())
    return np.asarray((1 - SHARE) * weights / weights.sum() + SHARE / len(weights))

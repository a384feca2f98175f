"""The layer that goes on learning: boosted trees and a network, which grow with the stream as they pay.

A sample of the stream is kept in one byte a cell. From it boosted trees are grown anew as the stream grows,
and a small network replays it. Each is tried and stays while it lowers the loss of recent rows; what was dropped is
tried again later. Until the first trial the layer says what the learner within says.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from bomkl._core import GrowthModel, Network
from bomkl.auto.features.coding import Coding
from bomkl.auto.features.geometry import Float, Single
from bomkl.auto.growth.grown_trees import MOST_CLASSES, Growing, GrowthJob, with_class
from bomkl.auto.growth.pace import BLOCK, NEVER, Pace, Switch, pool_bytes, rows_within, up
from bomkl.auto.learner import Layer, Learner, after_row, loadable, shallow_copy
from bomkl.auto.limits import CELLS
from bomkl.auto.network import code_values
from bomkl.auto.parallel import Mapper, pipelined
from bomkl.auto.rows.arrays import checked, dense_rows, matrix_rows, scores_of_one
from bomkl.auto.rows.held_rows import HeldRows
from bomkl.auto.rows.rebuild import target_scale
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import new_class_log_odds
from bomkl.auto.trees.trees import BoostedTrees

PACE = Pace()
TREES, NETWORK = 1, 2  # numbers of the inputs of the stack, as the core has them
_LEAST = {TREES: 0.01, NETWORK: 0.005}  # gain that each must bring, as a share of the loss
_REHEARSED = 4  # part of the sample that a new network begins with
_MOST_NETWORK_CLASSES = 1000
_AT_ONCE = 1024  # rows scored at a time
_IN_STEP = 512  # rows that the learner within is ahead of trees and network, where there are threads


@loadable
class GrowthLearner(Layer):
    """Trees and a network around a learner."""

    kind: ClassVar[str] = "growth"
    update: ClassVar[str] = "rows"

    def __init__(self, inner: Learner, columns: int) -> None:
        super().__init__(inner, columns)
        self.pace = PACE
        self.taken = 0  # rows that growth has learned from
        self.held = HeldRows()  # until the columns are coded
        self.coding: Coding | None = None
        self.values: Single | None = None  # that the codes stand for
        self.middle: Float | None = None  # means of the columns
        self.scale = (0.0, 1.0)  # centre and spread of the targets
        self.core: GrowthModel | None = None
        self.network_seed = 0
        self.trees: BoostedTrees | None = None
        self._event = 0  # row count up to which rows are only learned from; it is over where it is not known
        self.grow_at = NEVER  # row count at which trees are grown anew
        self.job: GrowthJob | None = None
        self.growing: Growing | None = None
        first = self.pace.made_by(up(self.pace.first)) + self.pace.judge
        self.switches = {
            TREES: Switch(_LEAST[TREES], first if self.settings.grows_trees else NEVER),
            NETWORK: Switch(_LEAST[NETWORK], up(self.pace.first)),
        }

    @property
    def seen(self) -> int:
        """Rows learned from."""
        return self.inner.seen

    @property
    def awake(self) -> bool:
        """Whether trees or the network take part."""
        return self.core is not None and self.core.awake

    # ------------------------------------------------------------ learning

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))

        def within(rows: slice) -> Float:
            return self.inner.score_and_learn(X[rows], y[rows], weight[rows], run)

        def grow(rows: slice, said: Float) -> None:
            out[rows] = self.take(X[rows], y[rows], weight[rows], said)

        pipelined(run, within, grow, len(y), _IN_STEP)
        return out

    def take(self, X: Any, y: Float, weight: Float, said: Float, coded: bool = False) -> Float:
        """Score rows, of which the learner within said something, and learn from them; they may be coded."""
        out, begin = np.empty_like(said), 0
        while begin < len(y):
            if self.taken >= self._event:
                self._event = self._next_event()
            end = begin + min(self._event - self.taken, len(y) - begin)
            part = slice(begin, end)
            out[part] = self._take(X[part], y[part], weight[part], said[part], coded)
            if self.taken == self._event:
                self._at_event()
            begin = end
        return checked(out)

    def after_row(self, X: Float, y: Float) -> tuple[Self, Float] | None:
        """Return a copy that has learned from one row of weight 1, and its scores; None where more has to happen."""
        if self.core is None or self.job is not None or self.taken + 1 >= self._event:
            return None
        inner, said = after_row(self.inner, X, y)
        after = shallow_copy(self)
        after.core, scores = self.core.after_row(X, y, said, self.taken)
        after.inner, after.taken = inner, self.taken + 1
        return after, checked(scores)

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        return self.scored(X, self.inner.scores(X, run), run)

    def scored(self, X: Any, said: Float, run: Mapper) -> Float:
        """Scores of rows, of which the learner within said something."""
        core = self.core
        if core is None or not core.awake:
            return said

        def some(begin: int) -> Float:
            end = min(begin + _AT_ONCE, len(said))
            return core.scores(matrix_rows(X, begin, end), said[begin:end])

        parts = list(run(some, range(0, len(said), _AT_ONCE)))
        return checked(np.vstack(parts)) if parts else said

    def score_one(self, x: Any) -> float | Float | None:
        """Scores of one row as if it were learned from; None where `scores` has to be asked."""
        said = self.inner.score_one(x)
        if said is None or self.core is None or not self.core.awake:
            return said
        return scores_of_one(checked(self.core.scores(x[None], np.reshape(said, (1, -1))))[0])

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        self.inner.add_class()
        if self.core is not None:
            if self.trees is not None:
                self.trees = with_class(self.trees, self.seen)
            part = None if self.trees is None else self.trees.part()
            self.core.add_class(float(new_class_log_odds(self.seen)), part)

    @property
    def capacity(self) -> int:
        """Rows that the sample may have."""
        pool = pool_bytes(self.settings.budget, self.columns, self.update)
        return rows_within(self.settings.memory, pool, self.columns, self.outputs)

    def _next_event(self) -> int:
        """Row count up to which rows are only learned from."""
        if self.core is None:
            return self.pace.coded
        events = [each.next_event(self.taken, self.pace) for each in self.switches.values()]
        events += [self.grow_at, self.taken - self.taken % self.pace.at_once + self.pace.at_once]
        if self.job is not None:
            events.append(self.job.ready)
        return min(events)

    def _take(self, X: Any, y: Float, weight: Float, said: Float, coded: bool) -> Float:
        """Score and learn rows up to the next event."""
        out = said
        if self.core is None:
            self.held = self.held.plus(dense_rows(X, 0, len(y)), y, weight)
        elif coded:
            out = self.core.score_and_learn_codes(X, y, weight, said, self.taken)
        else:
            out = self.core.score_and_learn(matrix_rows(X, 0, len(y)), y, weight, said, self.taken)
        self.taken += len(y)
        if self.job is not None and self.taken < self.job.ready:
            self._work().advance(self.job.share(self.taken))
        return out

    def _at_event(self) -> None:
        if self.core is None:
            self._begin()
            return
        if self.job is not None and self.taken == self.job.ready:
            self._take_trees()
        for number, switch in self.switches.items():
            if switch.is_in and self.taken == switch.due - self.pace.window:
                self.core.open_window(number)
            elif self.taken == switch.due:
                self._turn(number, switch)
        if self.taken == self.grow_at:
            self._grow(trial=False)
        resting = self.job is None and all(each.phase != "warming" for each in self.switches.values())
        if self.taken % self.pace.at_once == 0 and resting:
            self.core.keep_at_most(self.capacity)

    def _begin(self) -> None:
        """Code the columns and scale the targets by the first rows, and take these up."""
        X, y, weight = self.held.arrays()
        self.held = HeldRows()
        columns = np.ascontiguousarray(np.sort(X, axis=0).T)
        self.coding = Coding.of(columns)
        self.values = code_values(self.coding, columns)
        self.middle = CELLS.clip(X.mean(axis=0))  # rounding may take it beyond
        if self.task.is_regression:
            self.scale = target_scale(y, self.settings.huber)
        self.core = self.new_core()
        self.core.score_and_learn(X, y, weight, np.zeros((len(y), self.outputs)), 0)

    def new_core(self) -> GrowthModel:
        """Return a model of nothing but the coding."""
        assert self.coding is not None
        seed = self.settings.seed % 2**64
        return GrowthModel.of(self.coding.cuts, self.coding.starts, *self.scale, self.outputs, int(self.task), seed)

    # ------------------------------------------------------------ trials

    def _turn(self, number: int, switch: Switch) -> None:
        """Begin a trial, let what was made for it take part, or judge."""
        assert self.core is not None
        if switch.phase == "off":
            self.switches[number] = self._try_trees(switch) if number == TREES else self._try_network(switch)
        elif switch.phase == "warming":
            self.switches[number] = switch.on_trial(self.taken, self.pace)
        else:
            judged = switch.judged(self.taken, self.core.gains(number), self.pace)
            self.switches[number] = judged
            if not judged.is_in:
                self._drop(number)
            elif number == TREES and switch.phase == "trial":
                self.grow_at = max(self.taken, up(self.pace.full))

    def _drop(self, number: int) -> None:
        assert self.core is not None
        if number == NETWORK:
            self.core.drop_network()
        else:
            self.core.drop_trees()
            self.trees = self.job = self.growing = None
            self.grow_at = NEVER

    def _try_network(self, switch: Switch) -> Switch:
        assert self.core is not None
        assert self.values is not None
        rows = self.core.rows
        if self.capacity == 0 or self.outputs > _MOST_NETWORK_CLASSES:
            return switch.dropped(self.taken, self.pace)
        self.network_seed = (self.settings.seed + self.taken) % 2**63
        network = Network.of(self.values, self.outputs, int(self.task), self.network_seed)
        until = self.pace.made_by(self.taken)
        rehearsed = min(rows, max(up(self.pace.first), rows // _REHEARSED))
        blocks = (until - self.taken) // BLOCK
        self.core.set_network(network, rows - rehearsed, rehearsed, up(-(-rehearsed // blocks)))
        return switch.warming(until)

    def _try_trees(self, switch: Switch) -> Switch:
        if self.capacity == 0 or self.outputs > MOST_CLASSES:
            return switch.dropped(self.taken, self.pace)
        return switch.warming(self._grow(trial=True))

    def _grow(self, trial: bool) -> int:
        """Begin to grow trees; returns the row count at which they take part."""
        assert self.core is not None
        ready = self.pace.made_by(self.taken)
        self.job = GrowthJob(self.taken, ready, self.core.rows, self.n_classes, trial)
        self.growing, self.grow_at = None, NEVER
        return ready

    def _work(self) -> Growing:
        assert self.core is not None
        assert self.job is not None
        if self.growing is None:
            self.growing = Growing(self.job.start(self.core, self.settings))
        return self.growing

    def _take_trees(self) -> None:
        """Put the trees in their place."""
        assert self.core is not None
        assert self.job is not None
        if self.outputs > MOST_CLASSES:
            self._drop(TREES)
            self.switches[TREES] = self.switches[TREES].dropped(self.taken, self.pace)
            return
        self.trees = self._work().finish(self.n_classes, self.taken)
        self.core.set_trees(self.trees.part())
        if not self.job.trial:
            self.grow_at = self.pace.grow_next(self.job.begun)
        self.job = self.growing = None

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        from bomkl.auto.growth.state import growth_state

        return growth_state(self)

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        from bomkl.auto.growth.state import load_growth

        return load_growth(cls, saved, columns)

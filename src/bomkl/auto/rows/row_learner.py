"""The learner behind the estimators: rows in, scores made before each label out.

While no more than `budget` rows have come, all are kept, and from the first 8, 16, 32, ... rows and at the budget
everything is rebuilt. What is rebuilt from 256 rows or more takes its place a little later and learns the rows between
then; meanwhile every row does a part of the work. After that each component learns from every row; only the landmarks
stay. Rebuilds, blocks and pruning happen at absolute row counts, so how a stream is cut into calls changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from bomkl.auto.components.component import Component, NewtonComponent
from bomkl.auto.components.newton import repair
from bomkl.auto.constants import CHUNK, DEVICE_FROM
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import loadable, shallow_copy
from bomkl.auto.limits import CELLS
from bomkl.auto.parallel import Mapper, threads_of
from bomkl.auto.rows.arrays import checked, dense_rows, matrix_rows, on_processor, rows_for
from bomkl.auto.rows.explain import Explanation, explain_row
from bomkl.auto.rows.rebuilt_pool import RebuiltPool
from bomkl.auto.rows.state import load_row_learner, row_learner_state
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task, new_class_log_odds
from bomkl.auto.trees.regrowth import grow_due_trees

_AT_ONCE = 4 * CHUNK  # rows that are made an array at a time


@loadable
class RowLearner(RebuiltPool):
    """One learner of two or more classes, or of numbers, that learns row after row."""

    kind: ClassVar[str] = "rows"
    merges: ClassVar[bool] = False
    inner = None

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None:
        super().__init__(settings, n_classes)
        self.counts = np.zeros(n_classes)  # of the classes; of numbers the sum and how many
        self._quiet_until = 0  # row count before which nothing happens but learning

    def like(self, settings: LearnerSettings, n_classes: int) -> Self:
        """Return a learner of such rows, on the same device, that has not seen any."""
        learner = type(self)(settings, n_classes)
        learner.row_engine = self.row_engine
        return learner

    def use(self, device: str) -> None:
        """Go on with a device."""
        from bomkl.auto.device import row_engine_for

        self.row_engine = row_engine_for(device)

    # ------------------------------------------------------------ learning

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))
        if self.follows_drift and self.drift is None and len(y):
            self._begin_drift(X.shape[1])
        begin = 0
        while begin < len(y):
            end = begin + min(self._rows_to_event(), len(y) - begin)
            rows = rows_for(self.on_device, X, begin, end)
            begin += self._chunk(rows, y[begin:end], weight[begin:end], run, out[begin:end])
        return checked(out)

    def after_row(self, X: Float, y: Float) -> tuple[Self, Float] | None:
        """Return a copy that has learned from one row of weight 1, and its scores; None where more has to happen."""
        seen = self.seen + 1
        if self._model is None or self.support is None or self.grow_from is not None or self.row_engine is not None:
            return None
        if seen >= self._quiet_until or seen % CHUNK == 0:
            return None
        after = shallow_copy(self)
        after._model, scores = self._model.after_row(X, y, self.seen)
        after._components = after._combination = None
        after.seen, after._model_rows = seen, self._model_rows + 1
        return after, scores

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        n = X.shape[0]
        out = np.empty((n, self.outputs))
        if self.geometry is None:
            out[:] = self.prior_score()
            if self.drift is not None:
                self.drift.score_without_model(out)
            return out
        device = self.on_device
        if device is None:
            whole, threads = self._assembled(), threads_of(run)
            for begin in range(0, n, _AT_ONCE):
                end = min(begin + _AT_ONCE, n)
                whole.score(matrix_rows(X, begin, end), threads, out[begin:end])
            return out
        own = self._on_processor()
        model = self._model_of(own, None, None) if own else None
        for begin in range(0, n, device.rows_at_once):
            rows = rows_for(device, X, begin, min(begin + device.rows_at_once, n))
            parts = [device.scores(self, rows)]
            if model is not None:
                parts.append(model.score_parts(on_processor(rows)))
            out[begin : begin + device.rows_at_once] = self.combination.scores(np.hstack(parts), self.task)
        return checked(out * self.spread + self.centre)

    def score_one(self, x: Float) -> float | Float | None:
        """Scores of one row as if it were learned from; None where it has to go the long way."""
        return None if self.support is None or self.on_device is not None else self._assembled().score_next(x)

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        log_odds = self.new_class_log_odds()
        self._take_apart()
        for component in self.components:
            component.add_class(log_odds)
        if self._drift is not None:
            self._drift.add_class(log_odds)
        self.n_classes += 1
        self.counts = np.append(self.counts, 0.0)

    def forget(self, factor: float) -> None:
        """Forget from now on, by a factor a row; trees cannot, and go."""
        self._take_apart()
        self.settings = replace(self.settings, forget=factor)
        for component in self.components:
            component.close()
        self._drop_trees()

    def new_class_log_odds(self) -> float:
        """Log odds that the next row is of a class never seen."""
        return float(new_class_log_odds(self.seen))

    # ------------------------------------------------------------ one chunk

    def _rows_to_event(self) -> int:
        if self.on_device is not None:
            return self.schedule.rows_to_event(self.seen, self.on_device.rows_at_once, self.sample is not None)
        if self.seen >= self._quiet_until:
            self._quiet_until = self.seen + self.schedule.rows_to_event(self.seen, 2**62, self.sample is not None)
        begins_on_device = self.row_engine is not None and not self.follows_drift
        to_device = DEVICE_FROM - self.seen if begins_on_device else _AT_ONCE  # however rows are split into calls
        return min(self._quiet_until - self.seen, _AT_ONCE, to_device)

    def _chunk(self, X: Any, y: Float, weight: Float, run: Mapper, out: Float) -> int:
        """Score rows into `out`, and learn from them; returns how many."""
        n = len(y)
        if self.geometry is None:
            out[:] = self._prior_scores(y)
            if self.drift is not None:
                self.drift.learn_without_model(X, y, weight, out)
        elif self.on_device is not None:
            self._learn_on_device(X, y, weight, run, out)
        else:
            model = self._assembled()
            n = model.learn(X, y, weight, self.seen, threads_of(run), out)
            self._model_rows += n
            if (self.seen + n) % CHUNK == 0 and model.has_unchecked:
                for component in self.components:
                    component.maintain()
                for regression in self._drift_regressions():
                    repair(regression)
        if self.support is None:
            self.kept = self.kept.plus(dense_rows(X, 0, n), y[:n], weight[:n])
        elif self.seen + n < self._quiet_until and self.grow_from is None:
            self.seen += n
            return n
        due, growth = self.schedule.next_stage(self.seen), self.schedule.next_growth(self.seen)
        self.seen += n
        if self.support is None and not self._postpones(self.schedule.built_from(due)):
            if self.seen == due:
                self._rebuild(run)
            elif self.schedule.built_from(due) <= self.seen < due:
                self._work_ahead(self.schedule.built_from(due), due)
        if self.seen == self.schedule.prune_at:
            self._prune()
        grow_due_trees(self, growth, run)
        return n

    def _learn_on_device(self, X: Any, y: Float, weight: Float, run: Mapper, out: Float) -> None:
        """Learn where a device has the regressions, and the processor the other components and the combination."""
        self._take_apart()  # the regressions are those of the device from now on
        device, own = self.on_device, self._on_processor()
        assert device is not None
        targets = self.targets(y)
        with ThreadPoolExecutor(1) as thread:
            model = self._model_of(own, None, None) if own else None
            learned = thread.submit(
                lambda: (
                    np.empty((len(y), 0, self.outputs))
                    if model is None
                    else model.learn_parts(on_processor(X), y, weight, self.seen, threads_of(run))
                )
            )
            for begin, end, parts in device.learn(self, X, targets, weight):
                S = np.hstack([parts, learned.result()[begin:end]])
                out[begin:end] = self.combination.score_and_learn(S, targets[begin:end], weight[begin:end], self.task)
        if self.sample is not None:
            self.sample.add(self.views(on_processor(X), own)["codes"], y, weight, self.seen)
        out *= self.spread
        out += self.centre
        self.error_rows = self.error_rows.copy()
        self.error_rows[self.places()] += len(y)
        if (self.seen + len(y)) % CHUNK == 0:
            for component in self.components:
                component.maintain()

    def target_limits(self) -> tuple[float, float]:
        """Least and largest class number or target."""
        return CELLS if self.settings.regression else (0.0, self.n_classes - 1.0)

    def prior_score(self) -> Float:
        """Score of any row before the first rebuild."""
        if self.task.is_regression:
            return np.asarray(self.counts[:1] / max(self.counts[1], 1.0))
        if self.task is Task.BINARY:
            return np.asarray(np.log((self.counts[1:] + 0.5) / (self.counts[:1] + 0.5)))
        return np.asarray(np.log((self.counts + 0.5) / (self.counts.sum() + 0.5 * self.n_classes)))

    def _prior_scores(self, y: Float) -> Float:
        out = np.empty((len(y), self.outputs))
        self.counts = self.counts.copy()
        for t, value in enumerate(y):
            out[t] = self.prior_score()
            if self.task.is_regression:
                self.counts += (value, 1)
            else:
                self.counts[int(value)] += 1
        return out

    def _on_processor(self) -> list[Component]:
        """Components that learn on the processor: all, or those that no device knows, which are the last ones."""
        return [each for each in self.components if self.on_device is None or not isinstance(each, NewtonComponent)]

    # ------------------------------------------------------------ insight and state

    @property
    def leader(self) -> RowLearner:
        """The learner that predictions are made with."""
        return self

    def explain(self, x: Any, sign: float, columns: Sequence[Any], output: int | None = None) -> Explanation:
        """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest."""
        return explain_row(self, x, sign, columns, output)

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return row_learner_state(self)

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        learner = cls(LearnerSettings.from_state(saved.part("settings")))
        load_row_learner(learner, saved, columns)
        return learner

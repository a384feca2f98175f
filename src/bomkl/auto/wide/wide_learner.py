"""The learner of very wide rows, whose time and memory grow with the non-zeros of a row and the columns seen.

Linear components learn from the rows themselves. Kernels, with all their views and stored rows, learn from a sketch of
the rows: a few hundred columns that keep distances. One more combination weighs the two. The scales of the columns come
from the first rows; until then only the labels are learned from.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bomkl._support.limits import WIDEST
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.pool import PoolMember
from bomkl.auto.constants import CHUNK, FIRST_STAGE
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import PoolLearner, loadable
from bomkl.auto.limits import SIZES, SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import array_bytes, checked, scores_of_one
from bomkl.auto.rows.explain import Explanation, explain_wide_row
from bomkl.auto.rows.rebuild import target_scale
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import LearnerSettings, Task
from bomkl.auto.wide.linear import RATES, WideLinear
from bomkl.auto.wide.sparse_rows import (
    ColumnScales,
    NonZeros,
    canonical_rows,
    rows_at_a_time,
    rows_from_state,
    rows_to_state,
)
from bomkl.kernels import Linear

SKETCH = 512  # columns of the sketch
_FARTHEST = 1e30  # scaled predictions of the kernels beyond it are taken as this, when the scale changes by that much
_LAST_STAGE = 1024  # rows after which the scale of the targets stays


@loadable
class WideLearner:
    """One learner of wide rows; the same methods as `RowLearner`."""

    kind: ClassVar[str] = "wide"
    merges: ClassVar[bool] = False
    inner = None

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None:
        self.settings = settings
        # Until the scales are known its rows are zero, and all it can learn is how frequent the labels are.
        self.kernels = RowLearner(replace(settings, budget=2 * FIRST_STAGE), n_classes)
        self.first_rows: list[sp.csr_matrix] = []
        self.columns: ColumnScales | None = None
        self.linear = WideLinear.of(self.kernels.outputs)
        self.combination = Combination.of(1 + len(RATES))
        self.first_y: list[float] = []
        self.first_weight: list[float] = []
        self.centre, self.spread = 0.0, 1.0
        self.seen = 0
        self.error_before = np.zeros(len(RATES))  # in units of the target, up to its last change

    def like(self, settings: LearnerSettings, n_classes: int) -> Self:
        """Return a learner of such rows that has not seen any."""
        return type(self)(settings, n_classes)

    def use(self, device: str) -> None:
        """Stay on the processor, whatever the device: very wide rows are sparse."""

    # ------------------------------------------------------------ learning

    @property
    def task(self) -> Task:
        """What is learned now."""
        return self.kernels.task

    @property
    def outputs(self) -> int:
        """Scores a row."""
        return self.kernels.outputs

    @property
    def leader(self) -> Self:
        """The learner that reports look into: this one."""
        return self

    @property
    def n_classes(self) -> int:
        """Classes known."""
        return self.kernels.n_classes

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return array_bytes(vars(self))

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        out = np.empty((len(y), self.outputs))
        begin = 0
        while begin < len(y):
            end = begin + min(self._next_stage() - self.seen, CHUNK, rows_at_a_time(X, begin), len(y) - begin)
            rows = canonical_rows(X, begin, end)
            out[begin:end] = self._chunk(rows, y[begin:end], weight[begin:end], run)
            begin = end
        return checked(out)

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        if self.columns is None:
            return self.kernels.scores(np.zeros((X.shape[0], 1)), run)
        out = np.empty((X.shape[0], self.outputs))
        begin = 0
        while begin < X.shape[0]:
            end = min(begin + min(CHUNK, rows_at_a_time(X, begin)), X.shape[0])
            rows = self.columns.scaled(canonical_rows(X, begin, end), learn=False)
            parts = self._parts(self.kernels.scores(self.sketch(rows), run), self.linear.scores(rows))
            out[begin:end] = self.combination.scores(parts, self.task)
            begin = end
        return checked(out * self.spread + self.centre)

    def score_one(self, x: sp.csr_matrix) -> float | Float | None:
        """Scores of one row of `canonical_rows` as if it were learned from; None where it cannot do it."""
        if self.columns is None:
            return None
        scaled = self.columns.scaled(x, learn=False)
        kernels = self.kernels.score_one(self.sketch(scaled)[0])
        if kernels is None:
            return None
        parts = self._parts(np.reshape(kernels, (1, -1)), self.linear.scores(scaled))
        scores = self.combination.scores(parts, self.task)[0] * self.spread + self.centre
        return scores_of_one(scores) if np.isfinite(scores).all() else None

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = copy.copy(self)
        fork.kernels, fork.linear = self.kernels.fork(), self.linear.fork()
        fork.combination = self.combination.fork()
        fork.columns = None if self.columns is None else self.columns.fork()
        fork.first_rows, fork.first_y = list(self.first_rows), list(self.first_y)
        fork.first_weight, fork.error_before = list(self.first_weight), self.error_before.copy()
        return fork

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        self.linear.add_class(self.new_class_log_odds())
        self.kernels.add_class()

    def forget(self, factor: float) -> None:
        """Forget from now on, by a factor a row."""
        self.settings = replace(self.settings, forget=factor)
        self.kernels.forget(factor)

    def new_class_log_odds(self) -> float:
        """Log odds that the next row is of a class never seen."""
        return self.kernels.new_class_log_odds()

    def _next_stage(self) -> int:
        stage = FIRST_STAGE
        while stage <= self.seen:
            stage *= 2
        return stage if self.columns is None or self.task.is_regression else self.seen + CHUNK

    def _chunk(self, rows: sp.csr_matrix, y: Float, weight: Float, run: Mapper) -> Float:
        if self.seen < _LAST_STAGE and (self.columns is None or self.task.is_regression):
            self.first_y.extend(y.tolist())
        if self.columns is None:
            out = self.kernels.score_and_learn(np.zeros((len(y), 1)), y, weight, run)
            self.first_rows.append(rows)
            self.first_weight.extend(weight.tolist())
        else:
            out = self._learn(rows, y, weight, run)
        stage = self._next_stage()
        self.seen += len(y)
        if self.seen == stage:
            if self.task.is_regression and self.seen <= _LAST_STAGE:
                self._rescale()
            if self.columns is None:
                self._begin(run)
        return out

    def _learn(self, rows: sp.csr_matrix, y: Float, weight: Float, run: Mapper) -> Float:
        assert self.columns is not None
        scaled, targets = self.columns.scaled(rows, learn=True), self._targets(y)
        kernels = self.kernels.score_and_learn(self.sketch(scaled), y, weight, run)
        forget, columns = self.settings.forget, self.columns.count
        linear = self.linear.score_and_learn(scaled, columns, targets, weight, self.task, forget)
        parts = self._parts(kernels, linear)
        return self.combination.score_and_learn(parts, targets, weight, self.task) * self.spread + self.centre

    def _begin(self, run: Mapper) -> None:
        """Take the scales from the first rows, then learn these."""
        rows = sp.vstack(self.first_rows, format="csr")
        self.columns = ColumnScales.of(rows)
        self.kernels = RowLearner(self.settings, self.n_classes)
        self._learn(rows, np.array(self.first_y), np.array(self.first_weight), run)
        self.combination = Combination.of(1 + len(RATES))  # nothing was predicted with these parts yet
        self.first_rows, self.first_weight = [], []
        if not self.task.is_regression:
            self.first_y = []

    def _rescale(self) -> None:
        """Scale the targets anew, by all that came so far."""
        centre, spread = target_scale(np.array(self.first_y), self.settings.huber)
        with np.errstate(over="ignore"):
            self.error_before = SUMS.clip(self.error_before + self.combination.error_sum[1:] * self.spread**2)
        self.combination.error_sum[:] = 0
        self.linear.rescale((self.centre - centre) / spread, self.spread / spread)
        self.centre, self.spread = centre, spread
        if self.seen == _LAST_STAGE:
            self.first_y = []

    def sketch(self, rows: NonZeros) -> Float:
        """Few columns in place of very many."""
        return rows.sketch(self.settings.seed, SKETCH)

    def _parts(self, kernels: Float, linear: Float) -> Float:
        with np.errstate(over="ignore"):
            scaled = np.clip((kernels - self.centre) / self.spread, -_FARTHEST, _FARTHEST)
        return np.concatenate([scaled[:, None], linear], axis=1)

    def _targets(self, y: Float) -> Float:
        return self.task.targets(y, self.n_classes, self.centre, self.spread)

    # ------------------------------------------------------------ insight

    @property
    def names(self) -> list[str]:
        """Names of all components: those on the sketch, then the linear ones on the rows."""
        return [*self.kernels.names, *(f"wide linear {rate:g}" for rate in RATES)]

    def target_limits(self) -> tuple[float, float]:
        """Least and largest class number or target."""
        return self.kernels.target_limits()

    def scaled(self, X: Any) -> NonZeros:
        """Rows with scaled columns, once the scales are known."""
        assert self.columns is not None
        return self.columns.scaled(canonical_rows(X, 0, X.shape[0]), learn=False)

    def stored_rows(self) -> Float:
        """Rows in memory, as their sketches."""
        return np.empty((0, SKETCH)) if self.columns is None else self.kernels.stored_rows()

    def kernel_weights(self) -> Float:
        """Part of each component in the combination; zero for those that were dropped."""
        influence = self.combination.influence()
        return np.append(influence[0] * self.kernels.kernel_weights(), influence[1:])

    def component_errors(self) -> Float:
        """Mean error of each component on the rows it has scored, each before learning from it; 0 before the first."""
        own = self.error_before + self.combination.error_sum[1:] * self.spread**2
        return np.append(self.kernels.component_errors(), own / max(self.seen - FIRST_STAGE, 1))

    def n_support(self) -> NDArray[np.int64]:
        """Landmarks of each component."""
        return np.append(self.kernels.n_support(), np.zeros(len(RATES), dtype=np.int64))

    def members(self) -> list[PoolMember]:
        """List the members of the pool, those that were dropped included."""
        kernels = self.kernels.members()
        return [*kernels, *(PoolMember(name, Linear(), "standard") for name in self.names[len(kernels) :])]

    def relevance_shares(self) -> Float | None:
        """Return None: which columns matter is known of few columns only."""
        return None

    def explain(self, x: Any, sign: float, columns: Sequence[Any], output: int | None = None) -> Explanation:
        """Take the score of one row, times a sign, apart; of several classes that of an output or of the likeliest."""
        return explain_wide_row(self, x, sign, output)

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        first = None
        if self.first_rows:
            rows = sp.vstack(self.first_rows, format="csr")
            first = {"rows": rows_to_state(rows), "weight": np.array(self.first_weight)}
        return {
            "settings": self.settings.to_state(),
            "seen": self.seen,
            "kernels": self.kernels.to_state(),
            "first": first,
            "first_y": np.array(self.first_y, dtype=np.float64),
            "columns": None if self.columns is None else self.columns.to_state(),
            "linear": self.linear.to_state(),
            "combination": self.combination.to_state(),
            "centre": self.centre,
            "spread": self.spread,
            "error_before": self.error_before,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        learner = cls(LearnerSettings.from_state(saved.part("settings")))
        learner.seen = seen = saved.integer("seen")
        begun = seen >= FIRST_STAGE
        settings = learner.settings if begun else learner.kernels.settings
        learner.kernels = RowLearner.from_state(saved.part("kernels"), SKETCH if begun else 1)
        if learner.kernels.settings != settings or learner.kernels.seen != seen:
            raise saved.wrong("kernels", "a learner of the same settings and rows", learner.kernels.seen)
        low, high = learner.target_limits()
        kept = seen if not begun or (settings.regression and seen < _LAST_STAGE) else 0
        learner.first_y = saved.array("first_y", (kept,), low=low, high=high).tolist()
        first, scales = saved.optional_part("first"), saved.optional_part("columns")
        if (first is not None) != (0 < seen < FIRST_STAGE) or (scales is not None) != begun:
            raise saved.wrong("first", f"the rows so far below {FIRST_STAGE}, and none beyond", seen)
        if first is not None:
            learner.first_rows = [rows_from_state(first.part("rows"), seen, columns)]
            learner.first_weight = first.array("weight", (seen,), np.float64, *SUMS).tolist()
            first.end()
        if scales is not None:
            learner.columns = ColumnScales.from_state(scales, columns)
        count = 0 if learner.columns is None else learner.columns.count
        learner.linear = WideLinear.from_state(saved.part("linear"), count, learner.outputs)
        learner.combination = Combination.from_state(saved.part("combination"), 1 + len(RATES))
        learner.centre = saved.number("centre")
        learner.spread = saved.number("spread", *SIZES)
        learner.error_before = saved.array("error_before", (len(RATES),), np.float64, *SUMS)
        saved.end()
        return learner


def learner_type(columns: int) -> type[PoolLearner]:
    """Learner of rows of so many columns."""
    return WideLearner if columns > WIDEST else RowLearner

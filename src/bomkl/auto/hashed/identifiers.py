"""The layer that finds columns of whole numbers that act like categories: users, items, shops, codes.

Counts of the first rows tell which columns may be such. From then on hashed models learn from them and from the columns
beside them on trial, a block of rows at a time, while the layer says what the learner within says. They join once they
lower the loss of recent rows by enough, and go if they have not by the end of the trial. After a while without a sign
of that, they skip most blocks, to save time. Where no column may be such, nothing is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.constants import CHUNK
from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.pace import pays
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.hashed.hashed_scores import HashedScores
from bomkl.auto.learner import (
    ONE_ROW,
    Layer,
    Learner,
    after_row,
    learner_from_state,
    learner_state,
    loadable,
    shallow_copy,
)
from bomkl.auto.limits import CELLS
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import dense_rows, matrix_rows
from bomkl.auto.rows.held_rows import HeldRows
from bomkl.auto.saved import Saved, State
from bomkl.tables.encoded import EncodedRows, Hashable

BLOCK = CHUNK  # rows that the trial learns from at a time; the first of them tell which columns take part
END = 32_768  # rows by which hashed models have joined, or go
_HASTY = 2048  # rows up to which every block is learned from
_SKIPPED = 3 * BLOCK  # rows skipped after a block from then on
MOST = 16  # columns that are hashed
_LEAST_VALUES = 20  # different ones in a block; trees and kernels do well with fewer
_MOST_FILLED = 0.1  # share of values that are not whole, as estimates for missing ones are not
_LEAST_GAIN = 0.01  # share of the loss that joining must save
_RECENT = 4, 1024  # rows that count for that: all so far divided by this, and no fewer than this
_NUMBER, _CODE = 2, 4  # what cells are, as the core knows it
_WHOLE = 2.0**53
_AT_ONCE = 4 * CHUNK


def hashed_columns(rows: Float) -> dict[int, int]:
    """Tell which columns to hash, and as what: those that may hold codes, and others beside them.

    Codes are whole numbers, many of them different.

    Examples
    --------
    >>> rows = np.column_stack([np.arange(60) % 2, np.arange(60) % 30, np.zeros(60), np.arange(60) / 7])
    >>> hashed_columns(rows), hashed_columns(rows[:, ::2])
    ({0: 2, 1: 4, 3: 2}, {})
    """
    whole = _is_whole(rows)
    different = np.array([len(np.unique(column)) for column in rows.T])
    may_be_codes = (whole.mean(axis=0) >= 1 - _MOST_FILLED) & (different >= _LEAST_VALUES)
    codes = np.flatnonzero(may_be_codes)
    codes = codes[np.argsort(-different[codes], kind="stable")][:MOST]
    if not len(codes):
        return {}
    others = np.flatnonzero(~may_be_codes & (different > 1))[: MOST - len(codes)]
    kinds = dict.fromkeys(codes.tolist(), _CODE) | dict.fromkeys(others.tolist(), _NUMBER)
    return dict(sorted(kinds.items()))


def _is_whole(rows: Float) -> NDArray[np.bool_]:
    return np.asarray((np.abs(rows) < _WHOLE) & (rows == np.floor(rows)))


@loadable
class IdentifierLearner(Layer):
    """Hashed models of columns of whole numbers around a learner of rows, if they pay.

    Parameters
    ----------
    inner : Learner
        The learner of the rows; once hashed models have joined, a `HashedLearner` around it.
    columns : int
        Columns of the rows.
    """

    kind: ClassVar[str] = "identifiers"

    def __init__(self, inner: Learner, columns: int) -> None:
        super().__init__(inner, columns)
        self.held = HeldRows()  # of the block; on trial followed by what the learner within said
        self.cells: dict[int, int] | None = None  # columns that are hashed, and as what; None until they are known
        self.trial: HashedScores | None = None
        self.gains = np.zeros(4)  # of the trial, recent rows counting most: see `pays`
        self.rests_until = 0  # row count up to which the trial learns nothing

    @property
    def seen(self) -> int:
        """Rows learned from."""
        return self.inner.seen

    @property
    def has_joined(self) -> bool:
        """Whether hashed models take part."""
        return isinstance(self.inner, HashedLearner)

    @property
    def _looks(self) -> bool:
        """Whether it is not yet known if hashed models take part."""
        return self.cells is None or self.trial is not None

    @property
    def _holds(self) -> bool:
        """Whether the next row is held."""
        return self._looks and self.seen >= self.rests_until

    def _rows_to_event(self) -> int:
        if not self._looks:
            return _AT_ONCE
        return BLOCK - self.seen % BLOCK if self._holds else self.rests_until - self.seen

    # ------------------------------------------------------------ learning

    def score_and_learn(self, X: Any, y: Float, weight: Float, run: Mapper = map) -> Float:
        """Score rows, each just before it is learned from; y are class numbers or targets."""
        if not (self._looks or self.has_joined):
            return self.inner.score_and_learn(X, y, weight, run)
        out, begin = np.empty((len(y), self.outputs)), 0
        while begin < len(y):
            holds = self._holds
            part = slice(begin, min(begin + self._rows_to_event(), len(y)))
            out[part] = self.inner.score_and_learn(self.rows(X[part]), y[part], weight[part], run)
            if holds:
                self._hold(X[part], y[part], weight[part], out[part])
            begin = part.stop
        return out

    def after_row(self, X: Float, y: Float) -> tuple[Self, Float] | None:
        """Return a copy that has learned from one row of weight 1, and its scores; None where more has to happen."""
        holds = self._holds
        if holds and (self.seen + 1) % BLOCK == 0:
            return None
        after = shallow_copy(self)
        after.inner, said = after_row(self.inner, self.rows(X), y)
        if holds:
            after._hold(X, y, ONE_ROW, said)
        return after, said

    def scores(self, X: Any, run: Mapper = map) -> Float:
        """Scores of rows: log odds of class 1, log probabilities of each class, or predictions."""
        if not self.has_joined:
            return self.inner.scores(X, run)
        parts = [
            self.inner.scores(self.rows(X[begin : begin + _AT_ONCE]), run) for begin in range(0, X.shape[0], _AT_ONCE)
        ]
        return np.vstack(parts) if parts else np.empty((0, self.outputs))

    def add_class(self) -> None:
        """Make room for a class that has not been seen before."""
        if self.trial is not None:
            self._learn_block()
            self.trial.core.add_class()
        self.inner.add_class()

    def rows(self, X: Any) -> Any:
        """Give rows as the learner within takes them."""
        return EncodedRows(X, self._hashable(dense_rows(X, 0, X.shape[0]))) if self.has_joined else X

    def names_of_cells(self, columns: Sequence[Any]) -> list[Any]:
        """Give what the columns that are hashed belong to, by what each column of the rows belongs to."""
        return [columns[place] for place in self.cells or ()]

    def _hashable(self, rows: Float) -> list[Hashable]:
        """Give cells as the core takes them; a code that is not whole is missing."""
        assert self.cells is not None
        cells = rows.T[list(self.cells)]
        codes = np.where(_is_whole(cells), cells, np.nan)
        return [(kind, (codes if kind == _CODE else cells)[at]) for at, kind in enumerate(self.cells.values())]

    # ------------------------------------------------------------ the trial

    def _hold(self, X: Any, y: Float, weight: Float, said: Float) -> None:
        """Hold rows that the learner within has learned from; a block that is full is learned from."""
        rows = matrix_rows(X, 0, len(y))
        rows = CELLS.clip(rows if self.cells is None else np.concatenate([rows, said], axis=1))
        self.held = self.held.plus(rows, y, weight)
        if self.seen % BLOCK:
            return
        if self.cells is None:
            self._choose()
        else:
            self._learn_block()
            self._judge()

    def _choose(self) -> None:
        """Begin the trial, if columns may hold codes."""
        self.cells = hashed_columns(self.held.arrays()[0])
        self.held = HeldRows()
        if self.cells:
            self.trial = HashedScores(self.settings, len(self.cells), self.outputs, learners=1)

    def _learn_block(self) -> None:
        """Let the trial learn from the rows held."""
        if not len(self.held):
            return
        assert self.trial is not None
        rows, y, weight = self.held.arrays()
        self.held = HeldRows()
        X, said = np.split(rows, [self.columns], axis=1)
        begin = 0
        while begin < len(y):
            part = slice(begin, begin + self.trial.rows_to_event(len(y) - begin))
            joint = self.trial.score_and_learn(self._hashable(X[part]), y[part], weight[part], self.task)
            out = self.trial.join_and_learn([said[part]], joint, y[part], weight[part], self.task)
            self._note(said[part], out, y[part], weight[part])
            begin = part.stop

    def _note(self, said: Float, joined: Float, y: Float, weight: Float) -> None:
        """Add up what joining would have gained."""
        assert self.trial is not None
        without, joint = (self.trial.losses(each, y, self.task) for each in (said, joined))
        gain = without - joint
        self.gains = self.gains + [(weight * each).sum() for each in (np.ones(len(y)), gain, gain**2, without)]

    def _judge(self) -> None:
        """Let the hashed models join if that pays, or go at the end of the trial."""
        assert self.trial is not None
        if pays(self.gains.tolist(), _LEAST_GAIN):
            self.inner, self.trial = HashedLearner(self.inner, None, self.trial), None
        elif self.seen >= END:
            self.trial = None
        if self.seen >= _HASTY and self.gains[1] < np.sqrt(self.gains[2]):  # less than a standard error
            self.rests_until = min(self.seen + _SKIPPED, END - BLOCK)
        part, least = _RECENT
        self.gains = self.gains * (1 - BLOCK / max(self.seen / part, least))

    # ------------------------------------------------------------ state

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        return {
            "inner": learner_state(self.inner),
            "held": self.held.to_state(),
            "cells": None if self.cells is None else _cells_state(self.cells),
            "trial": None if self.trial is None else self.trial.to_state(),
            "gains": self.gains,
            "rests_until": self.rests_until,
        }

    @classmethod
    def from_state(cls, saved: Saved, columns: int) -> Self:
        """Go on where `to_state` was called, with rows of so many columns; refuse what does not fit together."""
        learner = cls(learner_from_state(saved.part("inner"), columns), columns)
        cells, trial = saved.optional_part("cells"), saved.optional_part("trial")
        learner.cells = None if cells is None else _cells_from_state(cells, columns)
        if trial is not None:
            learner.trial = HashedScores.from_state(trial, learner.settings, learner.outputs, learners=1)
            trial.end()
        parts = (learner.trial, getattr(learner.inner, "hashed", None))
        sizes = [each.core.columns for each in parts if each is not None]
        if sizes not in ([], [len(learner.cells or ())]):
            raise saved.wrong("cells", "those of the hashed models", learner.cells)
        width = columns + (0 if learner.trial is None else learner.outputs)
        low, high = learner.leader.target_limits()
        learner.held = HeldRows.from_state(saved.optional_part("held"), None, width, low, high)
        learner.gains = saved.array("gains", (4,))
        learner.rests_until = saved.integer("rests_until", 0, END)
        saved.end()
        return learner


def _cells_state(cells: dict[int, int]) -> State:
    return {"columns": np.array(list(cells), np.int64), "kinds": np.array(list(cells.values()), np.int64)}


def _cells_from_state(saved: Saved, columns: int) -> dict[int, int]:
    places = saved.array("columns", (None,), np.int64, 0, columns - 1).tolist()
    kinds = saved.array("kinds", (len(places),), np.int64, _NUMBER, _CODE).tolist()
    if not set(kinds) <= {_NUMBER, _CODE} or sorted(set(places)) != places:
        raise saved.wrong("kinds", "kinds of different columns in order", kinds)
    saved.end()
    return dict(zip(places, kinds, strict=True))

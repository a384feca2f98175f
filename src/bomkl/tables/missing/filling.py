"""Gaps filled by what the other columns of the row say, the value seen last, and the most similar of the last rows.

What other columns say is a linear prediction of normal scores, plus what it left over in rows like this one. How much
better the other two are, each column of the table has shown in cells that were there: some of them were predicted in
all three ways before they were learned from. In rows that come in time the value seen last may be right, and of rows
that come in bunches one may be known.

Filling begins with the first row that has a gap. The rows since then come in groups that end at absolute row counts,
and at the ends of those groups the predictions are renewed, so that the split into calls changes no bit.
Nothing is changed in place, only replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from bomkl._support.limits import LARGEST
from bomkl.tables.errors import TableError
from bomkl.tables.missing.conditional import Float, conditional_means, inverse, residuals
from bomkl.tables.missing.neighbours import DEGREES, RECENT, Mask, Places, neighbours
from bomkl.tables.missing.smoothing import Scale, Smoother

WIDEST_FILLED = 128  # columns; of wider tables, gaps have the mean of their column
_GROUP = 256  # rows between renewals, after the first ones
POOL = 1024  # last rows that predictions are made from
_FIRST_GROUPS = (16, 32, 64, 128)
_TOGETHER = 128  # rows whose gaps are filled in one step; the result does not depend on it
_RIDGE = 0.01  # added to variances of 1
_FARTHEST = 4.0  # deviations from the mean that a filled gap may lie
_LEAST = 1e-100  # deviations below it count as none, so that a value in units of them is finite
_JUDGED = 4  # one row of so many, or of as many as there are columns, has its cells predicted for comparison
_DERIVED = ("scale", "smoother")  # from the pool
_DOUBT = 1.0  # added to the sum of squares by which trust is divided


def _nothing() -> Float:
    return np.empty(0)


@dataclass(frozen=True)
class Layout:
    """Which columns of numbers belong to which column of the table."""

    # (d + h,): column of the table of each of d columns that are predicted from each other and of h columns of zeros
    # and ones; -1 for columns not in use
    owner: Places
    # (n_columns,): first column of numbers of each column of the table; -1 for one that has columns of zeros and ones
    # only
    first: Places
    d: int  # columns that are predicted from each other

    def present(self, hidden: Mask) -> Mask:
        """Which of the d numbers of rows are there."""
        owner = self.owner[: self.d]
        return ~hidden[:, owner] & (owner >= 0)


@dataclass(frozen=True)
class Filling:
    """The last rows since the first gap, and the predictions they make."""

    rows: int = 0  # rows since the first gap; 0 before it
    mean: Float = field(default_factory=_nothing)  # (d + h,): of the pool, the last rows of the closed groups
    # (d,) and (d, d): of the pool, the latter of scores
    deviation: Float = field(default_factory=_nothing)
    precision: Float = field(default_factory=_nothing)
    # (2, n_columns) and (2, DEGREES, n_columns): sums of e s and of s s over cells that were there, in units of
    # deviations: with e the error of a prediction, and s what the value seen last, or that of the most similar row,
    # differs from that prediction
    latest: Float = field(default_factory=_nothing)
    alike: Float = field(default_factory=_nothing)
    # The pool and the rows of the open group, and where they had gaps
    recent: tuple[Float, ...] = ()
    recent_hidden: tuple[Mask, ...] = ()
    scale: Scale | None = None  # this and the next follow from the pool
    smoother: Smoother | None = None

    def fill(self, out: Float, hidden: Mask, layout: Layout, learned: Mask) -> Filling:
        """Fill gaps in place, row after row, and return what learning from the learned rows makes of this.

        `hidden` (n, n_columns): which cells of the table are gaps. `layout`: whose parts the columns of `out` are.
        """
        holes: Mask = np.asarray(hidden.any(axis=1))
        now, begin = self, 0
        if not self.rows:
            starts = np.flatnonzero(holes & learned)
            if not len(starts):
                return self
            begin = int(starts[0])
            now = _begun(hidden.shape[1])
        elif not holes.any() and not learned.any():
            return self
        learned_rows = np.flatnonzero(learned)
        learned_rows = learned_rows[learned_rows >= begin]
        while begin < len(out):
            end, closes = len(out), now._rows_to_close() <= len(learned_rows)
            if closes:
                end = int(learned_rows[now._rows_to_close() - 1]) + 1
            taken = int(np.searchsorted(learned_rows, end))
            some, learned_rows = learned_rows[:taken], learned_rows[taken:]
            holed = begin + np.flatnonzero(holes[begin:end])
            now._fill_rows(out, hidden, holed, some, layout)
            now = now._with(out[some], hidden[some], layout, closes)
            begin = end
        return now

    def _rows_to_close(self) -> int:
        """Rows until the open group is full."""
        for end in _FIRST_GROUPS:
            if self.rows < end:
                return end - self.rows
        return _GROUP - self.rows % _GROUP

    def _fill_rows(self, out: Float, hidden: Mask, holed: Places, learned: Places, layout: Layout) -> None:
        """Set the gaps of rows, where those learned from are seen by the rows after them."""
        if self.scale is None or self.smoother is None or not len(holed):
            return
        d = layout.d
        seen = _Seen(
            np.vstack([*_last(self.recent, RECENT), out[learned]]),
            np.vstack([*_last(self.recent_hidden, RECENT), hidden[learned]]),
        )
        before = len(seen.rows) - len(learned) + np.searchsorted(learned, holed)
        for begin in range(0, len(holed), _TOGETHER):
            some = holed[begin : begin + _TOGETHER]
            gaps = hidden[np.ix_(some, layout.owner[:d])] & (layout.owner[:d] >= 0)
            at, column = np.nonzero(gaps)
            z = np.where(gaps, 0.0, self.scale(out[some, :d]))
            z[at, column] = conditional_means(self.precision, z, at, column)
            z[at, column] += self.smoother(z, ~gaps, at, column)
            first, last = max(int(before[begin]) - RECENT, 0), int(before[begin + len(some) - 1])
            rows = _Hidden(out[some], hidden[some], hidden[some], before[begin : begin + _TOGETHER] - first)
            found = self._predictions(rows, _Seen(seen.rows[first:last], seen.hidden[first:last]), z, layout)
            out[some[found.at], found.column] = found.blended

    def _with(self, rows: Float, hidden: Mask, layout: Layout, closes: bool) -> Filling:
        """Add rows to the open group, and close it where they fill it."""
        if not len(rows):
            return self
        more = replace(
            self,
            rows=self.rows + len(rows),
            recent=(*self.recent, rows.copy()),
            recent_hidden=(*self.recent_hidden, hidden.copy()),
        )
        return more._judged(layout)._closed(layout) if closes else more

    def _open(self) -> int:
        """Rows of the group that is about to be closed."""
        ends = (0, *_FIRST_GROUPS, (self.rows - 1) // _GROUP * _GROUP)
        return self.rows - max(end for end in ends if end < self.rows)

    def _since_closed(self) -> int:
        """Rows of the open group, 0 right after one was closed."""
        return replace(self, rows=self.rows + 1)._open() - 1

    def _judged(self, layout: Layout) -> Filling:
        """Compare the predictions of cells of the open group, made with what the groups before it showed."""
        if self.scale is None or self.smoother is None:
            return self
        d, n, count = layout.d, len(layout.first), RECENT + self._open()
        seen = _Seen(np.vstack(_last(self.recent, count)), np.vstack(_last(self.recent_hidden, count)))
        step = max(_JUDGED, layout.d)
        some = np.arange(len(seen.rows))[-self._open() :][step - 1 :: step]
        rows = _Hidden(seen.rows[some], seen.hidden[some], ~seen.hidden[some], some)
        z, present = self.scale(rows.rows[:, :d]), layout.present(rows.hidden)
        linear = z - residuals(self.precision, z, layout.owner[:d])
        at, column = np.nonzero(present)
        linear[at, column] += self.smoother(z, present, at, column)
        found = self._predictions(rows, seen, linear, layout)
        counted = np.flatnonzero(found.column < d)
        at, column = found.at[counted], found.column[counted]
        owner, degree = layout.owner[column], found.degree[counted]

        def sums(base: Float, other: Float, cell: Places, size: int) -> Float:
            error, step = (
                np.clip((each - base[counted]) / self.deviation[column], -_FARTHEST, _FARTHEST)
                for each in (rows.rows[at, column], other[counted])
            )
            return np.array([np.bincount(cell, part, size) for part in (error * step, step * step)])

        latest = sums(found.linear, found.latest, owner, n)
        alike = sums(found.base, found.alike, degree * n + owner, DEGREES * n)
        return replace(self, latest=self.latest + latest, alike=self.alike + alike.reshape(2, DEGREES, n))

    def _closed(self, layout: Layout) -> Filling:
        """Renew the predictions with the open group."""
        pool, hidden, d = np.vstack(self.recent)[-POOL:], np.vstack(self.recent_hidden)[-POOL:], layout.d
        n, mean, deviation = len(pool), pool.mean(axis=0), pool[:, :d].std(axis=0)
        scale = Scale.of(pool[:, :d])
        scores = scale(pool[:, :d])
        correlations = np.einsum("ij,ik->jk", scores, scores) / n
        return replace(
            self,
            mean=mean,
            deviation=np.where(deviation > np.maximum(1e-9 * np.abs(mean[:d]), _LEAST), deviation, 1.0),
            precision=inverse(correlations + (_RIDGE + d / (10.0 * n)) * np.eye(d)),
            recent=(pool,),
            recent_hidden=(hidden,),
        )._ready(layout, scale, scores)

    def _ready(self, layout: Layout, scale: Scale, scores: Float) -> Self:
        """Take what follows from the pool, whose scores are known."""
        present, owner = layout.present(self.recent_hidden[0]), layout.owner[: layout.d]
        return replace(self, scale=scale, smoother=Smoother.of(scores, present, self.precision, owner))

    def state(self) -> dict[str, Any]:
        together = {
            name: np.vstack(getattr(self, name)) if self.recent else _nothing() for name in ("recent", "recent_hidden")
        }
        return {name: value for name, value in vars(self).items() if name not in _DERIVED} | together

    @classmethod
    def from_state(cls, state: dict[str, Any], layout: Layout) -> Self:
        """Go on where `state` was taken; of earlier versions, with the last rows that it has."""
        rows = int(state["rows"])
        if not rows:
            return cls()
        columns, d, width = len(layout.first), layout.d, len(layout.owner)
        names = [each.name for each in fields(cls) if each.name not in ("rows", "recent_hidden", *_DERIVED)]
        parts = {name: np.array(state[name], dtype=np.float64) for name in names}
        hidden = np.array(state["recent_hidden"], dtype=bool)
        n, told = len(hidden), len(parts["mean"]) > 0
        shapes: dict[str, tuple[int, ...]] = {"latest": (2, columns), "alike": (2, DEGREES, columns)}
        shapes |= {"recent": (n, width), "mean": (told * width,)}
        shapes |= {"deviation": (told * d,), "precision": (d, d) if told else (0,)}
        fit = all(parts[name].shape == shape for name, shape in shapes.items()) and hidden.shape == (n, columns)
        if rows < 0 or not fit or not 0 < n <= min(rows, _GROUP + POOL) or told != (rows >= _FIRST_GROUPS[0]):
            raise TableError("the sums that gaps are filled by do not fit the columns")
        positive = (parts["deviation"] > 0).all() and (parts["latest"][1] >= 0).all() and (parts["alike"][1] >= 0).all()
        limits = dict.fromkeys(("mean", "recent", "deviation"), 4 * LARGEST) | {"precision": 1e50}
        limits |= dict.fromkeys(("latest", "alike"), width * _FARTHEST**2 * rows)
        if not positive or not all((np.abs(part) <= limits[name]).all() for name, part in parts.items()):
            raise TableError("the sums that gaps are filled by are out of range")
        made = cls(rows, parts["mean"], parts["deviation"], parts["precision"], parts["latest"], parts["alike"])
        recent, pool = parts["recent"], n - made._since_closed()
        made = replace(made, recent=(recent[:pool], recent[pool:]), recent_hidden=(hidden[:pool], hidden[pool:]))
        if not told:
            return made
        if pool <= 0:
            raise TableError("the rows that gaps are filled by are too few")
        scale = Scale.of(recent[:pool, :d])
        return made._ready(layout, scale, scale(recent[:pool, :d]))

    def _in_deviations(self, rows: Float, first: Places) -> Float:
        """One number for each column of the table."""
        at = np.maximum(first, 0)
        return np.where(first >= 0, (rows[:, at] - self.mean[at]) / self.deviation[at], 0.0)

    def _predictions(self, rows: _Hidden, seen: _Seen, z: Float, layout: Layout) -> _Predictions:
        """Predict cells, where z are the linear predictions in units of deviations."""
        d = layout.d
        row, cell = np.nonzero(rows.wanted)
        numbers, others = (self._in_deviations(each, layout.first) for each in (rows.rows, seen.rows))
        near = neighbours(numbers, rows.hidden, others, seen.hidden, rows.before, row, cell)
        number = np.zeros(rows.wanted.shape, dtype=np.intp)
        number[row, cell] = np.arange(len(row))
        used = np.flatnonzero(layout.owner >= 0)
        at, column = np.nonzero(rows.wanted[:, layout.owner[used]])
        column = used[column]
        owner = layout.owner[column]
        which = number[at, owner]
        linear = self.mean[column]
        counted = np.flatnonzero(column < d)
        own = column[counted]
        assert self.scale is not None
        linear[counted] = self.scale.values(np.clip(z[at[counted], own], -_FARTHEST, _FARTHEST), own)
        known, degree = near.latest[which] >= 0, near.degree[which]
        latest = np.where(known, seen.rows[near.latest[which], column], linear)
        base = linear + _trust(self.latest)[owner] * (latest - linear)
        alike = np.where(known, seen.rows[near.alike[which], column], base)
        blended = base + _trust(self.alike)[degree, owner] * (alike - base)
        return _Predictions(at, column, linear, latest, base, alike, degree, blended)


@dataclass(frozen=True)
class _Seen:
    """Rows that others are compared with, and where they had gaps."""

    rows: Float
    hidden: Mask


@dataclass(frozen=True)
class _Hidden:
    """Rows, where they have gaps, which cells are to be predicted, and how many rows were seen before each."""

    rows: Float
    hidden: Mask
    wanted: Mask
    before: Places


@dataclass(frozen=True)
class _Predictions:
    """Predictions of numbers at (at, column)."""

    at: Places  # (n,)
    column: Places
    linear: Float  # (n,): by the other columns, and the value seen last
    latest: Float
    base: Float  # (n,): both, as far as each is to be trusted
    alike: Float  # (n,): value of the most similar row, and how similar it is
    degree: Places
    blended: Float  # (n,): all three, as far as each is to be trusted


def _last(parts: Sequence[Any], count: int) -> list[Any]:
    """Last parts of a sequence of arrays that hold at least so many rows, if there are as many."""
    found: list[Any] = []
    for part in reversed(parts):
        if count <= 0:
            break
        found.insert(0, part[-count:])
        count -= len(part)
    return found


def _trust(sums: Float) -> Float:
    """Share of a prediction that would have had the least error, if it lies between 0 and 1."""
    share: Float = np.clip(sums[0] / (sums[1] + _DOUBT), 0.0, 1.0)
    return share


def _begun(columns: int) -> Filling:
    """Begin with the first row that has a gap."""
    return Filling(latest=np.zeros((2, columns)), alike=np.zeros((2, DEGREES, columns)))

"""How much each column matters, measured along the stream: what swapping its values among rows would cost.

Now and then the next rows are a window. Before the model learns from any of them, it predicts them as they are, and
once more with the values of a column passed on from row to row, for one column after the other. What the loss rises by
is how much the model relies on the column. None of the values has been learned from. So for a column that has nothing
to do with the target nor with other columns, both losses have the same distribution, and the mean of their difference
is zero, whatever the model has made of it.

Of columns that tell the same, a model may use any. They are passed on together, and share equally what that adds.

Windows begin at absolute row counts, and a call may end within one: then the model of its beginning is kept until the
window is over. So how rows are split into calls changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.averages import Averages
from bomkl.auto.insight.mixing import RowMixer, copied, mixed_from_state, mixed_state, row_bytes, stacked
from bomkl.auto.insight.swapping import Window
from bomkl.auto.learner import Learner, learner_from_state, learner_state, shallow_copy
from bomkl.auto.limits import SUMS
from bomkl.auto.parallel import Mapper
from bomkl.auto.rows.arrays import array_bytes
from bomkl.auto.saved import Saved, State

WINDOW = 64  # rows
PAIRS = 16  # most rows of a window in which the value of a column is passed on
FIRST = 32  # rows before the first window
MOST_AT_ONCE = 1024  # predictions with changed rows in a window; if all columns would take more, they take turns
# Of many groups, the most promising are measured in more rows: in how many, and with which part of all predictions
_MORE = (2, 4), (4, 8), (8, 8)
KEPT_WINDOWS = 4  # whose rows are kept, as a sample of the stream
# Predictions for measuring, for each row learned. Until the budget is full, rebuilding makes learning several times as
# slow as later. A part of what that allows is saved for the rows that come next, when the model knows more.
_FIRST_PACE, _NEXT_PACE, _PACE = 3.0, 1.6, 0.4
_WINDOW_COST = 128  # predictions that take as long as all else that a window needs
_NEXT = 4  # times the budget up to which a window is followed at the second pace
_MOST_WINDOWS = 64  # in as many rows as there were before: on a long stream, more would tell little more


@dataclass
class _Open:
    """A window that has begun, and the model before it."""

    model: Learner
    rows: list[Any] = field(default_factory=list)
    y: list[Float] = field(default_factory=list)
    weight: list[Float] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.y))


class Importance:
    """What is known of the columns so far."""

    def __init__(self, seen: int = 0) -> None:
        self.next = max(FIRST, seen)  # row count at which the next window begins
        self.windows = 0
        self.averages = Averages()
        self.open: _Open | None = None
        self.kept: list[Any] = []  # rows of some windows, each a part

    @property
    def nbytes(self) -> int:
        """Memory of its arrays and of rows that wait, in bytes; the model before a window is not counted."""
        kept = array_bytes(vars(self.averages)) + sum(map(row_bytes, self.kept))
        if self.open is None:
            return kept
        return kept + sum(map(row_bytes, self.open.rows)) + array_bytes([self.open.y, self.open.weight])

    # ------------------------------------------------------------ windows

    def measures(self, seen: int) -> bool:
        """Tell whether the row that comes after so many is one of a window."""
        return seen >= self.next

    def rows_together(self, seen: int, rows: int) -> int:
        """How many of the next rows can be learned from at once: up to where a window begins or ends."""
        edge = self.next + WINDOW if self.measures(seen) else self.next
        return min(rows, edge - seen)

    def note(
        self, learner: Learner, X: Any, y: Float, weight: Float, mixer: Callable[[], RowMixer | None], run: Mapper
    ) -> bool:
        """Take rows of a window, which the learner is going to learn from; tell whether it has to stay as it is.

        `mixer` gives what knows the columns of the rows; None of very wide ones.
        """
        begins = self.open is None
        window = _Open(learner) if self.open is None else shallow_copy(self.open)
        whole = begins and len(y) == WINDOW
        window.rows = [*window.rows, X if whole and not hasattr(X, "tensor") else copied(X)]
        window.y, window.weight = [*window.y, np.array(y)], [*window.weight, np.array(weight)]
        if window.size < WINDOW:
            self.open = window
            return begins
        rows = stacked(window.rows)
        y, weight = np.concatenate(window.y), np.concatenate(window.weight)
        predicted = self._measure(window.model, rows, y, weight, mixer(), run)
        self._keep(copied(rows) if whole else rows, learner.settings.seed)
        budget = learner.settings.budget
        pace = _FIRST_PACE if self.next < budget else _NEXT_PACE if self.next < _NEXT * budget else _PACE
        self.next += max(WINDOW, int((predicted + _WINDOW_COST) / pace), self.next // _MOST_WINDOWS)
        self.windows += 1
        self.open = None
        return False

    def begin_anew(self, seen: int) -> None:
        """Leave the window and the rows: they have less to them than rows will have from now on."""
        self.open, self.kept, self.next = None, [], max(self.next, seen)

    def _keep(self, rows: Any, seed: int) -> None:
        """Keep a sample of the windows (Vitter's reservoir)."""
        if len(self.kept) < KEPT_WINDOWS:
            self.kept = [*self.kept, rows]
            return
        place = int(np.random.default_rng([seed, self.windows]).integers(self.windows + 1))
        if place < KEPT_WINDOWS:
            self.kept = [*self.kept[:place], rows, *self.kept[place + 1 :]]

    def sample(self) -> Any:
        """Rows of the stream as learners take them; None before the first window is over."""
        return stacked(self.kept) if self.kept else None

    # ------------------------------------------------------------ measuring

    def _measure(self, model: Learner, rows: Any, y: Float, weight: Float, mixer: RowMixer | None, run: Mapper) -> int:
        """Measure columns on the rows of a window; returns how many predictions that was worth."""
        random = np.random.default_rng([model.settings.seed, self.next])
        if mixer is None:
            groups = self._of_wide(*np.unique(rows.indices, return_counts=True), random)
        else:
            groups = mixer.group([*self.kept, rows])
        many = len(groups) * PAIRS > MOST_AT_ONCE
        if many and _FIRST_PACE * self.next < MOST_AT_ONCE:
            return MOST_AT_ONCE  # a model of few rows cannot tell many columns apart: these predictions come later
        window = Window(model, rows, y, weight, mixer, random, run)
        if mixer is None or not many:
            self._note(window, groups, PAIRS)
        else:
            # one row of each group, in turn if there are too many, and then more rows of those that promise most
            turns = min(MOST_AT_ONCE // 2, len(groups))
            self._note(window, np.sort(groups[(self.windows * turns + np.arange(turns)) % len(groups)]), 1)
            for pairs, part in _MORE:
                hope = np.nan_to_num(self.averages.upper(len(mixer.names)))
                promise = np.bincount(mixer.leaders, hope, len(hope))[groups]
                best = np.argsort(-promise, kind="stable")[: MOST_AT_ONCE // (part * pairs)]
                self._note(window, groups[np.sort(best)], pairs)
        return window.predicted

    def _note(self, window: Window, columns: NDArray[np.intp], pairs: int) -> None:
        """Measure some columns, and those that they lead, each in so many rows."""
        columns, *found = window.measured(columns, pairs)
        self.averages = self.averages.plus(columns, np.full(len(columns), self.next * pairs / PAIRS), *found)

    def _of_wide(self, found: NDArray[Any], count: NDArray[np.intp], random: np.random.Generator) -> NDArray[np.intp]:
        """Columns of this window, of those that have a value: known ones that promise most, and the most frequent."""
        known, most = np.isin(found, self.averages.columns), MOST_AT_ONCE // PAIRS
        hope = self.averages.upper_of(found[known])
        best = found[known][np.argsort(-hope, kind="stable")[: most // 2]]
        order = np.argsort(-(count[~known] + random.random((~known).sum())), kind="stable")
        return np.sort(np.append(best, found[~known][order[: most - len(best)]])).astype(np.intp)

    # ------------------------------------------------------------ state

    def fork(self) -> Self:
        """Return a copy that may go on while this one stays as it is."""
        return shallow_copy(self)  # no part of it is ever changed in place

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        window = None
        if self.open is not None:
            window = {
                "rows": mixed_state(stacked(self.open.rows)),
                "y": np.concatenate(self.open.y),
                "weight": np.concatenate(self.open.weight),
                "model": learner_state(self.open.model),
            }
        return {
            "next": self.next,
            "windows": self.windows,
            "averages": self.averages.to_state(),
            "open": window,
            "kept": [mixed_state(rows) for rows in self.kept],
        }

    @classmethod
    def from_state(cls, state: Any, seen: int, columns: int, cells: int | None, names: int) -> Self:
        """Go on where `to_state` was called; refuse what does not fit a model of so many rows and columns."""
        saved, found = Saved(state, "importance"), cls()
        found.next = saved.integer("next", FIRST)
        found.windows = saved.integer("windows", 0, seen // WINDOW)
        found.averages = Averages.from_state(saved.part("averages"), names)
        kept = saved.parts("kept", KEPT_WINDOWS)
        found.kept = [mixed_from_state(part, WINDOW, columns, cells) for part in kept]
        window = saved.optional_part("open")
        if not 0 <= seen - found.next < WINDOW and found.next < seen:
            raise saved.wrong("next", f"a row count from {seen - WINDOW + 1} on", found.next)
        if window is None and found.next < seen:
            raise saved.wrong("open", f"a window with {seen - found.next} rows", None)
        if window is not None:
            rows = seen - found.next
            if not 0 < rows < WINDOW:
                raise saved.wrong("open", "a window that has begun", rows)
            y, weight = window.array("y", (rows,)), window.array("weight", (rows,), np.float64, *SUMS)
            row_parts = mixed_from_state(window.part("rows"), rows, columns, cells)
            model = learner_from_state(window.part("model"), columns)
            if model.seen != found.next:
                raise saved.wrong("open", "a window with the model before it", model.seen)
            window.end()
            found.open = _Open(model, [row_parts], [y], [weight])
        saved.end()
        return found

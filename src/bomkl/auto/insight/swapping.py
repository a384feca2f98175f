"""What it costs to pass the value of a column on from row to row, on rows that a model has not learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import erf

from bomkl.auto.features.geometry import Float
from bomkl.auto.insight.mixing import RowMixer
from bomkl.auto.learner import Learner
from bomkl.auto.parallel import Mapper
from bomkl.auto.task import Task

MOST_CLASSES = 32  # that are told apart
_LARGEST_ERROR = 1e70  # whose fourth power is a number


class Window:
    """Rows as they are, predicted.

    `model`: what predicts; it has not learned from the rows. `mixer`: knows the columns; None of very wide rows.
    """

    def __init__(
        self,
        model: Learner,
        rows: Any,
        y: Float,
        weight: Float,
        mixer: RowMixer | None,
        random: np.random.Generator,
        run: Mapper,
    ) -> None:
        self._model, self._rows, self._y, self._mixer, self._random, self._run = model, rows, y, mixer, random, run
        self._donors = (np.arange(len(y)) + random.integers(1, len(y))) % len(y)
        self._scores = model.scores(rows, run)
        self._before = losses(model, self._scores, y)
        share = weight * np.isfinite(self._before[0])  # none of rows of a class that the model did not know
        self._share = share / max(float(share.sum()), 5e-324)
        self.predicted = len(y)  # rows
        classes = 0 if model.task.is_regression else max(self._scores.shape[1], 2)
        self._of_class = y == np.arange(classes if classes <= MOST_CLASSES else 0)[:, None]

    def measured(self, columns: NDArray[np.intp], pairs: int) -> tuple[NDArray[np.intp], Float, Float, Float]:
        """Pass the values of each column, and of those that it leads, on in at most so many rows.

        `columns` lead their groups, in ascending order. What that adds is divided within each group. Returns the
        columns of these groups; then mean rise of loss and error over the rows, the squared error of this mean, and the
        rise if the probabilities were right. Then the parts of the rise of the loss that come from the rows of each
        class; of numbers and of too many classes none.
        """
        row, place, times, variants = self._changed(columns, pairs)
        share, n, classes = self._share[row] * times, len(columns), len(self._of_class)
        rise, expected, variance = np.zeros((2, len(self._y), n)), np.zeros((2 + classes, n)), np.zeros(n)
        if len(row):
            self.predicted += len(row)
            after = self._model.scores(variants, self._run)
            with np.errstate(invalid="ignore"):
                change = losses(self._model, after, self._y[row]) - self._before[:, row]
            rise[:, row, place] = np.where(share > 0, times * change, 0.0)
            error = float(self._share @ np.where(self._share > 0, self._before[0], 0.0))
            mean, spread = expected_rise(self._model.task, self._scores[row], after, error)
            np.add.at(expected.T, place, (share * mean[: 2 + classes]).T)
            np.add.at(variance, place, share**2 * spread)
        rise = np.concatenate([rise, self._of_class[:, :, None] * rise[0]])
        means = np.einsum("sic,i->sc", rise, self._share)
        within = np.einsum("sic,i->sc", (rise - means[:, None]) ** 2, self._share**2)
        within[0] = np.maximum(within[0], variance)  # a few rows may happen to be alike
        if self._mixer is None:
            return columns, means, within, expected
        members = np.flatnonzero(np.isin(self._mixer.leaders, columns))
        at = np.searchsorted(columns, self._mixer.leaders[members])
        size = np.bincount(at)[at]
        return members, means[:, at] / size, within[:, at] / size**2, expected[:, at] / size

    def _changed(self, columns: NDArray[np.intp], pairs: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Float, Any]:
        """Rows with a value of another row in one column: which rows and columns, how many pairs each stands for."""
        rows, donors = self._rows, self._donors
        if self._mixer is None:
            cells = wide_cells(rows, columns)
            row, place, times = _pairs(cells != cells[donors], pairs, self._random)
            change = cells[donors[row], place] - cells[row, place]
            return row, place, times, wide_variants(rows, row, columns[place], change)
        differ = self._mixer.differ(rows, np.arange(len(donors)), donors)
        row, place, times = _pairs(differ[:, columns], pairs, self._random)
        moves = self._mixer.leaders == columns[place][:, None]
        source = np.where(moves, donors[row][:, None], row[:, None])
        return row, place, times, self._mixer.mixed(rows, source)


def losses(model: Learner, scores: Float, y: Float) -> Float:
    """Loss and error of each row, (2, n): log loss and mistake, or squared and absolute difference.

    The loss of a class that the model does not know is not finite.
    """
    if model.task.is_regression:
        size = np.minimum(np.abs(y - scores[:, 0]), _LARGEST_ERROR)
        return np.stack([size**2, size])
    if model.task is Task.BINARY:
        margin = np.where(y > 0.5, scores[:, 0], -scores[:, 0])
        loss, wrong = np.logaddexp(0, -margin), margin <= 0
        unknown = y > 1
    else:
        unknown = y >= scores.shape[1]
        own = scores[np.arange(len(y)), np.where(unknown, 0, y).astype(np.intp)]
        loss, wrong = np.logaddexp.reduce(scores, axis=1) - own, scores.argmax(axis=1) != y
    return np.stack([np.where(unknown, np.inf, loss), wrong.astype(np.float64)])


def expected_rise(task: Task, before: Float, after: Float, error: float) -> tuple[Float, Float]:
    """Mean rise of loss and error, if the scores before were right, and the variance of the rise of the loss.

    The chances of targets are what the scores before say; numbers are off by a squared `error`, and normal. Means are
    (2 + n_classes, n): after loss and error come the parts of the rise of the loss by the class of the target.
    """
    if task.is_regression:
        change = np.minimum(np.abs(after - before)[:, 0], _LARGEST_ERROR)
        scale = np.sqrt(2 * error) or 1e-300
        with np.errstate(over="ignore"):
            size = change * erf(change / scale) + scale / np.sqrt(np.pi) * np.expm1(-((change / scale) ** 2))
        return np.stack([change**2, np.maximum(size, 0.0)]), 4 * error * change**2
    if task is Task.BINARY:
        before, after = (np.column_stack([np.zeros(len(each)), each]) for each in (before, after))
    before, after = (each - np.logaddexp.reduce(each, axis=1, keepdims=True) for each in (before, after))
    chance, fall = np.exp(before), before - after
    parts = chance * fall
    mean = parts.sum(axis=1)
    now = np.take_along_axis(chance, after.argmax(axis=1)[:, None], axis=1)[:, 0]
    rises = np.stack([mean, chance.max(axis=1) - now])
    return np.concatenate([np.maximum(rises, 0.0), parts.T]), (chance * (fall - mean[:, None]) ** 2).sum(axis=1)


def _pairs(
    differ: NDArray[np.bool_], most: int, random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp], Float]:
    """Rows and columns to pass values on in, at most some of each column, and how many pairs each of them stands for.

    Where most rows have the same value, all pairs that differ are taken: few rows tell what such a column does.
    """
    count = differ.sum(axis=0)
    rank = np.where(differ, random.random(differ.shape), np.inf).argsort(axis=0, kind="stable").argsort(axis=0)
    row, place = np.nonzero(differ & (rank < most))
    return row, place, (count / np.clip(count, 1, most))[place]


def wide_cells(rows: sp.csr_matrix, columns: NDArray[np.intp]) -> Float:
    """Give some columns of very wide rows, in their order."""
    cells = np.zeros((rows.shape[0], len(columns)))
    place = np.minimum(np.searchsorted(columns, rows.indices), len(columns) - 1)
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    wanted = columns[place] == rows.indices
    cells[of_row[wanted], place[wanted]] = rows.data[wanted]
    return cells


def wide_variants(rows: sp.csr_matrix, row: NDArray[np.intp], column: NDArray[np.intp], change: Float) -> sp.csr_matrix:
    """Very wide rows, each with a change in one column."""
    indices = column.astype(rows.indices.dtype)
    changes = sp.csr_matrix((change, indices, np.arange(len(row) + 1)), shape=(len(row), rows.shape[1]))
    return sp.csr_matrix(rows[row] + changes)

"""Which values, pairs, words and n-grams of a row of a table made a prediction, and how much its columns matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.explain import explain_learner, relevance_shares
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.hashed.hashed_scores import PARTS
from bomkl.auto.hashed.identifiers import IdentifierLearner
from bomkl.auto.learner import Learner
from bomkl.auto.rows.explain import Explanation
from bomkl.auto.task import Task
from bomkl.tables.encoded import EncodedRows, Hashable

_SLOTS = 3  # of a column, as the core has them
_WAYS = 2  # to learn, of each hashed model
_DATE_SLOTS = (" (day of the year)", " (hour)", " (weekday)")
_WEEKDAYS = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
_LONGEST = 40  # letters of a text that are shown


class _Score:
    """Stands for the column that holds the score of the hashed models."""


def explain_row(
    learner: Learner,
    row: Any,
    sign: float,
    columns: Sequence[Any],
    names: Sequence[Any],
    output: int | None = None,
) -> Explanation:
    """Take the score of one row, times a sign, apart.

    Parameters
    ----------
    learner : Learner
        The learner of an estimator.
    row : matrix or EncodedRows
        One row, as the learner takes it.
    sign : float
        1 or -1.
    columns : sequence
        What each column of numbers belongs to.
    names : sequence
        Names of the columns whose cells `EncodedRows` have.
    output : int or None, default=None
        Of several classes, the one whose score it is; None for the likeliest.
    """
    if isinstance(learner, IdentifierLearner):
        row, names, learner = learner.rows(row), learner.names_of_cells(columns), learner.inner
    if isinstance(learner, HashedLearner):
        return _explain_hashed(learner, row, sign, columns, names, output)
    return explain_learner(learner, row, sign, columns, output)


def _explain_hashed(
    learner: HashedLearner,
    row: EncodedRows,
    sign: float,
    columns: Sequence[Any],
    names: Sequence[Any],
    output: int | None,
) -> Explanation:
    scores, several = sign * learner.scores(row)[0], learner.task is Task.MULTICLASS
    if output is None:
        output = int(np.argmax(scores)) if several else 0
    margin = float(scores[output] - scores.mean()) if several else float(scores[0])
    *of_learners, of_hashed = learner.hashed.last.slopes().tolist()
    numbers = learner.rows_of_learners(row, learner.hashed_scores(row))[0][1]
    within = explain_row(learner.inner, numbers, sign, [*columns, *([_Score] * learner.takes_score)], (), output)
    slope = sum(of_learners)
    by_part, features, parts = _contributions(learner, row, output)
    scale = sign * of_hashed * learner.hashed.spread
    added = scale * parts
    by_column = {column: slope * value for column, value in within.columns.items() if column is not _Score}
    by_column = {name: by_column.get(name, 0.0) for name in dict.fromkeys([*by_column, *names])}
    sizes = np.abs(parts)
    through = slope * within.columns.get(_Score, 0.0) * sizes / max(float(sizes.sum()), 1e-300)
    values = {text: slope * value for text, value in within.values.items()}
    for (_, slot, other, begin, end), value in zip(features.tolist(), (added + through).tolist(), strict=True):
        text = _text(row.cells, names, slot, other, begin, end)
        values[text] = values.get(text, 0.0) + value
        owners = [slot] if other < 0 else [slot, other]
        for each in owners:
            by_column[names[each // _SLOTS]] += value / len(owners)
    kernels = {name: slope * value for name, value in within.kernels.items()}
    for name, value in zip(PARTS, by_part, strict=True):
        kernels[name] = kernels.get(name, 0.0) + float(scale * value)
    return replace(
        within,
        margin=margin,
        kernels=kernels,
        rows=slope * within.rows,
        remainder=margin - sum(kernels.values()),
        columns=by_column,
        values=values,
    )


def column_shares(learner: Learner, columns: Sequence[Any], names: Sequence[Any]) -> dict[Any, float] | None:
    """Tell how much each column of the user matters, in shares of 1; None where it is not known yet.

    It takes what `explain_row` does.
    """
    if isinstance(learner, IdentifierLearner):
        names, learner = learner.names_of_cells(columns), learner.inner
    if isinstance(learner, HashedLearner):
        return _hashed_shares(learner, columns, names)
    shares = relevance_shares(learner)
    if shares is None:
        return None
    total: dict[Any, float] = {}
    for column, share in zip(columns, shares.tolist(), strict=True):
        if column is not None:
            total[column] = total.get(column, 0.0) + share
    return total


def _hashed_shares(learner: HashedLearner, columns: Sequence[Any], names: Sequence[Any]) -> dict[Any, float] | None:
    total = column_shares(learner.inner, [*columns, *([_Score] * learner.takes_score)], ())
    if total is None:
        return None
    influence = learner.hashed.last.influence()
    by_model = learner.hashed.among.influence().reshape(-1, _WAYS).sum(axis=1)
    hashed = np.zeros(len(names))
    for weight, (*_, parts) in zip(by_model, learner.hashed.core.models, strict=True):
        by_name = np.maximum(parts, 0.0).reshape(-1, _SLOTS).sum(axis=1)
        hashed += weight * by_name / max(float(by_name.sum()), 1e-300)
    hashed /= max(float(hashed.sum()), 1e-300)
    total = {column: (1 - influence[-1]) * share for column, share in total.items()}
    of_score = total.pop(_Score, 0.0) + influence[-1]
    for name, share in zip(names, hashed.tolist(), strict=True):
        total[name] = total.get(name, 0.0) + of_score * share
    return total


def _contributions(learner: HashedLearner, row: EncodedRows, output: int) -> tuple[list[float], Any, Float]:
    """Give what each of PARTS adds to the score of an output, the features of a row, and what each of those adds."""
    features, entries = learner.hashed.core.contributions(row.cells)
    scores = learner.hashed.core.scores(row.cells, 1)[0]
    if learner.task is Task.MULTICLASS:
        entries, scores = (each - each.mean(axis=-1, keepdims=True) for each in (entries, scores))
    slopes = learner.hashed.among.slopes()
    by_way = slopes.reshape(-1, _WAYS)[features[:, 0]]  # a row of slopes for each feature, by its model
    return (slopes * scores[:, output]).tolist(), features, np.asarray((by_way * entries[:, :, output]).sum(axis=1))


def _text(cells: list[Hashable], names: Sequence[Any], slot: int, other: int, begin: int, end: int) -> str:
    """Say what a feature is."""
    if other >= 0:
        return f"{_text(cells, names, slot, -1, 0, 0)} & {_text(cells, names, other, -1, 0, 0)}"
    (kind, values), name = cells[slot // _SLOTS], names[slot // _SLOTS]
    cell = None if values is None else values[0]
    if cell is None or cell != cell:
        return f"{name} missing"
    if end > 0:
        lower = "".join(letter.lower()[0] for letter in cell)  # letter by letter, so that places stay
        return f"{name}: {f' {lower} '[begin:end]!r}"
    if kind == 3:
        day = np.floor(cell)
        shown = (str(np.datetime64(int(day), "D"))[-5:], f"{int((cell - day) * 24)}", _WEEKDAYS[int(day) % 7])
        return f"{name}{_DATE_SLOTS[slot % _SLOTS]}={shown[slot % _SLOTS]}"
    if kind in (2, 4):
        return f"{name}={int(cell) if cell == int(cell) else f'{cell:g}'}"
    return f"{name}={cell if len(cell) <= _LONGEST else cell[:_LONGEST] + '...'}"

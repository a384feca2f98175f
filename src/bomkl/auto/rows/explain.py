"""Which stored rows and which kernels made a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bomkl.auto.components.component import NewtonComponent
from bomkl.auto.components.curved import CurvedComponent
from bomkl.auto.components.curved import slope as curve_slope
from bomkl.auto.features.features import KernelFeatures
from bomkl.auto.features.geometry import Float, Geometry, two_valued_scale
from bomkl.auto.rows.arrays import dense_rows
from bomkl.auto.task import Task

if TYPE_CHECKING:
    from bomkl.auto.learner import Learner
    from bomkl.auto.rows.row_learner import RowLearner
    from bomkl.auto.wide.wide_learner import WideLearner

_MOST_SHOWN = 5


@dataclass(frozen=True, repr=False)
class Explanation:
    """A prediction taken apart.

    Attributes
    ----------
    margin : float
        The score that is explained: the log odds; with several classes, the centred score of the likeliest; for
        numbers, the prediction.
    kernels : dict of str to float
        What each member of the pool added to it, to first order.
    rows : ndarray of shape (n_rows,)
        What each of `support_vectors_` added to it, summed over the kernels.
    remainder : float
        The rest: constants, and what a linear view of the combination leaves out.
    columns : dict of column to float
        How much the score changes if a column has the value of the row instead of its mean. Columns of a table have
        names, those of a matrix numbers.
    values : dict of str to float
        Of a table with texts, or of whole numbers that act like categories: what values, pairs of them, words and parts
        of words added, such as "city=Oslo", "city=Oslo & day=3" and "note: 'late'". Empty for others.

    Examples
    --------
    >>> from bomkl import AutoMKLRegressor
    >>> rows = [{"day": ("Sunday", "Monday")[i % 2], "noise": i % 3} for i in range(40)]
    >>> model = AutoMKLRegressor(random_state=0).fit(rows, [float(i % 2) for i in range(40)])
    >>> max(model.explain({"day": "Monday", "noise": 1}).columns.items(), key=lambda item: item[1])[0]
    'day'
    """

    margin: float
    kernels: dict[str, float]
    rows: Float
    remainder: float
    columns: dict[Any, float]
    values: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the score and what mattered most, a line each."""
        lines = [f"score {self.margin:+.4g}"]
        for what, top in self._largest():
            width = max(len(str(name)) for name, _ in top)
            lines += [what, *(f"  {name!s:<{width}}  {value:+.4g}" for name, value in top)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [f'<tr><th scope="row">score</th><td>{self.margin:+.4g}</td></tr>']
        for what, top in self._largest():
            rows.append(f'<tr><th colspan="2">{what}</th></tr>')
            rows += [f'<tr><th scope="row">{escape(str(name))}</th><td>{value:+.4g}</td></tr>' for name, value in top]
        return "\n".join(["<table>", *rows, "</table>"])

    def _largest(self) -> Iterator[tuple[str, list[tuple[Any, float]]]]:
        """Yield the columns, values and kernels that mattered most, and what each added."""
        for what, parts in (("columns", self.columns), ("values", self.values), ("kernels", self.kernels)):
            if top := sorted((each for each in parts.items() if each[1]), key=lambda each: -abs(each[1]))[:_MOST_SHOWN]:
                yield what, top

    def largest_rows(self, n: int = 5) -> list[tuple[int, float]]:
        """Return the numbers of the n stored rows that mattered most, and what each added.

        Parameters
        ----------
        n : int, default=5
            How many.

        Returns
        -------
        list of (int, float)
        """
        order = np.argsort(-np.abs(self.rows), kind="stable")[:n]
        return [(int(i), float(self.rows[i])) for i in order]


def relevance_shares(geometry: Geometry) -> Float:
    """Share of each column in the squared slope of the score, over both views."""
    shares = []
    scale = two_valued_scale(geometry.sorted_columns.T)
    for relevance in geometry.relevance.values():
        slope = (relevance / scale) ** 4  # the relevance is its fourth root, over a floor
        slope -= slope.min()
        shares.append(slope / slope.sum() if slope.sum() > 0 else np.full(len(slope), 1 / len(slope)))
    return np.asarray(np.mean(shares, axis=0))


def explain_row(
    learner: RowLearner, x: Any, sign: float, columns: Sequence[Any], output: int | None = None
) -> Explanation:
    """Take the score of one row of a matrix apart."""
    output, margin = explained_margin(learner, x, sign, output)
    rows = np.zeros(len(learner.stored_rows()))
    kernels = dict.fromkeys(learner.names, 0.0)
    if learner.geometry is None:
        return Explanation(margin, kernels, rows, margin, {})
    slopes = sign * learner.combination.slopes() * learner.spread
    views = learner.views(dense_rows(x, 0, 1))
    for component, slope in zip(learner.components, slopes, strict=True):
        if isinstance(component, CurvedComponent):
            slope *= curve_slope(component.curve, float(component.inner.scorer()(views)[0, 0]))
            component = component.inner
        if not isinstance(component, NewtonComponent):
            parts = component.scorer()(views)[0]
            kernels[component.name] = float(slope * (parts[output] - (parts.mean() if len(parts) > 1 else 0.0)))
            continue
        features, rank = component.features, component.regression.rank
        means = component.regression.means()[:, :rank]
        if learner.task is Task.MULTICLASS:
            means = means - means.mean(axis=0)
        w = means[output]
        if isinstance(features, KernelFeatures):
            each = slope * features.values(views)[0] * (features.whitening() @ w[:-1])
            rows[features.support] += each
            kernels[component.name] = float(each.sum())
        else:
            kernels[component.name] = float(slope * (features(views)[0, : rank - 1] @ w[:-1]))
    parts = parts_of_columns(learner, learner.geometry.mean, dense_rows(x, 0, 1)[0], sign, output, columns)
    return Explanation(margin, kernels, rows, margin - sum(kernels.values()), parts)


def explained_margin(learner: Learner, x: Any, sign: float, output: int | None) -> tuple[int, float]:
    """Return which output is explained, and what there is to explain."""
    scores = sign * learner.scores(x)[0]
    if learner.task is not Task.MULTICLASS:
        return 0, float(scores[0])
    output = int(np.argmax(scores)) if output is None else output
    return output, float(scores[output] - scores.mean())


def parts_of_columns(
    learner: Learner, means: Float, x: Float, sign: float, output: int, columns: Sequence[Any]
) -> dict[Any, float]:
    """How much the score changes where a column has its mean instead, a group of columns at a time."""
    groups: dict[Any, list[int]] = {}
    for place, column in enumerate(columns):
        if column is not None:
            groups.setdefault(column, []).append(place)
    changed = np.repeat(x[None], len(groups) + 1, axis=0)
    for row, places in enumerate(groups.values(), 1):
        changed[row, places] = means[places]
    scores = sign * learner.scores(changed)
    if learner.task is Task.MULTICLASS:
        scores = scores - scores.mean(axis=1, keepdims=True)
    differences = scores[0, output] - scores[1:, output]
    return dict(zip(groups, differences.tolist(), strict=True))


def explain_wide_row(learner: WideLearner, x: Any, sign: float, output: int | None) -> Explanation:
    """Take a score apart: stored rows are those of the sketch, and the linear components add what columns add."""
    output, margin = explained_margin(learner, x, sign, output)
    kernels = dict.fromkeys(learner.names, 0.0)
    if learner.columns is None:
        return Explanation(margin, kernels, np.empty(0), margin, {})
    row, slopes = learner.scaled(x), learner.combination.slopes()
    part = explain_row(learner.kernels, learner.sketch(row), sign, [], output)
    kernels |= {name: float(slopes[0] * value) for name, value in part.kernels.items()}
    linear = learner.linear.scores(row)[0] - learner.linear.bias
    if learner.task is Task.MULTICLASS:
        linear = linear - linear.mean(axis=1, keepdims=True)
    for name, value in zip(learner.names[len(part.kernels) :], linear[:, output] * slopes[1:], strict=True):
        kernels[name] = float(sign * value * learner.spread)
    return Explanation(margin, kernels, slopes[0] * part.rows, margin - sum(kernels.values()), {})

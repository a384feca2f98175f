"""What a report says in plain words: the first lines, and what to do next."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

_IDLE = 0.02  # share of all importances below which a column may be left out


def first_words(model: Any, history: Any, linear: float | None) -> list[str]:
    """Say how good the model is, beside simple rules."""
    rows, error, loss, commonest, last, _ = history.spans.sum(axis=0)
    late = history.spans[len(history.spans) // 2 :].sum(axis=0)
    if history.regression:
        root, mean, before = (float(np.sqrt(each / rows)) for each in (loss, commonest, last))
        lines = [
            f"Predictions of {int(rows):,} rows are off by {error / rows:.4g} on average (root mean square "
            f"{root:.4g}), each made before the model had seen the target.",
            f"Always predicting the mean of the targets so far would be off by {mean:.4g} (root mean square), the last "
            f"target by {before:.4g}" + (f", a linear model by {linear:.4g}." if linear is not None else "."),
        ]
        now = float(np.sqrt(late[2] / late[0]))
        if len(history.spans) > 3:
            lines.append(f"On the second half of the rows the root mean square is {now:.4g}.")
        return lines + _order_words(model)
    share = [100 * each / rows for each in (error, commonest, last)]
    lines = [
        f"Wrong on {share[0]:.1f} of 100 rows, of {int(rows):,} in all; each was predicted before the model had seen "
        "its label.",
        f"Guessing the commonest class would be wrong on {share[1]:.1f}, repeating the last label on {share[2]:.1f}"
        + (f", a linear model on {100 * linear:.1f}." if linear is not None else "."),
    ]
    if len(history.spans) > 3:
        lines.append(f"On the second half of the rows it is wrong on {100 * late[1] / late[0]:.1f} of 100.")
    return lines + _order_words(model)


def _order_words(model: Any) -> list[str]:
    """Say that an order that is not random makes the figures look better than they are."""
    order = vars(model).get("_order")
    if order is None or not order.told:
        return []
    return ["The order of the rows is not random: for rows in another order, these figures can be far too good."]


def change_words(event: Any, dates: Container[Any] = ()) -> str:
    """Say what a change of the stream was, and which column has moved most; dates always move.

    Examples
    --------
    >>> from bomkl.auto.drift.events import DriftEvent
    >>> change_words(DriftEvent(1200, False, 5.3, {"model": 1.0}, {"day": 8.0, "size": 1.4}), {"day"})
    'Row 1,200: gradual; the last rows tell more than all rows do. Column size has moved by +1.4 standard deviations.'
    """
    what = "sudden; the error rose" if event.sudden else "gradual; the last rows tell more than all rows do"
    moved = [(name, by) for name, by in event.columns.items() if name not in dates]
    most = "".join(f" Column {name} has moved by {by:+.1f} standard deviations." for name, by in moved[:1])
    return f"Row {event.row:,}: {what}.{most}"


def next_steps(model: Any, history: Any, watch: Any, groups: list[Any], events: list[Any]) -> list[str]:
    """Say what to do next, by what was found."""
    order = vars(model).get("_order")
    steps = [order.message()] if order is not None and order.told else []
    rows, error, _, commonest, *_ = history.spans.sum(axis=0)
    if rows < 1000:
        steps.append("There are few rows. Every figure here will change with more of them.")
    base = np.sqrt(commonest / rows) if history.regression else commonest / rows
    own = np.sqrt(history.spans[:, 2].sum() / rows) if history.regression else error / rows
    if own > 0.95 * base:
        steps.append("The model is hardly better than a constant: look for columns that tell more about the target.")
    half = len(history.spans) // 2
    if half > 2:
        early, late = (
            part[:, 1].sum() / part[:, 0].sum()
            for part in (history.spans[half : -half // 2], history.spans[-half // 2 :])
        )
        if late < 0.9 * early:
            steps.append("The error is still falling: more rows will help.")
        elif late > 1.25 * early:
            steps.append("The error has risen of late: see whether the stream has changed.")
    means, deviations = model._measured()
    if means is not None:
        names = model._column_names()
        most = means + 2 * np.nan_to_num(deviations, nan=np.inf)
        idle = [str(names[at]) for at in np.flatnonzero(most < _IDLE * np.maximum(means, 0.0).sum())]
        if 0 < len(idle) < len(names):
            shown = ", ".join(idle[:6]) + (f" and {len(idle) - 6} others" if len(idle) > 6 else "")
            steps.append(f"Columns that may be left out, as they tell next to nothing: {shown}.")
    if watch is not None:
        gaps = [str(name) for name, each in watch.columns.items() if each.rows and each.missing > 0.3 * each.rows]
        if gaps:
            steps.append(f"More than 30 of 100 values are missing in {', '.join(gaps[:6])}: find out why.")
        if watch.odd:
            steps.append("Check the labels of the rows listed as odd, by hand.")
    if groups:
        steps.append(f"Collect more rows, or more columns, about {groups[0].column}: {groups[0].value}.")
    if events:
        steps.append("The stream changes: let the model go on learning, and look at the columns that moved.")
    return steps or ["Nothing stands out. Use the model, and let it go on learning."]

"""Pictures of a model: its error along the stream, its calibration, its columns and the drift it noticed.

Each function draws into axes, and says in words what it shows; reports use both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bomkl.auto.estimators.uncertainty import LEVELS
from bomkl.auto.insight.effects import Effect
from bomkl.auto.insight.history import History
from bomkl.auto.insight.words import text_columns
from bomkl.plots import wilson_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, GREY = "#3b7dd8", "#d9822b", "#2c9c69", "#c43d3d", "#8a8f98"  # readable on white and on black
_MOST_BARS = 20
MOST_CLASSES = 30  # of a confusion matrix


def history_of(model: Any) -> History:
    """Return what a model remembers of its predictions; raises ValueError if that is nothing."""
    history: History | None = vars(model).get("_history")
    if history is None or not (history.rows or history.undigested):
        raise ValueError("This model remembers no predictions: it was saved by an earlier version. Let it learn more.")
    return history.settled()


def draw_learning(model: Any, ax: Axes) -> str:
    """Draw the error along the stream, with a band, beside simple rules."""
    history = history_of(model)
    rows, error, loss, commonest, last, squares = history.curve().T
    ends = np.cumsum(rows)
    middle = ends - rows / 2
    if history.regression:
        values, names = np.sqrt(np.stack([loss, commonest, last]) / rows), ("this model", "mean so far", "last target")
        spread = np.sqrt(np.maximum(squares / rows - (loss / rows) ** 2, 0) / rows)
        low, high = (np.sqrt(np.maximum(loss / rows + side * 1.96 * spread, 0)) for side in (-1, 1))
        ax.set_ylabel("root mean squared error")
    else:
        values = 100 * np.stack([error, commonest, last]) / rows
        names = ("this model", "commonest class so far", "last label")
        low, high = (100 * each for each in wilson_interval(error / rows, rows))
        ax.set_ylabel("wrong of 100 rows")
    for line, name, colour in zip(values[1:], names[1:], (GREY, ORANGE), strict=True):
        ax.plot(middle, line, color=colour, linewidth=1, label=name)
    ax.fill_between(middle, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 % band")
    ax.plot(middle, values[0], color=BLUE, linewidth=1.8, marker="o" if len(rows) < 3 else None, label=names[0])
    if (linear := linear_error(model)) is not None:
        level = linear if history.regression else 100 * linear
        ax.axhline(level, color=GREEN, linestyle="--", linewidth=1, label="linear model, all rows")
    ax.set_ylim(0, 1.15 * float(np.quantile(values, 0.98)) or 1)
    ax.set_xlabel("row of the stream")
    ax.locator_params("x", nbins=6)
    _legend(ax)
    parts = np.array_split(np.arange(len(rows)), min(3, len(rows)))
    weights = [np.average(values[0, part], weights=rows[part]) for part in parts]
    unit = "" if history.regression else " of 100"
    return (
        f"Error of the model along {int(ends[-1]):,} rows. First part {weights[0]:.3g}{unit}, last part "
        f"{weights[-1]:.3g}{unit}."
    )


def _legend(ax: Axes) -> None:
    """Name the lines above the picture; the label tells reports where to leave room."""
    near = {"ncols": 3, "columnspacing": 1.0, "handlelength": 1.4}
    legend = ax.legend(fontsize="small", frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), **near)
    legend.set_label("above")


def linear_error(model: Any) -> float | None:
    """Share of mistakes or root mean squared error of the linear component; None without one that reads all columns."""
    names = [member.name for member in model.kernels_]
    if "linear" not in names or model.n_seen_ < 64 or text_columns(model._sample(), model._hashed_names()):
        return None
    error = float(model.component_errors_[names.index("linear")])
    return error**0.5 if not hasattr(model, "classes_") else error


def draw_calibration(model: Any, ax: Axes) -> str:
    """Draw how often what was predicted with some probability came true, or how many targets lay in intervals."""
    history = history_of(model)
    ax.plot([0, 100], [0, 100], color=GREY, linewidth=1, linestyle="--", label="as predicted")
    if history.regression:
        errors = vars(model).get("_errors")
        if errors is None or not errors.judged:
            raise ValueError("This model has no intervals yet.")
        share = 100 * errors.inside / errors.judged
        ax.plot(100 * LEVELS, share, color=BLUE, marker="o", label="found")
        ax.set(xlabel="coverage asked for, %", ylabel="targets inside, %", xlim=(45, 102), ylim=(45, 102))
        words = ", ".join(f"{100 * level:.0f} %: {value:.1f} %" for level, value in zip(LEVELS, share, strict=True))
        said = f"Targets inside intervals, by the coverage asked for: {words}."
    else:
        count, total, true = history.bins[history.bins[:, 0] >= 5].T
        low, high = wilson_interval(true / count, count)
        ax.vlines(100 * total / count, 100 * low, 100 * high, color=BLUE, alpha=0.5)
        ax.plot(100 * total / count, 100 * true / count, color=BLUE, marker="o", label="found, with 95 % bars")
        what = f"class {model.classes_[-1]}" if len(model.classes_) == 2 else "the predicted class"
        ax.set(xlabel=f"probability of {what}, %", ylabel="came true, %", xlim=(-2, 102), ylim=(-2, 102))
        gap = np.sum(np.abs(true - total)) / max(count.sum(), 1)
        said = f"Predicted probabilities and what came true differ by {100 * gap:.1f} percentage points on average."
    ax.legend(fontsize="small", frameon=False)
    return said


def draw_importances(model: Any, ax: Axes) -> str:
    """Draw what shuffling each column would cost."""
    means, deviations = model._measured(of_errors=True)
    if means is None:
        raise ValueError("No column has been measured yet: that needs 96 rows and update='rows'.")
    regression = not hasattr(model, "classes_")
    order = [at for at in np.argsort(-means, kind="stable")[:_MOST_BARS] if not np.isnan(deviations[at])]
    scale = 1 if regression else 100
    names = [_short(model._column_names()[at]) for at in order]
    places = np.arange(len(order))[::-1]
    ax.barh(places, scale * means[order], xerr=2 * scale * deviations[order], color=BLUE, ecolor=GREY)
    ax.set_yticks(places, names)
    ax.axvline(0, color=GREY, linewidth=1)
    ax.set_xlabel("rise of the mean absolute error" if regression else "more errors of 100 rows")
    sure = [f"{names[i]} ({scale * means[at]:+.3g})" for i, at in enumerate(order) if means[at] > 2 * deviations[at]]
    return (
        "Columns whose values matter beyond doubt, with what shuffling them adds: " + (", ".join(sure) or "none") + "."
    )


def draw_effect(effect: Effect, ax: Axes, outputs: list[str]) -> str:
    """Draw what the model predicts along a column."""
    mean, low, high = ((100 if outputs else 1) * each.T for each in (effect.means, effect.low, effect.high))
    dates = effect.is_number and effect.values.dtype.kind == "M"
    for at, colour in enumerate((BLUE, ORANGE, GREEN)[: len(mean)]):
        name = outputs[at] if outputs else "prediction"
        if dates:  # no line: the rows that are known come from few times, and it would tell of those in between
            ax.vlines(effect.values, low[at], high[at], color=colour, alpha=0.15)
            ax.plot(effect.values, mean[at], ".", color=colour, label=name)
        elif effect.is_number:
            ax.fill_between(effect.values, low[at], high[at], color=colour, alpha=0.15, lw=0)
            ax.plot(effect.values, mean[at], color=colour, marker=".", label=name)
        else:
            places = np.arange(len(effect.values))[::-1] - 0.25 * at
            ax.barh(places, mean[at], 0.25 if len(mean) > 1 else 0.7, color=colour, label=name)
    what = "prediction" if not outputs else "probability, %"
    if len(outputs) == 1:
        what = f"probability of {_short(outputs[0], 12)}, %"
    if effect.is_number:
        ax.set(xlabel=_short(effect.name), ylabel=what)
        if dates:
            _as_dates(ax)
    else:
        ax.set_yticks(np.arange(len(effect.values))[::-1], [_short(value, 24) for value in effect.values])
        ax.set_xlabel(what)
        ax.set_title(_short(effect.name), fontsize="medium", loc="left")
    if len(outputs) > 1:
        ax.legend(title="class", fontsize="small", title_fontsize="small", frameon=False)
    shown = [f"{value:.4g}" if isinstance(value, float) else _cut(value, 40) for value in list(effect.values)]
    ends = [f"{mean[0][at]:.3g}{' %' if outputs else ''} at {shown[at]}" for at in (mean[0].argmin(), mean[0].argmax())]
    what = f"probability of {outputs[0]}" if outputs else "prediction"
    return f"{effect.name}: the {what} goes from {ends[0]} to {ends[1]}."


def _as_dates(ax: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def draw_drift(model: Any, ax: Axes) -> str:
    """Draw where the stream changed, on the error along it."""
    draw_learning(model, ax)
    events = model.drift_
    for sudden, name, style in ((True, "sudden change", ":"), (False, "gradual change", "-.")):
        rows = [event.row for event in events if event.sudden == sudden]
        for row in rows:
            ax.axvline(row, color=RED, linewidth=1.2, linestyle=style, label=name if row == rows[0] else None)
    _legend(ax)
    if not events:
        looks = model._follows_drift
        return "No change of the stream was noticed." if looks else "The model does not note changes of the stream."
    noticed = "1 change was" if len(events) == 1 else f"{len(events)} changes were"
    return f"{noticed} noticed, the last at row {events[-1].row:,}."


def draw_confusion(model: Any, ax: Axes) -> str:
    """Draw which classes are taken for which."""
    history = history_of(model)
    labels = model._labels.tolist()
    counts = history.confusion
    if not len(counts):
        raise ValueError("There are too many classes for a picture.")
    order = np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_CLASSES]
    order = order[np.argsort(model._labels[order], kind="stable")]
    shown = counts[np.ix_(order, order)]
    share = 100 * shown / np.maximum(counts.sum(axis=1)[order, None], 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    names = [_short(labels[at]) for at in order]
    ax.set_xticks(range(len(order)), names, rotation=90 if len(order) > 6 else 0)
    ax.set_yticks(range(len(order)), names)
    if len(order) <= 12:
        for i in range(len(order)):
            for j in range(len(order)):
                colour = "white" if share[i, j] > 55 else "black"
                ax.text(j, i, f"{shown[i, j]:,}", ha="center", va="center", color=colour, fontsize="small")
    ax.set(xlabel="predicted", ylabel="true")
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    worst = np.dstack(np.unravel_index(np.argsort(-wrong, axis=None, kind="stable")[:3], wrong.shape))[0]
    pairs = [f"{labels[i]} taken for {labels[j]} ({wrong[i, j]:,} times)" for i, j in worst if wrong[i, j]]
    return ("Most frequent confusions: " + ", ".join(pairs) + ".") if pairs else "No row was taken for another class."


def draw_residuals(model: Any, ax: Axes) -> str:
    """Draw predictions beside targets, of a sample of the rows."""
    _, y, predicted = history_of(model).pairs.T
    ax.scatter(y, predicted, s=8, color=BLUE, alpha=0.5, linewidths=0)
    low, high = float(min(y.min(), predicted.min())), float(max(y.max(), predicted.max()))
    ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle="--")
    ax.set(xlabel="target", ylabel="prediction")
    off = np.quantile(predicted - y, [0.1, 0.5, 0.9])
    return (
        f"Of {len(y)} sampled rows, the prediction less the target is between "
        f"{off[0]:.3g} and {off[2]:.3g} for 80 %, in the middle {off[1]:.3g}."
    )


def _short(name: Any, longest: int = 32) -> str:
    """Names as matplotlib shows them: short, and dollars are no formulas."""
    return _cut(name, longest).replace("$", r"\$")


def _cut(name: Any, longest: int) -> str:
    text = str(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"

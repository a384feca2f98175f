"""Plots of a stream: the error, the kernels and their support vectors along it, and decision surfaces.

matplotlib is needed (``pip install '.[plots]'``) and imported only when a plot is drawn. Every function draws into
the axes it is given, or into a new figure, and returns the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from bomkl._support.extras import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN_KERNELS = 6  # lines that can still be told apart
_CONFIDENCE = 1.96  # standard deviations of a 95 % band


class Record(Protocol):
    """What a plot needs of a record of progress; `bomkl.evaluate.Progress` is one."""

    @property
    def rows(self) -> int:
        """Rows seen so far."""

    @property
    def error(self) -> float:
        """Mean error of all of them."""

    @property
    def error_since_last(self) -> float:
        """Mean error of those since the record before."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels."""

    @property
    def kernel_weights(self) -> tuple[float, ...]:
        """Weight of each."""

    @property
    def kernel_support(self) -> tuple[int, ...]:
        """Support vectors of each."""


def plot_progress(records: Sequence[Record]) -> Figure:
    """Draw the course of a stream: error, kernel weights and support vectors, one below the other.

    Parameters
    ----------
    records : sequence of Progress
        From `bomkl.evaluate`: `progressive_validation`, or `read_progress` for a file.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import BudgetMKLClassifier
    >>> from bomkl.evaluate import progressive_validation
    >>> blocks = [make_moons(500, noise=0.2, random_state=0)]
    >>> figure = plot_progress(list(progressive_validation(BudgetMKLClassifier(random_state=0), blocks)))
    >>> len(figure.axes)
    3
    """
    figure = new_figure((8.0, 8.0))
    error, weights, support = figure.subplots(3, 1, sharex=True)
    plot_error(records, ax=error)
    plot_kernel_weights(records, ax=weights)
    plot_support(records, ax=support)
    for upper in (error, weights):
        upper.set_xlabel("")
    return figure


def plot_error(records: Sequence[Record], ax: Axes | None = None) -> Figure:
    """Draw the progressive error with a 95 % confidence band, and the error from record to record.

    The band is Wilson's interval for a share; it is left out where errors exceed 1, as those of regression may.

    Parameters
    ----------
    records : sequence of Progress
        From `bomkl.evaluate`: `progressive_validation`, or `read_progress` for a file.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw into. None: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, ax = new_axes(ax)
    rows, errors = _column(records, "rows"), _column(records, "error")
    ax.plot(rows, _column(records, "error_since_last"), color="0.7", marker=".", label="since the last record")
    ax.plot(rows, errors, color="C0", marker=".", label="so far")
    if errors.max() <= 1:
        low, high = wilson_interval(errors, rows)
        ax.fill_between(rows, low, high, color="C0", alpha=0.2, linewidth=0, label="95 % confidence")
    _finish(ax, "progressive error", rows)
    return figure


def plot_kernel_weights(records: Sequence[Record], ax: Axes | None = None) -> Figure:
    """Draw the weight of the kernels along the stream; those that never weigh much share one line.

    It takes and returns what `plot_error` does.
    """
    return _plot_kernels(records, "kernel_weights", "kernel weight", ax)


def plot_support(records: Sequence[Record], ax: Axes | None = None) -> Figure:
    """Draw the support vectors of the kernels along the stream; the kernels with the fewest share one line.

    It takes and returns what `plot_error` does.
    """
    return _plot_kernels(records, "kernel_support", "support vectors", ax)


def plot_kernels(estimator: Any, ax: Axes | None = None) -> Figure:
    """Draw the kernels of a fitted estimator: the weight of each, and its support vectors.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this package.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw into. None: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, ax = new_axes(ax)
    weights = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
    support = np.atleast_2d(estimator.n_support_).sum(axis=0)
    names = [f"{kernel} ({count} SVs)" for kernel, count in zip(estimator.kernels_, support, strict=True)]
    ax.barh(range(len(names)), weights, color="C0")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("kernel weight")
    return figure


def plot_decision(estimator: Any, X: Any, y: Any, ax: Axes | None = None, resolution: int = 100) -> Figure:
    """Draw what a model of two features predicts everywhere, and rows on top.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier or regressor with two features.
    X : array-like of shape (n_samples, 2)
        Rows to show; they also set the limits.
    y : array-like of shape (n_samples,)
        Their labels or targets.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw into. None: a new figure.
    resolution : int, default=100
        Number of points along each side where the model predicts.

    Returns
    -------
    matplotlib.figure.Figure
    """
    columns = [str(name) for name in getattr(estimator, "feature_names_in_", ("first column", "second column"))]
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"A decision surface needs rows of two features. Got an array of shape {X.shape} instead.")
    figure, ax = new_axes(ax)
    margin = 0.1 * np.maximum(np.ptp(X, axis=0), 1e-12)
    low, high = X.min(axis=0) - margin, X.max(axis=0) + margin
    across, up = np.meshgrid(*(np.linspace(low[side], high[side], resolution) for side in (0, 1)))
    grid = np.column_stack([across.ravel(), up.ravel()])
    classes = getattr(estimator, "classes_", None)
    if classes is None or len(classes) == 2:
        ask = estimator.predict if classes is None else estimator.decision_function
        values = ask(grid).reshape(across.shape)
        surface = ax.contourf(across, up, values, levels=20, cmap="RdBu_r", alpha=0.6)
        figure.colorbar(surface, ax=ax, label="prediction" if classes is None else "margin")
        if classes is not None and values.min() < 0 < values.max():
            ax.contour(across, up, values, levels=[0.0], colors="black")
    else:
        values = estimator.decision_function(grid).argmax(axis=1).reshape(across.shape)
        ax.contourf(
            across, up, values, levels=np.arange(len(classes) + 1) - 0.5, cmap="tab10", vmin=0, vmax=9, alpha=0.3
        )
    if classes is None:
        ax.scatter(X[:, 0], X[:, 1], c=y, cmap="RdBu_r", s=10, edgecolors="black", linewidths=0.3)
    else:
        for number, label in enumerate(classes):
            of_label = X[y == label]
            colour = ("C0", "C3")[number] if len(classes) == 2 else f"C{number % 10}"  # two: as the surface below
            ax.scatter(of_label[:, 0], of_label[:, 1], color=colour, s=10, label=str(label))
        ax.legend(loc="upper right", fontsize="small")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=columns[0], ylabel=columns[1])
    return figure


def wilson_interval(share: Any, rows: Any) -> tuple[Any, Any]:
    """Give Wilson's 95 % confidence interval for a share of some rows.

    Parameters
    ----------
    share : float or ndarray
        The share, in [0, 1].
    rows : int or ndarray
        Of how many.

    Returns
    -------
    low, high : float or ndarray
        The ends of the interval.

    Examples
    --------
    >>> low, high = wilson_interval(0.0, 10)
    >>> round(float(low), 3), round(float(high), 3)
    (0.0, 0.278)
    """
    share, rows = np.asarray(share, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    square = _CONFIDENCE**2
    centre = share + square / (2 * rows)
    half = _CONFIDENCE * np.sqrt(share * (1 - share) / rows + square / (4 * rows**2))
    below = 1 + square / rows
    return np.maximum((centre - half) / below, 0.0), np.minimum((centre + half) / below, 1.0)


def _plot_kernels(records: Sequence[Record], name: str, title: str, ax: Axes | None) -> Figure:
    figure, ax = new_axes(ax)
    rows = _column(records, "rows")
    kernels = records[0].kernels
    if any(record.kernels != kernels for record in records):
        raise ValueError("The records are of runs with different kernels.")
    values = np.array([getattr(record, name) for record in records], dtype=np.float64).reshape(len(rows), -1)
    # The kernels of the largest weights, so that all panels show the same ones in the same colours
    weights = np.array([record.kernel_weights for record in records]).reshape(len(rows), -1).max(axis=0)
    order = np.argsort(-weights, kind="stable")
    shown, others = (order, order[:0]) if len(order) <= _SHOWN_KERNELS else np.split(order, [_SHOWN_KERNELS - 1])
    for rank, number in enumerate(shown):
        ax.plot(rows, values[:, number], color=f"C{rank}", marker=".", label=kernels[number])
    if len(others):
        ax.plot(rows, values[:, others].sum(axis=1), color="0.7", marker=".", label=f"{len(others)} others together")
    _finish(ax, title, rows)
    return figure


def _column(records: Sequence[Record], name: str) -> Any:
    if not records:
        raise ValueError("There are no records to plot.")
    return np.array([getattr(record, name) for record in records])


def _finish(ax: Axes, title: str, rows: Any) -> None:
    ax.set_xlabel("rows")
    ax.set_ylabel(title)
    ax.set_ylim(bottom=0)
    if rows[-1] > 20 * rows[0]:  # records at doubling distances
        ax.set_xscale("log")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False
        )  # beside the last values


def new_axes(ax: Axes | None) -> tuple[Figure, Axes]:
    """Return axes to draw into, those given or new ones, and their figure."""
    if ax is not None:
        return cast("Figure", ax.figure), ax
    figure = new_figure((8.0, 4.0))
    return figure, figure.subplots()


def new_figure(size: tuple[float, float]) -> Figure:
    """Make a figure of some inches."""
    # A figure of its own, not one of pyplot's: it needs no screen, and nobody has to close it.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"Plots need matplotlib. {install_hint('plots')}") from error
    return Figure(figsize=size, layout="constrained")

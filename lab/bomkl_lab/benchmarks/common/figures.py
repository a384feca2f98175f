"""The pictures of the report on speed, each from the rows of one benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from bomkl_lab.benchmarks.common.rows import Row
from bomkl_lab.experiments.figures import ALGORITHM_ORDER, COLOURS, DASHES, MARKERS

WIDTH = 9.0


def style(index: int, **more: Any) -> dict[str, Any]:
    """Colour and marker of the index-th line."""
    look = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
    return look | {"markersize": 5, "linewidth": 1.3} | more


def whole_decades(axis: Axes) -> None:
    """Label the powers of ten only; labels in between run into each other."""
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())


def distinct(rows: Iterable[Row], field: str) -> list[Any]:
    """Values of a field in the order of their first row."""
    return list(dict.fromkeys(row[field] for row in rows))


def roofline(rows: list[Row]) -> Figure:
    """Fraction of the limit against the size of the pool, a line for each d."""
    dense = [row for row in rows if "fraction" in row]
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    kinds = distinct(dense, "kernels")
    axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False).ravel()
    for axis, kernels in zip(axes, kinds, strict=True):
        for i, d in enumerate(sorted(distinct(dense, "d"))):
            for path, dash in (("fused", "-"), ("decision_function", ":")):
                line = [row for row in dense if (row["kernels"], row["d"], row["path"]) == (kernels, d, path)]
                label = f"d = {d}" if path == "fused" else None
                x, y = [row["pool"] for row in line], [100 * row["fraction"] for row in line]
                axis.plot(x, y, label=label, **style(i, linestyle=dash))
        axis.axhline(100, color="#555555", linewidth=0.8)
        axis.set(title=kernels, xscale="log", xlabel="stored rows")
    axes[0].set(ylabel="% of the core's limit", ylim=(0, 105 * max(1.0, *(row["fraction"] for row in dense))))
    axes[-1].plot([], [], color="#555555", linestyle=":", label="decision_function")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def end_to_end(rows: list[Row]) -> Figure:
    """Rows per second of each algorithm, a line for each data set; hollow where the stream was cut."""
    datasets = distinct(rows, "dataset")
    figure = Figure(figsize=(WIDTH, 0.9 + 0.5 * len(datasets)), layout="constrained")
    axis = figure.subplots()
    for i, algorithm in enumerate(ALGORITHM_ORDER):
        for row in (row for row in rows if row["algorithm"] == algorithm):
            whole = row["rows"] == row["of_rows"]
            place = datasets.index(row["dataset"]) + 0.06 * (i - 4)  # apart, where speeds are alike
            look = style(i, linestyle="none") | ({} if whole else {"markerfacecolor": "white"})
            axis.plot(row["rows_per_second"], place, **look)
        axis.plot([], [], label=algorithm, **style(i, linestyle="none"))
    axis.plot(
        [], [], label="beginning of the stream only", **style(6, marker="o", linestyle="none", markerfacecolor="white")
    )
    axis.set(xscale="log", xlabel="rows learned per second", yticks=range(len(datasets)), yticklabels=datasets)
    axis.invert_yaxis()
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def growth(rows: list[Row]) -> Figure:
    """Seconds against size, a panel for what grows, the exponent beside each name."""
    exponents = {(row["along"], row["series"]): row for row in rows if "exponent" in row}
    points = [row for row in rows if "seconds" in row]
    kinds = distinct(points, "along")
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False).ravel()
    for axis, along in zip(axes, kinds, strict=True):
        chosen = [row for row in points if row["along"] == along]
        for i, name in enumerate(distinct(chosen, "series")):
            line = [row for row in chosen if row["series"] == name]
            fit = exponents[along, name]
            against = " (rows x support)" if fit["against"] == "rows x support" and along == "rows" else ""
            label = f"{name}: {fit['exponent']:.2f}{against}"
            x, y = [row["size"] for row in line], [row["seconds"] for row in line]
            axis.plot(x, y, label=label, **style(i, linestyle=DASHES[i % len(DASHES)]))
        axis.set(xscale="log", yscale="log", xlabel=along if along != "budget" else "budget of each kernel")
        axis.set_title(f"along {along}")
        whole_decades(axis)
        axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=7.5)
    axes[0].set_ylabel("seconds")
    return figure


def speed_peers(rows: list[Row]) -> Figure:
    """Mistakes against seconds, a panel for each data set."""
    ran = [row for row in rows if "seconds" in row]
    datasets, methods = distinct(ran, "dataset"), distinct(ran, "method")
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots(1, len(datasets), sharex=True, squeeze=False).ravel()
    for axis, dataset in zip(axes, datasets, strict=True):
        for row in (row for row in ran if row["dataset"] == dataset):
            microseconds, percent = 1e6 / row["rows_per_second"], 100 * row["mistakes"]
            look = style(methods.index(row["method"]), linestyle="none", markersize=8)
            axis.plot(microseconds, percent, label=row["method"], **look)
        axis.set(title=dataset, xscale="log", xlabel="microseconds a row")
        axis.margins(0.15)
        whole_decades(axis)
    axes[0].set_ylabel("mistakes (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(methods), frameon=False)
    return figure


FIGURES: dict[str, Callable[[list[Row]], Figure]] = {
    "roofline": roofline,
    "end_to_end": end_to_end,
    "growth": growth,
    "speed_peers": speed_peers,
}

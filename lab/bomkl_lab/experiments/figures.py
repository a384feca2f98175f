"""Figure 1 of the paper, and the curves it only describes. As SVG and PNG; lines differ in colour, marker and dash."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bomkl_lab.experiments.protocol import (
    BUDGET_RIVALS,
    FIGURE_ALPHAS,
    FIGURE_BETAS,
    FIGURE_BETAS_COMPARED,
    FIGURE_DATASET,
    SPA,
    Cell,
    make_cell,
    rival_budget,
)
from bomkl_lab.experiments.published import Summary
from bomkl_lab.experiments.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart under every common kind of colour blindness; olive for its yellow, and grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D00", "#888888")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
DASHES = ("-", "--", "-.", ":")
ALGORITHM_ORDER = ("BOMKC(SPA)", *BUDGET_RIVALS, "Perceptron(*)", "OMKC(U)", "OMKC(DD)", "OMKC(SD)")
SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "bomkl",  # the same figure gives the same file
}

Quantity = Callable[[Row], float]


def mistake_percent(row: Row) -> float:
    """Return a row's mistake rate in percent."""
    return float(100 * row["mistakes"] / row["rows"])


def support(row: Row) -> float:
    """Return a row's support vectors over all kernels."""
    return float(row["support"])


def seconds(row: Row) -> float:
    """Return a row's learning time."""
    return float(row["seconds"])


def summarise(
    rows: Mapping[str, Row], cells: Callable[[int], Cell], seeds: Sequence[int], what: Quantity
) -> Summary | None:
    """Summarise a quantity over the permutations of a cell that have a good row; None if there are none."""
    found = [rows.get(cells(seed).key()) for seed in seeds]
    values = [what(row) for row in found if row and row["status"] == "ok"]
    return Summary.of(values) if values else None


def _spa(alpha: float, beta: float) -> Callable[[int], Cell]:
    return lambda seed: make_cell(FIGURE_DATASET, SPA, seed, parameters={"alpha": alpha, "beta": beta})


def spa_support_by_beta(rows: Mapping[str, Row], seeds: Sequence[int]) -> dict[float, float]:
    """Return SPA's mean support at alpha = 1 for each beta of Figure 1 (e) and (f)."""
    found = {beta: summarise(rows, _spa(1.0, beta), seeds, support) for beta in FIGURE_BETAS_COMPARED}
    return {beta: summary.mean for beta, summary in found.items() if summary}


def _style(index: int) -> dict[str, Any]:
    # Where the colours start again, marker and dash are shifted, so that no two lines look the same.
    turn = index // len(COLOURS)
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[(index + 3 * turn) % len(MARKERS)],
        "linestyle": DASHES[(index + turn) % len(DASHES)],
        "markersize": 4,
        "linewidth": 1.3,
    }


def _algorithm_style(algorithm: str, others: Sequence[str] = ()) -> dict[str, Any]:
    return _style([*ALGORITHM_ORDER, *others].index(algorithm))


def _grid(count: int, columns: int, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    lines = -(-count // columns)
    figure = Figure(figsize=(9.0, height * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, list(axes[:count])


def figure1(rows: Mapping[str, Row], seeds: Sequence[int]) -> Figure:
    """Draw Figure 1 (a) to (f): the impact of alpha and beta on a9a.

    Parameters
    ----------
    rows : mapping
        Rows of the results file, by cell key.
    seeds : sequence of int
        Permutations to average over.

    Returns
    -------
    Figure
        Six panels in the paper's order.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    room_for_a_right_scale = ConstrainedLayoutEngine(w_pad=0.1, wspace=0.06)
    figure = Figure(figsize=(9.6, 6.4), layout=room_for_a_right_scale)
    upper, lower = figure.subfigures(2, 1, squeeze=False).ravel()
    axes = [*upper.subplots(1, 3), *lower.subplots(1, 3)]
    panels = (
        ("(a) Mistake rate", "mistakes (%)", mistake_percent),
        ("(b) The number of SVs", "SVs", support),
        ("(c) Time cost", "time (s)", seconds),
    )
    for axis, (title, label, what) in zip(axes[:3], panels, strict=True):
        for index, beta in enumerate(FIGURE_BETAS):
            points = {
                alpha: summarise(rows, _spa(alpha, beta), seeds, what) for alpha in FIGURE_ALPHAS if alpha <= beta
            }
            _plot(axis, points, index, rf"$\beta$ = {beta:g}")
        axis.set(title=title, xlabel=r"$\alpha$", ylabel=label)
    upper.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(FIGURE_BETAS))
    _panel_support_and_mistakes(axes[3], rows, seeds)
    for axis, title, label, what in (
        (axes[4], r"(e) $\beta$ and mistake rate", "mistakes (%)", mistake_percent),
        (axes[5], r"(f) $\beta$ and time cost", "time (s)", seconds),
    ):
        _panel_rivals(axis, rows, seeds, what)
        axis.set(title=title, xlabel=r"$\beta$ (rivals: same SVs)", ylabel=label)
    lower.legend(*axes[4].get_legend_handles_labels(), loc="outside lower center", ncols=1 + len(BUDGET_RIVALS))
    return figure


def _plot(axis: Axes, points: Mapping[float, Summary | None], index: int, label: str) -> None:
    known = {x: summary for x, summary in points.items() if summary}
    means, deviations = [s.mean for s in known.values()], [s.std for s in known.values()]
    axis.errorbar(list(known), means, yerr=deviations, label=label, capsize=2, elinewidth=0.8, **_style(index))


def _panel_support_and_mistakes(axis: Axes, rows: Mapping[str, Row], seeds: Sequence[int]) -> None:
    right = axis.twinx()
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    for where, what, index, label in ((axis, support, 0, "SVs"), (right, mistake_percent, 1, "mistakes (%)")):
        points = {beta: summarise(rows, _spa(1.0, beta), seeds, what) for beta in FIGURE_BETAS_COMPARED}
        _plot(where, points, index, label)
        where.set_ylabel(label, color=COLOURS[index])
    axis.set(title=r"(d) $\beta$, SVs and mistake rate", xlabel=r"$\beta$")


def _panel_rivals(axis: Axes, rows: Mapping[str, Row], seeds: Sequence[int], what: Quantity) -> None:
    spa = {beta: summarise(rows, _spa(1.0, beta), seeds, what) for beta in FIGURE_BETAS_COMPARED}
    _plot(axis, spa, 0, "SPA")
    budgets = {beta: rival_budget(total) for beta, total in spa_support_by_beta(rows, seeds).items()}
    for index, rival in enumerate(BUDGET_RIVALS, start=1):
        points = {beta: summarise(rows, _rival(rival, budget), seeds, what) for beta, budget in budgets.items()}
        _plot(axis, points, index, rival.removeprefix("BOMKC(").removesuffix(")"))


def _rival(rival: str, budget: int) -> Callable[[int], Cell]:
    return lambda seed: make_cell(FIGURE_DATASET, rival, seed, budget)


def mistake_curves(rows_by_dataset: Mapping[str, Mapping[str, Sequence[Row]]]) -> Figure:
    """Draw the mistake rate along the stream, one panel a data set, one line an algorithm.

    Parameters
    ----------
    rows_by_dataset : mapping
        Data set, then algorithm, then its rows.

    Returns
    -------
    Figure
        Means over permutations.
    """
    figure, axes = _grid(len(rows_by_dataset), 3, 2.7)
    names = dict.fromkeys(name for group in rows_by_dataset.values() for name in group)
    others = [name for name in names if name not in ALGORITHM_ORDER]
    handles: dict[str, Any] = {}
    for axis, (dataset, groups) in zip(axes, rows_by_dataset.items(), strict=True):
        for algorithm, rows in groups.items():
            grid = np.array(rows[0]["curve"]["rows"])
            rate = 100 * np.mean([row["curve"]["mistakes"] for row in rows], axis=0) / grid
            style = _algorithm_style(algorithm, others) | {"markevery": max(1, len(grid) // 8)}
            (handles[algorithm],) = axis.plot(grid, rate, label=algorithm, **style)
        _limit_to_late_part(axis)
        axis.set(title=dataset, xlabel="rows", ylabel="mistakes (%)")
        axis.locator_params(axis="x", nbins=4)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    return figure


def _limit_to_late_part(axis: Axes) -> None:
    """Let the last nine tenths of the curves set the scale: the first rows are pure noise."""
    late = [np.asarray(line.get_ydata())[len(line.get_xdata()) // 10 :] for line in axis.get_lines()]  # type: ignore[arg-type]
    values = np.concatenate(late)
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 1.0
    axis.set_ylim(low - margin, high + margin)


def weight_curves(rows: Mapping[str, Row], shown: int = 4) -> Figure:
    """Draw BOMKC(SPA)'s kernel weights along the stream, one panel a data set.

    Parameters
    ----------
    rows : mapping of str to row
        For each data set a row with ``weights_curve``.
    shown : int, default=4
        Number of kernels that get a colour: those with the largest weight at any time.

    Returns
    -------
    Figure
        Weights against rows.
    """
    figure, axes = _grid(len(rows), 3, 2.5)
    for axis, (dataset, row) in zip(axes, rows.items(), strict=True):
        rows_seen, weights = row["weights_curve"]["rows"], np.array(row["weights_curve"]["weights"])
        largest = np.argsort(-weights.max(axis=0), kind="stable")
        for rank, kernel in enumerate(largest):
            if rank < shown:
                style = _style(rank) | {"markevery": max(1, len(weights) // 8)}
                axis.plot(rows_seen, weights[:, kernel], label=kernel_label(row["kernels"][kernel]), **style)
            else:
                axis.plot(rows_seen, weights[:, kernel], color="#999999", linewidth=0.6)
        axis.set(title=dataset, xlabel="rows", ylabel="weight", ylim=(-0.02, 1.02))
        axis.locator_params(axis="x", nbins=4)
        axis.legend(loc="center right")
    return figure


def support_per_kernel(rows_by_dataset: Mapping[str, Sequence[Row]]) -> Figure:
    """Draw how many support vectors BOMKC(SPA) gives each kernel, one panel a data set."""
    figure, axes = _grid(len(rows_by_dataset), 3, 2.4)
    for axis, (dataset, rows) in zip(axes, rows_by_dataset.items(), strict=True):
        means = np.mean([row["support_per_kernel"] for row in rows], axis=0)
        labels = [kernel_label(name) for name in rows[0]["kernels"]]
        axis.bar(range(len(means)), means, color=COLOURS[0])
        axis.set_xticks(range(len(means)), labels, rotation=90, fontsize=7)
        axis.grid(visible=False, axis="x")
        axis.set(title=dataset, ylabel="SVs")
    return figure


def kernel_label(name: str) -> str:
    r"""Turn a kernel's name in a row into a label with proper exponents.

    Examples
    --------
    >>> kernel_label("sigma 2^-3"), kernel_label("poly 2")
    ('$\\sigma=2^{-3}$', 'poly 2')
    """
    base, caret, exponent = name.partition("sigma 2^")
    return rf"$\sigma=2^{{{exponent}}}$" if caret and not base else name


def save(draw: Callable[[], Figure], folder: Path, name: str) -> str:
    """Draw a figure and write it as SVG and PNG.

    Parameters
    ----------
    draw : callable
        Makes the figure; it runs with this module's matplotlib settings.
    folder : Path
        Where to write.
    name : str
        File name without extension.

    Returns
    -------
    str
        The SVG text.
    """
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        figure = draw()
        figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
        figure.set_layout_engine("none")  # keep the layout just found: finding it takes as long as drawing
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return svg

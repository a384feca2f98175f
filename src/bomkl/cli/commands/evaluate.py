"""``eval``: progressive validation, which keeps the figures and not the model."""

from __future__ import annotations

import gc
import importlib.util
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bomkl._support.extras import install_hint
from bomkl.cli.messages import UsageError, fail, naming
from bomkl.cli.options import AlgorithmOptions, PipeOptions, RowOptions
from bomkl.cli.output import ProgressTable, check_output, print_result
from bomkl.cli.rows import (
    FromOption,
    OptionalInputs,
    check_inputs,
    open_for_learning,
    report_odd_strings,
    report_skipped,
)
from bomkl.cli.run import check_classes, classes_of
from bomkl.cli.settings import read_settings

if TYPE_CHECKING:
    from bomkl.evaluate import Progress
    from bomkl.report import RowWatch


def evaluate(
    algorithm: AlgorithmOptions,
    rows: RowOptions,
    pipe: PipeOptions,
    inputs: OptionalInputs = None,
    source: FromOption = None,
    every: Annotated[int | None, typer.Option(min=1, help="Rows between reports.", show_default="doubling")] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
    plot: Annotated[
        str | None,
        typer.Option(help="Image file that shows the error and the kernel weights along the rows.", metavar="FILE"),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(help="File of HTML with a report: error, columns that matter, where it is wrong.", metavar="FILE"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress table; warnings are shown.")] = False,
) -> None:
    """Measure the error of an algorithm along the rows.

    Each row is predicted before the model learns from it (progressive validation). The progress table goes to standard
    error, the final figures to standard output. With --json, every line goes to standard output as JSON.
    """
    from bomkl.evaluate import ProgressiveValidation, metric_name

    if plot is not None:
        _check_plot(plot)
    inputs = check_inputs(inputs, source)
    settings = read_settings(algorithm, rows)
    estimator = settings.estimator()
    watch = None if report is None else _row_watch(report, estimator, inputs)
    broker: Records | None = None
    if source is not None:
        from bomkl.cli.from_source import source_settings, source_url
        from bomkl.sources.records import Records

        settings, broker = source_settings(settings), Records(source_url(source))
    stream = open_for_learning(broker or inputs, settings, pipe, estimator, None)
    table = ProgressTable(quiet, json_lines)
    records: list[Progress] = []

    def show(new: list[Progress]) -> None:
        for record in new:
            table.report(record)
            records.append(record)
            if plot is None:
                del records[:-1]

    validation = ProgressiveValidation(
        estimator, classes=classes_of(stream), every=every, watch=None if watch is None else watch.note
    )
    with table.bar(stream.n_rows, "measuring"):
        for block in stream:
            show(validation.learn(block.X, block.y, block.weight))
            check_classes(estimator, stream)
            if broker is not None:
                broker.used(block.n_rows)
            table.advance(block.n_rows, validation.tally.errors, validation.tally.rows, metric_name(estimator))
            if table.is_due:
                table.show(validation.current())
    show(validation.finish())
    if broker is not None:
        broker.close()
    report_skipped(stream)
    report_odd_strings(estimator)
    last = records[-1]
    if not json_lines:
        figures = {
            "rows": last.rows,
            last.metric: f"{last.error:.6f}",
            "stored rows": len(estimator.support_vectors_),
            "support vectors of all kernels": last.support_vectors,
        } | _drift_figures(estimator)
        print_result("\n".join(f"{name}\t{value}" for name, value in figures.items()))
    if plot is not None:
        from bomkl.plots import plot_progress

        plot_progress(records).savefig(plot)
    if watch is not None and report is not None:
        _save_report(report, watch, inputs or [str(source)])


def _drift_figures(estimator: Any) -> dict[str, Any]:
    if getattr(estimator, "drift", None) != "auto":
        return {}
    events = estimator.drift_
    return {"drift events": f"{len(events)}, the last at {events[-1]}" if events else "0"}


def _check_plot(path: str) -> None:
    """Refuse an image that could not be written, before the rows are learned from."""
    check_output("--plot", path)
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        fail(f"--plot needs matplotlib. {install_hint('plots')}")
    kinds = FigureCanvasBase.get_supported_filetypes()
    suffix = os.path.splitext(path)[1]
    if suffix.removeprefix(".").lower() not in kinds:
        raise UsageError(
            f"--plot must name an image such as error.png, error.svg or error.pdf. Got {path!r} instead: its ending "
            f"must be one of {', '.join(sorted(kinds))}."
        )


def _row_watch(path: str, estimator: Any, inputs: list[str]) -> RowWatch:
    """Return what watches the rows, after looking whether the report can be written."""
    check_output("--report", path, inputs=inputs)
    if not hasattr(estimator, "plot_learning"):
        raise UsageError(f"A report needs --algorithm auto or auto-regression. Got {type(estimator).__name__} instead.")
    if not all(importlib.util.find_spec(name) for name in ("jinja2", "matplotlib")):
        fail(f"A report needs Jinja2 and matplotlib. {install_hint('report')}")
    from bomkl.report import RowWatch

    return RowWatch(estimator)


def _save_report(path: str, watch: RowWatch, inputs: list[str]) -> None:
    from bomkl.report import write_report

    names = ", ".join(os.path.basename(name) if "://" not in name else name for name in inputs[:3])
    title = names + (f" and {len(inputs) - 3} more" if len(inputs) > 3 else "")
    gc.freeze()  # the model is no garbage: to look through it again and again takes a fifth of the time of a page
    with naming(path):
        write_report(path, watch.estimator, watch, title="Report of " + title)

"""``train``: learn from rows and keep the model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bomkl._support.files import locked
from bomkl.cli.messages import UsageError, say
from bomkl.cli.options import AlgorithmOptions, PipeOptions, RowOptions
from bomkl.cli.output import ProgressTable, check_output
from bomkl.cli.rows import FromOption, OptionalInputs, ToOption, check_inputs, report_odd_strings, report_skipped
from bomkl.cli.run import Run, predictions_file
from bomkl.cli.settings import read_settings
from bomkl.cli.signals import Deferred, Stopped

_CHECKPOINT_ROWS = 10_000  # between model files, of rows that come from a broker


def train(
    output: Annotated[str, typer.Option("--output", "-o", help="Model file.", metavar="FILE")],
    algorithm: AlgorithmOptions,
    rows: RowOptions,
    pipe: PipeOptions,
    inputs: OptionalInputs = None,
    passes: Annotated[int, typer.Option(min=1, help="How many times to learn from all rows.")] = 1,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Save the model each time it has learned from this many rows.")
    ] = None,
    shuffle: Annotated[
        bool,
        typer.Option(
            "--shuffle",
            help="Learn from the rows in a random order: for files sorted by their label. Reads all rows first.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the model file; start anew if there is none.")
    ] = False,
    only_new: Annotated[
        bool,
        typer.Option(
            "--only-new", help="With --resume: the input holds only rows that the model has not learned from yet."
        ),
    ] = False,
    source: FromOption = None,
    to: ToOption = None,
    start_from: Annotated[
        str | None,
        typer.Option("--start-from", help="Model file to start from, instead of an empty model.", metavar="FILE"),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option(
            help="File for the prediction of each row, made before the model learns from it; - for standard output.",
            metavar="FILE",
        ),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Write progress as JSON lines to standard output.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes that learn together, each from a part of the files.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Learn on a Dask cluster instead: address of its scheduler.", metavar="ADDRESS")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress table; warnings are shown.")] = False,
) -> None:
    """Learn from rows and save the model.

    With --checkpoint-every, the run can be killed at any moment: the same command with --resume continues from the last
    checkpoint, and the result is the same model as without the interruption. Ctrl-C, SIGTERM and a closed terminal
    save the model too. From a pipe, the model learns as rows arrive.
    """
    if source is not None and "://" not in source:  # what --from meant before there were sources
        source, start_from = None, source
    files_only = {
        "passes": passes > 1,
        "shuffle": shuffle,
        "only_new": only_new,
        "start_from": start_from,
        "predictions": predictions,
        "workers": workers,
        "scheduler": scheduler,
    }
    inputs = check_inputs(inputs, source, **files_only)
    if to is not None and source is None:
        raise UsageError("--to is for rows that come --from a broker; see --predictions for files.")
    check_output("--output", output, replaced=True, inputs=inputs)
    if predictions == "-" and json_lines:
        raise UsageError("--predictions must name a file when --json writes to standard output. Got '-' instead.")
    if only_new and not resume:
        raise UsageError("--only-new is for a run that is resumed. Give --resume as well.")
    if predictions not in (None, "-"):
        check_output("--predictions", predictions, inputs=[*inputs, output])
    if source is not None:
        from bomkl.cli.from_source import source_url, train_from

        url, every = source_url(source), checkpoint_every or _CHECKPOINT_ROWS
        train_from(url, to, read_settings(algorithm, rows), pipe, output, resume, every, quiet, json_lines)
        return
    if workers is not None or scheduler is not None:
        from bomkl.cli.workers import train_in_partitions

        if workers is not None and scheduler is not None:
            raise UsageError("--workers and --scheduler exclude each other.")
        if passes > 1 or shuffle or checkpoint_every or only_new or start_from or predictions or json_lines:
            raise UsageError(
                "--workers and --scheduler take no --passes, --shuffle, --checkpoint-every, --only-new, --start-from, "
                "--predictions or --json; the model file is written after each round."
            )
        with locked(output):
            train_in_partitions(read_settings(algorithm, rows), inputs, output, workers, scheduler, resume, quiet)
        return
    table, run = ProgressTable(quiet, json_lines), None
    with Deferred() as signals, locked(output):
        try:
            with signals.waiting():
                settings = read_settings(algorithm, rows)
                run = Run.begin(settings, pipe, inputs, output, passes, resume, start_from, shuffle)
            run.only_new = only_new
            with predictions_file(predictions, run):
                run.learn(passes, checkpoint_every, signals, table)
        except Stopped:
            pass
        if run is not None:
            report_skipped(run.stream)
            report_odd_strings(run.validation.estimator)
        if signals.received:
            _say_stopped(run, output)
            sys.exit(128 + signals.received)


def _say_stopped(run: Run | None, output: str) -> None:
    if run is not None and run.validation.tally.rows:
        say(f"bomkl: stopped; {output} holds every row learned so far, and --resume goes on.")
    else:
        say("bomkl: stopped before the model learned from any row.")

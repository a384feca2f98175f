"""``train`` and ``eval``: both run progressive validation; one keeps the model, the other the figures."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bomkl.cli.options import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    AlgorithmOptions,
    RowOptions,
    UsageError,
    check_output,
    fail,
    in_options,
)
from bomkl.cli.settings import Settings, read_settings, stream_arguments

if TYPE_CHECKING:
    from bomkl.evaluate import Progress, ProgressiveValidation
    from bomkl.modelfile import Model
    from bomkl.streams import Block, Schema, Stream

Inputs = Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", metavar="INPUT...")]
_BLOCK_ROWS = 1024  # short enough that Ctrl-C is answered soon


def train(
    inputs: Inputs,
    output: Annotated[str, typer.Option("--output", "-o", help="Model file.")],
    algorithm: AlgorithmOptions,
    rows: RowOptions,
    passes: Annotated[int, typer.Option(min=1, help="How many times to learn all rows.")] = 1,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Save the model whenever this many rows have been learned.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the model file stopped; without one, begin.")
    ] = False,
    start_from: Annotated[str | None, typer.Option("--from", help="Model that has learned other rows already.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table.")] = False,
) -> None:
    """Learn from rows and save the model.

    A run with --checkpoint-every can be killed at any moment: the same command with --resume goes on from the last
    checkpoint and ends in the same model as if nothing had happened. Ctrl-C saves a checkpoint.
    """
    check_output("--output", output, replaced=True)
    settings = read_settings(algorithm, rows)
    run = _Run.begin(settings, inputs, output, passes, resume, start_from)
    table = _Table(quiet)
    with _Signals() as signals:
        for record in run.learn(passes, checkpoint_every, signals):
            table.show(record)
    report_skipped(run.stream)
    if signals.received:
        print(f"bomkl: stopped; {output} holds every row learned so far, and --resume goes on.", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED if signals.received == signal.SIGINT else EXIT_TERMINATED)


def evaluate(
    inputs: Inputs,
    algorithm: AlgorithmOptions,
    rows: RowOptions,
    every: Annotated[int | None, typer.Option(min=1, help="Rows from line to line.", show_default="doubling")] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
    plot: Annotated[str | None, typer.Option(help="Image file for the course of the error and the kernels.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table.")] = False,
) -> None:
    """Measure an algorithm on rows: each is predicted, then learned (progressive validation).

    The table goes to standard error; standard output gets the final figures, or with --json every line as JSON.
    """
    from bomkl.evaluate import progressive_validation

    if plot is not None:
        _check_plot(plot)
    settings = read_settings(algorithm, rows)
    estimator = settings.estimator()
    stream = _open(inputs, settings, estimator, None)
    table = _Table(quiet)
    records: list[Progress] = []
    for record in progressive_validation(estimator, stream, classes=_classes(stream), every=every):
        table.show(record)
        if json_lines:
            print(json.dumps(record.to_dict()), flush=True)
        records = [record] if plot is None else [*records, record]
    report_skipped(stream)
    last = records[-1]
    if not json_lines:
        print(f"rows\t{last.rows}\nerror\t{last.error:.6f}\nsupport vectors\t{last.support_vectors}")
    if plot is not None:
        from bomkl.plots import plot_progress

        plot_progress(records).savefig(plot)


class _Run:
    """A training run: an estimator, the stream it learns, and how far it is."""

    stream: Stream
    validation: ProgressiveValidation

    def __init__(self, settings: Settings, inputs: list[str], output: str) -> None:
        self.settings, self.inputs, self.output = settings, inputs, output
        self.done_passes, self.row = 0, 0
        self.history: list[dict[str, Any]] = []

    @classmethod
    def begin(
        cls, settings: Settings, inputs: list[str], output: str, passes: int, resume: bool, start_from: str | None
    ) -> _Run:
        """Set up a run, a new one or one that was stopped."""
        from bomkl import modelfile
        from bomkl.evaluate import ProgressiveValidation, Tally
        from bomkl.streams import StreamError

        run = cls(settings, inputs, output)
        schema, tally = None, None
        if resume and os.path.exists(output):
            model = modelfile.read(output)
            run._check_same(model.notes)
            estimator, schema = model.estimator, schema_of(model, output)
            with valid_notes(output):
                run.done_passes, run.row = int(model.notes["done_passes"]), int(model.notes["row"])
                run.history, tally = list(model.notes["history"]), Tally(**model.notes["tally"])
        elif start_from is not None:
            model = modelfile.read(start_from)
            estimator, schema = model.estimator, schema_of(model, start_from)
        else:
            estimator = settings.estimator()
        run.stream = _open(inputs, settings, estimator, schema)
        if passes > 1 and not run.stream.rewindable:
            raise StreamError(f"{run.stream.name}: can be read only once, so --passes must be 1. Got {passes} instead.")
        run.validation = ProgressiveValidation(estimator, classes=_classes(run.stream), tally=tally)
        return run

    def learn(self, passes: int, checkpoint_every: int | None, signals: _Signals) -> Iterator[Progress]:
        """Learn the rows that are left and save the model; on a signal, save it after the block at hand."""
        while self.done_passes < passes and not signals.received:
            blocks, saved = self.stream.blocks(self.row), self.row
            while (block := self._next(blocks, signals)) is not None:
                yield from self._noted(self.validation.learn(block.X, block.y))
                self.row += block.X.shape[0]
                if checkpoint_every and self.row - saved >= checkpoint_every:
                    self.save()
                    saved = self.row
                if signals.received:
                    break
            if not signals.received:
                self.done_passes, self.row = self.done_passes + 1, 0
        if not signals.received:
            yield from self._noted(self.validation.finish())
        self.save()

    def _next(self, blocks: Iterator[Block], signals: _Signals) -> Block | None:
        """Wait for the next block; when the stream breaks off, keep what was learned from it before."""
        try:
            return signals.wait_for(blocks)
        except ValueError:
            if self.row or self.done_passes:
                self.save()
                print(f"bomkl: {self.output} holds the rows before the error, and --resume goes on.", file=sys.stderr)
            raise

    def _noted(self, records: Iterator[Progress]) -> Iterator[Progress]:
        for record in records:
            self.history.append(_summary(record))
            yield record

    def save(self) -> None:
        """Write the model file: the model, and all that is needed to go on."""
        from bomkl import modelfile

        assert self.stream.schema is not None  # known as soon as a row has been read
        notes = {
            "settings": dataclasses.asdict(self.settings),
            "inputs": self.inputs,
            "schema": self.stream.schema.to_dict(),
            "done_passes": self.done_passes,
            "row": self.row,
            "tally": dataclasses.asdict(self.validation.tally),
            "history": self.history,
        }
        modelfile.save(self.validation.estimator, self.output, notes)

    def _check_same(self, notes: dict[str, Any]) -> None:
        if not {"settings", "inputs", "done_passes", "row", "tally", "history", "schema"} <= set(notes):
            raise ValueError(
                f"{self.output}: was not written by 'bomkl train', so there is no run to resume; see --from."
            )
        with valid_notes(self.output):
            before = Settings(**notes["settings"])
        if before != self.settings:
            raise ValueError(f"{self.output}: was trained with other settings: {before.differences(self.settings)}.")
        if notes["inputs"] != self.inputs:
            raise ValueError(
                f"{self.output}: was trained on {notes['inputs']}, not {self.inputs}. To learn other rows with it, "
                f"use --from {self.output}."
            )


def schema_of(model: Model, path: str) -> Schema | None:
    """Give the schema that a model file holds; None if it was not written by ``bomkl train``."""
    from bomkl.streams import Schema

    with valid_notes(path):
        return Schema.from_dict(model.notes["schema"]) if "schema" in model.notes else None


@contextlib.contextmanager
def valid_notes(path: str) -> Iterator[None]:
    """Turn what notes of a wrong shape lead to into one message."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: what it says about its training cannot be read: {error!r}") from error


def _open(inputs: list[str], settings: Settings, estimator: Any, schema: Any) -> Stream:
    """Open the rows; what is not known of them is found by a first pass over files, or in the first block of a pipe."""
    from sklearn.base import is_classifier

    from bomkl.streams import StreamError, open_stream

    classify = is_classifier(estimator)
    stream = open_stream(
        inputs,
        target="class" if classify else "number",
        schema=schema,
        block_rows=_BLOCK_ROWS,
        **stream_arguments(settings.rows),
    )
    if schema is None:
        told = settings.classes is not None and "features" in settings.rows
        found = stream.scan(look_ahead=1 if told else 16)
        if not stream.rewindable and found.columns is None and "features" not in settings.rows:
            # Rare features may come later in a pipe; room up to a power of two costs little and changes no result.
            found = dataclasses.replace(found, n_features=1 << (found.n_features - 1).bit_length())
            stream.schema = found
        if not classify:
            # Labels that look like names are then refused one by one, each with its line.
            stream.schema = dataclasses.replace(found, label_kind="number")
        elif (classes := settings.class_labels(numbers=found.label_kind == "number")) is not None:
            stream.schema = dataclasses.replace(found, classes=classes)
    if classify and len(known := _classes(stream) or ()) < 2:
        only = ", ".join(map(str, known))
        raise StreamError(f"{stream.name}: there is only one class ({only}); name all of them with --classes.")
    return stream


def _classes(stream: Stream) -> tuple[Any, ...] | None:
    return None if stream.schema is None else stream.schema.classes


def _summary(record: Progress) -> dict[str, Any]:
    names = ("rows", "error", "error_since_last", "support_vectors", "top_kernel")
    return {name: getattr(record, name) for name in names}


def report_skipped(stream: Stream) -> None:
    """Say how many bad lines were skipped, if any."""
    if stream.skipped:
        first = in_options(str(stream.first_skipped))
        print(f"bomkl: {stream.skipped} bad lines were skipped; the first: {first}", file=sys.stderr)


def _check_plot(path: str) -> None:
    """Refuse an image that could not be written, before the rows are learned."""
    check_output("--plot", path)
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        fail("--plot needs matplotlib. Install it with: pip install 'bomkl[plots]'")
    kinds = FigureCanvasBase.get_supported_filetypes()
    suffix = os.path.splitext(path)[1]
    if suffix.removeprefix(".").lower() not in kinds:
        raise UsageError(
            f"--plot must name an image such as error.png, error.svg or error.pdf. Got {path!r} instead: its ending "
            f"must be one of {', '.join(sorted(kinds))}."
        )


class _Table:
    """The table of progress on standard error."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.begun = quiet, False

    def show(self, record: Progress) -> None:
        """Print one line, the first time with the names of the columns."""
        if self.quiet:
            return
        if not self.begun:
            print(f"{'rows':>12} {'error':>9} {'since last':>11} {'SVs':>9}  top kernel", file=sys.stderr)
            self.begun = True
        print(
            f"{record.rows:>12} {record.error:>9.4f} {record.error_since_last:>11.4f} {record.support_vectors:>9}"
            f"  {record.top_kernel}",
            file=sys.stderr,
        )


class _Signals:
    """Lets SIGINT and SIGTERM wait while a block is learned, so that what is saved is whole; a second ends at once."""

    def __init__(self) -> None:
        self.received = 0
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait_for(self, blocks: Iterator[Block]) -> Block | None:
        """Wait for the next block, which may never come on a pipe; None at the end or when a signal comes first."""
        try:
            self._waiting = True
            return next(blocks, None)
        except _SignalReceived:
            return None
        finally:
            self._waiting = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            os._exit(128 + number)
        self.received = number
        if self._waiting:
            raise _SignalReceived


class _SignalReceived(BaseException):
    """Ends the wait for a block."""

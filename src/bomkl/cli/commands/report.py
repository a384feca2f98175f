"""``report``: progressive validation that ends in a page of HTML."""

from __future__ import annotations

from typing import Annotated

import typer

from bomkl.cli.commands.evaluate import evaluate
from bomkl.cli.messages import say
from bomkl.cli.options import AlgorithmOptions, PipeOptions, RowOptions
from bomkl.cli.rows import FromOption, OptionalInputs


def report(
    output: Annotated[str, typer.Option("--output", "-o", help="File of HTML to write.", metavar="FILE")],
    algorithm: AlgorithmOptions,
    rows: RowOptions,
    pipe: PipeOptions,
    inputs: OptionalInputs = None,
    source: FromOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress; warnings are shown.")] = False,
) -> None:
    """Learn from rows and write a report of it, as one page of HTML.

    Each row is predicted before the model learns from it. The page tells in plain words how good the predictions are,
    which columns matter and how, where the model is wrong, which values are missing or new, where the stream changed,
    which rows look mislabelled, and what to do next. It needs no network.
    """
    evaluate(algorithm, rows, pipe, inputs, source, report=output, quiet=quiet)
    say(f"bomkl: wrote {output}")

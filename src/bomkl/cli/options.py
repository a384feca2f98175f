"""Options that several commands share, and how a function becomes a command."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from bomkl._support.stream_options import StreamOptions
from bomkl.cli.messages import (
    EXIT_BROKEN_PIPE,
    EXIT_USAGE,
    UsageError,
    fail,
    message_of,
    naming,
    open_outputs,
    plain_warnings,
    table_notices,
    write_no_more,
)
from bomkl.cli.signals import Stopped, stopped_by_signals

HELP_FLAGS = {"help_option_names": ["-h", "--help"]}
ALGORITHM_NAMES = ("auto", "auto-regression", "BudgetMKLClassifier", "BudgetMKLRegressor", "SPA", "RBP", "BOGD", "BPAS")

# Help for the options that say how rows are read, and what is shown as the default where None stands for something.
# Their names, types and defaults are those of `StreamOptions`.
_ROW_HELP: dict[str, tuple[str, str | None]] = {
    "format": ("svmlight, csv, tsv, jsonl, parquet, arrow or npz.", "by name or content"),
    "label": ("Label column: its name, or its position counted from 0.", "label"),
    "weight": ("Column with the weight of each row: its name, or its position counted from 0.", None),
    "header": ("Whether the first line of a CSV or TSV file names the columns.", None),
    "delimiter": ("Column separator of CSV files.", ", or tab; with --decimal , it is ;"),
    "decimal": ("Decimal mark of numbers in CSV and TSV files: . or ,", None),
    "quote": ('Character around strings of CSV and TSV files; "" if quotes are letters like others.', None),
    "escape": ("Character of CSV and TSV files that takes from the next one its meaning, such as a backslash.", None),
    "ignore": ("Column to leave out (may be repeated).", None),
    "strings": ("Column to treat as strings although it looks like numbers (may be repeated).", None),
    "missing": (
        "What to do with a missing value: keep it, error, skip the row, or a number to put in its place.",
        "keep with auto, else error",
    ),
    "categorical": ("Without auto, how strings become features: vocabulary, hash or error.", None),
    "buckets": ("Number of features that all hashed columns share.", None),
    "zero_based": ("svmlight indices start at 0.", None),
    "n_features": ("Number of svmlight features.", "found by a first pass"),
    "new_columns": ("What to do with columns that were not in the first row: learn, ignore or refuse.", None),
    "on_bad_line": ("What to do with a line that cannot be read: stop, or skip it and count it.", None),
}
_RENAMED = {"n_features": "features"}
_COLUMNS = ("label", "weight", "ignore", "strings")  # options whose value names a column


def _row_option(name: str) -> tuple[str, Any, Any]:
    """Name, type and default of a command-line option for a field of `StreamOptions`."""
    about, shown = _ROW_HELP[name]
    kind, default = get_type_hints(StreamOptions)[name], getattr(StreamOptions, name)
    flags = []
    if kind is bool and not default:
        flags.append(f"--{name.replace('_', '-')}")  # without a --no-...: that is the default
    elif get_origin(kind) is Sequence:
        kind, default = list[str] | None, None
    elif name == "missing":  # what is best depends on the algorithm
        kind, default = str | None, None
    elif name in ("label", "weight"):  # a name or a position
        kind = str | None
    metavar = "COLUMN" if name in _COLUMNS else None
    option = typer.Option(*flags, help=about, metavar=metavar, show_default=shown or True)
    return _RENAMED.get(name, name), Annotated[kind, option], field(default=default)


if TYPE_CHECKING:

    @dataclass
    class RowOptions:
        """How rows are read."""
else:
    RowOptions = make_dataclass("RowOptions", [_row_option(name) for name in _ROW_HELP])


@dataclass
class PipeOptions:
    """How rows are grouped into blocks; what is learned does not depend on it."""

    block_rows: Annotated[int, typer.Option(min=1, help="Largest number of rows in a block.")] = 1024
    flush_seconds: Annotated[
        float, typer.Option(min=0, help="How long rows from a pipe may wait for more rows to fill the block.")
    ] = StreamOptions.flush_seconds


@dataclass
class AlgorithmOptions:
    """Which algorithm learns, and its settings."""

    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="auto, auto-regression, BudgetMKLRegressor, or the name of an algorithm in the paper.",
            show_default="auto",
            autocompletion=lambda: list(ALGORITHM_NAMES),
        ),
    ] = None
    budget: Annotated[
        int | None,
        typer.Option(
            help="Largest number of stored rows: for auto in total, else for each kernel.",
            show_default="1000 for auto, else unbounded",
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.", show_default="0")] = None
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            help="A setting, such as learner.eta=0.2 or kernels='[Gaussian(0.5), Linear()]' (may be repeated).",
            metavar="NAME=VALUE",
        ),
    ] = None
    config: Annotated[
        str | None,
        typer.Option(help="TOML file with the same settings; command-line options override it.", metavar="FILE"),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(
            help="All labels, separated by commas.", show_default="found by a first pass; auto accepts new ones"
        ),
    ] = None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: option groups become options, errors become messages and exit codes."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            parameters += [
                parameter.replace(name=each.name, annotation=types[each.name], default=each.default)
                for each in fields(groups[name])
            ]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))
    for parameter in parameters:
        _name_value(parameter.annotation)
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(function)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        try:
            with stopped_by_signals(), open_outputs(), plain_warnings(), table_notices():
                function(**values)
                with naming("standard output"):
                    sys.stdout.flush()
        except BrokenPipeError:
            write_no_more(sys.stdout)  # the reader, such as head, has all it wants
            sys.exit(EXIT_BROKEN_PIPE)
        except Stopped as stop:
            write_no_more(sys.stdout)
            sys.exit(stop.exit_code)
        except MemoryError:
            fail("out of memory. Use a smaller --budget, or give one: it bounds what a model needs")
        except UsageError as error:
            fail(message_of(error), EXIT_USAGE)
        except (ValueError, OSError) as error:
            if isinstance(error, OSError):
                write_no_more(sys.stdout)
            fail(message_of(error))
        except RecursionError:
            fail("the data or the settings are nested too deeply")

    del run.__wrapped__
    run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def name_values(function: Callable[..., None]) -> Callable[..., None]:
    """Let ``--help`` name the values of a command's options as the documentation does."""
    function.__annotations__ = get_type_hints(function, include_extras=True)
    for hint in function.__annotations__.values():
        _name_value(hint)
    return function


def _name_value(hint: Any) -> None:
    kind, *about = get_args(hint) or [hint]
    if about and isinstance(about[0], OptionInfo) and about[0].metavar is None and kind is not bool:
        inner = next((each for each in get_args(kind) if each is not type(None)), kind)
        if get_origin(inner) is list:
            inner = get_args(inner)[0]
        about[0].metavar = {"int": "N", "float": "X", "Path": "PATH"}.get(getattr(inner, "__name__", ""), "TEXT")

"""Options that several commands share, and what every command does with an error."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from bomkl._support.stream_options import StreamOptions
from bomkl.cli.signals import Stopped, stopped_by_signals

EXIT_FAILED, EXIT_USAGE, EXIT_BROKEN_PIPE = 1, 2, 141
HELP_FLAGS = {"help_option_names": ["-h", "--help"]}
ALGORITHM_NAMES = ("auto", "auto-regression", "BudgetMKLClassifier", "BudgetMKLRegressor", "SPA", "RBP", "BOGD", "BPAS")

# Messages of the library name its parameters; here they are options.
_OPTION_NAMES = {
    "zero_based=True": "--zero-based",
    "categorical='hash'": "--categorical hash",
    "categorical='error'": "--categorical error",
    "with 'ignore'": "with --ignore",
    "with 'strings'": "with --strings",
    "with 'delimiter'": "with --delimiter",
    r"escape='\\'": r"--escape '\'",
    "on_bad_line='skip'": "--on-bad-line skip",
    "The 'n_features' parameter of open_stream": "--features",
    "missing='skip'": "--missing skip",
}


class UsageError(ValueError):
    """A command that is wrong as it was typed, whatever its files hold."""


# Help for the options that say how rows are read, and what is shown as the default where None stands for something.
# Their names, types and defaults are those of `StreamOptions`.
_ROW_HELP: dict[str, tuple[str, str | None]] = {
    "format": ("svmlight, csv, tsv, jsonl, parquet, arrow or npz.", "by name or content"),
    "label": ("Label column: its name, or its position counted from 0.", "label"),
    "weight": ("Column with the weight of each row: its name, or its position counted from 0.", None),
    "header": ("Whether the first line of a CSV or TSV file names the columns.", None),
    "delimiter": ("Column separator of CSV files.", ", or tab; with --decimal , it is ;"),
    "decimal": ("Decimal mark of numbers in CSV and TSV files: . or ,", None),
    "quote": ("Character around strings of CSV and TSV files.", None),
    "escape": ("Character of CSV and TSV files that takes from the next one its meaning, such as a backslash.", None),
    "ignore": ("Column to leave out (may be repeated).", None),
    "strings": ("Column to treat as strings although it looks like numbers (may be repeated).", None),
    "missing": (
        "What to do with a missing value: keep it, error, skip the row, or a number to put in its place.",
        "keep, but error for convert",
    ),
    "categorical": ("For convert: how columns of strings become features: vocabulary, hash or error.", None),
    "buckets": ("For convert: number of features that all hashed columns share.", None),
    "zero_based": ("svmlight indices start at 0.", None),
    "n_features": ("Number of svmlight features.", "found by a first pass"),
    "new_columns": ("What to do with columns that were not in the first row: learn, ignore or refuse.", None),
    "on_bad_line": ("What to do with a line that cannot be read: stop, or skip it and count it.", None),
}
_RENAMED = {"n_features": "features"}


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
    elif kind not in (bool, int, int | None):
        kind = str if default is not None else str | None
    option = typer.Option(*flags, help=about, show_default=shown or True)
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
        str | None, typer.Option(help="TOML file with the same settings; command-line options override it.")
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
            _give_up(sys.stdout)  # the reader, such as head, has all it wants
            sys.exit(EXIT_BROKEN_PIPE)
        except Stopped as stop:
            _give_up(sys.stdout)
            sys.exit(stop.exit_code)
        except MemoryError:
            fail("out of memory. Use a smaller --budget, or give one: it bounds what a model needs")
        except UsageError as error:
            fail(_message(error), EXIT_USAGE)
        except (ValueError, OSError) as error:
            if isinstance(error, OSError):
                _give_up(sys.stdout)
            fail(_message(error))
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


@contextlib.contextmanager
def open_outputs() -> Iterator[None]:
    """Stand in for outputs that were closed: to write results is then an error, and messages are dropped."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        if sys.stderr is None:
            sys.stderr = nowhere
        if sys.stdout is None:
            sys.stdout = _Closed()
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextlib.contextmanager
def table_notices() -> Iterator[None]:
    """Say at the end, once, what of the tables could not be used, and in how many rows."""
    from bomkl.tables.notices import TableWarning

    found: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("always", TableWarning)
        shown = warnings.showwarning

        def note(message: Warning | str, *details: Any, **more: Any) -> None:
            if isinstance(message, TableWarning):
                for each in message.notices:
                    found[each.text] = found.get(each.text, 0) + each.rows
            else:
                shown(message, *details, **more)

        warnings.showwarning = note
        try:
            yield
        finally:
            for text, rows in found.items():
                say(printable(f"bomkl: {in_options(text)} Rows: {rows}."))


class _Closed(io.TextIOBase):
    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "cannot be written to: it is closed", "standard output")


def _give_up(output: TextIO) -> None:
    """Write nothing to an output again, at exit neither, if it fails: it would fail once more."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        output.flush()
        return
    with contextlib.suppress(OSError, AttributeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Let an error of the system that names no file name what was written to."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = what
        raise


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings of the library in one line each, without the place in its source."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"bomkl: warning: {printable(in_options(str(message)))}")
        yield


def say(message: str) -> None:
    """Print a line to standard error; where it can no longer be written to, the work goes on without."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn what wrong settings lead to into a `UsageError`."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise UsageError(_message(error)) from error


def check_output(option: str, path: str, replaced: bool = False, inputs: Sequence[str] = ()) -> None:
    """Refuse a file that could not be written, before the work that is to go there.

    Parameters
    ----------
    option : str
        The option that names the file.
    path : str
        The file.
    replaced : bool, default=False
        Whether a new file takes its place, for which the folder must be writable; otherwise it is written as it is.
    inputs : sequence of str, default=()
        What else the command reads or writes, which must not be written over.
    """
    folder = os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path) or "."
    if not os.path.basename(path) or os.path.isdir(path):
        problem = "that is not the name of a file"
    elif not os.path.exists(folder):
        problem = f"there is no folder {folder!r}; make it first"
    elif not os.path.isdir(folder):
        problem = f"{folder!r} is not a folder"
    elif replaced and os.path.exists(path) and not os.path.isfile(path):
        problem = "that is not a regular file"
    elif not os.access(path if os.path.exists(path) and not replaced else folder, os.W_OK):
        problem = f"the folder {folder!r} or the file cannot be written to; choose another"
    elif _is_one_of(path, inputs):
        problem = "the command uses this file already; choose another"
    else:
        return
    raise UsageError(f"{option} must name a file that can be written. Got {path!r} instead: {problem}.")


def _is_one_of(path: str, inputs: Sequence[str]) -> bool:
    """Tell whether a file, which may not be there yet, is among those that inputs name."""
    from bomkl.streams.sources import expand

    if not os.path.exists(path):
        return os.path.realpath(path) in map(os.path.realpath, inputs)
    for each in inputs if os.path.isfile(path) else ():
        with contextlib.suppress(ValueError, OSError):  # what is not there is told where it is read
            if any(os.path.samefile(path, source.path) for source in expand(each) if source.rewindable):
                return True
    return False


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """Say what is wrong, in one line, and leave."""
    say(f"bomkl: error: {printable(message)}")
    sys.exit(code)


def printable(text: str) -> str:
    r"""Keep text on one line, and characters that steer a terminal from reaching it.

    Examples
    --------
    >>> printable("a\x1b[2J\nb")
    'a\\x1b[2J b'
    """
    one_line = " ".join(text.splitlines())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in one_line)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return in_options(str(error))


def in_options(message: str) -> str:
    """Reword a message of the library for users of the command line.

    Examples
    --------
    >>> in_options("The 'on_bad_line' parameter of open_stream must be one of ['stop', 'skip']. Got 'go' instead.")
    "--on-bad-line must be one of ['stop', 'skip']. Got 'go' instead."
    """
    for name, option in _OPTION_NAMES.items():
        message = message.replace(name, option)
    message = re.sub(r"declare types=\{(.*): 'category'\}", r"use --strings \1", message)
    owner = r"The '(\w+)' parameter of open_stream"
    return re.sub(owner, lambda found: "--" + found[1].replace("_", "-"), message)

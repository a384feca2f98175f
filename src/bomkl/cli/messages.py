"""What commands say on standard error, exit codes, and outputs that fail."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn, TextIO

EXIT_FAILED, EXIT_USAGE, EXIT_BROKEN_PIPE = 1, 2, 141

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
        write_no_more(sys.stderr)


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn what wrong settings lead to into a `UsageError`."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise UsageError(message_of(error)) from error


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


def message_of(error: Exception) -> str:
    """Tell what is wrong, in words of the command line."""
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


def write_no_more(output: TextIO) -> None:
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

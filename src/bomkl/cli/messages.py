"""What commands say on standard error, exit codes, and outputs that fail."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn, TextIO

EXIT_FAILED, EXIT_USAGE, EXIT_BROKEN_PIPE = 1, 2, 141


class UsageError(ValueError):
    """A command that is wrong as it was typed, whatever its files hold."""


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings of the library in one line each, without the place in its source."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"bomkl: warning: {printable(str(message))}")
        yield


def say(message: str) -> None:
    """Print a line to standard error; if that is closed, drop the line."""
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
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


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
                say(printable(f"bomkl: {text} Rows: {rows}."))


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

"""What commands write: results as text or JSON, and the table of progress."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from bomkl._support.files import replacing
from bomkl._support.progress import progress_bar
from bomkl.cli.messages import UsageError, naming, say

if TYPE_CHECKING:
    from bomkl.evaluate import Progress

Output = Annotated[
    str, typer.Option("--output", "-o", help="File to write.", metavar="FILE", show_default="standard output")
]
_FIRST_SECONDS, _SECONDS = 1.0, 5.0  # until the table shows a line though no record is due


def json_text(value: Any) -> str:
    """Write a value as JSON that every reader takes: numbers stay numbers, and what is not finite is null.

    Examples
    --------
    >>> json_text({"a": 1.5, "b": float("nan"), "c": (1, None)})
    '{"a": 1.5, "b": null, "c": [1, null]}'
    """
    return json.dumps(plain(value), allow_nan=False)


def prediction_text(value: Any, kind: str) -> str:
    """Write a prediction as JSON: one label or number, or several by class.

    Examples
    --------
    >>> prediction_text("yes", "labels"), prediction_text({"no": 0.25, "yes": 0.75}, "probabilities")
    ('{"label": "yes"}', '{"probabilities": {"no": 0.25, "yes": 0.75}}')
    """
    return json_text({kind if isinstance(value, dict) else kind.removesuffix("s"): value})


def plain(value: Any) -> Any:
    """Turn a value into what JSON has; anything else becomes its text."""
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def check_output(option: str, path: str, replaced: bool = False, inputs: Sequence[str] = ()) -> None:
    """Refuse a file that could not be written, before the work that is to go there.

    `option`: the option that names the file. `replaced`: whether a new file takes its place, for which the folder must
    be writable; otherwise it is written as it is. `inputs`: what else the command reads or writes, which must not be
    written over.
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


@contextlib.contextmanager
def writing(option: str, path: str, whole: bool = False) -> Iterator[TextIO]:
    """Open a file to write, or standard output for ``-``; one that cannot be written is refused.

    With `whole`, the file takes its place when all of it is written. Devices and pipes are written to at once.
    """
    if path == "-":
        with naming("standard output"):
            yield sys.stdout
        return
    check_output(option, path)
    if whole and (os.path.isfile(path) or not os.path.exists(path)):
        with naming(path), replacing(path) as binary:
            text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
            yield text
            text.detach()  # which flushes it; the file itself stays open until it has its name
        return
    with naming(path), open(path, "w", encoding="utf-8", newline="") as file:
        yield file


def print_result(text: str) -> None:
    """Write a line to standard output at once."""
    with naming("standard output"):
        print(text, flush=True)


class ProgressTable:
    """The table of progress on standard error; at a terminal, work that takes long has a bar below it.

    `json_lines`: whether reports are also written to standard output, as JSON.
    """

    def __init__(self, quiet: bool, json_lines: bool = False) -> None:
        self._quiet, self._json_lines, self._begun, self._rows = quiet, json_lines, False, 0
        self._due = monotonic() + _FIRST_SECONDS
        self._bar: Any = None

    @contextlib.contextmanager
    def bar(self, total: int | None, doing: str, done: int = 0) -> Iterator[None]:
        """Show a bar while rows are worked on: so many in all if known, so many of them done before."""
        if self._quiet:
            yield
            return
        with progress_bar(total, doing, "row", initial=done) as self._bar:
            yield
        self._bar = None

    def advance(self, rows: int, errors: float | None = None, so_far: int = 0, metric: str = "error rate") -> None:
        """Count rows in the bar; `errors` are those of all rows so far."""
        if self._bar is None or self._bar.disable:
            return
        if errors is not None and so_far:
            self._bar.set_postfix_str(f"{short_name(metric)} {errors / so_far:.4f}", refresh=False)
        self._bar.update(rows)

    @property
    def is_due(self) -> bool:
        """Whether it is time for a line, though no record was made."""
        shown = self._bar is not None and not self._bar.disable
        return not self._quiet and not shown and monotonic() >= self._due

    def report(self, record: Progress, lag: int | None = None) -> None:
        """Show a record that is due, and write it as JSON if that was asked for."""
        self.show(record, lag)
        if self._json_lines:
            print_result(json_text(record.to_dict()))

    def show(self, record: Progress, lag: int | None = None) -> None:
        """Print one line, the first time with the names of the columns; `lag` counts the rows that wait in a broker."""
        self._due = monotonic() + _SECONDS
        if self._quiet or record.rows == self._rows:
            return
        if not self._begun:
            waiting = "" if lag is None else f" {'lag':>9}"
            say(f"{'rows':>12} {short_name(record.metric):>11} {'since last':>11} {'all SVs':>9}{waiting}  top kernel")
            self._begun = True
        self._rows = record.rows
        with self._above_bar():
            self._say(record, lag)

    @contextlib.contextmanager
    def _above_bar(self) -> Iterator[None]:
        """Keep the bar below what is printed meanwhile."""
        shown = self._bar is not None and not self._bar.disable and self._bar.n > self._bar.initial
        if shown:
            self._bar.clear()
        yield
        if shown:
            self._bar.refresh()

    def _say(self, record: Progress, lag: int | None) -> None:
        say(
            f"{record.rows:>12} {record.error:>11.4f} {record.error_since_last:>11.4f} {record.support_vectors:>9}"
            + ("" if lag is None else f" {lag:>9}")
            + f"  {record.top_kernel}"
        )


def short_name(metric: str) -> str:
    return "MAE" if metric == "mean absolute error" else metric

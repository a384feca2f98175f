"""A stream: rows of any source as blocks of bounded memory."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from bomkl._support.limits import MOST_CLASSES
from bomkl._support.stream_options import StreamOptions
from bomkl.streams.errors import BadLineError, BadLines, NoRowsError, StreamError, check_number_of_classes
from bomkl.streams.formats.registry import FORMATS, checked_options, format_of
from bomkl.streams.labels import has_labels, whole_if_possible
from bomkl.streams.live import LiveFile
from bomkl.streams.parts import Block, Part, joined
from bomkl.streams.reading import Reading
from bomkl.streams.schema import Label, Schema
from bomkl.streams.sources import Lines, Source, expand, open_source
from bomkl.tables.notices import TableWarning


def open_stream(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Lines,
    *,
    schema: Schema | None = None,
    **options: Any,
) -> Stream:
    r"""Open files, folders, a glob or standard input as a stream of blocks.

    Files compressed with gzip, bz2, xz or zstd are recognised by their content.

    Parameters
    ----------
    inputs : path, sequence of paths, or Lines
        Paths, folders, globs, or ``"-"`` for standard input, read one after the other; or lines of another source.
    schema : Schema or None, default=None
        What the columns mean, from an earlier stream. None: the first block decides (or see `Stream.scan`).
    **options
        How to read them: any setting of `StreamOptions`, such as ``label="species"`` or ``block_rows=1000``.

    Returns
    -------
    Stream

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.csv"
    >>> _ = path.write_text("weight,coat,label\n4.5,short,cat\n30,long,dog\n")
    >>> [(X, y)] = open_stream(path)
    >>> X.tolist(), y.tolist()
    ([[4.5, 0.0, 1.0], [30.0, 1.0, 0.0]], ['cat', 'dog'])
    """
    sources: Sequence[Source | Lines] = [inputs] if isinstance(inputs, Lines) else expand(inputs)
    return Stream(sources, checked_options(**options), schema)


class Stream:
    """Rows of one or more sources. Iterate over it to get blocks; files more than once, standard input once.

    Parameters
    ----------
    sources : sequence of Source or Lines
        Where the rows come from.
    options : StreamOptions
        How to read them.
    schema : Schema or None, default=None
        What the columns mean. None: the first block decides.
    """

    def __init__(self, sources: Sequence[Source | Lines], options: StreamOptions, schema: Schema | None = None) -> None:
        self.sources = sources
        self.options = options
        self.schema = schema
        self._bad = getattr(sources[0], "bad", None) or BadLines(options.on_bad_line == "skip")
        self.n_rows: int | None = None  # of files, once they were scanned; bad lines are counted in
        self.ignored: Counter[str] = Counter()  # rows with a value in new columns that were left out
        self._parts: Iterator[Part] | None = None  # of a source that cannot be read twice
        self._seen: list[Part] = []  # parts of it that `scan` looked at and no block has used yet
        self._failed: StreamError | None = None  # what `scan` found after them
        self._live: LiveFile | None = None  # the pipe that is being read

    @property
    def name(self) -> str:
        """The sources, for messages."""
        return ", ".join(source.name for source in self.sources)

    @property
    def rewindable(self) -> bool:
        """Whether the rows can be read again."""
        return all(source.rewindable for source in self.sources)

    @property
    def skipped(self) -> int:
        """Number of bad lines that were left out when the stream was last read."""
        return self._bad.count

    @property
    def first_skipped(self) -> BadLineError | None:
        """The first bad line that was left out when the stream was last read."""
        return self._bad.first

    def scan(
        self, look_ahead: int = 16, classes: bool = True, adjust: Callable[[Schema], Schema] | None = None
    ) -> Schema:
        """Find the columns, their vocabularies and the classes, and keep them in `schema`.

        This reads files from start to end, so you learn of a bad line before a model learns from any row. Of standard
        input it reads only the beginning.

        Parameters
        ----------
        look_ahead : int, default=16
            How many blocks of standard input to read ahead, if they are there at once. They stay in memory until they
            are used.
        classes : bool, default=True
            Whether to find the classes. For standard input, this ends after rows of two classes or `look_ahead` blocks.
        adjust : callable or None, default=None
            What to do with the schema of the first rows before others are checked against it.

        Returns
        -------
        Schema
            What was found.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # they come again when the rows are read
            return self._scan(look_ahead, classes, adjust)

    def _scan(self, look_ahead: int, classes: bool, adjust: Callable[[Schema], Schema] | None) -> Schema:
        bad, self.ignored = BadLines(self.options.on_bad_line == "skip"), Counter()
        if self.rewindable:
            parts = self._read(bad)
        else:
            self._parts = self._read(self._bad)
            parts = self._beginning(self._parts, look_ahead * self.options.block_rows)
        given = self.schema
        found: set[Label] = set()
        wanted = classes and self.options.labels and self.options.target == "class"
        rows, labelled = 0, given is not None
        for part in parts:
            rows += len(part.lines)
            if given is None:
                if self.schema is None or not labelled:
                    first = part.infer(self.options)
                    if self.schema is not None:  # no row so far has a label that tells of which kind labels are
                        first = replace(self.schema, label_kind=first.label_kind)
                    self.schema = first if adjust is None else adjust(first)
                    labelled = has_labels(part.label_cells)
                if self.rewindable:
                    self.schema = part.extend(self.schema, self.options, self.ignored)
                if self.rewindable or not self.options.as_tables:
                    self.schema = part.widen(self.schema, self.options)
            if wanted and len(found) <= MOST_CLASSES:
                found.update(_classes(part, self.schema, self.options, bad))
            elif self.rewindable and self.schema is not None:
                part.encode(self.schema, self.options, bad)
            if not self.rewindable and not self._more_at_once() and labelled and not (wanted and len(found) < 2):
                break
        self.n_rows = rows if self.rewindable else None
        if self.schema is None:
            raise self._failed or NoRowsError(f"{self.name}: there are no rows{self._left_out(bad)}")
        if wanted and self.rewindable and not found:
            raise NoRowsError(f"{self.name}: there are no rows{self._left_out(bad)}")
        check_number_of_classes(self.name, len(found))
        if found and self.schema.classes is None:
            if any(isinstance(label, str) for label in found):
                self.schema = replace(self.schema, label_kind="string")
                found = {str(label) for label in found}
            self.schema = replace(self.schema, classes=tuple(sorted(found)))
        return self.schema

    def _beginning(self, parts: Iterator[Part], most: int) -> Iterator[Part]:
        """Parts of a pipe, kept for later; an error in them comes when they are read again."""
        rows = 0
        while rows < most:
            try:
                part = next(parts, None)
            except StreamError as error:
                self._failed = error
                return
            if part is None:
                return
            self._seen.append(part)
            rows += len(part.lines)
            yield part

    def _more_at_once(self) -> bool:
        """Whether a pipe has another line right now."""
        return self._live is not None and self._live.has_line()

    def __iter__(self) -> Iterator[Block]:
        return self.blocks()

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Yield blocks from row `start` on. Rows are counted from 0; bad lines do not count.

        A block of a file ends at a multiple of `block_rows` rows of the whole stream, wherever reading starts. A block
        of a pipe may end earlier, when the pipe has no more rows for now.
        """
        size = self.options.block_rows
        waiting: list[Block] = []
        row, end = 0, (start // size + 1) * size
        try:
            for rows in self._rows():
                first, n = max(0, min(rows.n_rows, start - row)), rows.n_rows
                while first < n:
                    take = min(n - first, end - max(row + first, start))
                    waiting.append(rows.between(first, first + take))
                    first += take
                    if row + first == end:
                        yield joined(waiting)
                        waiting, end = [], end + size
                row += n
                if waiting and not self.rewindable and not self._more_at_once():
                    yield joined(waiting)
                    waiting = []
        except StreamError:
            if waiting:  # what was read before the error is good
                yield joined(waiting)
            raise
        if waiting:
            yield joined(waiting)
        if row == 0:
            raise NoRowsError(f"{self.name}: there are no rows{self._left_out(self._bad)}")

    @staticmethod
    def _left_out(bad: BadLines) -> str:
        return f" ({bad.count} bad lines were skipped; the first: {bad.first})" if bad.count else ""

    def parts(self) -> Iterator[Part]:
        """Rows as they stand in the sources, before they are encoded."""
        return self._read(self._bad)

    def _rows(self) -> Iterator[Block]:
        if self.rewindable:
            self._bad, self.ignored = BadLines(self.options.on_bad_line == "skip"), Counter()
            parts = self._read(self._bad)
        else:
            if self._parts is None:
                self._parts = self._read(self._bad)
            elif not self._seen and self._failed is None:
                raise StreamError(f"{self.name}: can be read only once")
            parts, self._seen = chain(self._seen, self._rest()), []
        for part in parts:
            if self.schema is None:
                self.schema = part.infer(self.options)
            self.schema = part.extend(self.schema, self.options, self.ignored)
            for schema, piece in part.pieces(self.schema, self.options):
                self.schema = schema
                yield from self._encoded(piece)

    def _rest(self) -> Iterator[Part]:
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error
        assert self._parts is not None
        yield from self._parts

    def _encoded(self, part: Part) -> Iterator[Block]:
        """Encode a part; where a row of it cannot be read, those before it come before the error."""
        assert self.schema is not None
        try:
            rows = part.encode(self.schema, self.options, self._bad)
        except BadLineError as error:
            if good := int(np.searchsorted(np.asarray(part.lines), error.line)):
                yield from self._encoded(part[:good])
            raise
        yield rows

    def _read(self, bad: BadLines) -> Iterator[Part]:
        before = self.schema
        # Files are read once to find the columns and then again; a pipe only once, with what it has shown so far
        known = (lambda: before) if self.rewindable else (lambda: self.schema)
        for source in self.sources:
            with open_source(source, self.options.flush_seconds) as (file, head):
                self._live = file if isinstance(file, LiveFile) else None
                format = self.options.format or format_of(source.path, head)
                options = replace(self.options, format=format)
                if head:
                    yield from FORMATS[format].read(file, Reading(source.name, options, known, bad))


def _classes(part: Part, schema: Schema | None, options: StreamOptions, bad: BadLines) -> set[Label]:
    if schema is None or part.label_cells is None:
        return set()
    y = part.encode(replace(schema, classes=None), options, bad).y
    return set() if y is None else set(np.unique(whole_if_possible(y)).tolist())

"""A stream: rows of any source as blocks of bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bomkl.streams.errors import BadLineError, BadLines, StreamError
from bomkl.streams.formats import READERS, format_of
from bomkl.streams.labels import whole_if_possible
from bomkl.streams.options import Options
from bomkl.streams.parts import Part, Rows
from bomkl.streams.reading import Reading
from bomkl.streams.schema import Label, Schema
from bomkl.streams.sources import Source, expand, open_source

_MOST_CLASSES = 1000


class Block(NamedTuple):
    """Some rows: a dense array or a CSR matrix, and their labels (None where labels are not read)."""

    X: Any
    y: NDArray[Any] | None


def open_stream(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    label: str | int | None = None,
    labels: bool = True,
    target: Literal["class", "number"] = "class",
    header: bool = True,
    delimiter: str | None = None,
    ignore: Sequence[str] = (),
    strings: Sequence[str] = (),
    missing: str | float = "error",
    categorical: str = "vocabulary",
    buckets: int = 1024,
    max_values: int = 1000,
    zero_based: bool = False,
    n_features: int | None = None,
    on_bad_line: Literal["stop", "skip"] = "stop",
    block_rows: int = 4096,
    schema: Schema | None = None,
) -> Stream:
    r"""Open files, a glob or standard input as a stream of blocks.

    gzip, bz2 and zstd are recognised by content.

    Parameters
    ----------
    inputs : path, or sequence of paths
        Paths, globs, or ``"-"`` for standard input, read one after the other.
    format : {"svmlight", "csv", "tsv", "jsonl", "parquet", "arrow", "npz"} or None, default=None
        None: by the file name, or failing that by the content.
    label : str, int or None, default=None
        Name or position of the label column of a table; None stands for ``"label"``.
    labels : bool, default=True
        Whether labels are read. Without, they may be absent, and blocks have None for them.
    target : {"class", "number"}, default="class"
        What labels are: classes, or numbers to regress on.
    header : bool, default=True
        Whether the first line of CSV or TSV names the columns; otherwise their names are 0, 1, 2 ...
    delimiter : str or None, default=None
        Column separator; None: a tab for TSV, else a comma.
    ignore : sequence of str, default=()
        Columns of a table to leave out.
    strings : sequence of str, default=()
        Columns of a table to take as strings even though they look like numbers.
    missing : {"error", "skip"} or float, default="error"
        What a missing value leads to: a bad line, a row silently left out, or this number in its place (a missing
        string then has none of the features of its column).
    categorical : {"vocabulary", "hash", "error"}, default="vocabulary"
        How string columns become features: one feature per value that the schema records (other values have none),
        hashed into `buckets` features, or not at all.
    buckets : int, default=1024
        Features that all hashed columns share.
    max_values : int, default=1000
        Most values a vocabulary may hold.
    zero_based : bool, default=False
        Whether svmlight indices start at 0.
    n_features : int or None, default=None
        Width of svmlight rows; None: what the schema says, else the largest index of the first block.
    on_bad_line : {"stop", "skip"}, default="stop"
        Whether a bad line raises `BadLineError`, or is left out and counted in `skipped`.
    block_rows : int, default=4096
        Rows of a block; the last may be shorter.
    schema : Schema or None, default=None
        Meaning of the columns, from an earlier stream; None: guessed from the first block (or see `Stream.scan`).

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
    options = Options(
        format=format,
        label=label,
        labels=labels,
        target=target,
        header=header,
        delimiter=delimiter,
        ignore=tuple(ignore),
        strings=tuple(strings),
        missing=missing,
        categorical=categorical,
        buckets=buckets,
        max_values=max_values,
        zero_based=zero_based,
        n_features=n_features,
        on_bad_line=on_bad_line,
        block_rows=block_rows,
    )
    return Stream(expand(inputs), options, schema)


class Stream:
    """Rows of one or more sources. Iterating gives blocks; files can be iterated again, standard input once.

    Parameters
    ----------
    sources : list of Source
        Where the rows come from.
    options : Options
        How to read them.
    schema : Schema or None, default=None
        Meaning of the columns; None: guessed from the first block.
    """

    def __init__(self, sources: list[Source], options: Options, schema: Schema | None = None) -> None:
        self.sources = sources
        self.options = options
        self.schema = schema
        self._bad = BadLines(options.on_bad_line == "skip")
        self._parts: Iterator[Part] | None = None  # of a source that cannot be read twice
        self._seen: list[Part] = []  # parts of it that `scan` looked at and no block has used yet

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
        """Bad lines left out in the latest reading."""
        return self._bad.count

    @property
    def first_skipped(self) -> BadLineError | None:
        """The first bad line left out in the latest reading."""
        return self._bad.first

    def scan(self, look_ahead: int = 16) -> Schema:
        """Find the columns, their vocabularies and the classes, and keep them in `schema`.

        Files are read from start to end for this, so a bad line is found before any row is learned; of standard input
        only the beginning is looked at.

        Parameters
        ----------
        look_ahead : int, default=16
            How many blocks of standard input to look at; they are held in memory until they are read.

        Returns
        -------
        Schema
            What was found.
        """
        bad = BadLines(self.options.on_bad_line == "skip")
        if self.rewindable:
            parts = self._read(bad)
        else:
            self._parts = self._read(self._bad)
            self._seen = list(islice(self._parts, look_ahead))
            parts = iter(self._seen)
        given = self.schema
        found: set[Label] = set()
        for part in parts:
            if given is None:
                self.schema = part.infer(self.options) if self.schema is None else part.widen(self.schema, self.options)
            if self.options.labels and self.options.target == "class" and len(found) <= _MOST_CLASSES:
                found.update(_classes(part, self.schema, self.options, bad))
        if self.schema is None:
            raise StreamError(f"{self.name}: there are no rows")
        if len(found) > _MOST_CLASSES:
            raise StreamError(f"{self.name}: more than {_MOST_CLASSES} different labels; these are not classes")
        if found and self.schema.classes is None:
            if any(isinstance(label, str) for label in found):
                self.schema = replace(self.schema, label_kind="string")
                found = {str(label) for label in found}
            self.schema = replace(self.schema, classes=tuple(sorted(found)))
        return self.schema

    def __iter__(self) -> Iterator[Block]:
        return self.blocks()

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Blocks from row `start` on (counted from 0, bad lines not counted).

        Blocks end at multiples of `block_rows` rows of the whole stream, wherever reading starts.
        """
        size = self.options.block_rows
        waiting: list[Rows] = []
        held, row = 0, 0
        end = (start // size + 1) * size
        for X, y in self._rows():
            rows = X.shape[0]
            first = max(0, min(rows, start - row))
            while first < rows:
                take = min(rows - first, end - max(row + first, start))
                part = slice(first, first + take)
                waiting.append((X, y) if take == rows else (X[part], None if y is None else y[part]))
                held += take
                first += take
                if row + first == end:
                    yield _join(waiting)
                    waiting, held, end = [], 0, end + size
            row += rows
        if held:
            yield _join(waiting)
        if row == 0:
            left_out = (
                f" ({self.skipped} bad lines were skipped; the first: {self.first_skipped})" if self.skipped else ""
            )
            raise StreamError(f"{self.name}: there are no rows{left_out}")

    def parts(self) -> Iterator[Part]:
        """Rows as they stand in the sources, before they are encoded."""
        return self._read(self._bad)

    def _rows(self) -> Iterator[Rows]:
        if self.rewindable:
            self._bad = BadLines(self.options.on_bad_line == "skip")
            parts = self._read(self._bad)
        else:
            if self._parts is None:
                self._parts = self._read(self._bad)
            elif not self._seen:
                raise StreamError(f"{self.name}: can be read only once")
            parts, self._seen = chain(self._seen, self._parts), []
        for part in parts:
            if self.schema is None:
                self.schema = part.infer(self.options)
            yield part.encode(self.schema, self.options, self._bad)

    def _read(self, bad: BadLines) -> Iterator[Part]:
        for source in self.sources:
            with open_source(source) as (file, head):
                format = self.options.format or format_of(source.path, head)
                options = replace(self.options, format=format)
                if head:
                    yield from READERS[format](file, Reading(source.name, options, self.schema, bad))


def _join(rows: list[Rows]) -> Block:
    if len(rows) == 1:
        return Block(*rows[0])
    matrices = [X for X, _ in rows]
    X = sparse.csr_array(sparse.vstack(matrices)) if sparse.issparse(matrices[0]) else np.concatenate(matrices)
    labels = [y for _, y in rows if y is not None]
    return Block(X, np.concatenate(labels) if labels else None)


def _classes(part: Part, schema: Schema | None, options: Options, bad: BadLines) -> set[Label]:
    """Labels that occur in some rows."""
    if schema is None or part.label_cells is None:
        return set()
    _, y = part.encode(replace(schema, classes=None), options, bad)
    return set() if y is None else set(np.unique(whole_if_possible(y)).tolist())

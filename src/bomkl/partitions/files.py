"""Files as partitions, and processes of this machine that learn from them.

Parquet files are split at row groups, text files at line ends, and files that cannot be split, such as compressed ones,
are one partition each. Workers read their part of a file themselves.
"""

from __future__ import annotations

import io
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from time import process_time
from typing import Any, BinaryIO, Self

import numpy as np

from bomkl._support.stream_options import StreamOptions
from bomkl.partitions import GROUP, Call, Gains, Job, Means, Piece, Runner, Static, named, piece_sums
from bomkl.streams.errors import BadLines, StreamError
from bomkl.streams.formats.registry import FORMATS, format_of
from bomkl.streams.parts import joined
from bomkl.streams.reading import Reading
from bomkl.streams.schema import Schema
from bomkl.streams.sources import Source, expand, open_source

_ROWS = 1 << 17  # of a partition of Parquet, at least one row group
_BYTES = 1 << 24  # of a partition of a text file
_TEXT = ("svmlight", "csv", "tsv", "jsonl")


@dataclass(frozen=True)
class FilePartition:
    """A part of a file: row groups of Parquet, bytes of a text file, or all of it (where `end` is 0)."""

    path: str
    format: str
    begin: int = 0
    end: int = 0

    @property
    def name(self) -> str:
        if not self.end:
            return self.path
        unit = "row groups" if self.format == "parquet" else "bytes"
        return f"{self.path}, {unit} {self.begin} to {self.end}"

    def open(self, header: bool) -> tuple[BinaryIO, str]:
        """Open it, and tell its format; `header` says whether the first line of a table names the columns."""
        if self.format == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.path) as file:
                table = file.read_row_groups(range(self.begin, self.end), use_threads=False)
            buffer = io.BytesIO()
            with pa.ipc.new_stream(buffer, table.schema) as writer:
                writer.write_table(table)
            buffer.seek(0)
            return buffer, "arrow"
        with open(self.path, "rb") as text:
            first = text.readline() if header and self.begin and self.format in ("csv", "tsv") else b""
            text.seek(self.begin)
            return io.BytesIO(first + text.read(self.end - self.begin)), self.format


def file_partitions(inputs: Sequence[str], options: StreamOptions) -> list[FilePartition]:
    """Split files, globs and folders into partitions."""
    return [part for source in expand(inputs) for part in _split(source, options)]


def _split(source: Source, options: StreamOptions) -> Iterator[FilePartition]:
    if not source.rewindable:
        raise StreamError(f"{source.name}: workers read files themselves, so it must be a file, a folder or a glob")
    with open_source(source, 0.0) as (file, head):
        if not head:
            return
        found, compressed = (
            options.format or format_of(source.path, head),
            not hasattr(file, "fileno") or file.read(4) != head[:4],
        )
    if found == "parquet":
        yield from _row_groups(source.path)
    elif found in _TEXT and not compressed and not _may_hold_line_ends(source.path, found, options):
        yield from _lines(source.path, found)
    else:
        yield FilePartition(source.path, found)


def _row_groups(path: str) -> Iterator[FilePartition]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    except Exception as error:
        raise StreamError(f"{path}: not readable as Parquet: {str(error)[:200]}") from error
    begin, rows = 0, 0
    for i, size in enumerate(sizes):
        if rows and rows + size > _ROWS:
            yield FilePartition(path, "parquet", begin, i)
            begin, rows = i, 0
        rows += size
    if rows:
        yield FilePartition(path, "parquet", begin, len(sizes))


def _may_hold_line_ends(path: str, format: str, options: StreamOptions) -> bool:
    """Whether cells of a table may be quoted, and so hold line ends."""
    if format not in ("csv", "tsv"):
        return False
    marks = [mark.encode() for mark in (options.quote, options.escape) if mark]
    with open(path, "rb") as file:
        return any(mark in block for block in iter(lambda: file.read(1 << 20), b"") for mark in marks)


def _lines(path: str, format: str) -> Iterator[FilePartition]:
    size, begin = os.path.getsize(path), 0
    with open(path, "rb") as file:
        while begin < size:
            file.seek(min(begin + _BYTES, size))
            file.readline()
            end = file.tell()
            yield FilePartition(path, format, begin, end)
            begin = end


@dataclass(frozen=True)
class RowReader:
    """Reads partitions the same way everywhere."""

    parts: tuple[FilePartition, ...]
    options: StreamOptions
    schema: Schema

    def __call__(self, number: int) -> tuple[Any, Any, Any]:
        """Rows, labels and weights of a partition."""
        part = self.parts[number]
        with named(number, part.name):
            if part.end:
                file, format = part.open(self.options.header)
                return self._rows(file, part, format)
            with open_source(Source(part.path), 0.0) as (whole, _):
                return self._rows(whole, part, part.format)

    def _rows(self, file: BinaryIO, part: FilePartition, format: str) -> tuple[Any, Any, Any]:
        options = replace(self.options, format=format)
        bad = BadLines(options.on_bad_line == "skip")
        found = [
            each.encode(self.schema, options, bad)
            for each in FORMATS[format].read(file, Reading(part.name, options, lambda: self.schema, bad))
        ]
        if not found:
            return np.empty((0, self.schema.n_features)), np.empty(0), None
        block = joined(found)
        return block.X, block.y, block.weight


# ---------------------------------------------------------------- processes of this machine

_reader: RowReader | None = None
_static: Static | None = None


def _begin(reader: RowReader, static: Static | None) -> None:
    global _reader, _static
    _reader, _static = reader, static


@lru_cache(maxsize=GROUP)
def _table(number: int) -> tuple[Any, ...]:
    assert _reader is not None
    return _reader(number)


def _call(function: Callable[..., Any], partitions: list[int], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    begun = process_time()
    return function(*[_table(number) for number in partitions], *arguments), process_time() - begun


def _gains(table: tuple[Any, ...], piece: Piece, means: Means) -> Gains:
    assert _static is not None
    return piece_sums(_static, means, piece, *table)


class PoolRunner(Runner):
    """Processes that read partitions and add up their rows; one that dies is replaced."""

    def __init__(self, reader: RowReader, workers: int) -> None:
        self.reader, self.workers = reader, workers
        self.static: Static | None = None
        self.busy = 0.0  # seconds of processor time that all calls took
        self.pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, _begin, (self.reader, self.static))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)

    def place(self, partition: int) -> str:
        return self.reader.parts[partition].name

    def gains(self, job: Job, pieces: list[Piece]) -> Iterable[Gains]:
        if self.static is None:
            self.static = job.static()
            self.pool.shutdown(wait=True)
            self.pool = self._new_pool()
        means = job.means()
        for _, gains in self.results([(_gains, [piece.partition], (piece, means)) for piece in pieces]):
            yield gains

    def attempt(self, calls: dict[int, Call]) -> Iterator[tuple[int, Any]]:
        """Submit all calls to the pool; where a process dies, make a new pool."""
        futures: dict[Future[Any], int] = {}
        try:
            futures = {self.pool.submit(_call, *call): i for i, call in calls.items()}
            for future in as_completed(futures):
                result, seconds = future.result()
                self.busy += seconds
                yield futures[future], result
        except BrokenProcessPool:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = self._new_pool()
        finally:
            for future in futures:
                future.cancel()

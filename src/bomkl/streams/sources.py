"""Where bytes come from: files, globs and standard input, decompressed."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from bomkl.streams.errors import StreamError

STDIN = "-"
_HEAD = 1 << 16  # bytes looked at to tell compression and format


@dataclass(frozen=True)
class Source:
    """One file, or standard input.

    Parameters
    ----------
    path : str
        Path of the file, or ``"-"``.
    """

    path: str

    @property
    def name(self) -> str:
        """Name in messages."""
        return "<stdin>" if self.path == STDIN else self.path

    @property
    def rewindable(self) -> bool:
        """Whether the source can be read again from its start."""
        return self.path != STDIN and os.path.isfile(self.path)


def expand(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Turn paths, globs and ``"-"`` into sources; a glob gives its files in sorted order."""
    if isinstance(inputs, str | os.PathLike):
        inputs = [inputs]
    sources: list[Source] = []
    for item in inputs:
        path = os.fspath(item)
        if path == STDIN or os.path.exists(path):
            sources.append(Source(path))
        elif glob.has_magic(path) and (found := sorted(glob.glob(path, recursive=True))):
            sources.extend(Source(name) for name in found)
        else:
            raise StreamError(f"{path}: no such file")
    if not sources:
        raise StreamError("No input was given: a path, a glob or '-' for standard input is needed.")
    if sum(source.path == STDIN for source in sources) > 1:
        raise StreamError("Standard input ('-') can be read only once.")
    return sources


@contextmanager
def open_source(source: Source) -> Iterator[tuple[BinaryIO, bytes]]:
    """Open a source for reading; gives the decompressed bytes and, as a look ahead, the first of them."""
    try:
        raw: Any = sys.stdin.buffer if source.path == STDIN else open(source.path, "rb")  # noqa: SIM115
    except OSError as error:
        raise StreamError(f"{source.name}: {error.strerror or error}") from error
    try:
        file, head = _look_ahead(raw, raw.seekable())
        decompressed = _decompressed(file, head, source.name)
        if decompressed is not None:
            file, head = _look_ahead(decompressed, seekable=False)
        yield file, head
    except (EOFError, zlib.error, OSError) as error:
        raise StreamError(f"{source.name}: cannot read: {error}") from error
    finally:
        if source.path != STDIN:
            raw.close()


def _decompressed(file: BinaryIO, head: bytes, name: str) -> Any:
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        pyarrow = require_pyarrow(name)
        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
    return None


def require_pyarrow(name: str) -> Any:
    """Import pyarrow, or say what to install to read the source."""
    try:
        import pyarrow
    except ImportError as error:
        raise StreamError(f"{name}: reading this needs pyarrow. Install it with: pip install 'bomkl[arrow]'") from error
    return pyarrow


def _look_ahead(file: Any, seekable: bool) -> tuple[BinaryIO, bytes]:
    head = b""
    while len(head) < _HEAD and (more := file.read(_HEAD - len(head))):
        head += more
    if seekable:
        file.seek(-len(head), io.SEEK_CUR)
        return cast(BinaryIO, file), head
    return cast(BinaryIO, io.BufferedReader(_Pushback(head, file), 1 << 18)), head


class _Pushback(io.RawIOBase):
    """Gives back bytes that were looked at, then the rest of a file that cannot seek."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = memoryview(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if len(self._head):
            taken = self._head[: len(buffer)]
            self._head = self._head[len(taken) :]
        else:
            taken = memoryview(self._rest.read(len(buffer)))
        buffer[: len(taken)] = taken
        return len(taken)

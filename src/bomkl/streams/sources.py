"""Where bytes come from: files, globs and standard input, decompressed."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bomkl._support.extras import install_hint
from bomkl.streams.errors import StreamError
from bomkl.streams.live import LiveFile

STDIN = "-"
MAGIC_NUMBERS: dict[bytes, str] = {}  # what files of binary formats begin with; `register_format` fills it
_HEAD = 1 << 16  # bytes looked at to tell compression and format
_COMPRESSION_MAGIC = 4  # bytes of the longest magic number below


@dataclass(frozen=True)
class Source:
    """One file, or standard input."""

    path: str  # of the file, or "-"

    @property
    def name(self) -> str:
        return "<stdin>" if self.path == STDIN else self.path

    @property
    def rewindable(self) -> bool:
        """Whether the source can be read again from its start."""
        return self.path != STDIN and os.path.isfile(self.path)


@runtime_checkable
class Lines(Protocol):
    """A source of JSON lines that is not a file: what a broker sends."""

    name: str
    path: str
    rewindable: bool
    bad: Any  # what decides what a line that cannot be read leads to

    def open(self) -> AbstractContextManager[tuple[Any, bytes]]:
        """Open it; gives the lines and, as a look ahead, how they begin."""


def expand(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Turn paths, globs and ``"-"`` into sources; a folder or a glob gives its files in sorted order."""
    if isinstance(inputs, str | os.PathLike):
        inputs = [inputs]
    sources: list[Source] = []
    for item in inputs:
        path = os.fspath(item)
        if os.path.isdir(path):
            if not (inside := sorted(entry.path for entry in os.scandir(path) if _is_data(entry))):
                raise StreamError(f"{path}: there are no files in this folder")
            sources.extend(map(Source, inside))
        elif path == STDIN or os.path.exists(path):
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


def _is_data(entry: os.DirEntry[str]) -> bool:
    return entry.is_file() and not entry.name.startswith((".", "_"))  # such as _SUCCESS, beside what other tools write


@contextmanager
def open_source(source: Source | Lines, flush_seconds: float) -> Iterator[tuple[Any, bytes]]:
    """Open a source for reading; gives the decompressed bytes and, as a look ahead, the first of them."""
    if not isinstance(source, Source):
        with source.open() as opened:
            yield opened
        return
    try:
        raw: Any = sys.stdin.buffer if source.path == STDIN else open(source.path, "rb")  # noqa: SIM115
    except (OSError, AttributeError) as error:  # standard input may be closed
        raise StreamError(f"{source.name}: {getattr(error, 'strerror', None) or 'is closed'}") from error
    try:
        yield _opened_file(raw, source.name) if raw.seekable() else _opened_pipe(raw, source.name, flush_seconds)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        broken = not isinstance(error, OSError) or error.errno is None  # bz2 has no exception of its own
        raise StreamError(
            f"{source.name}: {'is damaged or cut short' if broken else 'cannot read'}: {error}"
        ) from error
    finally:
        if source.path != STDIN:
            raw.close()


def _opened_file(raw: Any, name: str) -> tuple[Any, bytes]:
    head = raw.read(_HEAD)
    raw.seek(-len(head), io.SEEK_CUR)
    decompressed = _decompressed(raw, head, name)
    if decompressed is None:
        return raw, head
    head = decompressed.read(_HEAD)
    return io.BufferedReader(_Pushback(head, decompressed), 1 << 18), head


def _opened_pipe(raw: Any, name: str, flush_seconds: float) -> tuple[LiveFile, bytes]:
    pipe = _raw_pipe(raw)
    head = b""
    while len(head) < _COMPRESSION_MAGIC and (more := pipe.read(_COMPRESSION_MAGIC - len(head))):
        head += more
    unread = _Pushback(head, pipe)
    decompressed = _decompressed(unread, head, name)
    read = unread.read if decompressed is None else getattr(decompressed, "read1", decompressed.read)
    file = LiveFile(read, flush_seconds)
    return file, file.look_ahead(_tells_format)


def _raw_pipe(raw: Any) -> Any:
    try:
        return io.FileIO(raw.fileno(), closefd=False)  # gives what is there, and leaves no lock behind at exit
    except (OSError, AttributeError):  # something that only looks like a file
        return raw


def _tells_format(head: bytes) -> bool:
    """Whether the first bytes are enough to tell a format by: a magic number, or a line that is not a comment."""
    if len(head) >= _HEAD or head.startswith(tuple(MAGIC_NUMBERS)):
        return True
    return any(line.strip() and not line.startswith(b"#") for line in head.split(b"\n")[:-1])


def _decompressed(file: Any, head: bytes, name: str) -> Any:
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file, mode="rb")
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head.startswith(b"\xfd7zX"):
        return lzma.LZMAFile(file)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        pyarrow = require_pyarrow(name)
        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
    return None


def require_pyarrow(name: str) -> Any:
    """Import pyarrow, or say what to install to read the source."""
    try:
        import pyarrow
    except ImportError as error:
        raise StreamError(f"{name}: reading this needs pyarrow. {install_hint('arrow')}") from error
    return pyarrow


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

"""Files that are written whole or not at all, and locks that keep two processes from writing the same one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not a POSIX system: there, locks are left out
    fcntl = None  # type: ignore[assignment]

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class BusyError(OSError):
    """Another process holds the lock."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` once all of it is on the disk.

    The temporary file lies in the same folder under a random name that did not exist before, so no link is followed and
    nobody's file is touched. A file that is replaced hands its mode on. If `path` is a link, the file it names is
    replaced.

    Parameters
    ----------
    path : path
        The file to replace, or to make.

    Yields
    ------
    file : binary file
        Where to write.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    mode = _mode_of_regular(target)
    temporary = os.path.join(folder, f".bomkl-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, _NEW, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        _sync_folder(folder)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file; raises `BusyError` if another process holds it.

    The lock is that of a file beside it, ``.NAME.lock``, and ends with its process, so what a killed process left
    behind is in nobody's way.

    Parameters
    ----------
    path : path
        The file that only one process is to write.
    """
    folder, name = os.path.split(os.path.realpath(path))
    beside = os.path.join(folder, f".{name}.lock")
    if fcntl is None:
        yield
        return
    descriptor = _open_locked(beside, os.fspath(path))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)  # while it is locked: whoever opens it now looks whether it is still there
        os.close(descriptor)


def _open_locked(beside: str, path: str) -> int:
    while True:
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(beside).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except FileNotFoundError:  # the one who held it has just removed it
            pass
        except BlockingIOError as error:
            os.close(descriptor)
            raise BusyError(error.errno, "another process is writing this file", path) from error
        os.close(descriptor)


def _mode_of_regular(path: str) -> int | None:
    """Permissions of a file, None where there is none; what is not a regular file cannot be replaced."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file, so no new file may take its place", path)
    return stat.S_IMODE(status.st_mode)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files that are written whole or not at all, and locks that keep two processes from writing the same one.

The package filelock takes longer to import than a command takes to start, and leaves its files behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_POSIX = os.name == "posix"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_LOCK_FILE = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

_ORPHAN_AFTER = 60.0  # seconds since a temporary file was last written to


class BusyError(OSError):
    """Another process holds the lock."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` once all of it is on the disk.

    The temporary file lies in the same folder under a random name that did not exist before, so no link is followed and
    nobody's file is touched. A file that is replaced hands its mode on. If `path` is a link, the file it names is
    replaced. Temporary files that killed processes left behind when they wrote the same file are deleted.

    The file may not be there yet. Returns where to write.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    mode = _mode_of_regular(target)
    _delete_orphans(target)
    with _naming(path):
        descriptor, temporary = _new_temporary(target)
    alive = -1
    try:
        with os.fdopen(descriptor, "wb") as file:
            alive = os.dup(descriptor)  # holds the lock until the file has its name
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(descriptor)
        if not _POSIX:  # there, an open file cannot be renamed
            os.close(alive)
            alive = -1
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:  # such as a disk that is full
            error.filename = os.fspath(path)
        raise
    finally:
        if alive >= 0:
            os.close(alive)
    if _POSIX:
        _sync_folder(folder)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file; raises `BusyError` if another process holds it.

    The lock is that of a file beside it, ``.NAME.lock``, and ends with its process: a file that a killed process left
    behind blocks nobody.

    `path`: the file that only one process is to write.
    """
    folder, name = os.path.split(os.path.realpath(path))
    lock_path = os.path.join(folder, f".{name}.lock")
    descriptor = _open_locked(lock_path, os.fspath(path))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows does not delete open files
            os.unlink(lock_path)  # while it is locked: whoever opens it now looks whether it is still there
        os.close(descriptor)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an error name the file that is to be written, not the one that is made beside it for a while."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def _names_of_temporaries(target: str) -> str:
    """How the names of all temporary files of a target begin."""
    return f".bomkl-{zlib.crc32(os.fsencode(os.path.basename(target))):08x}-"


def _new_temporary(target: str) -> tuple[int, str]:
    """Make a temporary file and lock it: the lock ends with the process, and tells others that it is alive."""
    while True:
        name = f"{_names_of_temporaries(target)}{secrets.token_hex(8)}.tmp"
        path = os.path.join(os.path.dirname(target), name)
        descriptor = os.open(path, _NEW, 0o666)
        if try_lock(descriptor) is not False and os.path.exists(path):
            return descriptor, path
        os.close(descriptor)  # someone took it for an orphan in the moment before it was locked


def _delete_orphans(target: str) -> None:
    """Delete temporary files of a target whose writers are dead: those of some age that nobody has locked."""
    folder, names = os.path.dirname(target), re.escape(_names_of_temporaries(target)) + r"[0-9a-f]{16}\.tmp"
    with contextlib.suppress(OSError):  # a folder may be written to and not listed
        for name in os.listdir(folder):
            if re.fullmatch(names, name):
                with contextlib.suppress(OSError):
                    _delete_if_orphan(os.path.join(folder, name))


def _delete_if_orphan(path: str) -> None:
    if not _POSIX:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        # The age is for file systems on which machines do not see each other's locks
        orphan = stat.S_ISREG(status.st_mode) and status.st_mtime < time.time() - _ORPHAN_AFTER
        if orphan and try_lock(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file; False if another has locked it, None where there are no locks."""
    try:
        return _lock(descriptor) if _POSIX else None  # Windows would refuse to let others read the file
    except OSError:
        return None


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _open_locked(lock_path: str, path: str) -> int:
    while True:
        with _naming(path):
            descriptor = os.open(lock_path, _LOCK_FILE, 0o600)
        try:
            if not _lock(descriptor):
                raise BusyError(errno.EAGAIN, "another process is writing this file", path)
            if os.stat(lock_path).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except FileNotFoundError:  # the one who held it has just removed it
            pass
        except OSError:
            os.close(descriptor)
            raise
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

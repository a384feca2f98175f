"""The end of the log in a file of its own: a log that was deleted, cut off or put back from a copy is noticed."""

from __future__ import annotations

import contextlib
import os
import time

from bomkl.serve.errors import LogError
from bomkl.serve.storage.entry import Place, row_checksum

_READS, _PAUSE = 3, 0.01  # it may be read while the service writes it


class Mark:
    """Says where the log ended at least.

    It is written after each commit, without waiting for the disk. So after a crash of the machine it may be old, but it
    is never ahead of the log.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    def read(self) -> Place | None:
        """Return what was written last; None if nothing was."""
        for _ in range(_READS):
            try:
                with open(self.path, "rb") as file:
                    text = file.read(1000)
            except FileNotFoundError:
                return None
            with contextlib.suppress(ValueError):
                seq, rows, digest, _ = text.decode("ascii").split(" ")
                place = Place(int(seq), int(rows), bytes.fromhex(digest))
                if text == _record(place):
                    return place
            if not text:
                return None
            time.sleep(_PAUSE)
        raise LogError(
            f"{self.path}: is damaged (byte 0 to {len(text)}); it must say where the log ends. 'bomkl replay DIR "
            "--repair' writes it again if the log is whole."
        )

    def write(self, place: Place) -> None:
        with contextlib.suppress(OSError):  # the log is what counts
            new = self._descriptor < 0
            if new:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, _record(place))
            if new:
                os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


def _record(place: Place) -> bytes:
    """Write a line that has the same length for every place: one is written over another."""
    digest = place.digest.hex()
    check = row_checksum(place.seq, place.rows, digest).hex()
    return f"{place.seq:020} {place.rows:020} {digest} {check}\n".encode()

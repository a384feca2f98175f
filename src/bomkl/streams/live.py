"""Pipes as they fill: a thread reads, and what it has read is handed on at the latest after a short time.

Bytes come in bursts. A burst ends when it is large, when some time has passed since its first byte, or when the pipe
ends; readers of formats hand on all rows of a burst before they wait for the next. So rows from a slow pipe are learned
soon, and those from a fast one in large blocks.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

BURST = 1 << 20  # bytes at which a burst ends
_CHUNK = 1 << 16  # bytes read at a time: what a pipe holds on Linux
_AHEAD = 4 * BURST  # bytes read ahead of what is used


class LiveFile:
    """A file that cannot seek, read by a thread and handed on in bursts.

    `read`: gives up to so many bytes, as soon as there are any; none at the end. `flush_seconds`: how long a burst may
    wait for more.
    """

    def __init__(self, read: Callable[[int], bytes], flush_seconds: float) -> None:
        self._read, self._flush_seconds = read, flush_seconds
        self._chunks: deque[bytes] = deque()
        self._waiting = 0  # bytes in the chunks
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._burst = io.BytesIO()
        self._size, self._last_line = 0, 0  # of the burst: its bytes, and those up to its last line end

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        """Tell that it is open; pyarrow asks."""
        return False

    def has_line(self) -> bool:
        """Tell whether another line can be read without waiting."""
        return self._burst.tell() < self._last_line

    def readline(self, limit: int) -> bytes:
        line = self._burst.readline(limit)
        if line.endswith(b"\n") or len(line) == limit:
            return line
        parts = [line]
        length = len(line)
        while length < limit and self._next_burst():
            line = self._burst.readline(limit - length)
            parts.append(line)
            length += len(line)
            if line.endswith(b"\n"):
                break
        return b"".join(parts)

    def read1(self, size: int) -> bytes:
        """Read what is there, waiting only where that is nothing."""
        if self._burst.tell() == self._size:
            self._next_burst()
        return self._burst.read(size)

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or all to the end, waiting for them."""
        parts, length = [], 0
        while size < 0 or length < size:
            part = self.read1(-1 if size < 0 else size - length)
            if not part:
                break
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    def look_ahead(self, enough: Callable[[bytes], bool]) -> bytes:
        """Give the first bytes without using them up: as many as are there once they are enough."""
        head = self._burst.getvalue()
        while not enough(head) and self._next_burst():
            head += self._burst.getvalue()
        self._set_burst(head)
        return head

    def _next_burst(self) -> bool:
        """Wait for the next burst; false at the end."""
        if self._thread is None:
            # As a daemon it ends with the process, also while it waits for a pipe that never ends
            self._thread = threading.Thread(target=self._fill, name="bomkl-pipe", daemon=True)
            self._thread.start()
        with self._changed:
            while not self._chunks and not self._ended:
                self._changed.wait()
            deadline = monotonic() + self._flush_seconds
            while self._waiting < BURST and not self._ended and (left := deadline - monotonic()) > 0:
                self._changed.wait(left)
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._waiting = 0
            self._changed.notify_all()
            if not data and self._failure is not None:
                raise self._failure
        self._set_burst(data)
        return bool(data)

    def _set_burst(self, data: bytes) -> None:
        self._burst = io.BytesIO(data)
        self._size, self._last_line = len(data), data.rfind(b"\n") + 1

    def _fill(self) -> None:
        failure: BaseException | None = None
        try:
            while data := self._read(_CHUNK):
                with self._changed:
                    while self._waiting >= _AHEAD:
                        self._changed.wait()
                    self._chunks.append(data)
                    self._waiting += len(data)
                    self._changed.notify_all()
        except BaseException as error:
            failure = error
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify_all()

"""What a running service writes to standard error: the same thing at most once in a while, however often it happens."""

from __future__ import annotations

import logging
import sys
import threading
import time

_SECONDS = 10.0
_MOST_KINDS = 1000


class Sparing(logging.Filter):
    """Lets a message through if the last one of its kind was some time ago, and says how many it left out."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[object, tuple[float, int]] = {}  # when the last one was let through, and how many were not
        self._lock = threading.Lock()

    def left_out(self, kind: object) -> int | None:
        """Count a message; returns how many of its kind were left out before it, None if it is to be left out."""
        now = time.monotonic()
        with self._lock:
            last, count = self._kinds.get(kind, (now - _SECONDS, 0))
            if now - last < _SECONDS:
                self._kinds[kind] = last, count + 1
                return None
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            self._kinds[kind] = now, 0
            return count

    def filter(self, record: logging.LogRecord) -> bool:
        count = self.left_out((record.name, record.pathname, record.lineno))
        if count:
            record.msg = f"{record.msg} ({_more(count)})"
        return count is not None


_sparing = Sparing()


def report(kind: str, detail: object) -> None:
    if (count := _sparing.left_out(kind)) is not None:
        print(f"bomkl: {kind}: {detail}{f' ({_more(count)})' if count else ''}", file=sys.stderr)


def _more(count: int) -> str:
    return f"and {count} more that were not written"

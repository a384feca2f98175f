"""SIGINT, SIGTERM and SIGHUP: a command stops with its exit code, and a training run saves first."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_HUNG_UP = 130, 143, 129
_HANG_UP = getattr(signal, "SIGHUP", None)  # not on Windows
_NUMBERS = tuple(each for each in (signal.SIGINT, signal.SIGTERM, _HANG_UP) if each is not None)
_SAME_REQUEST = 1.0  # seconds


class Stopped(BaseException):
    """A signal asked the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let a signal raise `Stopped`."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    with _handled_by(stop):
        yield


class Deferred:
    """Lets signals wait while something must not be cut short; one more, a second later, ends the process at once.

    Sooner it is the same request: `timeout` and other programs that pass a signal on often send it twice.

    Examples
    --------
    >>> with Deferred() as signals:
    ...     with signals.waiting():  # Stopped may be raised here
    ...         pass
    ...     signals.received  # and elsewhere a signal is only noted
    0
    """

    def __init__(self) -> None:
        self.received = 0
        self._since = 0.0
        self._waiting = False
        self._handled: Any = None

    def __enter__(self) -> Deferred:
        self._handled = _handled_by(self._note)
        self._handled.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._handled.__exit__(None, None, None)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal raise `Stopped` here, also one that came before."""
        if self.received:
            raise Stopped(self.received)
        try:
            self._waiting = True
            yield
        finally:
            self._waiting = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            if time.monotonic() - self._since >= _SAME_REQUEST:
                os._exit(128 + number)
            return
        self.received, self._since = number, time.monotonic()
        if self._waiting:
            raise Stopped(number)


@contextlib.contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    # A terminal that is closed sends SIGHUP, which nohup has told the process to ignore
    numbers = [each for each in _NUMBERS if each != _HANG_UP or signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)

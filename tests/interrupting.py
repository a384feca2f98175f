"""Interrupts at random moments, for the tests of all estimators."""

import gc
import signal
import weakref
from contextlib import contextmanager


def would_be_lost(frame):
    """Whether Python only reports what is raised here: in a callback of a weak reference or garbage collector."""
    collecting = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code.co_filename == weakref.__file__ or frame.f_code in collecting:
            return True
        frame = frame.f_back
    return False


@contextmanager
def interrupted_after(seconds):
    """Raise KeyboardInterrupt in the main thread after some time, unless the block has ended before."""

    def interrupt(number, frame):
        if would_be_lost(frame):
            signal.setitimer(signal.ITIMER_REAL, 1e-5)
            return
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

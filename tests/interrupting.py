"""Interrupts at random moments, for the tests of all estimators."""

import signal
import weakref
from contextlib import contextmanager


def in_weakref_callback(frame):
    while frame is not None:
        if frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False


@contextmanager
def interrupted_after(seconds):
    """Raise KeyboardInterrupt in the main thread after some time, unless the block has ended before."""

    def interrupt(number, frame):
        if in_weakref_callback(frame):  # Python only reports what is raised there, so try again
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

"""Interrupts at random moments, for the tests of all estimators."""

import signal
from contextlib import contextmanager


@contextmanager
def interrupted_after(seconds):
    """Raise KeyboardInterrupt in the main thread after some time, unless the block has ended before."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

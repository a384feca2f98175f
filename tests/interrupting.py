"""Interrupts at random moments, threads and forked processes, for the tests of all estimators."""

import gc
import os
import signal
import threading
import time
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


def exit_code_of(child, seconds=120):
    """Exit code of a forked process; None, after ending it, where it hangs."""
    deadline = time.monotonic() + seconds
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


def in_threads(*works, seconds=120):
    """Do several things at the same time, and raise what went wrong first."""
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()
    if failures:
        raise failures[0]

"""Commands in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import time

from bomkl.cli import app


def in_a_process(*args, stdin=None, stdout=None, begin=lambda: None):
    """Run a command in a process of its own, without the time that imports take; `begin` is called there first."""
    child = os.fork()
    if child:
        return child
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for number, file in ((0, stdin), (1, stdout), (2, None)):
            os.dup2(null if file is None else file, number)
        os.closerange(3, 1000)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit that it is ignored,
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and those under nohup that this is
        begin()
        app([str(arg) for arg in args], standalone_mode=True)
    except SystemExit as done:
        os._exit(done.code or 0)
    except KeyboardInterrupt:  # before the command handles it, as in `bomkl.__main__`
        os._exit(128 + signal.SIGINT)
    except BaseException:
        os._exit(99)
    os._exit(0)


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()

"""The command line: ``bomkl train``, ``predict``, ``eval``, ``score``, ``inspect``, ``convert`` and more.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 bad data or a bad model, 2 wrong
usage, 129, 130 and 143 stopped by a closed terminal (SIGHUP), Ctrl-C or SIGTERM, 141 the reader of the output has gone.
Heavy imports wait until a command runs.
"""

from bomkl.cli.app import app

__all__ = ["app"]

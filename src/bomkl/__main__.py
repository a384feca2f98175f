"""``python -m bomkl`` is the same as ``bomkl``."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command line."""
    # Until a command handles signals itself, they end the process without a word: imports take a moment. Before this
    # line only `bomkl/__init__.py` is imported, which imports nothing but the version for that reason
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: os._exit(128 + received))
    from bomkl.cli import app

    app(prog_name="bomkl")


if __name__ == "__main__":
    main()

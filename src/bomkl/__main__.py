"""``python -m bomkl`` is the same as ``bomkl``."""

# Until a command handles signals itself, they end the process without a word: imports take a moment. What is imported
# before they are handled is as little as can be, here and in `bomkl/__init__.py`; `signal` would import `enum` and more
import _signal  # type: ignore[import-not-found]
import os


def main() -> None:
    """Run the command line."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, lambda received, frame: os._exit(128 + received))
    from bomkl.cli import app

    app(prog_name="bomkl")


if __name__ == "__main__":
    main()

"""``python -m bomkl`` is the same as ``bomkl``."""

# Until a command handles signals itself, they end the process without a word: imports take a moment. What is imported
# before they are handled is as little as can be, here and in `bomkl/__init__.py`; `signal` would import `enum` and more
import _signal  # type: ignore[import-not-found]
import os
import sys


class _PandasLater:
    """Keeps scikit-learn from importing pandas: 65 MB and half a second that only tables need.

    It takes pandas for a package that is not installed; whatever needs a table imports pandas itself.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas while `sklearn.utils.fixes` is being imported, the only module that asks for it."""
        if name == "pandas":
            fixes = getattr(sys.modules.get("sklearn.utils.fixes"), "__spec__", None)
            if getattr(fixes, "_initializing", False):
                raise ImportError(name)


def main() -> None:
    """Run the command line."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, lambda received, frame: os._exit(128 + received))
    sys.meta_path.insert(0, _PandasLater)
    from bomkl.cli import app
    from bomkl.cli.messages import fail, naming

    try:
        with naming("standard output"):
            app(prog_name="bomkl")
    except OSError as error:  # of the help and the version; commands handle their own
        fail(f"{error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()

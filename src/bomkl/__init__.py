"""Budget online multiple kernel learning: one pass, bounded memory, no kernel to choose."""

from bomkl._version import __version__

# Not that of `typing`, which takes long to import: until `bomkl.__main__` is there, Ctrl-C shows a traceback of Python
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from bomkl import paper
    from bomkl.auto import AutoMKLClassifier, AutoMKLRegressor
    from bomkl.budget import BudgetMKLClassifier, BudgetMKLRegressor
    from bomkl.merging import merge

__all__ = [
    "AutoMKLClassifier",
    "AutoMKLRegressor",
    "BudgetMKLClassifier",
    "BudgetMKLRegressor",
    "__version__",
    "merge",
    "paper",
]

# Imported on first use: scikit-learn takes longer to load than `bomkl --help` may take to answer.
_MODULE_OF = {
    "AutoMKLClassifier": "bomkl.auto",
    "AutoMKLRegressor": "bomkl.auto",
    "BudgetMKLClassifier": "bomkl.budget",
    "BudgetMKLRegressor": "bomkl.budget",
    "merge": "bomkl.merging",
}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name == "paper":
        return import_module("bomkl.paper")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'bomkl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

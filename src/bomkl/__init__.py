"""Budget online multiple kernel learning: one pass, bounded memory, no kernel to choose."""

from bomkl import paper
from bomkl.budget import BudgetMKLClassifier, BudgetMKLRegressor

__version__ = "0.1.0"
__all__ = ["BudgetMKLClassifier", "BudgetMKLRegressor", "__version__", "paper"]

"""The paper's framework: a pool of kernels, an update rule, a combiner and a budget, behind scikit-learn estimators."""

from bomkl.budget.classifier import BudgetMKLClassifier
from bomkl.budget.regressor import BudgetMKLRegressor

__all__ = ["BudgetMKLClassifier", "BudgetMKLRegressor"]

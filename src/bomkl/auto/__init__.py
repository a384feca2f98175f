"""Auto models: the lowest error in one pass with bounded memory and nothing to choose."""

from bomkl.auto.components.pool import PoolMember
from bomkl.auto.estimators.classifier import AutoMKLClassifier
from bomkl.auto.estimators.regressor import AutoMKLRegressor
from bomkl.auto.insight.explanations import Explanations
from bomkl.auto.rows.explain import Explanation

__all__ = ["AutoMKLClassifier", "AutoMKLRegressor", "Explanation", "Explanations", "PoolMember"]

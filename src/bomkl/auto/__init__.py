"""The zero-tuning learner: the lowest error in one pass with bounded memory and nothing to choose."""

from bomkl.auto.classifier import AutoMKLClassifier
from bomkl.auto.pool import PoolMember
from bomkl.auto.regressor import AutoMKLRegressor

__all__ = ["AutoMKLClassifier", "AutoMKLRegressor", "PoolMember"]

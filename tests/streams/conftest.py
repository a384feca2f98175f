"""Fixtures."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(50, 4)), 3)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, rng.choice([-1, 1], size=50)

"""Generated data, for sizes that no data set has."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bomkl import BudgetMKLClassifier
from bomkl.combiners import Uniform
from bomkl.learners import Perceptron


def susy_like(rows: int, d: int = 18, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Rows of two classes that overlap as SUSY's do: a fifth of them cannot be told apart, and not by a plane."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d), dtype=np.float32)
    w, v = np.linalg.qr(rng.normal(size=(d, 2)))[0].T.astype(np.float32)
    signal = X @ w + (X @ v) ** 2 - 1
    return X, np.where(signal + rng.standard_normal(rows, dtype=np.float32) > 0, 1, -1).astype(np.int8)


def text_like(
    rows: int, d: int = 100_000, nonzeros: int = 100, seed: int = 0
) -> tuple[scipy.sparse.csr_matrix, NDArray[np.int8]]:
    """CSR rows of unit length in which few columns are frequent and most are rare, as words are."""
    rng = np.random.default_rng(seed)
    band = d // nonzeros  # each non-zero comes from a band of its own, so that no two fall on one column
    indices = np.arange(nonzeros) * band + (band * rng.random((rows, nonzeros)) ** 3).astype(np.int32)
    values = rng.random((rows, nonzeros), dtype=np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    X = scipy.sparse.csr_matrix(
        (values.ravel(), indices.ravel().astype(np.int32), nonzeros * np.arange(rows + 1)), shape=(rows, d)
    )
    signal = np.asarray(X @ rng.normal(size=d))
    return X, np.where(signal > np.median(signal), 1, -1).astype(np.int8)


def model_with_pool(kernels: list[Any], rows: int, d: int) -> BudgetMKLClassifier:
    """Make a float32 model that stores so many rows, each in use by every kernel.

    Its state is put together rather than learned, because learning 100,000 rows takes minutes.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, d), dtype=np.float32) / np.float32(np.sqrt(d))
    model = BudgetMKLClassifier(kernels, Perceptron(), Uniform(), selection_delta=None, random_state=0)
    model.partial_fit(X[:2], [-1, 1])
    state = model._engine.state()
    state["rows"] = X
    state["term_starts"] = rows * np.arange(len(kernels) + 1)
    state["term_rows"] = np.tile(np.arange(rows, dtype=np.int32), len(kernels))
    state["term_coefs"] = rng.choice([-1.0, 1.0], rows * len(kernels))
    model._engine.load(state)
    return model

"""Hostile arrays: an answer or an error that says what is wrong, and after an error the model it was before."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

ODD_NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e39, 1e-310, -0.0, 2.0**53 + 1)
ODD_TYPES = ("f2", "f4", "f8", "g", "i1", "u8", "?", "c16", "O", "U3", "S2", "M8[s]", ">f8")
REFUSED = (ValueError, TypeError, MemoryError)


def odd_values(rng, X):
    X = X.copy()
    for _ in range(int(rng.integers(0, 4))):
        if X.size:
            X.flat[int(rng.integers(X.size))] = rng.choice(ODD_NUMBERS)
    return X


def odd_memory(rng, X):
    """Lay the same or odd numbers out in an odd way."""
    kind = int(rng.integers(9))
    if kind == 0:
        return np.repeat(X, 2, axis=0)[::2]
    if kind == 1:
        return np.asfortranarray(X)
    if kind == 2:
        return X[::-1, ::-1]
    if kind == 3:
        return np.broadcast_to(X[:1], X.shape)
    if kind == 4:
        packed = np.zeros(X.shape, dtype=[("a", "u1"), ("x", "f8")])  # numbers at odd addresses
        packed["x"] = X
        return packed["x"]
    if kind == 5:
        return np.ma.masked_array(X, mask=rng.random(X.shape) < 0.1)
    if kind == 6:
        return X.tolist()
    if kind == 7:
        return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    with np.errstate(all="ignore"):
        return X.astype(ODD_TYPES[int(rng.integers(len(ODD_TYPES)))])


def odd_sparse(rng, X):
    Z = sp.csr_matrix(X)
    kind = int(rng.integers(8))
    if kind == 0:
        Z.indices = np.repeat(Z.indices, 2)[::2]
    if kind == 1:
        Z.indptr = np.repeat(Z.indptr, 3)[::3]
    if kind == 2:
        Z.data = np.repeat(Z.data, 2)[::2]
    if kind == 3:
        Z.indices, Z.indptr = Z.indices.astype(np.int64), Z.indptr.astype(np.int64)
    if kind == 4 and len(Z.indices):
        Z.indices[int(rng.integers(len(Z.indices)))] = rng.choice([-1, X.shape[1], 2**31 - 1])
    if kind == 5:
        Z.indptr[int(rng.integers(len(Z.indptr)))] = rng.choice([-1, 0, 10**6])
    if kind == 6:
        return Z.tocsc()
    if kind == 7 and len(Z.indices) > 1:
        Z.indices[:] = Z.indices[::-1]  # not sorted, some twice
    return Z


def odd_shape(rng, X):
    d = X.shape[1]
    kind = int(rng.integers(7))
    return (X[:0], X[:, :0], X[0], X[None], X[:, : d - 1], np.hstack([X, X]), np.float64(1.0))[kind]


def hostile_rows(rng, X):
    X = odd_values(rng, X)
    kind = int(rng.integers(4))
    if kind == 0:
        return odd_shape(rng, X)
    return (odd_memory if kind < 3 else odd_sparse)(rng, X)


def hostile_targets(rng, y):
    kind = int(rng.integers(8))
    if kind == 0:
        return y[:-1]
    if kind == 1:
        return np.where(rng.random(len(y)) < 0.1, np.nan, y)
    if kind == 2:
        return [None, *y[1:]]
    if kind == 3:
        return y[:, None]
    if kind == 4:
        return y.astype(str)
    if kind == 5:
        return np.where(rng.random(len(y)) < 0.1, 1e300, y)
    return y


def hostile_weights(rng, n):
    kind = int(rng.integers(7))
    weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
    if kind == 0:
        return weights * rng.choice([1e-300, 1e9, 1e300])
    if kind == 1:
        return np.where(rng.random(n) < 0.1, rng.choice([np.nan, -1.0, np.inf]), weights)
    if kind == 2:
        return np.zeros(n)
    if kind == 3:
        return pd.Series(weights)
    if kind == 4:
        return weights[:-1]
    return None if kind == 5 else weights


def one_of(values):
    """Give the first of some rows or targets where there is one."""
    rows = getattr(values, "values", values)
    return rows[0] if np.ndim(rows) and np.shape(rows)[0] else rows


def call(rng, model, X, y, weights):
    """Call one of the methods with all of it; the scores it gives."""
    kind = int(rng.integers(7))
    if kind == 0:
        return model.predict(X)
    if kind == 4:
        return getattr(model, "predict_log_proba", getattr(model, "predict_interval", model.predict))(X)
    if kind == 5:
        return model.learn_one(one_of(X), one_of(y))
    if kind == 6:
        return model.predict_one(one_of(X))
    if kind == 1:
        scores = getattr(model, "decision_function", model.predict)
        return scores(X)
    if kind == 2:
        return model.score_and_learn(X, y, sample_weight=weights)
    model.partial_fit(X, y, sample_weight=weights)
    return np.zeros(0)


def test_arrays(cases, learned, digest):
    for rng in cases(30):
        model, X, y, _ = learned(rng)
        arguments = hostile_rows(rng, X), hostile_targets(rng, y), hostile_weights(rng, len(y))
        before = digest(model)
        try:
            scores = call(rng, model, *arguments)
        except REFUSED as error:
            assert str(error)
            assert digest(model) == before
            continue
        if np.asarray(scores).dtype.kind == "f":
            assert np.isfinite(scores).all()
        assert np.isfinite(np.asarray(model.predict(X), dtype=float)).all()


@pytest.mark.parametrize("layout", ["indices", "indptr", "data"])
def test_strided_parts_of_sparse_rows_give_what_contiguous_ones_give(cases, learned, layout):
    for rng in cases(3):
        model, X, _, _ = learned(rng)
        Z = sp.csr_matrix(np.where(rng.random(X.shape) < 0.3, X, 0.0))
        expected = model.predict(Z)
        setattr(Z, layout, np.repeat(getattr(Z, layout), 2)[::2])
        np.testing.assert_array_equal(model.predict(Z), expected)

"""Adversarial and weighted streams: every score is finite, or an error says why not and changes nothing."""

import numpy as np
import scipy.sparse as sp


def scales(rng, d):
    """Sizes of the columns: alike, or over all of the range of numbers."""
    return 10.0 ** (rng.uniform(-2, 2, size=d) if rng.integers(2) else rng.uniform(-150, 150, size=d))


def rows(rng, n, d):
    kind = int(rng.integers(7))
    X = rng.normal(size=(n, d))
    if kind == 0:
        X = rng.standard_cauchy(size=(n, d))
    if kind == 1:
        X[:, :] = X[:1]  # always the same
    if kind == 2:
        X = X[rng.integers(0, 3, size=n)]  # three rows again and again
    if kind == 3:
        X = (rng.random((n, d)) < 0.05).astype(float)
    if kind == 4:
        X = np.sort(X, axis=0) + 100 * np.arange(n)[:, None]  # it never comes back
    if kind == 5:
        X[:, 1:] = X[:, :1] * (1 + 1e-12 * X[:, 1:])  # columns that are almost copies
    return np.clip(X * scales(rng, d), -1e300, 1e300)


def weights(rng, n):
    kind = int(rng.integers(4))
    if kind == 0:
        return None
    if kind == 1:
        return 10.0 ** rng.uniform(-1, 2, size=n)
    return (
        np.full(n, rng.choice([5.0, 100.0, 1000.0])) if kind == 2 else rng.exponential(size=n) * (rng.random(n) < 0.7)
    )


def targets(rng, X):
    noise = rng.normal(size=len(X))
    kind = int(rng.integers(4))
    if kind == 0:
        return noise * 10.0 ** rng.uniform(-150, 140)
    if kind == 1:
        return np.sign(X[:, 0]) * 1e6 + noise
    return rng.standard_cauchy(size=len(X)) if kind == 2 else np.tanh(X[:, 0]) + 0.1 * noise


def test_streams(cases, new_model, digest):
    for rng in cases(15):
        model, numbers = new_model(rng)
        n, d = int(rng.integers(50, 900)), int(rng.integers(1, 30))
        X = rows(rng, n, d)
        y = targets(rng, X) if numbers else rng.integers(0, 2, size=n)
        y[:2] = (0, 1)
        w, adversary = weights(rng, n), not numbers and rng.random() < 0.3
        start = 0
        while start < n:
            end = min(n, start + int(rng.integers(1, 200)))
            if adversary and start:
                y[start:end] = 1 - np.asarray(model.predict(X[start:end]))
            before = digest(model) if start else None
            try:
                scores = model.score_and_learn(
                    X[start:end], y[start:end], sample_weight=None if w is None else w[start:end]
                )
                assert np.isfinite(scores).all()
            except ValueError as error:
                assert str(error)
                assert before is None or digest(model) == before
            start = end if start or hasattr(model, "n_features_in_") else n
        if hasattr(model, "n_features_in_"):
            try:
                assert np.isfinite(np.asarray(model.predict(X), dtype=float)).all()
            except ValueError as error:  # rows that were refused above are refused here
                assert str(error)


def test_wide_streams(cases, new_model, digest):
    """Sparse rows of more columns than anything could be stored for, of odd sizes and weights."""
    for rng in cases(2):
        model, numbers = new_model(rng)
        while getattr(model, "update", "rows") != "rows":
            model, numbers = new_model(rng)
        n, d = int(rng.integers(50, 300)), int(rng.choice([600, 5000, 2_000_000]))
        X = sp.csr_matrix(
            (rng.normal(size=9 * n), rng.integers(d, size=9 * n), np.arange(0, 9 * n + 1, 9)), shape=(n, d)
        )
        X.data *= 10.0 ** rng.uniform(-100, 100, size=len(X.data)) if rng.integers(2) else 1.0
        y = rng.normal(size=n) if numbers else np.arange(n) % 2
        w = weights(rng, n)
        for start in range(0, n, 64):
            rows = slice(start, start + 64)
            before = digest(model) if start else None
            try:
                scores = model.score_and_learn(X[rows], y[rows], sample_weight=None if w is None else w[rows])
                assert np.isfinite(scores).all()
            except ValueError as error:
                assert str(error)
                if before is None:
                    break
                assert digest(model) == before


def test_long_weighted_streams_under_drift(cases, new_model):
    """Forgetting must not let what is uncertain grow without a bound."""
    for rng in cases(2):
        model, numbers = new_model(rng)
        while not hasattr(model, "drift"):
            model, numbers = new_model(rng)
        model.set_params(drift="adapt", update="rows")
        d = int(rng.integers(1, 12))
        X = rng.normal(size=(2000, d))
        y = X[:, 0] + 0.1 * rng.normal(size=2000) if numbers else (X[:, 0] > 0).astype(int)
        scores = model.score_and_learn(X, y, sample_weight=np.full(2000, rng.choice([0.1, 1.0, 5.0, 100.0])))
        assert np.isfinite(scores).all()

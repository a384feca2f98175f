"""Merging Budget models: the mean of their expansions, by least squares on the rows that matter most.

Of two expansions f = sum c_u k(u, .) the rows B of largest |c| sqrt(k(u, u)) stay, as many as the budget allows, and
their coefficients solve K_BB a = K_BU c: the closest function on those rows in the space of the kernel. Models are
merged in pairs, and the results in pairs again, so that no equation is larger than two budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bomkl.learners import NOGD

Float = NDArray[np.float64]
_RIDGE = 1e-8  # of the mean of the diagonal: rows that are almost the same


@dataclass(frozen=True)
class _Expansion:
    rows: NDArray[np.int64]  # numbers of stored rows
    coefs: Float


def merge_budget(models: list[Any]) -> Any:
    """Make one Budget model from several of the same settings."""
    first = models[0]
    if hasattr(first, "classes_"):
        for number, model in enumerate(models):
            if model.classes_.tolist() != first.classes_.tolist():
                raise ValueError(
                    f"Model {number} knows the classes {model.classes_.tolist()}, but model 0 "
                    f"{first.classes_.tolist()}."
                )
    saved = [model.__getstate__()["_engine"] for model in models]
    states = [each["engine"] for each in saved]
    if isinstance(first._learner(), NOGD):
        raise ValueError(
            "Models with the learner NOGD cannot be merged: each has features of its own rows. Use another learner."
        )
    if "feature_weights" in states[0]:
        return _with_mean_weights(models, states, {each["seed"] for each in saved})
    stored = [sp.csr_matrix(model._stored_rows(state)) for model, state in zip(models, states, strict=True)]
    offsets = np.cumsum([0, *(rows.shape[0] for rows in stored)])
    columns, together = _in_used_columns(sp.vstack(stored, format="csr"))
    all_rows, place = np.unique(together, axis=0, return_inverse=True)
    place = place.ravel()
    merged = []
    for e in range(len(states[0]["scales"])):
        kernel = first.kernels_[e % len(first.kernels_)]
        level = [
            _expansion(state, e, place[offset:], len(models))
            for state, offset in zip(states, offsets[:-1], strict=True)
        ]
        while len(level) > 1:
            level = [_pair(level[i : i + 2], kernel, all_rows, first.budget) for i in range(0, len(level), 2)]
        merged.append(level[0])
    return _with_expansions(models, states, all_rows, columns, merged)


def _with_mean_weights(models: list[Any], states: list[Any], seeds: set[int]) -> Any:
    """Models of the same Fourier features are vectors of weights, and their mean is the mean of these."""
    if len(seeds) > 1:
        raise ValueError(
            "Models with the learner FOGD can only be merged if they have the same frequencies. Give all of them the "
            "same random_state, an int."
        )
    mean = np.mean([state["feature_weights"] for state in states], axis=0)
    return _with_state(models[0], dict(states[0]) | {"feature_weights": mean} | _sums(states, len(models[0].kernels_)))


def _sums(states: list[Any], n_kernels: int) -> dict[str, Any]:
    weights = sum(state["log_weights"] for state in states)
    uniform = -np.log(n_kernels)
    weights = (weights - (len(states) - 1) * uniform).reshape(-1, n_kernels)  # losses are sums
    weights = weights - np.logaddexp.reduce(weights, axis=1, keepdims=True)
    return {
        "log_weights": weights.ravel(),
        "kernel_mistakes": sum(state["kernel_mistakes"] for state in states),
        "mistakes": sum(state["mistakes"] for state in states),
        "n_seen": sum(state["n_seen"] for state in states),
    }


def _with_state(model: Any, engine: dict[str, Any]) -> Any:
    state = model.__getstate__()
    state["_engine"] = dict(state["_engine"]) | {"engine": engine}
    out = type(model)(**model.get_params(deep=False))
    out.__setstate__(state)
    return out


def _in_used_columns(rows: sp.csr_matrix) -> tuple[NDArray[np.int64], Float]:
    """Return the columns that are not zero everywhere, which no kernel looks at, and dense rows of them."""
    used, place = np.unique(rows.indices, return_inverse=True)
    narrow = sp.csr_matrix((rows.data, place.ravel(), rows.indptr), shape=(rows.shape[0], len(used)))
    return used.astype(np.int64), narrow.toarray()


def _expansion(state: dict[str, Any], e: int, place: NDArray[np.int64], count: int) -> _Expansion:
    begin, end = state["term_starts"][e : e + 2]
    coefs = state["scales"][e] * state["term_coefs"][begin:end] / count
    return _Expansion(place[state["term_rows"][begin:end]], coefs)


def _pair(pair: list[_Expansion], kernel: Any, all_rows: Float, budget: int | None) -> _Expansion:
    rows, inverse = np.unique(np.concatenate([each.rows for each in pair]), return_inverse=True)
    coefs: Any = np.bincount(inverse.ravel(), np.concatenate([each.coefs for each in pair]), len(rows))
    if budget is None or len(rows) <= budget:
        return _Expansion(rows, coefs)
    K = np.asarray(kernel(all_rows[rows], all_rows[rows]), dtype=np.float64)
    sizes = np.abs(coefs) * np.sqrt(np.maximum(np.diag(K), 0))
    kept = np.sort(np.argsort(-sizes, kind="stable")[:budget])
    system = K[np.ix_(kept, kept)]
    system = system + _RIDGE * max(float(np.trace(system)) / budget, 1e-300) * np.eye(budget)
    return _Expansion(rows[kept], np.asarray(np.linalg.solve(system, K[kept] @ coefs), dtype=np.float64))


def _with_expansions(
    models: list[Any], states: list[Any], all_rows: Float, columns: NDArray[np.int64], merged: list[_Expansion]
) -> Any:
    first = models[0]
    used, place = np.unique(np.concatenate([each.rows for each in merged]), return_inverse=True)
    rows = np.ascontiguousarray(all_rows[used], dtype=first._dtype)
    engine = dict(states[0]) | {
        "term_starts": np.cumsum([0] + [len(each.rows) for each in merged]).astype(np.int64),
        "term_rows": place.ravel().astype(np.int32),
        "term_coefs": np.concatenate([each.coefs for each in merged]),
        "scales": np.ones(len(merged)),
        "forgetron": np.max([state["forgetron"] for state in states], axis=0),
    }
    engine |= _sums(states, len(first.kernels_))
    if "rows" in engine:
        engine["rows"] = np.zeros((len(rows), engine["rows"].shape[1]), dtype=first._dtype)
        engine["rows"][:, columns] = rows
    else:
        sparse = sp.csr_matrix(rows)
        engine |= {
            "row_values": sparse.data,
            "row_columns": columns[sparse.indices].astype(np.int32),
            "row_starts": sparse.indptr.astype(np.int64),
        }
    if len(states[0]["inverse_gram"]) or any(len(state["inverse_gram"]) for state in states):
        grams = [
            _inverse_gram(first.kernels_[e % len(first.kernels_)], all_rows[each.rows]) for e, each in enumerate(merged)
        ]
        engine["gram_starts"] = np.cumsum([0] + [gram.size for gram in grams]).astype(np.int64)
        engine["inverse_gram"] = np.concatenate([gram.ravel() for gram in grams])
    return _with_state(first, engine)


def _inverse_gram(kernel: Any, rows: Float) -> Float:
    K = np.asarray(kernel(rows, rows), dtype=np.float64)
    K = K.reshape(len(rows), len(rows))
    return np.asarray(
        np.linalg.inv(K + _RIDGE * max(float(np.trace(K)) / max(len(K), 1), 1e-300) * np.eye(len(K))), dtype=np.float64
    )

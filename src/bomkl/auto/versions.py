"""Saved learners, with their version: files of this version and of the one before can be read."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._support.tiles import packed, unpacked
from bomkl.auto.learner import Learner, learner_from_state, learner_state
from bomkl.auto.saved import Saved, State

VERSION = 2


def versioned_state(learner: Learner) -> State:
    """Everything a learner is, as plain values and arrays."""
    return {"version": VERSION, **learner_state(learner)}


def learner_of_any_version(state: Any, columns: int) -> Learner:
    """Bring a learner of rows of so many columns back; raises ValueError where anything does not fit."""
    if isinstance(state, dict) and "version" not in state:
        state = _from_version_1(state)
    saved = Saved(state, "model")
    version = saved.integer("version")
    if version != VERSION:
        raise ValueError(f"The model was saved as version {version}, but this bomkl reads versions 1 and {VERSION}.")
    return learner_from_state(saved, columns)


# ---------------------------------------------------------------- version 1, of bomkl 0.1.0

_NAMES_1 = [
    "polynomial 2",
    "gaussian normal 1",
    "gaussian common 1",
    "gaussian leading 1/4",
    "gaussian relevant 1/2",
    "gaussian relevant normal 1/2",
    "gaussian relevant 1",
    "gaussian relevant normal 1",
    "linear",
]
_SAME = ("settings", "n_classes", "seen", "counts", "centre", "spread", "combination", "error_before", "error_rows")


def _from_version_1(state: State) -> State:
    if not state["adaptive"]:
        return {"version": VERSION, "kind": "rows", "learner": _rows_1(state["stream"])}
    old = state["stream"]
    last = {
        "X": np.array(old["last_X"]).reshape(len(old["last_X"]), -1),
        "y": np.array(old["last_y"], dtype=np.float64),
        "weight": np.array(old["last_weight"], dtype=np.float64),
    }
    learner = {
        name: old[name]
        for name in ("settings", "log_weights", "seen", "alarms", "squared_error", "advantage", "age", "before")
    } | {
        "settings": old["settings"] | {"trees": False},
        "models": [_rows_1(model) for model in old["models"]],
        "fast": None,
        "restarts": np.array(old["restarts"], dtype=np.int64),
        "last": last if len(old["last_X"]) else None,
        "recent": np.array(old["recent"], dtype=np.float64),
    }
    return {"version": VERSION, "kind": "adaptive", "learner": learner}


def _rows_1(old: State) -> State:
    kept = None
    if old["kept_X"]:
        kept = {
            "X": np.vstack(old["kept_X"]),
            "y": np.concatenate(old["kept_y"]),
            "weight": np.concatenate(old["kept_weight"]),
        }
    return {name: old[name] for name in _SAME} | {
        "settings": old["settings"] | {"trees": False},
        "sample": None,
        "grow_from": None,
        "kept": kept,
        "support": None if old["support"] is None else {"X": old["support"]},
        "names": _NAMES_1,
        "geometry": None if old["geometry"] is None else _geometry_1(old["geometry"]),
        "components": [
            {
                "name": _NAMES_1[i],
                "kind": "newton",
                "features": _features_1(features),
                "regression": _regression_1(component),
            }
            for i, features, component in zip(old["alive"], old["features"], old["components"], strict=False)
        ],
    }


def _geometry_1(old: State) -> State:
    new = {name: value for name, value in old.items() if name != "relevance"}
    new["middle"] = old["mean"]
    new["coding"] = None
    return new | {f"relevance_{name}": old["relevance"][name] for name in ("standard", "normal")}


def _features_1(old: State) -> State:
    if "whiten" not in old:
        return {"kind": "columns", "both": old["both"]}
    same = {name: old[name] for name in ("geometry", "scale", "landmarks", "norms", "whiten", "support")}
    return same | {"kind": "kernel", "kernel": "polynomial" if old["polynomial"] else "gaussian"}


def _regression_1(old: State) -> State:
    n, P = old["open"], old["P"]
    M, V = np.triu(old["M"][:n, :n], 1), old["U"][:n].copy()
    for u in range(1, len(V)):
        V[u] -= M[:u, u].astype(np.float32) @ V[:u]
    trace = float(np.trace(unpacked(P), dtype=np.float64))
    return {"w": old["w"], "P": P, "M": M, "V": packed(V), "trace": np.full(2, max(trace, 0.0)), "unchecked": 0.0} | {
        name: old[name][:n] for name in ("rows", "U", "c", "a")
    }

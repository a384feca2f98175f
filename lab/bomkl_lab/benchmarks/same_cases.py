"""Random cases for `bomkl bench same`, run as a script by the Python of either version.

A case is a function of its number: a stream, the settings of a model, and calls that learn and predict, cut anywhere.
Each case prints one line of JSON: what it was, a digest of all that the model said, and one of what it was in the end.

New models of tables with texts have more to learn with than up to version 0.2.0. Of them, what counts is what a model
of the older version says after both have loaded it. Models of three or more classes have a layer of simple models
since then: of them, what counts is the learner within. No column begins with a missing value: of such a column, later
rows now tell what it holds.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile

Array = np.ndarray[Any, Any]
OLD = Path(__file__).parents[3] / "tests" / "data" / "version_0_1_0"
OLD_MODELS = ("auto_below_budget", "auto_drift", "auto_first_rows", "auto_huber_drift", "auto_three_classes")


_NEW = ("inside", "judged")  # of the errors of a regressor


class Digest:
    """Hash of arrays and plain values, by their bits."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was added."""
        self._hash = hashlib.sha256()

    def add(self, value: Any) -> None:
        """Add a value, or all that it holds."""
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            self._hash.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        elif isinstance(value, dict):
            for name in sorted(value):
                self._hash.update(name.encode())
                self.add(value[name])
        elif isinstance(value, list | tuple | np.ndarray):
            self._hash.update(f"[{len(value)}".encode())
            for each in value:
                self.add(each)
        elif isinstance(value, float | np.floating):
            self._hash.update(float(value).hex().encode())
        else:
            self._hash.update(str(value).encode())

    def __str__(self) -> str:
        return self._hash.hexdigest()[:16]


@dataclass
class Case:
    """A stream, and a model that learns it."""

    about: str
    X: Any
    y: Array
    weight: Array | None
    model: Any
    from_file: bool = False  # whether what was said before the model was loaded does not count
    says_more: bool = False  # whether what it says does not count


def learner_state(model: Any) -> dict[str, Any]:
    """Everything that was learned; parameters are left out, of which versions may have others."""
    state = _meaningful(model.__getstate__())
    return {name: state[name] for name in ("_learner", "_errors", "_mistakes", "_labels") if name in state}


def _meaningful(state: Any, forgets: bool = True) -> Any:
    """Leave out what versions save in another way.

    Those are gain directions where nothing is forgotten, which nobody reads, half of a symmetric matrix, a layer of
    growth in which nothing has grown yet, layers of simple models and of growth in rounds, and what
    earlier versions did not save.
    """
    if isinstance(state, list):
        return [_meaningful(each, forgets) for each in state]
    if not isinstance(state, dict):
        return state
    if state.get("kind") == "growth" and state["learner"]["grown"] is None:
        state = state | state["learner"]["inner"]
    if state.get("kind") in ("round growth", "simple"):
        state = state | state["learner"]["inner"]
    state = {name: each for name, each in state.items() if name not in _NEW and (name != "drift" or each is not None)}
    if isinstance(settings := state.get("settings"), dict) and "forget" in settings:
        forgets = settings["forget"] < 1
        settings = {name: each for name, each in settings.items() if name not in ("memory", "growing_trees")}
        state = state | {"settings": settings}
    if "matrix" in state and np.array_equal(state["matrix"], state["matrix"].T):
        lower = state["matrix"][np.tril_indices(len(state["matrix"]))]
        state = {name: each for name, each in state.items() if name != "matrix"} | {"lower": lower}
    return {name: _meaningful(each, forgets) for name, each in state.items() if forgets or name != "V"}


def columns(rng: Any, n: int, d: int) -> Array:
    """Columns of several kinds: normal, skewed, flags, few values, constant."""
    X: Array = rng.normal(size=(n, d))
    for j in range(d):
        kind = rng.integers(8)
        if kind == 0:
            X[:, j] = np.exp(2 * X[:, j])
        elif kind == 1:
            X[:, j] = X[:, j] > 1.5
        elif kind == 2:
            X[:, j] = np.round(X[:, j])
        elif kind == 3:
            X[:, j] = 7.0
    return X


def targets(rng: Any, X: Array, regression: bool, classes: int, drifts: bool) -> Array:
    """Class numbers or targets; with drift, the rule changes in the middle."""
    clipped = np.clip(X[:, : min(X.shape[1], 8)], -3, 3)
    out = np.empty(len(X))
    for half in (slice(None, len(X) // 2), slice(len(X) // 2, None)) if drifts else (slice(None),):
        w, v = rng.normal(size=(2, clipped.shape[1]))
        out[half] = clipped[half] @ w + (clipped[half] @ v) ** 2 + 0.3 * rng.normal(size=len(out[half]))
    if regression:
        return out * 10.0 ** rng.integers(-3, 4) if rng.random() < 0.7 else np.exp(np.clip(out, -20, 20))
    places = np.argsort(np.argsort(out))
    codes: Array = (places * classes // len(out)).astype(np.int64)
    return codes


def random_case(number: int) -> Case:
    """Draw a case."""
    rng = np.random.default_rng([number, 26])
    regression, wide, table = rng.random() < 0.35, rng.random() < 0.08, rng.random() < 0.12
    texts = False
    drift = "adapt" if rng.random() < 0.35 else None
    update = "rounds" if drift is None and not wide and rng.random() < 0.15 else "rows"
    budget = int(rng.choice([5, 12, 20, 40, 100, 300]))
    n = int(rng.integers(20, (4 if drift else 7) * max(budget, 40)))
    n = min(n, 300 if wide else 1500)
    classes = int(rng.choice([2, 2, 3, 5]))
    d = int(rng.integers(1, 12))
    X: Any = columns(rng, n, d)
    y = targets(rng, X, regression, classes, rng.random() < 0.5)
    if not regression and classes > 2 and rng.random() < 0.5:  # some classes come late
        y = np.where(np.arange(n) < n // 3, np.minimum(y, 1), y)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=n) if rng.random() < 0.3 else None
    if wide:
        X = sp.random(n, 2000, density=0.02, format="csr", random_state=number)
    settings: dict[str, Any] = {"budget": budget, "random_state": number, "drift": drift, "update": update}
    settings["trees"] = bool(rng.random() < 0.7)
    settings["n_jobs"] = 2 if rng.random() < 0.15 else None
    if table:
        import pandas as pd

        X = pd.DataFrame(X.toarray()[:, :6] if wide else X).rename(columns=str)
        texts = bool(rng.random() < 0.5)
        X["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], size=n)) if texts else rng.random(n) < 0.4
        has_gap = (rng.random(n) < 0.2) & (np.arange(n) > 0)
        X["gaps"] = np.where(has_gap, np.nan, rng.normal(size=n))
        wide = False
    if regression:
        model: Any = AutoMKLRegressor(loss=str(rng.choice(["squared", "huber"])), **settings)
    else:
        model = AutoMKLClassifier(**settings)
        if rng.random() < 0.5:
            y = np.array(["d", "a", "c", "b", "e"])[y]
    about = f"{type(model).__name__} {settings} n={n} columns={X.shape[1]}" + " weights" * (weight is not None)
    about += " wide" * wide + " table" * table + " texts" * texts
    return Case(about, X, y, weight, model, texts, not regression and classes > 2)


def rows_of(X: Any, rows: slice) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def run(case: Case, said: Digest, number: int, crossing: Path | None, first_version: bool) -> None:
    """Learn the stream in random calls; in the middle the model goes through a file."""
    rng = np.random.default_rng([number, 27])
    model, n, begin = case.model, len(case.y), 0
    file_at = int(rng.integers(n)) if case.from_file or rng.random() < 0.5 else n + 1
    while begin < n:
        end = min(begin + int(rng.choice([1, 2, 7, 16, 17, 64, 100, 256, 700])), n)
        X, y = rows_of(case.X, slice(begin, end)), case.y[begin:end]
        weight = None if case.weight is None else case.weight[begin:end]
        if begin == 0 and weight is not None:
            weight = np.maximum(weight, 0.5)
        way = rng.integers(4)
        if way == 0 and weight is None and begin > 0:
            for i in range(len(y)):
                row = rows_of(X, slice(i, i + 1)) if sp.issparse(X) else X.iloc[i] if hasattr(X, "iloc") else X[i]
                said.add(model.learn_one(row, y[i]))
        elif way == 1:
            model.partial_fit(X, y, sample_weight=weight)
        else:
            said.add(model.score_and_learn(X, y, sample_weight=weight))
        if rng.random() < 0.3:
            rows = rows_of(case.X, slice(0, int(rng.choice([1, 16, 50]))))
            said.add(model.predict(rows))
            said.add(model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows))
            if not sp.issparse(rows) and not hasattr(rows, "iloc"):
                said.add(model.predict_proba_one(rows[0]) if hasattr(model, "classes_") else model.predict_one(rows[0]))
        if begin <= file_at < end and crossing is not None:
            path = crossing / f"{number}.bomkl"
            if first_version or not path.exists():
                modelfile.save(model, path)
            model = modelfile.load(path)  # of the older version, for both
            if case.from_file:
                said.begin_anew()
        begin = end
    said.add(model.predict(rows_of(case.X, slice(0, 50))))
    said.add(model.kernel_weights_)
    case.model = model


def old_case(name: str, folder: Path) -> Case:
    """Go on with a model of version 0.1.0."""
    path = folder / f"{name}.bomkl"
    path.write_bytes(gzip.decompress((OLD / f"{name}.bomkl.gz").read_bytes()))
    model = modelfile.load(path)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, model.n_features_in_))
    y = X[:, 0] if not hasattr(model, "classes_") else model.classes_[(X[:, 0] > 0).astype(int)]
    return Case(f"file of 0.1.0: {name}", X, y, None, model)


def main() -> None:
    first, last, role, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    warnings.simplefilter("ignore")
    for number in range(first, last):
        said, state = Digest(), Digest()
        case = old_case(OLD_MODELS[number], folder) if number < len(OLD_MODELS) else random_case(number)
        error = None
        try:
            run(case, said, number, folder, role == "older")
            learned = learner_state(case.model)
            if case.says_more:
                learned.pop("_mistakes")
                said.begin_anew()
            state.add(learned)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            traceback.print_exc()
        line = {"number": number, "about": case.about, "said": str(said), "state": str(state), "error": error}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

"""An interrupt at any microsecond of a call leaves the model before the call or the one after it, never one between.

Where the call raises the interrupt, it is the one before. Only `learn_one` with a row of a matrix, which learns in
place, may have learned by then.
"""

import os
import time
from itertools import product

import numpy as np
import pandas as pd
import pytest
from tests.interrupting import interrupted_after
from tests.slow import slow_but
from tests.trials import in_a_trial

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, modelfile, river
from bomkl.kernels import Gaussian
from bomkl.learners import BPAS, RBP

# an interrupt inside a finalizer of any library is only reported, and the call goes on
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PAIR = [Gaussian(0.5), Gaussian(2.0)]
MODELS = {
    "auto classes": lambda: AutoMKLClassifier(20, random_state=0),
    "auto classes, drift": lambda: AutoMKLClassifier(16, drift="adapt", random_state=0),
    "auto classes, rounds": lambda: AutoMKLClassifier(20, update="rounds", random_state=0),
    "auto numbers": lambda: AutoMKLRegressor(20, random_state=0),
    "budget classes": lambda: BudgetMKLClassifier(random_state=0),
    "budget classes, dropping": lambda: BudgetMKLClassifier(PAIR, RBP(), budget=20, random_state=0),
    "budget numbers": lambda: BudgetMKLRegressor(random_state=0),
    "budget numbers, dropping": lambda: BudgetMKLRegressor(PAIR, BPAS(), budget=20, random_state=0),
    "river auto classes": lambda: river.AutoMKLClassifier(20, seed=0),
    "river auto numbers": lambda: river.AutoMKLRegressor(20, seed=0),
    "river budget classes": lambda: river.BudgetMKLClassifier(budget=20, seed=0),
    "river budget numbers": lambda: river.BudgetMKLRegressor(budget=20, seed=0),
}
TRIALS = {
    "auto classes, trial": lambda: modelfile.from_bytes(in_a_trial("several", 4)).estimator,
    "auto numbers, trial": lambda: modelfile.from_bytes(in_a_trial("numbers", 4)).estimator,
}
IN_A_ROW = 48 if {"BOMKL_FUZZ_MINUTES", "BOMKL_FUZZ_SECONDS"} & set(os.environ) else 12  # interrupts of one model
FIRST = 60  # rows that it knows


def stream_of(rng, kind, table):
    """Rows and labels or targets; a table has texts, gaps and dates, and rows for River may have new names."""
    n = FIRST + IN_A_ROW * 12
    X = rng.normal(size=(n, 4))
    y = X[:, 0] * X[:, 1] if "numbers" in kind else (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1.5)
    if "numbers" not in kind:
        y[:3] = 0, 1, 2
    if not table:
        return X, y
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["text"] = np.array(["red", "green", "blue", "grey"])[rng.integers(0, 4, n)]
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), unit="h")
    return frame.mask(rng.random(frame.shape) < 0.05), y


def names_of(row, i):
    """A row for River; some have names that no row had before."""
    return row | {f"new{i // 40}": 1.0} if i % 40 == 39 else row


def calls_of(kind, X, y, i, n):
    """Names of ways to learn from row i, or from n rows, and how; all numbers are made before the call."""
    if kind.startswith("river"):
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=list("abcd"))
        row = names_of(frame.iloc[i].to_dict(), i)
        label, part, labels = y[i].item(), frame[i : i + n], pd.Series(y[i : i + n])
        return {
            "learn_one": (1, lambda model: model.learn_one(row, label)),
            "learn_many": (n, lambda model: model.learn_many(part, labels)),
        }
    row = X.iloc[i].to_dict() if isinstance(X, pd.DataFrame) else X[i].copy()
    label, one, part, labels = y[i].item(), X[i : i + 1], X[i : i + n], y[i : i + n]
    first, targets = X[: i + n], y[: i + n]
    return {
        "learn_one": (1, lambda model: model.learn_one(row, label)),
        "partial_fit of one": (1, lambda model: model.partial_fit(one, labels[:1])),
        "partial_fit": (n, lambda model: model.partial_fit(part, labels)),
        "score_and_learn": (n, lambda model: model.score_and_learn(part, labels)),
        "fit": (n, lambda model: model.fit(first, targets)),
    }


def known_names(model):
    """What a model of River knows beside its estimator."""
    labels = vars(model).get("_labels", vars(model).get("_codes"))
    return vars(model._columns), labels if labels is None else list(labels)


def is_interrupted(call, model, after):
    """Whether an interrupt kept the call from returning."""
    returned = False
    try:
        with interrupted_after(after):
            call(model)
            returned = True
    except KeyboardInterrupt:
        return not returned
    return False


QUICK = [
    ("auto classes", False),
    ("auto numbers", True),
    ("budget classes, dropping", True),
    ("river auto classes", True),
]
CASES = [*product(MODELS, [False, True]), *product(TRIALS, [False])]


@pytest.mark.parametrize(("kind", "table"), slow_but(QUICK, CASES))
def test_timed_interrupts(cases, choose, digest, use_kernels, kind, table, request):
    of_river = kind.startswith("river")

    def content(model):
        return (digest(model._model), str(known_names(model))) if of_river else digest(model)

    counts = {"interrupts": 0, "before": 0, "after": 0}
    for rng in cases(1):
        use_kernels(rng)
        X, y = stream_of(rng, kind, table)
        make = (MODELS | TRIALS)[kind]
        model, expected, at = make(), make(), 0 if kind in TRIALS else FIRST
        for each in (model, expected) if at else ():
            calls_of(kind, X, y, 0, FIRST)["learn_many" if of_river else "partial_fit"][1](each)
        after = content(expected)
        for _ in range(IN_A_ROW):
            ways = calls_of(kind, X, y, at, int(rng.integers(2, 12)))
            way = choose(rng, list(ways))
            n, call = ways[way]
            before, start = after, time.perf_counter()
            call(expected)
            seconds = time.perf_counter() - start
            raised = is_interrupted(call, model, float(rng.uniform(0, seconds)))
            now, after = content(model), content(expected)
            is_before, is_after = now == before, now == after  # pytest would show how long texts differ
            assert is_before or is_after, (kind, way)
            assert (is_before if raised else is_after) or (raised and way == "learn_one"), (kind, way)
            counts["interrupts"] += raised
            counts["before" if is_before else "after"] += raised
            if is_before:
                call(model)
                is_after = content(model) == after
                assert is_after, (kind, way)
            at += n
    request.node.user_properties.append(("timed", ", ".join(f"{name} {n:,}" for name, n in counts.items())))

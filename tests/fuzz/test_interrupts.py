"""An interrupt at any moment leaves the model as it was; the same rows again then give what they would have given."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.kernels import Gaussian
from bomkl.learners import BPAS

# an interrupt inside a finalizer of any library is only reported, and the call goes on
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4500, 8))
    return X, (np.abs(X).sum(axis=1) > 6).astype(int)


MODELS = [
    AutoMKLClassifier(budget=150, random_state=0),
    AutoMKLClassifier(budget=150, update="rounds", random_state=0),
    AutoMKLRegressor(budget=150, drift="adapt", random_state=0),
    BudgetMKLClassifier(random_state=0),
    BudgetMKLRegressor([Gaussian(2.0), Gaussian(0.5)], BPAS(), budget=400, random_state=0),
]


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def interrupted(call, after):
    """Whether an interrupt kept the call from returning, and how long it went on after it."""
    sent, returned = [], []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it otherwise
    try:
        timer.start()
        try:
            call()
            returned.append(True)
        finally:
            timer.cancel()
            timer.join()
    except KeyboardInterrupt:  # one that was sent while the call ended may come after it
        return not returned, time.perf_counter() - sent[0]
    finally:
        signal.signal(signal.SIGINT, handler)
    return False, 0.0


def with_texts(X):
    """The same rows as a table with a column of texts and gaps."""
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    return frame.assign(text=frame["a"].round().astype(str)).mask(frame.assign(text=0.0) > 2.0)


@pytest.mark.parametrize(
    ("model", "table"),
    [
        pytest.param(model, table, marks=pytest.mark.slow if getattr(model, "drift", None) == "adapt" else ())
        for table in (False, True)
        for model in (MODELS[3:] if table else MODELS)
    ],
    ids=str,
)
def test_interrupts(cases, model, table, stream, digest, request):
    from sklearn.base import clone

    X, y = stream
    X = with_texts(X) if table else X
    halves = [(X[:2000], y[:2000]), (X[2000:], y[2000:])]
    whole = clone(model)
    times = [seconds(lambda part=part: whole.partial_fit(*part)) for part in halves]
    expected = digest(whole)
    reactions = []
    for rng in cases(2):
        trial = clone(model).partial_fit(*halves[0])
        before = digest(trial)
        more, labels = halves[1]  # not `*halves[1]`: Python looks for interrupts once more after a call of that kind
        was, reaction = interrupted(lambda: trial.partial_fit(more, labels), rng.uniform(0, times[1]))
        if was:
            reactions.append(reaction)
            # within microseconds of its end, an interrupted call of a Budget model may have learned (docs/promises.md)
            assert digest(trial) == before or (not hasattr(trial, "_learner") and digest(trial) == expected)
            if digest(trial) == before:
                trial.partial_fit(*halves[1])
        assert digest(trial) == expected
    if reactions:
        median = float(np.median(reactions))
        request.node.user_properties.append(("interrupts", f"{len(reactions)}, median reaction {median:.3f} s"))

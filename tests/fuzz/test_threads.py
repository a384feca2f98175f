"""Readers while another thread learns: no error, and each answer is that of the model after some whole call."""

import pickle
import threading
import time
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.slow import slow_but

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor

MODELS = [
    AutoMKLClassifier(budget=60, random_state=0),
    AutoMKLClassifier(budget=60, update="rounds", random_state=0),
    AutoMKLRegressor(budget=60, drift="adapt", random_state=0),
    BudgetMKLClassifier(random_state=0),
    BudgetMKLRegressor(random_state=0, budget=50),
]
PART = 64  # rows of one call


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(PART * 24, 5))
    return X, (np.abs(X).sum(axis=1) > 4).astype(int)


def with_texts(X):
    """The same rows as a table with a column of texts, and with gaps."""
    frame = pd.DataFrame(X, columns=list("abcde"))
    return frame.assign(text=frame["a"].round().astype(str)).mask(frame.assign(text=0.0) > 2.0)


def scores(model, X):
    return getattr(model, "decision_function", model.predict)(X).tobytes()


@pytest.mark.parametrize(
    ("model", "table"), slow_but([(MODELS[0], False), (MODELS[3], True)], product(MODELS, [False, True])), ids=str
)
def test_threads(cases, model, table, stream, request):
    X, y = stream
    X = with_texts(X) if table else X
    probe = X[:7]
    reads = 0
    for rng in cases(1):
        shared, alone = clone(model).partial_fit(X[:PART], y[:PART]), clone(model).partial_fit(X[:PART], y[:PART])
        allowed, answers, errors = {scores(alone, probe)}, [], []
        done = threading.Event()

        def read(kind):
            while not done.is_set():
                try:
                    reader = pickle.loads(pickle.dumps(shared)) if kind == 0 else shared
                    answers.append(scores(reader, probe))
                    assert reader.n_support_.sum() >= 0
                    assert np.isfinite(reader.kernel_weights_).all()
                except Exception as error:
                    errors.append(error)
                    return

        readers = [threading.Thread(target=read, args=(kind % 2,)) for kind in range(4)]
        for reader in readers:
            reader.start()
        for start in range(PART, len(y), PART):
            rows = slice(start, start + PART)
            shared.partial_fit(X[rows], y[rows])
            alone.partial_fit(X[rows], y[rows])
            allowed.add(scores(alone, probe))
            time.sleep(float(rng.uniform(0, 0.002)))
        while not answers and any(reader.is_alive() for reader in readers):
            time.sleep(0.001)  # where the machine is busy, readers may not have had their turn yet
        done.set()
        for reader in readers:
            reader.join()
        assert not errors
        assert answers
        assert set(answers) <= allowed
        reads += len(answers)
    request.node.user_properties.append(("reads", f"{reads:,}"))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_two_writers(cases, model, stream):
    X, y = stream
    for _ in cases(1):
        shared = clone(model).partial_fit(X[:PART], y[:PART])
        errors = []

        def learn(first):
            try:
                for start in range(PART * first, len(y), 2 * PART):
                    shared.partial_fit(X[start : start + PART], y[start : start + PART])
            except Exception as error:
                errors.append(error)

        writers = [threading.Thread(target=learn, args=(first,)) for first in (1, 2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert not errors
        assert shared.n_seen_ == len(y)
        assert np.isfinite(np.asarray(shared.predict(X), dtype=float)).all()

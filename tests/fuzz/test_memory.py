"""Memory that runs out in any allocation of the core: a MemoryError, and the model as it was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "failing_allocations.cpp"
TRIALS = r"""
import ctypes, json, sys, tempfile
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from bomkl import AutoMKLClassifier, BudgetMKLClassifier, BudgetMKLRegressor, modelfile
from bomkl.learners import BPAS, Projectron

shim = ctypes.CDLL(sys.argv[1])
rng = np.random.default_rng(json.loads(sys.argv[2]))
MODELS = [
    AutoMKLClassifier(budget=40, random_state=0),
    AutoMKLClassifier(budget=40, update="rounds", random_state=0),
    BudgetMKLClassifier(random_state=0, n_jobs=2),
    BudgetMKLClassifier(learner=Projectron(), budget=20, random_state=0),
    BudgetMKLRegressor(learner=BPAS(), budget=20, random_state=0),
]

def digest(model):
    with tempfile.NamedTemporaryFile() as file:
        modelfile.save(model, file.name)
        return open(file.name, "rb").read()

model = clone(MODELS[int(rng.integers(len(MODELS)))])
wide = rng.random() < 0.4 and not isinstance(model, AutoMKLClassifier)
X = rng.normal(size=(600, 6))
if wide:
    X = sp.random(600, 3000, density=0.01, format="csr", random_state=int(rng.integers(100)))
y = np.arange(600) % 2
model.partial_fit(X[:300], y[:300])
failed = 0
for _ in range(12):
    before = digest(model)
    call = (lambda: model.partial_fit(X[300:], y[300:])) if rng.integers(2) else (lambda: model.predict(X))
    shim.fail_allocation(ctypes.c_long(int(10 ** rng.uniform(0, 3.5))))
    try:
        call()
    except MemoryError:
        failed += 1
        shim.disarm()
        assert digest(model) == before, "the model has changed"
    finally:
        shim.disarm()
    model.predict(X)
print(failed)
"""


@pytest.fixture(scope="module")
def failing_allocations(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs g++ on Linux")
    library = tmp_path_factory.mktemp("shim") / "failing_allocations.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-std=c++20", "-o", library, SOURCE, "-ldl"], check=True)
    return library


@pytest.mark.slow
def test_memory(cases, failing_allocations):
    failed = 0
    for rng in cases(3):
        seed = json.dumps(rng.integers(2**31, size=2).tolist())
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", TRIALS, str(failing_allocations), seed],
            env={**os.environ, "LD_PRELOAD": str(failing_allocations)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        failed += int(done.stdout)
    assert failed > 0

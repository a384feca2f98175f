"""What the engine does with arrays as they come, and when there is no memory: every answer is right, or an error."""

import ctypes
import os
import pickle
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor, paper
from bomkl.kernels import Gaussian, Linear
from bomkl.learners import PA, RBP, SPA, Forgetron, Projectron

KERNELS = [Gaussian(1.0), Linear()]


def sparse_rows(n, columns=5000, seed=0):
    rng = np.random.default_rng(seed)
    entries = np.sort(rng.integers(0, columns, (n, 8)), axis=1).astype(np.int32)
    X = csr_matrix((rng.normal(size=8 * n), entries.ravel(), np.arange(0, 8 * n + 1, 8)), shape=(n, columns))
    return X, rng.integers(0, 2, n)


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
@pytest.mark.parametrize("columns", [40, 5000])
def test_csr_arrays_need_not_be_contiguous(part, columns):
    X, y = sparse_rows(2000, columns)
    strided = X.copy()
    setattr(strided, part, np.repeat(getattr(X, part), 2)[::2])
    assert not getattr(strided, part).flags.c_contiguous
    model = BudgetMKLClassifier(KERNELS, random_state=0).fit(X, y, shuffle=False)
    np.testing.assert_array_equal(model.decision_function(strided), model.decision_function(X))
    again = BudgetMKLClassifier(KERNELS, random_state=0)
    again.partial_fit(strided, y)
    assert pickle.dumps(again) == pickle.dumps(model)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_fields_of_packed_records_are_read(dtype):
    rng = np.random.default_rng(0)
    records = np.zeros(200, dtype=[("odd", "u1"), ("x", dtype, (3,)), ("y", "f8"), ("w", "f8")])
    records["x"], records["y"], records["w"] = rng.normal(size=(200, 3)), rng.normal(size=200), rng.uniform(1, 2, 200)
    plain = {name: np.ascontiguousarray(records[name]) for name in ("x", "y", "w")}
    packed = BudgetMKLRegressor(random_state=0).fit(records["x"], records["y"], sample_weight=records["w"])
    expected = BudgetMKLRegressor(random_state=0).fit(plain["x"], plain["y"], sample_weight=plain["w"])
    assert pickle.dumps(packed) == pickle.dumps(expected)
    assert packed.learn_one(records["x"][0], 1.0) == expected.learn_one(plain["x"][0], 1.0)
    assert packed.predict_one(records["x"][1]) == expected.predict_one(plain["x"][1])


def test_memory_grows_with_entries_and_not_with_columns():
    X, y = sparse_rows(400, columns=2_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = BudgetMKLClassifier(KERNELS, PA(), random_state=0).fit(X, y)
    model.predict(X)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    narrow = csr_matrix((X.data, np.unique(X.indices, return_inverse=True)[1].astype(np.int32), X.indptr))
    expected = BudgetMKLClassifier(KERNELS, PA(), random_state=0).fit(narrow, y)
    np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(narrow))


RULES = "stored model|wrong|range|finite|number|scale|progress|twice|count|too large|weight"


def damaged(change):
    X, y = sparse_rows(60, columns=30)
    model = BudgetMKLClassifier(KERNELS, RBP(), budget=20, random_state=0).fit(X.toarray(), y)
    state = model.__getstate__()
    change(state["_engine"], state["_engine"]["engine"])
    fresh = BudgetMKLClassifier()
    fresh.__setstate__(state)


def put(name, place, value):
    def change(outer, inner):
        array = np.array(inner[name])
        array.flat[place] = value
        inner[name] = array

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda outer, inner: outer.update(n_outputs=0),
        lambda outer, inner: outer.update(n_outputs=2**31 - 1),
        lambda outer, inner: outer.update(n_outputs=-1),
        lambda outer, inner: outer.update(n_outputs=3, task="multiclass"),
        lambda outer, inner: outer.update(task="regression"),
        lambda outer, inner: outer.update(task="other"),
        lambda outer, inner: outer.update(dtype="int8"),
        lambda outer, inner: inner.update(log_weights=inner["log_weights"][:1]),
        lambda outer, inner: inner.update(n_seen=-1),
        lambda outer, inner: inner.update(mistakes=10**9),
        lambda outer, inner: inner.update(rows=inner["rows"][:, :5]),
        lambda outer, inner: inner.update(rows=inner["rows"][:3]),
        put("rows", 0, np.nan),
        put("rows", 0, 1e200),
        put("log_weights", 0, np.nan),
        put("log_weights", 0, np.inf),
        put("term_coefs", 0, np.nan),
        put("term_coefs", 0, np.inf),
        put("term_rows", 1, 0),
        put("term_rows", 0, 10**6),
        put("scales", 0, 0.0),
        put("scales", 0, np.nan),
        put("forgetron", 0, -1.0),
        put("forgetron", 1, np.nan),
        put("kernel_mistakes", 0, -5),
    ],
)
def test_a_stored_state_that_does_not_fit_together_is_refused(change):
    damaged(lambda outer, inner: None)
    with pytest.raises(ValueError, match=RULES):
        damaged(change)


def runs_out_of_memory(shim, engine, call, after):
    """Whether a call fails where the allocation after so many others does; it must then have changed nothing."""
    before = pickle.dumps(engine.state())
    shim.fail_allocation(ctypes.c_long(after))
    try:
        call()
    except MemoryError:
        shim.disarm()
        assert pickle.dumps(engine.state()) == before
        return True
    finally:
        shim.disarm()
    return False


def every_allocation_fails_once():
    """Count the calls that ran out of memory; each must raise MemoryError and change nothing."""
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.disarm.restype = ctypes.c_long
    failed = 0
    X, y = sparse_rows(400)
    targets = y.astype(float)
    for rows in (X, np.random.default_rng(0).normal(size=(400, 20))):
        votes = paper.algorithm("BOMKC(RBP)", budget=20)  # with scores in single precision
        for model in (
            BudgetMKLClassifier(KERNELS, SPA(eta=0.5), random_state=0),
            *(BudgetMKLClassifier(KERNELS, each(), budget=20, random_state=0) for each in (RBP, Forgetron, Projectron)),
            votes.set_params(random_state=0),
        ):
            model.fit(rows[:100], y[:100])
            engine, read = model._engine, model._engine_rows
            many, one = read(rows[100:]), read(rows[100:101])
            row = np.asarray(rows[100].todense() if rows is X else rows[100], dtype=np.float64).ravel()

            def learn_many(engine=engine, many=many):
                engine.fork().learn(many, targets[100:], None, np.full(300, 0.5), 2)

            calls = (
                partial(engine.learn_one, row, targets[100], 1 - 1e-9),
                learn_many,
                partial(engine.score, many, False, 2),
                partial(engine.score, one, False, 1),
                engine.state,
            )
            for call in calls:
                after = 0
                while runs_out_of_memory(shim, engine, call, after) or after < 5:  # in a thread it may go unnoticed
                    failed += 1
                    after += 1 + after // 3
    return failed


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None or sys.platform != "linux", reason="needs g++ and LD_PRELOAD")
def test_where_memory_runs_out_the_model_is_as_before(tmp_path):
    shim = tmp_path / "failing_allocations.so"
    source = Path(__file__).parents[1] / "failing_allocations.cpp"
    subprocess.run(["g++", "-shared", "-fPIC", "-std=c++20", "-o", str(shim), str(source), "-ldl"], check=True)
    code = "from tests.budget.test_engine_memory import every_allocation_fails_once as run; print(run())"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 200

"""The Budget engine under interrupts, exceptions and several threads: a call is whole or leaves no trace.

``BOMKL_INTERRUPTS=200`` makes the long version of these tests.
"""

import contextlib
import os
import pickle
import threading
import time

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from tests.interrupting import exit_code_of, in_threads, interrupted_after
from tests.slow import slow_but

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl._support.change import change
from bomkl.combiners import Hedge
from bomkl.kernels import Gaussian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, FOGD, NOGD, PA, RBP, SPA, Forgetron, Projectron

INTERRUPTS = int(os.environ.get("BOMKL_INTERRUPTS", "0"))
KERNELS = [Gaussian(1.0), Gaussian(0.5), Polynomial(2, 0.5, 1.0)]
LEARNERS = [SPA(eta=0.5), PA(), RBP(), Forgetron(), BOGD(), BPAS(), Projectron(), NOGD(), FOGD(50)]

# an interrupt inside a finalizer of any library is only reported, and the call goes on
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def rows(n, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def sparse_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = csr_matrix((rng.normal(size=8 * n), rng.integers(0, 5000, 8 * n), np.arange(0, 8 * n + 1, 8)), shape=(n, 5000))
    return X, rng.integers(0, 2, n)


def model_of(learner, budget=40, **settings):
    kernels = KERNELS[:2] if isinstance(learner, FOGD) else KERNELS
    return BudgetMKLClassifier(kernels, learner, budget=budget, random_state=0, **settings)


def content(model):
    return pickle.dumps(model)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_interrupted_calls_leave_no_trace(learner):
    X, y = rows(6000)
    budget = None if isinstance(learner, SPA | PA | FOGD) else 40
    first = model_of(learner, budget).fit(X[:1000], y[:1000])
    expected = pickle.loads(content(first)).partial_fit(X[1000:], y[1000:])
    rng, reactions, rounds = np.random.default_rng(1), [], 0
    while len(reactions) < INTERRUPTS or rounds == 0:
        model, rounds = pickle.loads(content(first)), rounds + 1
        for start in range(1000, 6000, 1000):
            rows_now, labels_now = X[start : start + 1000], y[start : start + 1000]
            for _ in range(3):
                before, delay, begin = content(model), rng.uniform(0, 0.03), time.perf_counter()
                try:
                    with interrupted_after(delay):
                        time.sleep(0)
                        model.partial_fit(rows_now, labels_now)
                except KeyboardInterrupt:
                    reactions.append(time.perf_counter() - begin - delay)
                # whether the interrupt came before the call had ended or just after it
                if content(model) != before:
                    break
            else:
                model.partial_fit(rows_now, labels_now)
        assert content(model) == content(expected)
    tell(learner, reactions)


def tell(what, reactions):
    if INTERRUPTS:
        print(
            f"{what}: {len(reactions)} interrupts, reaction {1e3 * np.median(reactions):.0f} ms in the median, "
            f"{1e3 * max(reactions):.0f} ms at most"
        )


def test_a_long_call_stops_soon():
    X, y = rows(300_000, columns=20)
    model = BudgetMKLClassifier(random_state=0).partial_fit(X[:500], y[:500])
    before, reactions = content(model), []
    rng = np.random.default_rng(0)
    for _ in range(max(INTERRUPTS, 1)):
        delay, begin = rng.uniform(0.1, 0.4), time.perf_counter()
        with pytest.raises(KeyboardInterrupt), interrupted_after(delay):
            model.partial_fit(X, y)
        reactions.append(time.perf_counter() - begin - delay)
        assert content(model) == before
    tell("a long call", reactions)
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.3):
        model.partial_fit(X[:3000], y[:3000]).predict(np.tile(X, (5, 1)))


@pytest.mark.parametrize("learner", [SPA(), BOGD(), Projectron()], ids=repr)
def test_an_interrupt_just_after_learning_takes_the_rows_back(learner, monkeypatch):
    X, y = rows(100)
    model = model_of(learner).fit(X, y)
    before = content(model)
    original = BudgetMKLClassifier._learn

    def learn_then_fail(self, *args, **settings):
        original(self, *args, **settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(BudgetMKLClassifier, "_learn", learn_then_fail)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    monkeypatch.undo()
    assert content(model) == before
    model.partial_fit(X, y)


@pytest.mark.parametrize("n", [1, 50])
@pytest.mark.parametrize("learner", [each for each in LEARNERS if each.takes_budget], ids=repr)
def test_a_kernel_that_fails_leaves_the_model_as_it_was(learner, n):
    calls = []

    def fails_later(A, B):
        calls.append(1)
        if len(calls) == fail_at[0]:
            raise MemoryError("no more")
        return A @ B.T

    X, y = rows(60 + n)
    for delay in range(1, 8):
        fail_at = [-1]
        model = BudgetMKLClassifier([fails_later, *KERNELS], learner, budget=10, random_state=0).fit(X[:60], y[:60])
        before, fail_at = content(model._engine.state()), [len(calls) + delay]
        try:
            model.partial_fit(X[60:], y[60:])
        except MemoryError:
            assert content(model._engine.state()) == before


@pytest.mark.parametrize("what", ["predict", "partial_fit", "learn_one", "n_seen_", "fit"])
def test_a_kernel_that_uses_its_own_model_is_told_so(what):
    X, y = rows(600)

    def kernel(A, B):
        if use[0]:
            if what == "n_seen_":
                model.n_seen_  # noqa: B018
            elif what == "predict":
                model.predict(A)
            elif what == "learn_one":
                model.learn_one(A[0], 1)
            else:
                getattr(model, what)(X, y)
        return A @ B.T

    use = [False]
    model = BudgetMKLClassifier([kernel, Linear()], SPA(), random_state=0).fit(X, y)
    before, use = content(model._engine.state()), [True]
    for call in (lambda: model.partial_fit(X, y), lambda: model.learn_one(X[0], 1)):
        with pytest.raises(RuntimeError, match=r"cannot be changed|cannot use the model"):
            call()
    if what in ("n_seen_", "predict"):
        with pytest.raises(RuntimeError, match=r"cannot be changed|cannot use the model"):
            model.predict(np.tile(X, (10, 1)))
    use = [False]
    assert content(model._engine.state()) == before


@pytest.mark.parametrize("kind", slow_but(["listed", "regression"], ["fused", "listed", "sparse", "regression"]))
def test_readers_see_the_model_between_two_blocks(kind):
    X, y = sparse_rows(3000) if kind == "sparse" else rows(3000)
    if kind == "regression":
        model = BudgetMKLRegressor(KERNELS, budget=30, random_state=0)
    else:
        model = model_of(SPA(), budget=None if kind != "listed" else 30)
    model.fit(X[:300], y[:300])
    copy = pickle.loads(content(model))
    stop = threading.Event()
    seen = []

    def write():
        try:
            for start in range(300, 3000, 300):
                model.partial_fit(X[start : start + 300], y[start : start + 300])
        finally:
            stop.set()

    def read():
        while not stop.is_set():
            revived = pickle.loads(content(model))
            assert model.dual_coef_.shape[0] >= 0
            assert model.support_vectors_.shape[1] == X.shape[1]
            assert model.kernel_weights_.shape == (3,)
            scores = revived.predict(X)
            seen.append((revived.n_seen_, scores))
            assert np.isfinite(model.predict(X)).all()

    in_threads(write, read, read)
    by_count = dict(seen)
    for n in range(300, 3001):  # every model that was seen is that of learning so many rows
        if n > copy.n_seen_:
            copy.partial_fit(X[n - 1], [y[n - 1]]) if kind == "sparse" else copy.learn_one(X[n - 1], y[n - 1])
        if n in by_count:
            np.testing.assert_array_equal(copy.predict(X), by_count[n])
    assert model.n_seen_ == 3000


def test_writers_wait_for_each_other():
    X, y = rows(2000)
    model = BudgetMKLClassifier(KERNELS, random_state=0)

    def write():
        for start in range(0, 2000, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1])

    def write_rows():
        while not hasattr(model, "_engine"):
            time.sleep(0.001)
        for x, label in zip(X[:300], y[:300], strict=True):
            model.learn_one(x, int(label))

    in_threads(write, write, write_rows)
    assert model.n_seen_ == 4300


def test_predicting_while_another_thread_fits_anew():
    X, y = rows(800)
    model = BudgetMKLClassifier(KERNELS, random_state=0).fit(X, np.array(["a", "b"])[y])
    stop = threading.Event()

    def write():
        try:
            for names in (["p", "q"], ["a", "b"]) * 8:
                model.fit(X[:300], np.array(names)[y[:300]])
        finally:
            stop.set()

    def read():
        while not stop.is_set():
            assert set(model.predict(X)) in ({"a", "b"}, {"p", "q"})

    in_threads(write, read, read)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_a_single_row_waits_for_a_call_that_may_still_fail(error):
    X, y = rows(300)
    model = BudgetMKLClassifier(KERNELS, RBP(), budget=50, random_state=0).fit(X[:100], y[:100])
    waits, done, early = threading.Event(), threading.Event(), []

    def write():
        waits.set()
        model.learn_one(X[200], y[200])
        done.set()

    thread = threading.Thread(target=write)

    def learn(fork):
        fork._learn_rows(X[100:200], y[100:200], None, None)
        thread.start()
        waits.wait()
        early.append(done.wait(0.3))
        if error:
            raise error

    with pytest.raises(error) if error else contextlib.nullcontext():
        change(model, learn)
    thread.join()
    assert early == [False]
    assert model.n_seen_ == (101 if error else 201)


def test_a_row_after_a_call_that_failed_counts():
    X, y = rows(300)
    model, expected = (model_of(RBP()).fit(X[:100], y[:100]) for _ in range(2))
    with pytest.raises(ValueError, match="never declared"):
        model.partial_fit(X[100:200], np.arange(100))
    for x, label in zip(X[200:], y[200:], strict=True):
        assert model.learn_one(x, label) == expected.learn_one(x, label)
    assert content(model) == content(expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_others_learn_can_use_the_model():
    X, y = rows(20_000)
    model = BudgetMKLClassifier(KERNELS, RBP(), budget=50, random_state=0).fit(X[:100], y[:100])
    stop = threading.Event()

    def write():
        while not stop.is_set():
            model.partial_fit(X, y)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    model.partial_fit(X[:500], y[:500])
                    os._exit(7 if np.isfinite(model.decision_function(X[:500])).all() else 1)
                except BaseException:
                    os._exit(2)
            assert exit_code_of(child) == 7
    finally:
        stop.set()
        thread.join()


def test_divergence_is_an_error_and_leaves_the_model_as_it_was():
    X = np.random.default_rng(0).normal(size=(400, 200))
    model = BudgetMKLRegressor([Linear()], BOGD(eta=0.4), Hedge(loss="squared"), budget=15, random_state=0)
    model.fit(X[:100], X[:100, 0])
    before = content(model)
    with pytest.raises(ValueError, match="diverge"):
        model.score_and_learn(X, X[:, 0])
    assert content(model) == before
    for x in X:  # one row at a time
        before = content(model)
        try:
            assert np.isfinite(model.learn_one(x, x[0]))
        except ValueError:
            break
    with pytest.raises(ValueError, match="diverge"):
        model.learn_one(x, x[0])
    assert content(model) == before
    assert np.isfinite(model.predict(X[:5])).all()


class EngineBesideAFit:
    """An engine that is asked while another thread fits the model anew."""

    def __init__(self, engine, fit):
        self.engine, self.fit = engine, fit

    def score_one(self, x):
        self.fit()
        return self.engine.score_one(x)


def test_one_row_belongs_to_the_labels_and_the_engine_of_one_moment():
    X, y = rows(200)
    other = np.array(["p", "q", "r"])[y + (X[:, 2] > 1)]
    model = model_of(RBP()).fit(X, y)
    expected = model.predict_one(X[0])
    model._engine = EngineBesideAFit(model._engine, lambda: model.fit(X, other))
    assert model.predict_one(X[0]) == expected

    fitted = model_of(RBP()).fit(X, other).decision_function(X)
    model.fit(X, y)
    look = model._check_settings_kept
    model._check_settings_kept = lambda: (model.fit(X, other), look())  # between the label and the engine
    model.learn_one(X[0], 1)
    assert model.n_seen_ == 200
    assert (model.decision_function(X) == fitted).all()

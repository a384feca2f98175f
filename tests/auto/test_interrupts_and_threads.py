"""AutoMKL under interrupts, exceptions and several threads: a call is whole or leaves no trace.

``BOMKL_INTERRUPTS=200 BOMKL_READER_SECONDS=60`` makes the long version of these tests.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import threadpoolctl
from tests.interrupting import exit_code_of, in_threads, interrupted_after
from tests.models import content
from tests.slow import slow_but
from threadpoolctl import threadpool_info, threadpool_limits

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl._support.change import changing
from bomkl.auto import blas
from bomkl.auto.blas import one_blas_thread
from bomkl.auto.rows import fitting
from bomkl.auto.rows.row_learner import RowLearner

# an interrupt inside a finalizer of any library is only reported, and the call goes on
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

INTERRUPTS = int(os.environ.get("BOMKL_INTERRUPTS", "15"))
READER_SECONDS = float(os.environ.get("BOMKL_READER_SECONDS", "0.5"))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 4))
LABELS = np.where(np.arange(4000) < 2000, X[:, 0] * X[:, 1] > 0, X[:, 2] > 0).astype(int) + (X[:, 3] > 1)
TARGETS = X[:, 0] * X[:, 1] + X[:, 2]

MODELS = {
    "classes": (lambda: AutoMKLClassifier(60, random_state=0), LABELS),
    "classes, drift": (lambda: AutoMKLClassifier(30, drift="adapt", random_state=0), LABELS > 0),
    "classes, rounds": (lambda: AutoMKLClassifier(60, update="rounds", random_state=0), LABELS),
    "classes, threads": (lambda: AutoMKLClassifier(60, n_jobs=2, random_state=0), LABELS),
    "late models": (lambda: AutoMKLClassifier(300, random_state=0), LABELS),
    "numbers": (lambda: AutoMKLRegressor(60, random_state=0), TARGETS),
    "numbers, drift": (lambda: AutoMKLRegressor(30, drift="adapt", random_state=0), TARGETS),
}


@pytest.mark.parametrize("name", slow_but(("classes, drift",), MODELS))
def test_interrupted_calls_leave_no_trace(name):
    make, y = MODELS[name]
    rng = np.random.default_rng(1)
    expected, model, done, interrupted, reactions = make(), make(), 0, 0, []
    while interrupted < INTERRUPTS:
        n = int(rng.integers(1, 400))
        if done + n > len(X):  # begin anew
            assert content(model) == content(expected)
            expected, model, done = make(), make(), 0
        rows, labels = X[done : done + n], y[done : done + n]
        before, start = content(model), time.perf_counter()
        delay = float(rng.uniform(0, 0.05))
        try:
            with interrupted_after(delay):
                model.partial_fit(rows, labels)
        except KeyboardInterrupt:
            interrupted += 1
            reactions.append(time.perf_counter() - start - delay)
        if content(model) == before:  # otherwise the interrupt came just after the call, or not at all
            model.partial_fit(rows, labels)
        expected.partial_fit(rows, labels)
        done += n
    assert content(model) == content(expected)
    print(f"{name}: {interrupted} interrupts, median reaction {1e3 * np.median(reactions):.0f} ms")


@pytest.mark.parametrize("error", slow_but([KeyboardInterrupt], [KeyboardInterrupt, MemoryError, ValueError]))
@pytest.mark.parametrize("name", MODELS)
def test_an_exception_after_learning_takes_the_rows_back(name, error, monkeypatch):
    make, y = MODELS[name]
    model = make().partial_fit(X[:130], y[:130])
    before = content(model)
    kind = type(model._learner)
    original = kind.score_and_learn

    def learn_then_fail(self, *arguments):
        original(self, *arguments)
        raise error

    monkeypatch.setattr(kind, "score_and_learn", learn_then_fail)
    for call in (model.partial_fit, model.score_and_learn, model.fit):
        with pytest.raises(error):
            call(X[130:400], y[130:400])
        assert content(model) == before
    monkeypatch.undo()
    assert content(model.partial_fit(X[130:400], y[130:400])) == content(
        make().partial_fit(X[:130], y[:130]).partial_fit(X[130:400], y[130:400])
    )


def test_a_failed_call_leaves_the_generator_as_it_was(monkeypatch):
    model = AutoMKLRegressor(20, random_state=np.random.RandomState(0))

    def fail(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(RowLearner, "score_and_learn", fail)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, TARGETS)
    assert model.random_state.randint(2**31) == np.random.RandomState(0).randint(2**31)


def test_long_predictions_stop_soon():
    model = AutoMKLClassifier(300, random_state=0).fit(X[:600], LABELS[:600])
    many = np.tile(X, (200, 1))
    start = time.process_time()
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.2):
        model.predict(many)
    seconds = time.process_time() - start
    start = time.process_time()
    model.predict(many[:40_000])
    assert seconds < 20 * (time.process_time() - start)  # the processor time of all rows


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupt_after_all_was_learned_takes_it_back(name, monkeypatch):
    make, y = MODELS[name]
    model = make().partial_fit(X[:1000], y[:1000])
    before, interrupted = content(model), []

    @contextmanager
    def interrupted_at_the_end(model):
        with changing(model):
            yield
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr("bomkl._support.change.changing", interrupted_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[1000:1100], y[1000:1100])
    assert content(model) == before
    model.partial_fit(X[1000:1100], y[1000:1100])
    assert content(model) != before


@pytest.mark.parametrize("name", MODELS)
def test_readers_see_the_model_between_two_calls(name):
    make, y = MODELS[name]
    probe = X[-20:]
    model, expected = make().partial_fit(X[:40], y[:40]), make().partial_fit(X[:40], y[:40])
    at = {40: expected.predict(probe)}
    end, seen = time.monotonic() + READER_SECONDS, []
    stop = threading.Event()

    def somebody_has_seen(rows):
        while not any(n >= rows for n, _ in tuple(seen)) and not stop.wait(0.001):
            pass

    def write():
        try:
            somebody_has_seen(done := 40)
            while (time.monotonic() < end or done == 40) and done + 37 <= len(X):
                model.partial_fit(X[done : done + 37], y[done : done + 37])
                expected.partial_fit(X[done : done + 37], y[done : done + 37])
                done += 37
                at[done] = expected.predict(probe)
            somebody_has_seen(77)
        finally:
            stop.set()

    def read():
        try:
            while not stop.is_set():
                read_once()
        finally:
            stop.set()  # nobody waits for a reader that has failed

    def read_once():
        revived = pickle.loads(content(model))
        seen.append((revived.n_seen_, revived.predict(probe)))
        assert len(model.predict(probe)) == len(probe)
        assert abs(model.kernel_weights_.sum() - 1) < 1e-9
        assert model.support_vectors_.shape[1] == 4
        assert model.n_support_.sum() >= 0
        assert model.nbytes_ > 0
        if hasattr(model, "classes_"):
            proba = model.predict_proba(probe)
            assert np.allclose(proba.sum(axis=1), 1)

    in_threads(write, *[read] * 4, seconds=READER_SECONDS + 120)
    for n, scores in seen:
        np.testing.assert_array_equal(scores, at[n])
    assert len({n for n, _ in seen}) > 1


def test_writers_wait_for_each_other():
    model = AutoMKLRegressor(40, random_state=0)

    def write():
        for begin in range(0, 800, 50):
            model.partial_fit(X[begin : begin + 50], TARGETS[begin : begin + 50])

    in_threads(write, write, write, seconds=READER_SECONDS + 120)
    assert model.n_seen_ == 2400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_another_thread_learns_can_use_the_model():
    model = AutoMKLRegressor(60, random_state=0).partial_fit(X[:50], TARGETS[:50])
    stop = threading.Event()

    def write():
        while not stop.is_set():
            model.fit(X[:300], TARGETS[:300])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                try:
                    model.partial_fit(X[300:400], TARGETS[300:400]).predict(X[:5])
                    os._exit(0)
                finally:
                    os._exit(1)
            assert exit_code_of(child) == 0
    finally:
        stop.set()
        thread.join()


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_any_thread_may_work_with_one_thread_in_blas():
    def inside():
        with one_blas_thread:
            return blas_threads()

    # while a thread has set a limit, threadpoolctl ignores all other threads
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(inside).result() <= {1}
        assert blas_threads() <= {2}
        assert inside() <= {1}
        assert blas_threads() <= {2}


def test_the_last_of_two_threads_to_leave_takes_the_limit_of_blas_back():
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        with one_blas_thread:
            pool.submit(one_blas_thread.__enter__).result()
        assert blas_threads() <= {1}
        pool.submit(one_blas_thread.__exit__, None, None, None).result()
        assert blas_threads() <= {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_by_a_thread_with_one_thread_in_blas_gets_the_others_back():
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread:
            child = os.fork()
            inside = blas_threads()
        if child == 0:
            os._exit(7 if inside <= {1} and blas_threads() <= {2} else 1)
        assert exit_code_of(child) == 7
        assert blas_threads() <= {2}


def test_an_interrupt_at_any_moment_takes_the_limit_of_blas_back():
    rng = np.random.default_rng(0)
    with threadpool_limits(2, user_api="blas"):
        before = time.perf_counter()
        with one_blas_thread:
            pass
        seconds = time.perf_counter() - before
        for _ in range(max(INTERRUPTS, 100)):
            with contextlib.suppress(KeyboardInterrupt), interrupted_after(float(rng.uniform(0, 1.2 * seconds))):
                with one_blas_thread:
                    assert {library.num_threads for library in blas._libraries()[0]} <= {1}
                time.sleep(seconds)
            assert {library.num_threads for library in blas._libraries()[0]} <= {2}


class LibraryWithALimitForEachThread:
    """OpenBLAS on OpenMP, as threadpoolctl shows it."""

    user_api, internal_api, threading_layer = "blas", "openblas", "openmp"

    def __init__(self):
        self.limits = threading.local()

    @property
    def num_threads(self):
        return vars(self.limits).get("number", 8)

    def set_num_threads(self, number):
        self.limits.number = number


@pytest.mark.parametrize("update", ["rows", "rounds"])
def test_every_thread_that_fits_has_one_thread_in_blas(update, monkeypatch):
    library, seen = LibraryWithALimitForEachThread(), []
    shared, _ = blas._libraries()
    monkeypatch.setattr(blas, "_libraries", lambda: (shared, [library]))
    fit = fitting.ridge_fit_steps

    def noting(*arguments):
        seen.append((threading.get_ident(), library.num_threads))
        return fit(*arguments)

    monkeypatch.setattr(fitting, "ridge_fit_steps", noting)
    AutoMKLClassifier(60, update=update, n_jobs=2, random_state=0).fit(X[:400], LABELS[:400])
    assert any(thread != threading.get_ident() for thread, _ in seen)
    assert {number for _, number in seen} == {1}
    assert library.num_threads == 8


def test_openblas_on_openmp_is_limited_thread_by_thread(monkeypatch):
    library = LibraryWithALimitForEachThread()
    found = types.SimpleNamespace(lib_controllers=[library])
    controller = types.SimpleNamespace(select=lambda **_: found)
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: controller)
    assert blas._libraries.__wrapped__() == ([], [library])


def test_rounds_in_another_thread_have_the_same_bits():
    def learned():
        return content(AutoMKLClassifier(60, update="rounds", random_state=0).fit(X[:800], LABELS[:800]))

    expected = learned()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(learned).result() == expected


def test_one_row_is_predicted_by_the_labels_and_the_learner_of_one_moment():
    first, second = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)], LABELS.astype(str)
    model = AutoMKLClassifier(60, random_state=0).fit(X[:200], first[:200])
    expected, chances = model.predict_one(X[300]), model.predict_proba_one(X[300])
    score_one = model._learner.score_one

    def score_while_another_thread_fits(row):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(model.fit, X[:200], second[:200]).result()
        return score_one(row)

    for call, answer in ((model.predict_one, expected), (model.predict_proba_one, chances)):
        model.fit(X[:200], first[:200])
        model._learner.score_one = score_while_another_thread_fits
        assert np.array_equal(call(X[300]), answer)


def test_one_row_is_learned_by_the_labels_of_its_moment(monkeypatch):
    y = (X[:, 0] > 0).astype(int)
    model = AutoMKLClassifier(60, random_state=0).fit(X[:200], y[:200])
    expected = content(
        AutoMKLClassifier(60, random_state=0).fit(X[:200], 1 - y[:200])
    )  # labels come the other way round
    look, started = AutoMKLClassifier._quick_row, []

    def look_while_another_thread_fits(self, x):
        if not started:
            started.append(threading.Thread(target=model.fit, args=(X[:200], 1 - y[:200])))
            started[0].start()
            started[0].join(0.3)  # it has to wait for the row
        return look(self, x)

    monkeypatch.setattr(AutoMKLClassifier, "_quick_row", look_while_another_thread_fits)
    model.learn_one(X[300], 1)
    started[0].join()
    assert content(model) == expected


@pytest.mark.parametrize("plot", ["plot_effects", "plot_importances"])
def test_plots_are_of_one_moment(plot, monkeypatch):
    pytest.importorskip("matplotlib")
    rows, y = [{"a": a, "b": b} for a, b, *_ in X[:128].tolist()], (X[:128, 0] > 0).astype(int)
    model = AutoMKLClassifier(200, random_state=0).partial_fit(rows, y)
    names, began = AutoMKLClassifier._column_names, []

    def names_while_another_thread_learns(self):
        found = names(self)
        if not began:
            began.append(True)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(model.partial_fit, [row | {"later": 1.0} for row in rows], y).result()
        return found

    monkeypatch.setattr(AutoMKLClassifier, "_column_names", names_while_another_thread_learns)
    figure = getattr(model, plot)()
    shown = " ".join(text.get_text() for ax in figure.axes for text in [*ax.get_yticklabels(), ax.xaxis.label])
    assert began
    assert "later" not in shown
    assert "later" in model.feature_names_in_


@pytest.mark.parametrize("name", MODELS)
def test_what_a_reader_holds_does_not_learn_on(name):
    make, y = MODELS[name]
    model = make().fit(X[:200], y[:200])
    before, reader = content(model), model._now()
    for row in range(200, 205):
        model.learn_one(X[row], y[row])
    assert content(reader) == before
    assert pickle.loads(content(model)).n_seen_ == 205


def test_a_reader_holds_what_was_learned_before_it_began():
    model = AutoMKLClassifier(30, drift="adapt", random_state=0).fit(X[:200], LABELS[:200] % 2)
    model.learn_one(X[200], int(LABELS[200] % 2))
    reader = model._now()
    model.learn_one(X[201], int(LABELS[201] % 2))
    assert (reader.n_seen_, model.n_seen_) == (201, 202)


@pytest.mark.slow
def test_a_thread_that_still_runs_at_exit_causes_no_report_of_leaks():
    program = (
        "import threading\n"
        "from bomkl import AutoMKLClassifier\n"
        "model = AutoMKLClassifier(8).partial_fit([[0.0], [1.0]] * 8, [0, 1] * 8)\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")

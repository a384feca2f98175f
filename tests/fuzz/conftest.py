"""Fuzzing: seeded and short in the test suite, as long as wanted by ``make fuzz MINUTES=n``.

A case is a number and a kind, nothing else: what failed is run again with ``BOMKL_FUZZ_CASE=number pytest -k kind``.
"""

import contextlib
import os
import signal
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, modelfile
from bomkl.auto.features import pool_kernels
from bomkl.auto.rows import rebuild
from bomkl.combiners import CLASSIFICATION_LOSSES, REGRESSION_LOSSES, Hedge, Uniform
from bomkl.kernels import Gaussian, Kernel, Linear, Polynomial
from bomkl.learners import FOGD, Learner

MINUTES = float(os.environ.get("BOMKL_FUZZ_MINUTES", "0"))  # of all tests together
SECONDS = float(os.environ.get("BOMKL_FUZZ_SECONDS", "0"))  # of each test
FIRST = int(os.environ.get("BOMKL_FUZZ_CASE", "0"))


def _family(parent):
    """Every public kind of a kernel or learner that the package brings."""
    kinds = [kind for child in parent.__subclasses__() for kind in [child, *_family(child)]]
    return [kind for kind in kinds if kind.__module__ == parent.__module__ and not kind.__name__.startswith("_")]


LEARNERS, KERNELS = _family(Learner), _family(Kernel)
# Seconds of the processor that a case may take, or seconds with hardly any work, before it counts as hanging
LONGEST = int(os.environ.get("BOMKL_FUZZ_LONGEST", "120"))


def pytest_collection_modifyitems(items):
    """Divide the minutes among the tests that have cases."""
    global SECONDS
    if MINUTES:
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        SECONDS = 60 * MINUTES * workers / sum("cases" in each.fixturenames for each in items)


def _worked():
    """Seconds of the processor that this process, and those it waits for, have had."""
    seconds = time.process_time()
    for process in Path("/proc").glob("[0-9]*/stat"):  # none elsewhere than on Linux
        with contextlib.suppress(OSError):  # it has ended
            _, parent, *fields = process.read_text().rsplit(")", 1)[1].split()
            if int(parent) == os.getpid():
                seconds += (int(fields[9]) + int(fields[10])) / os.sysconf("SC_CLK_TCK")
    return seconds


@pytest.fixture
def cases(request):
    """Generators of random numbers, one a case: some in the suite, as many as fit into the time given otherwise."""
    kind = request.node.name.removeprefix("test_")
    record = {"kind": kind, "cases": 0, "last": FIRST}
    request.node.user_properties.append(("fuzz", record))
    worked = {}

    def of(short):
        end = time.monotonic() + SECONDS
        number = FIRST
        while time.monotonic() < end if SECONDS else number < FIRST + short:
            record["last"] = number
            worked.update(before=time.process_time(), last=time.process_time())
            signal.alarm(LONGEST)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # advice; a RuntimeWarning of ours stays an error
                warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"sklearn\.")
                yield np.random.default_rng([zlib.crc32(kind.encode()), number])
            number += 1
            record["cases"] += 1

    def hang(signum, frame):
        last, worked["last"] = worked["last"], _worked()
        if last + 0.1 < worked["last"] < worked["before"] + LONGEST:  # a busy machine lets it wait for long
            signal.alarm(LONGEST)
            return
        raise AssertionError(f"case {record['last']} of {kind} hangs")

    before = signal.signal(signal.SIGALRM, hang)
    yield of
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_terminal_summary(terminalreporter):
    for report in (each for group in ("passed", "failed") for each in terminalreporter.stats.get(group, [])):
        properties = dict(report.user_properties)
        record = properties.pop("fuzz", None)
        if record and (SECONDS or MINUTES or report.failed):  # with several workers, only they know the seconds
            ending = f", failed in case {record['last']}" if report.failed else ""
            more = "".join(f", {name} {value}" for name, value in properties.items())
            terminalreporter.write_line(f"fuzz {record['kind']}: {record['cases']:,} cases{more}{ending}")


def _choose(rng, values):
    return values[int(rng.integers(len(values)))]


@pytest.fixture
def choose():
    """One of some values, without NumPy's conversions."""
    return _choose


@pytest.fixture
def use_kernels(monkeypatch):
    """Give Auto models two kernels of the pool, in one case of ten all of them: small models are compared sooner."""
    every = pool_kernels.KERNELS

    def use(rng, all_of_them=True):
        few = sorted(rng.choice(len(every), size=2, replace=False).tolist())
        pool = every if all_of_them and rng.integers(10) == 0 else tuple(every[i] for i in few)
        monkeypatch.setattr(rebuild, "KERNELS", pool)
        monkeypatch.setattr(pool_kernels, "COMPONENTS", (*(choice.name for choice in pool), "linear"))

    return use


@pytest.fixture
def new_model():
    """A fresh estimator of any family with random small settings, and whether it learns numbers."""

    def make(rng):
        numbers = bool(rng.integers(2))
        seed = int(rng.integers(100))
        if rng.integers(2):
            auto = AutoMKLRegressor if numbers else AutoMKLClassifier
            budget = int(_choose(rng, [8, 16, 40, 100]))
            update, drift = _choose(rng, [("rows", "auto"), ("rows", None), ("rows", "adapt"), ("rounds", None)])
            settings = {"budget": budget, "update": update, "drift": drift, "random_state": seed}
            if numbers:
                settings["loss"] = _choose(rng, ["squared", "huber"])
            return auto(**settings), numbers
        learner = _choose(rng, [kind for kind in LEARNERS if kind.can_regress or not numbers])()
        losses = REGRESSION_LOSSES if numbers else CLASSIFICATION_LOSSES
        combiner = _choose(rng, [Uniform(), Hedge(loss=_choose(rng, losses))])
        pair = [_choose(rng, KERNELS)(), Gaussian(0.5)]
        kernels = _choose(rng, ["paper", [Gaussian(2.0), Linear()], [Polynomial(2, 0.5, 1.0)], pair])
        budget = int(rng.integers(1, 30))
        if isinstance(learner, FOGD):  # it stores no rows, and needs kernels that have a Fourier transform
            kernels, budget = [Gaussian(0.5), Gaussian(2.0)], None
        budget_model = BudgetMKLRegressor if numbers else BudgetMKLClassifier
        return budget_model(kernels, learner, combiner, budget=budget, random_state=seed), numbers

    return make


@pytest.fixture
def learned(new_model):
    """A model that has learned from a few good rows, those rows, and whether it learns numbers."""

    def make(rng):
        model, numbers = new_model(rng)
        X = rng.normal(size=(int(rng.integers(20, 120)), int(rng.integers(1, 6))))
        y = X[:, 0] ** 2 if numbers else np.arange(len(X)) % 2
        return model.fit(X, y), X, y, numbers

    return make


@pytest.fixture
def digest():
    """Everything a model is, as the bytes of its file."""
    return lambda model: modelfile.to_bytes(modelfile.Model(model))

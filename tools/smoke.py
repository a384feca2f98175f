"""Smoke test of an installed package: every public entry point once, with nothing but the run-time dependencies.

What needs an extra that is not installed must say which one. `make wheel` runs it in an empty environment.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

COMMANDS = ("--version", "--help", "demo", "inspect model.bomkl", "predict model.bomkl rows.csv --label y")


def learners() -> None:
    """Fit, predict, save and load each estimator."""
    from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, modelfile, paper

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    label, number = (X[:, 0] > 0).astype(int), X[:, 1] * X[:, 2]
    for model, y in (
        (AutoMKLClassifier(budget=50, random_state=0), label),
        (AutoMKLRegressor(budget=50, random_state=0), number),
        (BudgetMKLClassifier(random_state=0), label),
        (BudgetMKLRegressor(random_state=0), number),
        *((paper.algorithm(name), label) for name in paper.ALGORITHMS),
    ):
        before = model.fit(X, y).predict(X)
        assert np.isfinite(before).all()
        modelfile.save(model, "model.bomkl")
        assert np.array_equal(modelfile.load("model.bomkl").predict(X), before)


def commands() -> None:
    """Run the commands."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    rows = "\n".join(f"{a},{b},{int(a > b)}" for a, b in X)
    Path("rows.csv").write_text(f"a,b,y\n{rows}\n")
    bomkl = shutil.which("bomkl", path=str(Path(sys.executable).parent))
    assert bomkl, "the command bomkl is not installed"
    for line in ("train rows.csv --label y -o model.bomkl", *COMMANDS):
        done = subprocess.run([bomkl, *line.split()], capture_output=True, text=True)
        assert done.returncode == 0, f"bomkl {line}: {done.stderr}"


def _onnx() -> None:
    from bomkl import BudgetMKLClassifier
    from bomkl.onnx import to_onnx

    to_onnx(BudgetMKLClassifier().fit([[0.0], [1.0]], [0, 1]))


def _plots() -> None:
    from bomkl import AutoMKLClassifier

    AutoMKLClassifier(budget=8).fit(np.eye(20), np.arange(20) % 2).plot_weights()


def _river() -> None:
    importlib.import_module("bomkl.river")


def _parquet() -> None:
    from bomkl.streams import open_stream

    Path("rows.parquet").write_bytes(b"PAR1")
    list(open_stream("rows.parquet", label="y"))


# extra, a module that it brings, what needs it
EXTRAS: tuple[tuple[str, str, Callable[[], None]], ...] = (
    ("onnx", "onnx", _onnx),
    ("plots", "matplotlib", _plots),
    ("river", "river", _river),
    ("arrow", "pyarrow", _parquet),
)


def extras() -> None:
    """Where an extra is missing, the error says what to install."""
    for extra, module, use in EXTRAS:
        if importlib.util.find_spec(module) is not None:
            continue
        message = "no error"
        try:
            use()
        except (ImportError, ValueError) as error:
            message = str(error)
        assert f"bomkl[{extra}]" in message, f"without {module}: {message}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in (learners, commands, extras):
            part()
            print(f"{part.__name__}: good")
        os.chdir(tempfile.gettempdir())

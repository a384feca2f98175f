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

COMMANDS = (
    "--version",
    "--help",
    "demo",
    "inspect model.bomkl",
    "predict model.bomkl rows.csv --label y",
    "score model.bomkl rows.csv --label y",
    "eval rows.csv --label y --algorithm SPA --quiet",
    "convert rows.csv --label y -o rows.svm",
    "train rows.csv --label y --workers 1 -o partitions.bomkl --quiet",
)
MODULES = (
    "combiners",
    "evaluate",
    "kernels",
    "learners",
    "merging",
    "onnx",
    "paper",
    "partitions",
    "plots",
    "streams",
    "tables",
)


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


def tools() -> None:
    """Import each module, and use tables, streams and merging."""
    from bomkl import AutoMKLClassifier, BudgetMKLClassifier, merge
    from bomkl.streams import open_stream
    from bomkl.tables import TableEncoder

    for name in MODULES:
        importlib.import_module(f"bomkl.{name}")
    Path("pets.csv").write_text("coat,weight,label\n" + "short,4.5,cat\nlong,,dog\n" * 40)
    (table, labels), *_ = open_stream("pets.csv", as_tables=True, missing="keep")
    assert TableEncoder().fit_transform(table).shape[0] == 80
    rows, classes = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    copies = [BudgetMKLClassifier(random_state=0).fit(rows[part], classes[part]) for part in (slice(30), slice(30, 60))]
    assert merge(copies).predict(rows).shape == (60,)
    assert set(AutoMKLClassifier(budget=20, random_state=0).fit(table, labels).predict(table)) <= {"cat", "dog"}


def commands() -> None:
    """Run the commands."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    rows = "\n".join(f"{a},{b},{int(a > b)}" for a, b in X)
    Path("rows.csv").write_text(f"a,b,y\n{rows}\n")
    bomkl = _command()
    for line in ("train rows.csv --label y -o model.bomkl", *COMMANDS):
        done = subprocess.run([bomkl, *line.split()], capture_output=True, text=True)
        assert done.returncode == 0, f"bomkl {line}: {done.stderr}"


def _command() -> str:
    bomkl = shutil.which("bomkl", path=str(Path(sys.executable).parent))
    assert bomkl, "the command bomkl is not installed"
    return bomkl


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


def _dask() -> None:
    importlib.import_module("bomkl.dask")


def _gpu() -> None:
    from bomkl import AutoMKLClassifier

    AutoMKLClassifier(update="rounds", device="cuda").fit(np.eye(20), np.arange(20) % 2)


def _serve() -> None:
    done = subprocess.run([_command(), "serve", "--data", "service"], capture_output=True, text=True, check=False)
    raise ImportError(done.stderr)


# extra, a module that it brings, what needs it
EXTRAS: tuple[tuple[str, str, Callable[[], None]], ...] = (
    ("onnx", "onnx", _onnx),
    ("plots", "matplotlib", _plots),
    ("river", "river", _river),
    ("arrow", "pyarrow", _parquet),
    ("dask", "dask", _dask),
    ("gpu", "torch", _gpu),
    ("serve", "uvicorn", _serve),
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
        assert f"[{extra}]" in message, f"without {module}: {message}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in (learners, tools, commands, extras):
            part()
            print(f"{part.__name__}: good")
        os.chdir(tempfile.gettempdir())

"""Rows and runs that the tests of the command line share."""

import numpy as np
from typer.testing import CliRunner

from bomkl.cli import app


def bomkl(*args, input=None):
    return CliRunner().invoke(app, [str(arg) for arg in args], input=input, catch_exceptions=False)


def make_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), 3)
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


def svm_text(n, seed=0):
    return "".join(
        f"{label:+d} " + " ".join(f"{i + 1}:{v!r}" for i, v in enumerate(row)) + "\n"
        for row, label in zip(make_rows(n, seed)[0].tolist(), make_rows(n, seed)[1], strict=True)
    )

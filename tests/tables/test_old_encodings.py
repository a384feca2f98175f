"""Budget models that an earlier version trained on a table with texts: one feature for each value, kept in the notes.

The files in ``data/one_hot`` were written by ``bomkl train pets.csv`` before Budget models had the encoder of
`bomkl.tables`; ``expected.json`` holds what they predicted then, and ``two_passes`` after a third pass.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bomkl import modelfile
from bomkl.cli import app
from bomkl.streams import Schema, open_stream

FILES = Path(__file__).parents[1] / "data" / "one_hot"
EXPECTED = json.loads((FILES / "expected.json").read_text())


@pytest.fixture
def folder(tmp_path):
    for file in FILES.iterdir():
        shutil.copyfile(file, tmp_path / file.name)  # not the permissions, of a read-only tree
    with contextlib.chdir(tmp_path):
        yield tmp_path


def bomkl(*args):
    return CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False)


def predicted(name):
    kind = "labels" if name == "numbers" else "margins"
    done = bomkl("predict", f"{name}.bomkl", "pets.csv", "-k", kind)
    assert done.exit_code == 0
    return np.array(done.stdout.split()[:12], dtype=float)


@pytest.mark.parametrize("name", ["classes", "hashed", "numbers"])
def test_they_predict_as_they_did(folder, name):
    np.testing.assert_allclose(predicted(name), EXPECTED[name], rtol=1e-12)
    assert bomkl("score", f"{name}.bomkl", "pets.csv").exit_code == 0
    model = modelfile.read(f"{name}.bomkl")
    assert model.estimator.encoder_ is None
    [block] = open_stream("pets.csv", schema=Schema.from_dict(model.notes["schema"]), label="kind", labels=False)
    scores = getattr(model.estimator, "decision_function", model.estimator.predict)(block.X)
    np.testing.assert_allclose(scores[:12], EXPECTED[name], rtol=1e-12)


def test_a_run_goes_on_as_it_would_have(folder):
    options = ["-a", "SPA", "--budget", 8, "--label", "kind", "-q"]
    done = bomkl("train", "pets.csv", "-o", "two_passes.bomkl", *options, "--passes", 3, "--resume")
    assert done.exit_code == 0
    np.testing.assert_allclose(predicted("two_passes"), EXPECTED["two_passes"], rtol=1e-12)


def test_a_new_run_starts_from_one(folder):
    done = bomkl("train", "pets.csv", "-o", "new", "--from", "classes.bomkl", "-a", "SPA", "--label", "kind", "-q")
    assert done.exit_code == 0
    model = modelfile.load("new")
    assert (model.n_seen_, model.n_features_in_, model.encoder_) == (120, 5, None)

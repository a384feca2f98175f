"""``merge``."""

from __future__ import annotations

import numpy as np
from tests.command_line import bomkl, make_rows, svm_text

from bomkl import merge, modelfile


def test_merge(svm, tmp_path):
    parts = [tmp_path / "one", tmp_path / "two"]
    for seed, path in enumerate(parts):
        (tmp_path / f"{seed}.svm").write_text(svm_text(300, seed=seed))
        bomkl("train", tmp_path / f"{seed}.svm", "-a", "SPA", "--budget", 20, "-q", "-o", path)
    done = bomkl("merge", *parts, "-o", tmp_path / "m")
    assert (done.exit_code, done.stdout) == (0, "rows\t600\n")
    expected = merge([modelfile.load(path) for path in parts])
    X, _ = make_rows(50, seed=7)
    np.testing.assert_array_equal(modelfile.load(tmp_path / "m").decision_function(X), expected.decision_function(X))
    assert bomkl("predict", tmp_path / "m", svm).exit_code == 0
    assert "1.svm" in bomkl("inspect", tmp_path / "m").stdout
    assert "no run to resume" in bomkl("train", svm, "-o", tmp_path / "m", "--resume").stderr


def test_merge_names_files_in_its_errors(svm, tmp_path):
    for name, options in (("one", ["-a", "SPA"]), ("two", ["-a", "SPA", "--budget", 5]), ("three", [])):
        bomkl("train", svm, "-q", "-o", tmp_path / name, *options)
    for other, reason in (("two", "has other settings than"), ("three", "All models must be of one class")):
        refused = bomkl("merge", tmp_path / "one", tmp_path / other, "-o", tmp_path / "m")
        assert refused.exit_code == 1
        assert reason in refused.stderr
        assert str(tmp_path / other) in refused.stderr
    taken = bomkl("merge", tmp_path / "one", tmp_path / "two", "-o", tmp_path / "one")
    assert taken.exit_code == 2
    assert "the command uses this file already" in taken.stderr

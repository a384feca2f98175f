"""Rows in a random order: all of them, the same for any blocks, and good for files that are sorted by label."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from tests.command_line import bomkl
from tests.slow import slow_but

from bomkl import modelfile
from bomkl.streams import open_stream
from bomkl.streams.shuffling import shuffled


def write_sorted(path, data):
    X, y = data(return_X_y=True)
    order = np.argsort(y, kind="stable")
    lines = [",".join([*(f"c{i}" for i in range(X.shape[1])), "label"])]
    lines += [",".join(map(str, [*x, f"class {label}"])) for x, label in zip(X[order].tolist(), y[order], strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return X, np.array([f"class {label}" for label in y])


def rows_of(blocks):
    return [(*map(str, row), label) for X, y in blocks for row, label in zip(_lists(X), y.tolist(), strict=True)]


def _lists(X):
    if isinstance(X, dict):
        return zip(*(list(cells) for cells in X.values()), strict=True)
    return (X.toarray() if hasattr(X, "toarray") else X).tolist()


@pytest.mark.parametrize("kind", ["matrix", "table", "svm"])
def test_every_row_comes_once_and_blocks_change_nothing(tmp_path, kind):
    path = tmp_path / f"rows.{'svm' if kind == 'svm' else 'jsonl'}"
    if kind == "svm":
        path.write_text("".join(f"{at % 2} 1:{at} 7:{at * 0.1!r}\n" for at in range(900)))
    else:
        rows = [{"a": at, "b": None if at % 5 else f"ü{at}", "label": f"{at % 3}x"} for at in range(900)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"as_tables": True, "missing": "keep"} if kind == "table" else {}
    options |= {"ignore": ["b"]} if kind == "matrix" else {}
    plain = rows_of(open_stream(path, **options))
    found = [rows_of(shuffled(open_stream(path, block_rows=size, **options), seed=3)) for size in (7, 4096)]
    assert found[0] == found[1] != plain
    assert sorted(found[0]) == sorted(plain)
    assert found[0] != rows_of(shuffled(open_stream(path, **options), seed=4))


@pytest.mark.parametrize("data", slow_but([load_iris], [load_iris, load_digits]))
def test_a_sorted_file_is_warned_about_and_learned_with_shuffle(tmp_path, data):
    X, y = write_sorted(tmp_path / "sorted.csv", data)
    model = tmp_path / "m.bomkl"
    shuffled_run = bomkl("train", tmp_path / "sorted.csv", "-o", model, "--shuffle", "--budget", 150, "-q")
    assert shuffled_run.exit_code == 0
    assert "--shuffle" not in shuffled_run.stderr
    table = {f"c{i}": X[:, i] for i in range(X.shape[1])}
    assert modelfile.load(model).score(table, y) > 0.95
    if len(y) > 256:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            run = bomkl("train", tmp_path / "sorted.csv", "-o", model, "-q")
        assert run.stderr.count("bomkl train --shuffle") == 1


def test_a_pipe_and_a_file_give_the_same_model_and_a_run_is_resumed(tmp_path):
    write_sorted(tmp_path / "sorted.csv", load_iris)
    text = (tmp_path / "sorted.csv").read_bytes()
    options = ("--shuffle", "--budget", 60, "-q")
    assert bomkl("train", tmp_path / "sorted.csv", "-o", tmp_path / "file", *options).exit_code == 0
    assert bomkl("train", "-", "-o", tmp_path / "pipe", *options, input=text).exit_code == 0
    file, pipe = (modelfile.load(tmp_path / name) for name in ("file", "pipe"))
    table = {f"c{i}": load_iris().data[:, i] for i in range(4)}
    np.testing.assert_array_equal(file.predict_proba(table), pipe.predict_proba(table))
    again = bomkl("train", tmp_path / "sorted.csv", "-o", tmp_path / "file", *options, "--resume")
    assert again.exit_code == 0
    assert "none is new" in again.stderr
    refused = bomkl("train", tmp_path / "sorted.csv", "-o", tmp_path / "file", "--budget", 60, "-q", "--resume")
    assert refused.exit_code == 1
    assert "was trained with --shuffle" in refused.stderr

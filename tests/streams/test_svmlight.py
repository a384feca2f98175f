"""svmlight text."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from tests.streams.files import rows_of

from bomkl.streams import BadLineError, StreamError, open_stream


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.dictionaries(st.integers(1, 9), st.floats(allow_nan=False, allow_infinity=False), max_size=5),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["\n", "\r\n", " \n", " # note: 3:4\n"]),
)
@settings(max_examples=60, deadline=None)
def test_svmlight_agrees_with_scikit_learn(tmp_path_factory, rows, end):
    path = tmp_path_factory.mktemp("svm") / "rows.svm"
    text = "".join(f"{label!r} " + " ".join(f"{i}:{v!r}" for i, v in sorted(row.items())) + end for label, row in rows)
    path.write_text(text, newline="")
    X, y = rows_of(open_stream(path, n_features=9, target="number", block_rows=3))
    expected, labels = load_svmlight_file(str(path), n_features=9, zero_based=False)
    np.testing.assert_array_equal(X, expected.toarray())
    np.testing.assert_array_equal(y, labels)


def test_svmlight_queries_comments_blank_lines_signs_and_a_last_line_without_end(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("# head\n\n+1 qid:7 1:+2.5 3:1e-3 # tail\n \t\n-1\t2:-4")
    X, y = rows_of(open_stream(path))
    assert X.tolist() == [[2.5, 0.0, 0.001], [0.0, -4.0, 0.0]]
    assert y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("line", "column", "reason", "text"),
    [
        ("1:2 2:3", "1", "the label is missing", "1:2"),
        ("spam 1:2", "1", "the label is not a number", "spam"),
        ("1,2 1:2", "1", "the label is not a number", "1,2"),
        ("nan 1:2", "1", "the label is not a number", "nan"),
        ("1 1:2 x:3", "7", "not an index:value pair", "x:3"),
        ("1 1:2 3", "7", "not an index:value pair", "3"),
        ("1 0:2", "3", "indices start at 1", "0:2"),
        ("1 -1:2", "3", "indices start at 1", "-1:2"),
        ("1 2:2 2:3", "7", "the index does not ascend", "2:3"),
        ("1 99999999999:2", "3", "the index is too large", "99999999999:2"),
        ("1 99999999999999999999:2", "3", "not an index:value pair", "99999999999999999999:2"),
        ("1 1:", "5", "the value is not a finite number", ""),
        ("1 1:inf", "5", "the value is not a finite number", "inf"),
        ("1 1:1e999", "5", "the value is not a finite number", "1e999"),
        ("1 1:2x", "5", "the value is not a finite number", "2x"),
        ("1 1:+-2", "5", "the value is not a finite number", "+-2"),
        ("1 qid:x 1:2", "3", "not an index:value pair", "qid:x"),
        ("1 1:2 qid:3", "7", "not an index:value pair", "qid:3"),
    ],
)
def test_bad_svmlight_lines(tmp_path, line, column, reason, text):
    path = tmp_path / "bad.svm"
    path.write_text(f"1 1:1\n# note\n-1 2:1\n{line}\n1 1:3\n")
    with pytest.raises(BadLineError, match=r"bad.svm:4") as caught:
        list(open_stream(path))
    bad = caught.value
    assert (bad.line, bad.column, bad.text) == (4, column, text)
    assert bad.reason.startswith(reason)
    stream = open_stream(path, on_bad_line="skip")
    assert rows_of(stream)[1].tolist() == [1, -1, 1]
    assert stream.skipped == 1
    assert stream.first_skipped.line == 4


def test_svmlight_without_labels(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1:2 2:3\n1 1:4\n")
    X, y = rows_of(open_stream(path, labels=False))
    assert X.tolist() == [[2, 3], [4, 0]]
    assert y is None


def test_svmlight_wider_than_known(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:2\n1 3:3\n-1 2:4\n")
    with pytest.raises(BadLineError, match=r"rows.svm:2: feature 3 is beyond the 2 "):
        list(open_stream(path, n_features=2))
    X, y = rows_of(open_stream(path, n_features=2, on_bad_line="skip"))
    assert (X.tolist(), y.tolist()) == ([[2, 0], [0, 4]], [1, -1])


def test_zero_based_svmlight(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 0:5 1:6\n")
    assert rows_of(open_stream(path, zero_based=True))[0].tolist() == [[5, 6]]


@given(st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_rows_or_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "rows"
    path.write_bytes(data)
    for format in ("svmlight", "csv", "jsonl", "npz", "arrow", "parquet", None):
        for policy in ("stop", "skip"):
            with contextlib.suppress(StreamError):
                list(open_stream(path, format=format, on_bad_line=policy))


def test_bad_svmlight_lines_are_skipped_in_one_go(tmp_path, monkeypatch):
    from bomkl.streams.formats import svmlight

    calls = []
    parse = svmlight.parse_svmlight
    monkeypatch.setattr(svmlight, "parse_svmlight", lambda *args: (calls.append(1), parse(*args))[1])
    (tmp_path / "rows.svm").write_text("1 1:1\n# note\n\n1 x\n-1 1:2\nz\n" * 1000)
    stream = open_stream(tmp_path / "rows.svm", on_bad_line="skip", block_rows=5000)
    assert sum(len(y) for _, y in stream) == stream.skipped == 2000
    assert (stream.first_skipped.line, stream.first_skipped.column) == (4, "3")
    assert len(calls) == 1

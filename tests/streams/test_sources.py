"""Where bytes come from: compressed files, standard input, globs."""

from __future__ import annotations

import gzip
import io
import sys

import numpy as np
import pytest
from tests.streams.files import COMPRESSIONS, rows_of, write

from bomkl.streams import StreamError, open_stream


def test_several_members_of_one_compressed_file(tmp_path, data):
    plain = write(tmp_path / "rows.svm", *data).read_bytes()
    for compress in COMPRESSIONS:
        path = tmp_path / "twice.svm"
        path.write_bytes(compress(plain) + compress(plain))
        assert len(rows_of(open_stream(path))[1]) == 100


class Pipe(io.RawIOBase):
    """Standard input that cannot seek and gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def readable(self):
        return True

    def readinto(self, buffer):
        taken, self.rest = self.rest[: min(len(buffer), 11)], self.rest[min(len(buffer), 11) :]
        buffer[: len(taken)] = taken
        return len(taken)


def feed(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(data))))


@pytest.mark.parametrize("suffix", ["svm", "csv", "jsonl", "arrows"])
def test_standard_input(tmp_path, data, monkeypatch, suffix):
    packed = gzip.compress(write(tmp_path / f"rows.{suffix}", *data).read_bytes())
    feed(monkeypatch, packed)
    stream = open_stream("-", block_rows=8)
    schema = stream.scan()
    assert schema.classes == (-1, 1)
    np.testing.assert_array_equal(rows_of(stream)[0], data[0])
    with pytest.raises(StreamError, match=r"<stdin>: can be read only once"):
        list(stream)


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_formats_that_must_seek_refuse_a_pipe(tmp_path, data, monkeypatch, suffix):
    feed(monkeypatch, write(tmp_path / f"rows.{suffix}", *data).read_bytes())
    with pytest.raises(StreamError, match=r"cannot be read from a pipe"):
        list(open_stream("-"))


def test_globs_are_sorted_and_joined(tmp_path, data):
    X, y = data
    for part in range(3):
        write(tmp_path / f"part{part}.svm", X[part * 10 : part * 10 + 10], y[part * 10 : part * 10 + 10])
    stream = open_stream(str(tmp_path / "part*.svm"), n_features=4, block_rows=16)
    np.testing.assert_array_equal(rows_of(stream)[0], X[:30])
    assert [len(block.y) for block in stream] == [16, 14]
    with pytest.raises(StreamError, match=r"nothing\*: no such file"):
        open_stream(str(tmp_path / "nothing*"))


@pytest.mark.parametrize("start", [0, 1, 7, 8, 20, 49, 50, 60])
def test_reading_from_a_row_on_keeps_the_block_boundaries(tmp_path, data, start):
    stream = open_stream(write(tmp_path / "rows.csv", *data), block_rows=8)
    parts = [block.X for block in stream.blocks(start)]
    expected = [
        data[0][a:b]
        for a, b in zip(
            [start, *range(start // 8 * 8 + 8, 50, 8)], [*range(start // 8 * 8 + 8, 50, 8), 50], strict=True
        )
    ]
    assert [part.tolist() for part in parts] == [rows.tolist() for rows in expected if len(rows)]


@pytest.mark.parametrize("as_tables", [True, False])
@pytest.mark.parametrize("piped", [True, False])
def test_rows_without_a_label_do_not_tell_what_labels_are(tmp_path, monkeypatch, as_tables, piped):
    text = "a,label\n1,\n2,NA\n3,x\n4,y\n"
    (tmp_path / "rows.csv").write_text(text)
    feed(monkeypatch, text.encode())
    settings = {"on_bad_line": "skip", "as_tables": as_tables, "block_rows": 1}
    stream = open_stream("-" if piped else tmp_path / "rows.csv", **settings)
    assert stream.scan().classes == ("x", "y")
    assert [y.tolist() for _, y in stream] == [["x"], ["y"]]
    assert stream.skipped == 2


def test_a_file_without_any_label(tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n1,\n2,\n")
    with pytest.raises(StreamError, match=r"rows.csv: there are no rows \(2 bad lines were skipped"):
        open_stream(tmp_path / "rows.csv", on_bad_line="skip").scan()

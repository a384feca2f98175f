"""Every format and compression gives the same rows, and a damaged file is an error."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.slow import slow_but
from tests.streams.files import COMPRESSIONS, rows_of, write

from bomkl.streams import BadLineError, StreamError, open_stream
from bomkl.streams.formats.registry import format_of

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
FORMATS = ["svm", "csv", "tsv", "jsonl", "npz", "parquet", "arrow", "feather", "arrows"]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("block_rows", [7, 50, 4096])
def test_every_format_gives_the_same_rows(tmp_path, data, suffix, block_rows):
    stream = open_stream(write(tmp_path / f"rows.{suffix}", *data), block_rows=block_rows)
    X, y = rows_of(stream)
    np.testing.assert_array_equal(X, data[0])
    np.testing.assert_array_equal(y, data[1])
    assert y.dtype == np.int64
    assert [len(b.y) for b in stream][:-1] == [block_rows] * (-(-50 // block_rows) - 1)
    assert stream.scan().classes == (-1, 1)


@pytest.mark.parametrize("suffix", ["svm", "csv", "jsonl"])
@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_compression_is_seen_by_content_and_formats_are_seen_by_content(tmp_path, data, suffix, compress):
    plain = write(tmp_path / f"rows.{suffix}", *data).read_bytes()
    path = tmp_path / "rows.data"
    path.write_bytes(compress(plain))
    X, y = rows_of(open_stream(path))
    np.testing.assert_array_equal(X, data[0])
    np.testing.assert_array_equal(y, data[1])


@pytest.mark.parametrize(
    ("head", "format"),
    [
        (b"id,when,label\n1,2024-01-01 10:05,yes\n", "csv"),
        (b"label,when\n1,2024-01-01 10:05\n", "csv"),
        (b"when\n2024-01-01 10:05\n", "csv"),
        (b"label\ttime\n1\t10:05\n", "tsv"),
        (b"# rows\n\n+1 qid:3 1:2\n", "svmlight"),
        (b"1:0.5 2:3\n", "svmlight"),
        (b"1e-05 1:2\n", "svmlight"),
        (b"cat 1:2 3:4\n", "svmlight"),
        (b"1\n1 x:3\n-1 3:2\n", "svmlight"),
        (b"1 1:0.5 2:3 31", "svmlight"),  # only the beginning of a line, as of a very long one
        (b"1 1:0.5 2:3\n-1 1:0.5 2:", "svmlight"),
        (b"1 1:nan 2:3\n", "svmlight"),  # to be refused there
        (b"label\ttime", "tsv"),
        (b'[\n {"a": 1}]', "jsonl"),
    ],
)
def test_a_time_of_day_does_not_look_like_svmlight(head, format):
    assert format_of("-", head) == format


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"a,label\ncaf\xe9,1\n", "rows.csv:2: not UTF-8: .* iconv -f latin1 -t utf-8"),
        ("rows.csv", "a,label\nb,1\n".encode("utf-16"), "rows.csv:1: not UTF-8: .* iconv -f utf-16 -t utf-8"),
        ("rows.csv", b"a,label\r1,1\r2,0\r", "rows.csv:1: lines must end with a line feed"),
        ("rows.csv", b"a;b;label\n1;2;0\n", "Does ';' separate the columns. The option 'delimiter' says so"),
        ("rows.csv", b"a|b|label\n1|2|0\n", r"Does '\|' separate the columns. The option 'delimiter' says so"),
        ("rows.txt", b"1 |f a:1 b:2\n-1 |f a:2\n", "the format of Vowpal Wabbit, which is not read here"),
        ("rows.json", b'[{"a": 1, "label": 0}]', "rows.json:1: not a JSON object: .* jq -c"),
        ("rows.jsonl", b'[\n{"a": 1, "label": 0}\n]', "rows.jsonl:1: not JSON .* jq -c"),
    ],
)
def test_errors_say_what_to_do(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StreamError, match=message):
        list(open_stream(tmp_path / name, as_tables=True))


def test_npz_in_fortran_order_says_what_to_save(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.asfortranarray(np.ones((3, 2))), y=np.ones(3))
    with pytest.raises(StreamError, match=r"Fortran order. Save numpy.ascontiguousarray\(X\) instead"):
        list(open_stream(tmp_path / "rows.npz"))


def test_npz_sizes_that_lie(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.zeros((3, 2)), y=np.zeros(2))
    with pytest.raises(StreamError, match=r"X has 3 rows and y has 2"):
        list(open_stream(path))
    np.savez(path, X=np.array([["a", None]], dtype=object), y=np.zeros(1))
    with pytest.raises(StreamError, match=r"not readable as npz"):
        list(open_stream(path))
    np.savez(path, X=np.array([[1.0, np.nan]]), y=np.zeros(1))
    with pytest.raises(BadLineError, match=r"rows.npz:1: column 1: the value is missing"):
        list(open_stream(path))
    assert rows_of(open_stream(path, missing=3))[0].tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("format", "xls"),
        ("missing", "mean"),
        ("delimiter", ",,"),
        ("block_rows", 0),
        ("on_bad_line", "ask"),
        ("categorical", "x"),
    ],
)
def test_options_are_checked(option, value):
    with pytest.raises(ValueError, match=rf"The '{option}' parameter of open_stream must be"):
        open_stream("-", **{option: value})


DAMAGED = """
import random, sys
from bomkl.streams import StreamError, open_stream

path, outcomes = sys.argv[1], {"read": 0, "refused": 0}
whole = open(path, "rb").read()
for seed in range(120):
    rng, data = random.Random(seed), bytearray(whole)
    for _ in range(rng.choice([1, 2, 8])):
        at = rng.randrange(len(data))
        if rng.random() < 0.6:
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at : at + 4] = rng.choice([b"\\xff" * 4, bytes(4), b"\\xff\\xff\\xff\\x7f"])
    open(path, "wb").write(data[: len(whole) if rng.random() < 0.9 else rng.randrange(len(whole))])
    try:
        for X, y in open_stream(path, missing=0.0):
            assert len(y) == len(X)
        outcomes["read"] += 1
    except StreamError as error:
        assert path in str(error)
        outcomes["refused"] += 1
print(outcomes["read"], outcomes["refused"])
"""


@pytest.mark.parametrize("kind", slow_but(["parquet"], ["parquet", "feather", "arrow"]))
def test_damaged_arrow_files_never_crash_the_process(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    feather, parquet = pytest.importorskip("pyarrow.feather"), pytest.importorskip("pyarrow.parquet")
    texts = pa.array([["x", "yy", "zzz"][row % 3] for row in range(120)])
    columns = {"a": np.arange(120.0), "s": texts, "d": texts.dictionary_encode(), "label": np.arange(120) % 2}
    path = str(tmp_path / f"rows.{kind}")
    if kind == "parquet":
        parquet.write_table(pa.table(columns), path, row_group_size=50)
    elif kind == "feather":
        feather.write_feather(pa.table(columns), path, compression="uncompressed")
    else:
        with pa.ipc.new_stream(path, pa.table(columns).schema) as writer:
            writer.write_table(pa.table(columns), max_chunksize=50)
    done = subprocess.run([sys.executable, "-c", DAMAGED, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, done.stdout.split())
    assert read > 5
    assert refused > 20

"""Every format, compression and source gives the same rows; whatever cannot be read says where."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from bomkl._stream_options import StreamOptions
from bomkl.streams import BadLineError, Schema, StreamError, open_stream
from bomkl.streams.errors import BadLines
from bomkl.streams.formats import format_of
from bomkl.streams.reading import Reading

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


COMPRESSIONS = [
    gzip.compress,
    bz2.compress,
    lzma.compress,
    lambda content: pyarrow.compress(content, "zstd", asbytes=True),
]


def rows_of(stream):
    blocks = list(stream)
    X = np.concatenate([b.X.toarray() if sparse.issparse(b.X) else b.X for b in blocks])
    return X, None if blocks[0].y is None else np.concatenate([b.y for b in blocks])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(50, 4)), 3)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, rng.choice([-1, 1], size=50)


def write(path: Path, X, y) -> Path:
    """Write rows in the format that the name asks for."""
    names = [f"x{i}" for i in range(X.shape[1])]
    rows = [
        dict(zip([*names, "label"], [*map(float, row), int(label)], strict=True))
        for row, label in zip(X, y, strict=True)
    ]
    suffix = path.name.split(".")[1]
    if suffix == "svm":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    elif suffix in ("csv", "tsv"):
        between = {"csv": ",", "tsv": "\t"}[suffix]
        path.write_text(
            "".join(between.join(map(str, r)) + "\n" for r in [[*names, "label"], *(r.values() for r in rows)])
        )
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "npz":
        np.savez_compressed(path, X=X, y=y)
    else:
        table = pyarrow.Table.from_pylist(rows)
        if suffix == "parquet":
            parquet.write_table(table, path, row_group_size=20)
        else:
            make = pyarrow.ipc.new_stream if suffix == "arrows" else pyarrow.ipc.new_file
            with make(str(path), table.schema) as sink:
                sink.write_table(table, max_chunksize=20)
    return path


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
        ("rows.csv", b"a;b;label\n1;2;0\n", "Does ';' separate the columns. Say so with 'delimiter'"),
        ("rows.txt", b"1 |f a:1 b:2\n-1 |f a:2\n", "the format of Vowpal Wabbit, which is not read here"),
        ("rows.json", b'[{"a": 1, "label": 0}]', "rows.json:1: not a JSON object: .* jq -c"),
        ("rows.jsonl", b'[\n{"a": 1, "label": 0}\n]', "rows.jsonl:1: not JSON .* jq -c"),
    ],
)
def test_errors_say_what_to_do(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StreamError, match=message):
        list(open_stream(tmp_path / name, as_tables=True))


def test_a_quote_without_an_end_costs_its_line_only(tmp_path):
    lines = [f"{row},x,{row % 2}" for row in range(50_000)]
    lines[100] = '3,"oops,0'  # the reader of the csv module gives up after 131,072 characters
    lines[49_990] = '3,"oops,0'  # and here at the end of the file
    lines[50:52] = ['1,"a text', 'of two lines",1']
    stream = table(tmp_path, "a,b,label\n" + "\n".join(lines) + "\n", on_bad_line="skip", as_tables=True)
    assert sum(len(y) for _, y in stream) == 50_000 - 3
    assert stream.skipped == 2
    assert "rows.csv:102: a text of more than 131072 characters begins here" in str(stream.first_skipped)
    wrong = table(tmp_path, "a,label\n1,0\n" + '2,"x\n' + "3,1\n", on_bad_line="stop")
    with pytest.raises(BadLineError, match=r"rows.csv:3: a quoted text begins here and has no end: '2,\"x'"):
        list(wrong)


def test_many_quotes_without_an_end(tmp_path):
    text = "a,label\n" + 'x,"\n1,0\n' * 3000
    stream = table(tmp_path, text, on_bad_line="skip", as_tables=True)
    assert sum(len(y) for _, y in stream) + stream.skipped >= 3000


@pytest.mark.parametrize("block_rows", [1, 2, 100])
def test_the_first_value_tells_what_a_column_holds_in_blocks_of_any_size(tmp_path, block_rows):
    text = "f,d,x,label\n,,1,0\ntrue,2024-01-01,2,1\nFALSE,,3,0\nmaybe,2024-01-02,4,0\ntrue,soon,5,1\n"
    settings = {"as_tables": True, "missing": "keep", "block_rows": block_rows}
    stream = table(tmp_path, text, **settings)
    blocks = [X for X, _ in stream]
    assert [cell for X in blocks for cell in X["f"]] == [None, "true", "FALSE", "maybe", "true"]
    assert [cell for X in blocks for cell in X["d"]] == [None, "2024-01-01", None, "2024-01-02", "soon"]
    assert [(column.name, column.kind) for column in stream.schema.columns] == [
        ("f", "boolean"),
        ("d", "date"),
        ("x", "number"),
    ]
    stream = table(tmp_path, text, strings=["f", "d"], **settings)
    assert [cell for X, _ in stream for cell in X["f"]] == [None, "true", "FALSE", "maybe", "true"]


def test_texts_of_a_table_with_types_are_texts(tmp_path):
    codes, numbers = ["01", None, "02"], ["1_0", "2", "3"]
    columns = {
        "zip": codes,
        "shop": pyarrow.array([7, 8, 7]).dictionary_encode(),
        "label": ["1", "0", "1"],
        "w": numbers,
    }
    with pyarrow.ipc.new_file(str(tmp_path / "rows.arrow"), pyarrow.table(columns).schema) as sink:
        sink.write_table(pyarrow.table(columns))
    settings = {"as_tables": True, "missing": "keep"}
    [(X, y)] = open_stream(tmp_path / "rows.arrow", ignore=["w"], **settings)
    assert X == {"zip": ["01", None, "02"], "shop": ["7", "8", "7"]}
    assert y.tolist() == [1, 0, 1]  # classes are named alike in all formats
    with pytest.raises(BadLineError, match="the weight is not a number: '1_0'"):
        list(open_stream(tmp_path / "rows.arrow", weight="w", **settings))


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_truncated_compression_is_an_error(tmp_path, data, compress):
    packed = compress(write(tmp_path / "rows.svm", *data).read_bytes() * 50)
    path = tmp_path / "cut.svm"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(StreamError, match=r"cut.svm"):
        list(open_stream(path))


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


# svmlight


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


# tables


def table(tmp_path, text: str, name: str = "rows.csv", **options):
    path = tmp_path / name
    path.write_text(text, newline="", encoding="utf-8")
    return open_stream(path, **options)


def test_label_by_name_position_and_without_header(tmp_path):
    text = "kind,a,b\nx,1,2\ny,3,4\n"
    for label in ("kind", 0, -3):
        X, y = rows_of(table(tmp_path, text, label=label))
        assert (X.tolist(), y.tolist()) == ([[1, 2], [3, 4]], ["x", "y"])
    stream = table(tmp_path, "x,1,2\ny,3,4\n", label=0, header=False)
    assert rows_of(stream)[1].tolist() == ["x", "y"]
    unlabelled = table(tmp_path, "5,6\n", label=0, header=False, labels=False, schema=stream.schema)
    assert rows_of(unlabelled)[0].tolist() == [[5, 6]]
    with pytest.raises(StreamError, match=r"no label column 'label'. The columns are \['kind', 'a', 'b'\]"):
        list(table(tmp_path, text))


def test_quotes_line_ends_byte_order_mark_and_wide_characters(tmp_path):
    text = '\ufeffname,age,label\r\n"Zoë, ""Z""\nand co",3,"a"\r\n\r\nBob,4,b\r\n'
    stream = table(tmp_path, text)
    assert rows_of(stream)[0].tolist() == [[0, 1, 3], [1, 0, 4]]
    assert stream.schema.columns[0].values == ("Bob", 'Zoë, "Z"\nand co')


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2", r"rows.csv:3: 2 columns instead of 3: '1,2'"),
        ("1,2,3,4", r"rows.csv:3: 4 columns instead of 3: '1,2,3,4'"),
        ("old,2,1", r"rows.csv:3: column a: not a number: 'old'"),
        ("1_000,2,1", r"rows.csv:3: column a: not a number: '1_000'"),
        ("inf,2,1", r"rows.csv:3: column a: not a finite number: 'inf'"),
        (",2,1", r"rows.csv:3: column a: the value is missing: ''"),
        ("NA,2,1", r"rows.csv:3: column a: the value is missing: 'NA'"),
        ("1,2,", r"rows.csv:3: column label: the label is missing: ''"),
        ('1,2,"1"x', r"rows.csv:3: a quoted text must end where its column ends; .*: '1,2,\"1\"x'"),
    ],
)
def test_bad_rows_of_a_table(tmp_path, row, message):
    text = "a,b,label\n1,2,1\n" + row + "\n" + "5,6,0\n" * 20
    with pytest.raises(BadLineError, match=message):
        list(table(tmp_path, text))
    stream = table(tmp_path, text, on_bad_line="skip")
    assert len(rows_of(stream)[1]) == 21
    assert stream.skipped == 1


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,label\n1,x\n\xff2,y\n3,x\n")
    with pytest.raises(BadLineError, match=r"rows.csv:3: not UTF-8"):
        list(open_stream(path))
    assert rows_of(open_stream(path, on_bad_line="skip"))[1].tolist() == ["x", "x"]


def test_missing_values(tmp_path):
    text = "a,city,label\n1,Bonn,1\n,Oslo,0\n3,,1\n4,Bonn,0\n"
    skipping = table(tmp_path, text, missing="skip")
    assert rows_of(skipping)[0].tolist() == [[1, 1, 0], [4, 1, 0]]
    assert skipping.skipped == 0
    assert rows_of(table(tmp_path, text, missing=-1.0))[0].tolist() == [[1, 1, 0], [-1, 0, 1], [3, 0, 0], [4, 1, 0]]


def test_vocabulary_is_recorded_and_unknown_values_have_no_feature(tmp_path):
    stream = table(tmp_path, "city,label\nOslo,1\nBonn,0\n")
    stream.scan()
    assert stream.schema.feature_names() == ["city=Bonn", "city=Oslo"]
    schema = Schema.from_dict(json.loads(json.dumps(stream.schema.to_dict())))
    later = table(tmp_path, "label,city\n1,Bonn\n0,Rome\n", schema=schema)
    assert rows_of(later)[0].tolist() == [[1, 0], [0, 0]]
    with pytest.raises(StreamError, match=r"more than 1 different strings"):
        table(tmp_path, "city,label\nOslo,1\nBonn,0\n", max_values=1).scan()


def test_scan_finds_values_and_classes_beyond_the_first_block(tmp_path):
    text = "city,label\n" + "Oslo,a\n" * 5 + "Bonn,b\n"
    stream = table(tmp_path, text, block_rows=2)
    assert stream.scan().columns[0].values == ("Oslo", "Bonn")
    assert stream.schema.classes == ("a", "b")
    assert rows_of(stream)[0].sum() == 6


def test_hashed_strings_are_stable(tmp_path):
    stream = table(tmp_path, "n,city,label\n2,Oslo,1\n3,Bonn,0\n4,Oslo,1\n", categorical="hash", buckets=8)
    X, _ = rows_of(stream)
    assert X.shape == (3, 9)
    assert X[:, 0].tolist() == [2, 3, 4]
    np.testing.assert_array_equal(X[0, 1:], X[2, 1:])
    assert np.abs(X[:, 1:]).sum(axis=1).tolist() == [1, 1, 1]
    assert X[0, 1:].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]


def test_strings_may_be_refused_or_forced(tmp_path):
    text = "zip,label\n123,1\n456,0\n"
    assert rows_of(table(tmp_path, text, strings=["zip"]))[0].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(StreamError, match=r"column city: holds strings such as 'Oslo'"):
        list(table(tmp_path, "city,label\nOslo,1\n", categorical="error"))


def test_columns_may_change_order_but_not_appear_or_vanish(tmp_path):
    schema = table(tmp_path, "a,b,id,label\n1,2,9,1\n", ignore=["id"]).scan()
    assert rows_of(table(tmp_path, "label,b,a\n1,2,1\n", schema=schema))[0].tolist() == [[1, 2]]
    with pytest.raises(StreamError, match=r"the columns \['b'\] are missing"):
        list(table(tmp_path, "a,label\n1,2\n", schema=schema))
    with pytest.raises(StreamError, match=r"the columns \['c'\] were not there before"):
        list(table(tmp_path, "a,b,c,label\n1,2,3,1\n", schema=schema))
    with pytest.raises(StreamError, match=r"names \['a'\] more than once"):
        list(table(tmp_path, "a,a,label\n1,2,3\n"))
    with pytest.raises(StreamError, match=r"no feature column"):
        list(table(tmp_path, "label\n1\n"))


def test_labels_outside_the_classes(tmp_path):
    schema = table(tmp_path, "a,label\n1,x\n2,y\n").scan()
    with pytest.raises(
        BadLineError, match=r"rows.csv:2: column label: the label is none of the classes \['x', 'y'\]: 'z'"
    ):
        list(table(tmp_path, "a,label\n1,z\n", schema=schema))


def test_json_lines(tmp_path):
    text = '{"a": 1, "on": true, "label": "x"}\n\n{"label": "y", "a": 2.5, "on": false}\n'
    assert rows_of(table(tmp_path, text, "rows.jsonl"))[0].tolist() == [[1, 1], [2.5, 0]]
    ragged = text + '{"a": 7, "label": "x"}\n'
    with pytest.raises(BadLineError, match=r"rows.jsonl:4: column on: the value is missing"):
        list(table(tmp_path, ragged, "rows.jsonl"))
    assert rows_of(table(tmp_path, ragged, "rows.jsonl", missing=0))[0].tolist() == [[1, 1], [2.5, 0], [7, 0]]
    for line, message in (
        ("[1]", "not a JSON object"),
        ("{", "not JSON"),
        ("[" * 9999, "not JSON"),
    ):
        with pytest.raises(BadLineError, match=rf"rows.jsonl:4: {message}"):
            list(table(tmp_path, text + line, "rows.jsonl"))


def test_regression_targets_stay_numbers(tmp_path):
    assert rows_of(table(tmp_path, "a,label\n1,2\n2,3\n", target="number"))[1].dtype == np.float64


@pytest.mark.parametrize("text", ["", "a,label\n", "\n\n"])
def test_nothing_to_read(tmp_path, text):
    with pytest.raises(StreamError, match=r"there are no rows"):
        list(table(tmp_path, text))
    with pytest.raises(StreamError, match=r"there are no rows"):
        table(tmp_path, text).scan()


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


def test_missing_file(tmp_path):
    with pytest.raises(StreamError, match=r"absent.csv: no such file"):
        open_stream(tmp_path / "absent.csv")


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


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
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


def test_bad_svmlight_lines_are_skipped_in_one_go(tmp_path, monkeypatch):
    from bomkl.streams import svmlight

    calls = []
    parse = svmlight.parse_svmlight
    monkeypatch.setattr(svmlight, "parse_svmlight", lambda *args: (calls.append(1), parse(*args))[1])
    (tmp_path / "rows.svm").write_text("1 1:1\n# note\n\n1 x\n-1 1:2\nz\n" * 1000)
    stream = open_stream(tmp_path / "rows.svm", on_bad_line="skip", block_rows=5000)
    assert sum(len(y) for _, y in stream) == stream.skipped == 2000
    assert (stream.first_skipped.line, stream.first_skipped.column) == (4, "3")
    assert len(calls) == 1


def test_names_that_come_twice_are_found_without_comparing_each_with_all(tmp_path):
    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

    reading = Reading("rows.csv", StreamOptions(), lambda: None, BadLines(skip=False))
    reading.check_names([Name(number) for number in range(2000)])
    assert Name.compared < 2000
    with pytest.raises(StreamError, match=r"names \['0', '1', '10', '100', '101'\] and 195 others more than"):
        reading.check_names([Name(number % 200) for number in range(400)])


def test_arrow_columns_of_the_same_name(tmp_path):
    pa, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0]), pa.array([0])], names=["a", "a", "label"])
    feather.write_feather(table, str(tmp_path / "rows.feather"))
    with pytest.raises(StreamError, match=r"the header names \['a'\] more than once"):
        list(open_stream(tmp_path / "rows.feather"))

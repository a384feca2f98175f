"""Tables: labels, strings, missing values, columns that change."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.streams.files import rows_of, table

from bomkl._support.stream_options import StreamOptions
from bomkl.streams import BadLineError, Schema, StreamError, open_stream
from bomkl.streams.errors import BadLines
from bomkl.streams.reading import Reading


def test_label_by_name_position_and_without_header(tmp_path):
    text = "kind,a,b\nx,1,2\ny,3,4\n"
    for label in ("kind", 0, -3):
        X, y = rows_of(table(tmp_path, text, label=label))
        assert (X.tolist(), y.tolist()) == ([[1, 2], [3, 4]], ["x", "y"])
    stream = table(tmp_path, "x,1,2\ny,3,4\n", label=0, header=False)
    assert rows_of(stream)[1].tolist() == ["x", "y"]
    unlabelled = table(tmp_path, "5,6\n", label=0, header=False, labels=False, schema=stream.schema)
    assert rows_of(unlabelled)[0].tolist() == [[5, 6]]
    with pytest.raises(
        StreamError,
        match=r"no label column 'label'. The option 'label' names another. The columns are \['kind', 'a', 'b'\]",
    ):
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
        ('1,2,"1"x', r"rows.csv:3: a quoted string must end where its column ends; .*: '1,2,\"1\"x'"),
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
    for line, message in (("[1]", "not a JSON object"), ("{", "not JSON"), ("[" * 9999, "not JSON")):
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


def test_a_column_that_no_row_of_a_block_has_is_a_missing_value(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1, "b": 2, "label": 0}\n{"a": 1, "label": 1}\n')
    stream = open_stream(str(path), as_tables=True, missing="error", block_rows=1)
    with pytest.raises(BadLineError, match=r"rows\.jsonl:2: column b: the value is missing"):
        list(stream)

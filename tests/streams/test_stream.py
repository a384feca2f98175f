"""Streams: options, errors, first values, reading from a row on."""

from __future__ import annotations

import pytest
from tests.streams.files import COMPRESSIONS, table, write

from bomkl.streams import BadLineError, StreamError, open_stream
from bomkl.tables.cells import are_categories

pyarrow = pytest.importorskip("pyarrow")


def test_a_quote_without_an_end_costs_its_line_only(tmp_path):
    lines = [f"{row},x,{row % 2}" for row in range(50_000)]
    lines[100] = '3,"oops,0'  # the reader of the csv module gives up after 131,072 characters
    lines[49_990] = '3,"oops,0'  # and here at the end of the file
    lines[50:52] = ['1,"a text', 'of two lines",1']
    stream = table(tmp_path, "a,b,label\n" + "\n".join(lines) + "\n", on_bad_line="skip", as_tables=True)
    assert sum(len(y) for _, y in stream) == 50_000 - 3
    assert stream.skipped == 2
    assert "rows.csv:102: a string of more than 131072 characters begins here" in str(stream.first_skipped)
    wrong = table(tmp_path, "a,label\n1,0\n" + '2,"x\n' + "3,1\n", on_bad_line="stop")
    with pytest.raises(BadLineError, match=r"rows.csv:3: a quoted string begins here and has no end: '2,\"x'"):
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


def test_codes_and_categories_are_texts_whatever_they_look_like(tmp_path):
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
    assert X["zip"] == ["01", None, "02"]
    assert X["shop"].tolist() == ["7", "8", "7"]
    assert are_categories(X["shop"])
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


def test_missing_file(tmp_path):
    with pytest.raises(StreamError, match=r"absent.csv: no such file"):
        open_stream(tmp_path / "absent.csv")

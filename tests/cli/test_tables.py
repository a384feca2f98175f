"""One encoder for tables, on the command line and in Python."""

from __future__ import annotations

import numpy as np
import pytest
from tests.command_line import bomkl, make_rows, svm_text

from bomkl import AutoMKLClassifier, modelfile


def flights(n=200):
    rng = np.random.default_rng(0)
    rows = [
        {
            "when": f"2013-0{1 + row % 9}-1{row % 10}T{row % 24:02}:00:00Z",
            "carrier": ["UA", "AA", "B6"][int(rng.integers(3))],
            "wind": None if row % 7 == 3 else round(float(rng.normal()), 3),
            "night": bool(row % 2),
        }
        for row in range(n)
    ]
    return rows, ["late" if row["carrier"] == "UA" or (row["wind"] or 0) > 1 else "on time" for row in rows]


def test_a_table_learned_here_predicts_in_python_and_the_reverse(tmp_path):
    pd = pytest.importorskip("pandas")
    rows, y = flights()
    frame = pd.DataFrame(rows)
    text = frame.assign(late=y).to_csv(index=False)
    (tmp_path / "rows.csv").write_text(text)
    for inputs, given in ((tmp_path / "rows.csv", None), ("-", text)):
        args = ["train", inputs, "--label", "late", "-o", tmp_path / "m", "-q", "--budget", 50]
        assert bomkl(*args, input=given).exit_code == 0
        printed = bomkl("predict", tmp_path / "m", tmp_path / "rows.csv").stdout.splitlines()
        again = pd.read_csv(tmp_path / "rows.csv").drop(columns="late")
        assert printed == modelfile.load(tmp_path / "m").predict(again).tolist()
        head, *lines = bomkl(
            "predict", tmp_path / "m", tmp_path / "rows.csv", "-k", "probabilities"
        ).stdout.splitlines()
        assert head == "late\ton time"
        found = np.array([line.split("\t") for line in lines], dtype=float)
        np.testing.assert_array_equal(found, modelfile.load(tmp_path / "m").predict_proba(again))
    model = AutoMKLClassifier(budget=50, random_state=0).fit(frame, y)
    modelfile.save(model, tmp_path / "python")
    head, *lines = bomkl("predict", tmp_path / "python", tmp_path / "rows.csv", "-k", "probabilities",
                         "--label", "late").stdout.splitlines()  # fmt: skip
    np.testing.assert_array_equal(np.array([line.split("\t") for line in lines], float), model.predict_proba(frame))


def test_columns_of_mixed_kinds_are_texts_if_told_so_in_blocks_of_any_size(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("flag,day,x,label\ntrue,2024-01-01,1,0\nmaybe,soon,2,1\nfalse,2024-01-02,3,0\n")
    for size in (1, 1024):
        done = bomkl("train", rows, "-o", tmp_path / "m", "-q", "--block-rows", size)
        assert done.exit_code == 0
        told = "column 'flag' holds booleans. Other values, such as 'maybe', count as missing."
        assert (
            f"{told} For strings, declare types={{'flag': 'category'}}, or use --strings on the command line. Rows: 1."
            in done.stderr
        )
        texts = ["--strings", "flag", "--strings", "day", "--strings", "label"]
        assert bomkl("train", rows, "-o", tmp_path / f"m{size}", "-q", "--block-rows", size, *texts).exit_code == 0
    assert (tmp_path / "m1").read_bytes() == (tmp_path / "m1024").read_bytes()
    kinds = modelfile.load(tmp_path / "m1").encoder_.kinds_
    assert kinds == {"flag": "category", "day": "category", "x": "number"}
    assert bomkl("predict", tmp_path / "m1", rows).exit_code == 0


@pytest.mark.parametrize("option", ["label", "weight", "ignore", "strings"])
def test_options_for_columns_are_refused_where_columns_have_no_names(svm, model, option):
    for args in (["eval", svm], ["score", model, svm]):
        done = bomkl(*args, f"--{option}", "age")
        assert done.exit_code == 1
        assert f"rows.svm: columns have no names here. The option '{option}' must be left out. Got" in done.stderr


@pytest.mark.parametrize("name", ["later.csv", "later.jsonl", "later.arrow"])
def test_columns_that_are_new_later_are_left_out_if_told_so(tmp_path, name):
    first, later, path = tmp_path / "first.csv", {"a": [1.0, 2.0], "b": ["x", "y"]}, tmp_path / name
    first.write_text("a,label\n1,0\n2,1\n")
    if name.endswith("csv"):
        path.write_text("a,b\n1,x\n2,y\n")
    elif name.endswith("jsonl"):
        path.write_text('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n')
    else:
        pa = pytest.importorskip("pyarrow")
        with pa.ipc.new_file(str(path), pa.table(later).schema) as sink:
            sink.write_table(pa.table(later))
    assert bomkl("train", first, "-q", "-o", tmp_path / "m").exit_code == 0
    refused = bomkl("predict", tmp_path / "m", path, "--new-columns", "refuse")
    assert refused.exit_code == 1
    assert "before" in refused.stderr
    expected = bomkl("predict", tmp_path / "m", first, "-k", "margins").stdout
    for option in ([], ["--new-columns", "ignore"]):
        done = bomkl("predict", tmp_path / "m", path, "-k", "margins", *option)
        assert done.stdout == expected
        assert "The column 'b' is ignored: it was not there" in done.stderr
        assert "Rows: 2." in done.stderr
    assert bomkl("predict", tmp_path / "m", path, "-k", "margins", "--ignore", "b").stdout == expected


def test_a_file_without_any_known_column_is_refused(tmp_path):
    first, good, other = (tmp_path / name for name in ("first.csv", "good.csv", "other.csv"))
    first.write_text("a,b,label\n1,x,0\n2,y,1\n")
    good.write_text("b\nx\n")
    other.write_text("c,d\n1,x\n")
    assert bomkl("train", first, "-q", "-o", tmp_path / "m").exit_code == 0
    assert bomkl("predict", tmp_path / "m", good).exit_code == 0
    for inputs in ([other], [good, other]):
        refused = bomkl("predict", tmp_path / "m", *inputs)
        assert refused.exit_code == 1
        assert "other.csv: must have columns that were learned from: 'a', 'b'. Got 'c', 'd' instead" in refused.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,5", "numbers, write them as 1234.5"),
        ("1.234,50 €", "numbers, write them as 1234.5"),
        ("12%", "numbers, write them as 1234.5"),
        ("31.12.2024", "dates, write them as 2024-02-29T12:00"),
        ("12/31/2024 10:05", "dates, write them as 2024-02-29T12:00"),
        ("A-12", None),
        ("10.0.0.1", None),
    ],
)
def test_texts_that_look_like_numbers_or_dates_are_told(tmp_path, text, told):
    rows = tmp_path / "rows.tsv"
    rows.write_text(f"a\tlabel\n{text}\t0\nx\t1\n", encoding="utf-8")
    message = f"bomkl: column a holds strings such as {text!r}. To use them as {told}." if told else None
    done = bomkl("train", rows, "-o", tmp_path / "m")
    assert [line for line in done.stderr.splitlines() if line.startswith("bomkl:")] == ([message] if told else [])
    assert bomkl("train", rows, "-o", tmp_path / "m", "-q").stderr == (f"{message}\n" if told else "")
    assert "bomkl:" not in bomkl("train", rows, "-o", tmp_path / "m", "--strings", "a").stderr
    assert "columns      a=category" in bomkl("inspect", tmp_path / "m").stdout


def test_texts_of_a_file_with_types_are_not_told_if_they_are_numbers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "rows.arrow"
    table = pa.table({"a": ["-5", "+1.5"], "label": [0, 1]})
    with pa.ipc.new_file(str(path), table.schema) as sink:
        sink.write_table(table)
    assert "holds strings" not in bomkl("train", path, "-o", tmp_path / "m").stderr


def test_a_pipe_with_times_of_day_is_a_table(tmp_path):
    text = "when,label\n" + "2024-01-01 10:05,1\n2024-01-02 11:06,0\n" * 5
    assert bomkl("train", "-", "-o", tmp_path / "m", "-q", input=text).exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.kinds_ == {"when": "date"}


def test_a_column_without_values_in_python_is_told_by_its_first_value_here(tmp_path):
    model = AutoMKLClassifier(budget=10).partial_fit([{"a": None, "b": 1.0}, {"a": None, "b": 2.0}], [0, 1])
    modelfile.save(model, tmp_path / "m")
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1.5,2\n")
    found = bomkl("predict", tmp_path / "m", rows, "-k", "margins")
    with pytest.warns(UserWarning, match="'a' is ignored"):
        expected = model.decision_function([{"a": 1.5, "b": 2.0}])[0]
    assert found.stdout == f"{expected}\n"
    assert "'a' is ignored" in found.stderr


def test_a_model_of_a_matrix_still_reads_svmlight(svm, tmp_path):
    X, y = make_rows(500)
    modelfile.save(AutoMKLClassifier(budget=50, random_state=0).fit(X, y), tmp_path / "m")
    assert bomkl("predict", tmp_path / "m", svm).exit_code == 0


def test_stored_rows_and_support_vectors_are_told_apart(tmp_path):
    (tmp_path / "rows.svm").write_text(svm_text(300))
    done = bomkl("eval", tmp_path / "rows.svm", "-q", "--budget", 50)
    figures = dict(line.split("\t") for line in done.stdout.splitlines())
    assert int(figures["stored rows"]) <= 50 < int(figures["support vectors of all kernels"])

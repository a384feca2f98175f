"""Rows as the commands open them: folders, columns by name, ways to write tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.command_line import bomkl

from bomkl import modelfile


def test_folders(svm, tmp_path):
    (tmp_path / "parts").mkdir()
    lines = svm.read_text().splitlines(keepends=True)
    for number in range(5):
        (tmp_path / "parts" / f"part-{number}.svm").write_text("".join(lines[100 * number : 100 * (number + 1)]))
    (tmp_path / "parts" / "_SUCCESS").write_text("")
    (tmp_path / "parts" / ".hidden").write_text("nonsense")
    assert bomkl("eval", tmp_path / "parts").stdout == bomkl("eval", svm).stdout
    (tmp_path / "empty").mkdir()
    assert "there are no files in this folder" in bomkl("eval", tmp_path / "empty").stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--label", "kimd"], "there is no label column 'kimd'. Did you mean 'kind'? The columns are ['weight', "),
        (["--label", "kind", "--ignore", "wieght"], "no column 'wieght' to leave out. Did you mean 'weight'?"),
        (["--label", "kind", "--strings", "wght"], "there is no column 'wght' to take as strings. Did you mean 'w"),
        (["--label", "kind", "--weight", "wight"], "there is no weight column 'wight'. Did you mean 'weight'?"),
        (["--label", "9"], "there is no label column 9. The columns are ['weight', 'coat', 'kind']."),
    ],
)
def test_mistyped_columns(pets, tmp_path, args, message):
    for inputs, text in ((pets, None), ("-", pets.read_text())):
        done = bomkl("eval", inputs, *args, input=text)
        assert done.exit_code == 1
        assert message in done.stderr


def test_a_class_that_comes_late_in_a_pipe(tmp_path):
    text = "a,label\n" + "1,x\n2,y\n" * 2000 + "3,z\n" * 50
    assert bomkl("train", "-", "-o", tmp_path / "m", "-q", "--budget", 20, input=text).exit_code == 0
    assert modelfile.load(tmp_path / "m").classes_.tolist() == ["x", "y", "z"]
    (tmp_path / "rows.csv").write_text(text)
    assert bomkl("train", tmp_path / "rows.csv", "-o", tmp_path / "m2", "-q", "--budget", 20).exit_code == 0
    first, second = (modelfile.load(tmp_path / name).predict_proba for name in ("m", "m2"))
    rows = {"a": [1.0, 3.0]}
    assert first(rows).tolist() == second(rows).tolist()


def test_decimal_commas(tmp_path):
    (tmp_path / "de.csv").write_text("size;city;label\n" + '"1,5";Ulm;a\n2.345,5;Rom;b\n-3,25;Rom;a\n' * 4)
    (tmp_path / "en.csv").write_text("size,city,label\n" + "1.5,Ulm,a\n2345.5,Rom,b\n-3.25,Rom,a\n" * 4)
    assert bomkl("train", tmp_path / "de.csv", "--decimal", ",", "-q", "-o", tmp_path / "de").exit_code == 0
    assert bomkl("train", tmp_path / "en.csv", "-q", "-o", tmp_path / "en").exit_code == 0
    models = [modelfile.load(tmp_path / name) for name in ("de", "en")]
    assert models[0].encoder_.kinds_ == {"size": "number", "city": "category"}
    rows = [{"size": 7.0, "city": "Rom"}]
    np.testing.assert_array_equal(models[0].decision_function(rows), models[1].decision_function(rows))
    predicted = [bomkl("predict", tmp_path / name, tmp_path / f"{name}.csv").stdout for name in ("de", "en")]
    assert predicted[0] == predicted[1]
    assert bomkl("train", tmp_path / "de.csv", "--decimal", "x", "-o", tmp_path / "m").exit_code == 2


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("name,label\n'a, b',x\n'it''s',y\n", ["--quote", "'"]),
        ('name,label\n"a, b",x\n"it\'s",y\n', []),
        ("name,label\na\\, b,x\nit's,y\n", ["--escape", "\\"]),
    ],
)
def test_quoted_and_escaped_texts(tmp_path, text, options):
    (tmp_path / "rows.csv").write_text(text)
    assert bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m", *options).exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.first_categories() == {"name": "a, b"}


def test_backslashes_before_quotes_lead_to_advice(tmp_path):
    (tmp_path / "rows.csv").write_text('name,label\n"a \\"b\\" c",x\n"d",y\n')
    refused = bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m")
    assert "the option 'escape' reads them" in refused.stderr
    assert bomkl("train", tmp_path / "rows.csv", "-q", "-o", tmp_path / "m", "--escape", "\\").exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.first_categories() == {"name": 'a "b" c'}


def test_quotes_that_are_letters(tmp_path):
    (tmp_path / "rows.tsv").write_text('name\tlabel\n"The Rise" of all\tx\n27" screen\ty\n')
    refused = bomkl("train", tmp_path / "rows.tsv", "-q", "-o", tmp_path / "m")
    assert "If quotes are letters like others in this file, set the option 'quote' to an empty string" in refused.stderr
    assert bomkl("train", tmp_path / "rows.tsv", "-q", "-o", tmp_path / "m", "--quote", "").exit_code == 0
    assert modelfile.load(tmp_path / "m").encoder_.first_categories() == {"name": '"The Rise" of all'}


def test_lists_and_objects_in_json(tmp_path):
    rows = [
        {"v": [i % 3, {"w": i % 2}], "user": {"age": i, "none": []}, "skip": [1, 2], "label": "xy"[i % 2]}
        for i in range(20)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bomkl("train", tmp_path / "rows.jsonl", "-q", "-o", tmp_path / "m", "--ignore", "skip")
    assert (done.exit_code, done.stderr) == (0, "")
    assert list(modelfile.load(tmp_path / "m").encoder_.kinds_) == ["v.0", "v.1.w", "user.age"]
    (tmp_path / "twice.jsonl").write_text('{"a": {"b": 1}, "a.b": 2, "label": 1}\n')
    refused = bomkl("train", tmp_path / "twice.jsonl", "-q", "-o", tmp_path / "m2")
    assert "two values have the name 'a.b'" in refused.stderr

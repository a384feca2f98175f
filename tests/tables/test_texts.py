"""Columns of texts that are numbers: the same model as from numbers, whatever the rows come from."""

import csv
import json
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, modelfile
from bomkl.serve.model.columns import Columns
from bomkl.streams import open_stream
from bomkl.tables.numbers import have_code, is_gap

KINDS = {"amount": "number", "zip": "category", "code": "category", "level": "number", "note": "category"}


def rows_of_texts(n=200, seed=0):
    """Rows as a CSV file has them, the first values of which tell little, and labels."""
    rng = np.random.default_rng(seed)
    amount, level, code = rng.normal(size=n) * 900, rng.integers(0, 50, n), rng.integers(0, 12, n)
    rows = [
        {
            "amount": "?" if i % 20 == 0 else f"{amount[i]:,.2f}",
            "zip": f"{94110 if i < 10 else rng.integers(9)!s:>05}",
            "code": f"{code[i]}.50" if i < 3 or code[i] < 6 else f"A{code[i]}",
            "level": "unknown" if i in (0, 100) else str(level[i]),
            "note": str(rng.choice(["red", "blue", "7"])),
        }
        for i in range(n)
    ]
    return rows, np.where(np.sin(amount / 500) + (code % 3 == 1) + level / 50 > 1, "yes", "no")


def learned(parts, kind=AutoMKLClassifier, save=None):
    model, scores = kind(budget=100, random_state=0), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X, y in parts:
            scores.append(model.score_and_learn(X, y))
            if save is not None:
                modelfile.save(model, save)
                model = pickle.loads(pickle.dumps(modelfile.load(save)))
    return model, np.concatenate(scores)


def cut(X, y, *ends):
    ends = [0, *ends, len(y)]
    return [(X[begin:end], y[begin:end]) for begin, end in pairwise(ends)]


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
def test_calls_may_be_cut_anywhere(kind, tmp_path):
    rows, y = rows_of_texts()
    y = y if kind is AutoMKLClassifier else np.arange(len(y)) % 7.0
    model, scores = learned([(rows, y)], kind)
    assert model.encoder_.kinds_ == KINDS
    _, again = learned(cut(rows, y, 1, 5, 9, 40, 64, 99, 100, 120), kind, tmp_path / "model")
    np.testing.assert_array_equal(again, scores)


def test_files_frames_river_and_the_service_agree(tmp_path):
    rows, y = rows_of_texts()
    expected = learned([(rows, y)])[1]
    frame = pd.DataFrame(rows)
    tables = [frame, frame.astype("string"), frame.to_dict("list")]
    for table in tables:
        np.testing.assert_array_equal(learned([(table, y)])[1], expected)
    columns = Columns.of(rows[0], "row", "classify", tables=True)
    ordered, columns = columns.cells(rows, ["row"] * len(rows))
    np.testing.assert_array_equal(learned([(columns.input(ordered), y)])[1], expected)
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([[*rows[0], "label"], *([*row.values(), label] for row, label in zip(rows, y, strict=True))])
    lines = [json.dumps(row | {"label": label}) for row, label in zip(rows, y.tolist(), strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    for name in ("rows.csv", "rows.jsonl"):
        for block in (3, 64):
            parts = open_stream(tmp_path / name, as_tables=True, missing="keep", label="label", block_rows=block)
            np.testing.assert_array_equal(learned(parts)[1], expected)


def test_river_agrees():
    river = pytest.importorskip("bomkl.river")
    rows, y = rows_of_texts(60)
    model = river.AutoMKLClassifier(budget=100, seed=0)
    expected = learned(cut(rows, y, 40))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row, label in zip(rows, y, strict=True):
            model.learn_one(row, label)
    for row in rows[1:11]:
        assert model.predict_one(row) == expected.predict(row)[0]


def test_texts_of_numbers_are_the_same_bits_as_numbers():
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({"a": rng.normal(size=150).round(3), "b": rng.integers(-9, 9, 150) + 0.5})
    y = np.sign(numbers.a * numbers.b).astype(int)
    for texts in (numbers.astype(str), numbers.map(lambda value: f" {value} ")):
        np.testing.assert_array_equal(learned([(texts, y)])[1], learned([(numbers, y)])[1])
    categories = learned([(numbers.astype(str).astype("category"), y)])[0]
    assert categories.encoder_.kinds_ == {"a": "category", "b": "category"}


def test_what_is_no_number_is_told():
    rows, y = rows_of_texts()
    model = AutoMKLClassifier(budget=100, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.partial_fit(rows[:101], y[:101])
    texts = {str(each.message).split(" For ")[0] for each in told}  # of the code 'A7' nothing: it is a category
    assert texts == {"The column 'level' holds numbers. Other values, such as 'unknown', count as missing."}


def test_a_model_that_does_not_grow_goes_by_the_first_value():
    rows, y = rows_of_texts()
    with pytest.warns(UserWarning, match="The column 'code' holds numbers"):
        model = BudgetMKLClassifier(random_state=0).fit(rows, y)
    assert model.encoder_.kinds_ == KINDS | {"zip": "number", "code": "number", "level": "category"}


def test_whole_numbers_that_come_as_texts_may_be_codes():
    rng = np.random.default_rng(0)
    code, other = rng.integers(100, 300, 2000), rng.normal(size=2000)
    y = np.where(rng.normal(size=300)[code] * 2 + other > 0, "yes", "no")
    texts = pd.DataFrame({"code": code.astype(str), "other": other})
    model, scores = learned([(texts, y)])
    assert model.encoder_.kinds_ == {"code": "number", "other": "number"}
    assert model.mistakes_ < 0.9 * learned([(texts.astype(float), y)])[0].mistakes_
    np.testing.assert_array_equal(learned(cut(texts, y, 1, 9, 100, 130))[1], scores)
    prices = texts.assign(code=[f"{value / 4:g}" for value in code])  # most are not whole
    assert learned([(prices, y)])[0].mistakes_ == learned([(prices.astype(float), y)])[0].mistakes_


def test_a_text_that_would_be_an_infinite_number_is_a_code():
    ids = pd.DataFrame({"id": ["1234567", "ab3", "12e4567", "9f"] * 20})
    model = AutoMKLClassifier(budget=30, random_state=0).partial_fit(ids, [0, 1] * 40)
    assert model.encoder_.kinds_ == {"id": "category"}


def test_codes_are_found_in_linear_time():
    assert not have_code(["x" + "\n" * 10**6 + "y", *[""] * 10**5])


def test_nan_is_a_missing_value_however_it_is_written():
    assert all(is_gap(text) for text in ("nan", "NaN", "NAN", "-nan", " nan "))
    assert not any(is_gap(text) for text in ("nano", "nana", "-"))

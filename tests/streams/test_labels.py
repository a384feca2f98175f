"""Labels, weights and cells of a file. `make mutants` changes each line of the two modules and expects a failure."""

import re

import numpy as np
import pytest

from bomkl.streams.cells import to_number
from bomkl.streams.errors import KeptRows
from bomkl.streams.labels import first_label, has_labels, label_kind, read_labels, read_weights, whole_if_possible
from bomkl.streams.schema import Schema


class Told(list):
    """What is reported of bad lines."""

    def report(self, bad):
        self.append(str(bad))


def read(reader, cells, keep=None, **known):
    """What a reader gives, which rows it keeps, and what it reports."""
    told = Told()
    rows = KeptRows("rows.csv", np.arange(10, 10 + len(cells)), told)
    rows.mask = rows.mask if keep is None else keep
    return reader(cells, Schema(1, **known), rows), rows.mask.tolist(), told


def test_the_first_label_that_is_there():
    assert has_labels(None)
    assert has_labels([None, "x"])
    assert not has_labels(["", None])
    assert first_label(["", "x", "y"]) == ["x"]
    assert first_label(np.array([None, 3], dtype=object)) == [3]
    assert first_label(["", None]) == []
    assert first_label(np.array([2.5, 1.0])).tolist() == [2.5]


def test_numbers_of_cells():
    assert [to_number(cell) for cell in ("1e3", 2, True, 10**400)] == [1000.0, 2.0, 1.0, float("inf")]
    assert np.isnan(to_number("?"))
    for cell in ("1_000", [1], {"a": 1}, "one"):
        with pytest.raises(ValueError, match=re.escape(str(cell))):
            to_number(cell)


def test_the_kind_of_labels():
    assert label_kind(np.array([True])) == label_kind(np.array([1.5])) == label_kind(np.array([1])) == "number"
    assert label_kind(np.array(["1"])) == label_kind(["1", "x"]) == "string"
    assert label_kind(["1", "", "2.5"]) == label_kind(np.array([1, None], dtype=object)) == "number"


def test_labels_that_cannot_be_used_are_named_with_their_line():
    y, keep, told = read(read_labels, ["1", "x", "", "inf", "2"], label="y")
    assert y[[0, 4]].tolist() == [1.0, 2.0]
    assert keep == [True, False, False, False, True]
    assert told == [
        "rows.csv:11: column y: the label is not a number: 'x'",
        "rows.csv:13: column y: the label is not a finite number: 'inf'",
        "rows.csv:12: column y: the label is missing: ''",
    ]


def test_labels_are_one_of_the_classes():
    y, keep, told = read(read_labels, ["a", None, "c", 3], label="y", label_kind="string", classes=("a", "3"))
    assert y.tolist() == ["a", "", "c", "3"]
    assert keep == [True, False, False, True]
    assert told == [
        "rows.csv:11: column y: the label is missing: 'None'",
        "rows.csv:12: column y: the label is none of the classes ['a', '3']: 'c'",
    ]
    assert read(read_labels, ["1", "2"], label="y", classes=(1,))[1] == [True, False]


@pytest.mark.parametrize("reader", [read_labels, read_weights])
def test_rows_that_were_left_out_before_are_not_reported_again(reader):
    assert read(reader, ["x", "1"], np.array([False, True]))[1:] == ([False, True], [])


def test_weights_are_finite_and_not_negative():
    weights, keep, told = read(read_weights, ["0", "0.5", "-1", "inf", "", "x"], weight="w")
    assert weights[:2].tolist() == [0.0, 0.5]
    assert keep == [True, True, False, False, False, False]
    assert told == [
        "rows.csv:15: column w: the weight is not a number: 'x'",
        "rows.csv:12: column w: the weight must be a finite number >= 0: '-1'",
        "rows.csv:13: column w: the weight must be a finite number >= 0: 'inf'",
        "rows.csv:14: column w: the weight must be a finite number >= 0: ''",
    ]


def test_whole_numbers_are_integers():
    assert whole_if_possible(np.array([1000.0, -1.0])).dtype == np.int64
    for y in ([1.5, 1.0], [2.0**53, 1.0], [-(2.0**53)]):
        assert whole_if_possible(np.array(y)).dtype == np.float64
    assert whole_if_possible(np.array(["1"])).tolist() == ["1"]

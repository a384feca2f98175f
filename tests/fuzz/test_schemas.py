"""Streams whose columns appear, vanish, change type, get other names, change places and nest, on every way in."""

import json
import os
import threading
import warnings

import numpy as np
from tests.fuzz.ways import by_river, by_service

from bomkl import AutoMKLClassifier
from bomkl.streams import open_stream
from bomkl.tables.notices import TableWarning

_VALUES = {
    "number": lambda rng: round(float(rng.normal(3, 2)), 3),
    "integer": lambda rng: int(rng.integers(0, 50)),
    "large": lambda rng: 1e6 + round(float(rng.normal()), 2),
    "text": lambda rng: str(rng.choice(["red", "green", "blue", "3.5", "NA", ""])),
    "note": lambda rng: " ".join(rng.choice(["late", "Łódź", "BROKEN", "ok", "x" * 150], rng.integers(1, 8))),
    "user": lambda rng: f"u{rng.integers(40)}",
    "boolean": lambda rng: bool(rng.random() < 0.5),
    "date": lambda rng: f"2024-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}",
    "null": lambda rng: None,
    "object": lambda rng: {"x": round(float(rng.normal()), 3), "y": str(rng.choice(["a", "b"]))},
    "list": lambda rng: [round(float(v), 2) for v in rng.normal(size=rng.integers(0, 3))],
}
_KINDS = list(_VALUES)


def changing_stream(rng, classes):
    """Rows with labels; between two rows the columns may change at random."""
    columns = {f"c{i}": str(rng.choice(_KINDS)) for i in range(rng.integers(1, 5))}
    rows, labels = [], []
    for _ in range(int(rng.integers(8, 60) if rng.random() < 0.8 else rng.integers(100, 200))):
        if rng.random() < 0.12:
            name = str(rng.choice(list(columns)))
            change = rng.integers(5)
            if change == 0:
                columns[f"n{len(rows)}"] = str(rng.choice(_KINDS))
            elif change == 1 and len(columns) > 1:
                del columns[name]
            elif change == 2:
                columns[name] = str(rng.choice(_KINDS))
            elif change == 3:
                columns[f"{name}_new"] = columns.pop(name)
            else:
                columns = {each: columns[each] for each in rng.permutation(list(columns)).tolist()}
        row = {name: _VALUES[kind](rng) for name, kind in columns.items() if rng.random() < 0.9}
        rows.append(row)
        labels.append(int(rng.integers(classes) if not row else len(json.dumps(row)) % classes))
    rows[0] = {"start": "a text"} | rows[0]  # so that models for River begin a table
    return rows, labels


def _model(budget, policy):
    return AutoMKLClassifier(budget=budget, random_state=0, new_columns=policy)


def _by_stream(stream, budget, policy):
    model = _model(budget, policy)
    margins = [model.score_and_learn(X, y) for X, y in stream]
    return margins, model


def _options(rng, policy):
    settings = {"as_tables": True, "missing": "keep", "block_rows": int(rng.integers(1, 40)), "label": "y"}
    return settings | {"format": "jsonl", "new_columns": policy}


def _by_file(rng, rows, labels, budget, policy, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"y": y} | row) + "\n" for row, y in zip(rows, labels, strict=True)))
    stream = open_stream(path, **_options(rng, policy))
    stream.scan(classes=False)
    return _by_stream(stream, budget, policy)


def _by_pipe(rng, rows, labels, budget, policy, monkeypatch):
    text = "".join(json.dumps({"y": y} | row) + "\n" for row, y in zip(rows, labels, strict=True))
    read, write = os.pipe()
    writer = threading.Thread(target=_write, args=(write, text))  # a pipe may hold less than all of it
    writer.start()
    with open(read, encoding="utf-8") as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        found = _by_stream(open_stream("-", **_options(rng, policy)), budget, policy)
    writer.join()
    return found


def _write(descriptor, text):
    with open(descriptor, "w", encoding="utf-8") as pipe:
        pipe.write(text)


def _calls(rng, n):
    begin = 0
    while begin < n:
        end = begin + int(rng.integers(1, 30))
        yield slice(begin, end)
        begin = end


def _by_calls(rng, rows, labels, budget, policy):
    model = _model(budget, policy)
    return [model.score_and_learn(rows[part], labels[part]) for part in _calls(rng, len(rows))], model


def _by_service(rng, rows, labels, budget, policy):
    model = _model(budget, policy)
    return by_service(model, rows, labels, _calls(rng, len(rows)), policy), model


def test_columns_that_change_at_random(cases, use_kernels, tmp_path, monkeypatch):
    for rng in cases(3):
        use_kernels(rng, all_of_them=False)  # they know nothing of columns
        classes = int(rng.choice([2, 2, 3, 7, 40]))
        rows, labels = changing_stream(rng, classes)
        rows = [row or {"start": None} for row in rows]  # a request must have a column
        labels[:2] = [0, 1]
        budget, policy = int(rng.choice([8, 20, 60, 200])), str(rng.choice(["learn", "learn", "ignore"]))
        arguments = rows, labels, budget, policy
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            expected, model = _by_calls(rng, *arguments)
            assert model.n_seen_ == len(rows)
            assert all(np.isfinite(each).all() for each in expected)
            some = rows[:: max(len(rows) // 10, 1)]
            chances = model.predict_proba(some)
            ways = {
                "file": _by_file(rng, *arguments, tmp_path),
                "pipe": _by_pipe(rng, *arguments, monkeypatch),
                "service": _by_service(rng, *arguments),
            }
            for way, (margins, other) in ways.items():
                if classes == 2:  # of several, a call has as many margins a row as classes are known by its end
                    np.testing.assert_array_equal(np.concatenate(margins), np.concatenate(expected), way)
                np.testing.assert_array_equal(other.predict_proba(some), chances, way)
                assert other.encoder_.kinds_ == model.encoder_.kinds_, way
                assert other.mistakes_ == model.mistakes_, way
            other = by_river("AutoMKLClassifier", rows, labels, budget=budget, new_columns=policy)
            for row, chance in zip(some, chances, strict=True):
                found = other.predict_proba_one(row)  # its labels are in the order of their coming, and so are sums
                rounding = 1e-14 if classes > 2 else 0.0
                np.testing.assert_allclose([found[label] for label in model.classes_.tolist()], chance, rtol=rounding)

"""Bulk bodies take short cuts. They must give what the long way gives."""

import json
import random
import struct

import numpy as np
import pytest

from bomkl.serve.errors import RefusedError
from bomkl.serve.folder.start import Start, columns_of
from bomkl.serve.formats import bodies
from bomkl.serve.model.learner import MICRO_BATCH, Learner
from bomkl.serve.model.monitor import Monitor
from bomkl.serve.storage.entry import Entry
from bomkl.serve.storage.log import Log

GOOD = [b'{"row": {"a": 1.5, "b": "x"}, "y": 1}', b'{"row": {"b": null, "a": -2}, "y": 0}']
LINES = [
    GOOD,
    [*GOOD, b"", b"  \r"],
    [b'{"row": {"a": 1e308}, "y": 1.5}'] * 3,  # finite, with an infinite sum
    [b'{"row": {"a": 1}, "y": 1}', b'{"row": {"a": true}, "y": "x"}'],
    [b'{"row": {"a": 1}, "y": 1}', b'{"row": {"c": 1}, "y": 1}'],
    [b'{"row": {"a": 1, "a": 2}, "y": 1, "y": 2}'] * 2,
    [b'{"row": {"a": 1e999}, "y": 1}'] * 2,
    [b'{"row": {"a": NaN}, "y": 1}'] * 2,
    [b'{"row": {"a": 1}, "y": NaN}'] * 2,
    [b'{"row": {"a": 123456789012345678901234567890}, "y": 1}'] * 2,
    [b'{"row": {"a": "' + b"x" * 10_001 + b'"}, "y": 1}'] * 2,
    [b'{"row": {"a": 1}, "y": "' + b"x" * 201 + b'"}'] * 2,
    [b'{"row": {"a": 1}, "y": ""}'] * 2,
    [b'{"row": {"a": 1}, "y": null}'] * 2,
    [b'{"row": {}, "y": 1}'] * 2,
    [b'{"row": [], "y": 1}'] * 2,
    [b'{"row": {"a": {"b": 1}}, "y": 1}'] * 2,
    [b'{"row": {"a": 1}}'] * 2,
    [b'{"row": {"a": 1}, "y": 1, "z": 2}'] * 2,
    [b'{"row": {"a": "\xff"}, "y": 1}'] * 2,
    [b'{"row": {"a": "\\ud800"}, "y": 1}'] * 2,
    [b"[]", b"7"],
    # lines that are not whole, but would be if they were joined in one way or another
    [b'{"row": {"a": 1}', b'"y": 1},{"row": {"a": 1}, "y": 2}'],
    [b'{"row": {"a": 1}, "y": 1}],[{"row": {"a": 1}, "y": 1}', b'{"row": {"a": "x', b'"}, "y": 1}'],
    [b'{"row": {"a": "', b'"}, "y": 1}, {"row": {"a": 2}, "y": 1}'],
    [b'{"row": [[1', b'2]], "y": 1}],[{"row": {"a": 1}, "y": 1}'],
    [b'[{"row": {"a": 1}, "y": 1}', b'{"row": {"a": 1}, "y": 1}]'],
    [b'{"row": {"a": 1}, "y": [[1', b'2]]}, {"row": {"a": 1}, "y": 1}'],
]
BODIES = [
    {"rows": [{"a": 1.5, "b": "x"}, {"b": None, "a": 2}], "y": [1, 0]},
    {"rows": [{"a": 1}, {"b": 1}], "y": [1, 0]},
    {"rows": [{"a": 1}], "y": [1, 0]},
    {"rows": [], "y": []},
    {"rows": {}, "y": []},
    {"rows": [{"a": 1}], "y": 1},
    {"rows": [{"a": 1}]},
    {"rows": [{"a": 1}], "y": [1], "ids": ["x"]},
    {"rows": [{"a": [1]}], "y": [1]},
    {"rows": [{"a": 1}], "y": [None]},
    {"rows": [{"a": 1}] * 10_001, "y": [1] * 10_001},
    {"rows": [{"a": 1}, {"a": 2}], "ids": ["x", "y"]},
    {"rows": [{"a": 1}, {"a": 2}], "ids": ["x", "x"]},
    {"rows": [{"a": 1}, {"a": 2}], "ids": ["x", None]},
    {"rows": [{"a": 1}, {"a": 2}], "ids": None},
]


def outcome(parser, body, kind):
    try:
        return repr(parser(body, kind))  # tells 1, 1.0 and True apart
    except RefusedError as error:
        return error.status, error.message, error.field


@pytest.mark.parametrize("parser", [bodies.learn_body, bodies.predict_body, bodies.label_body])
def test_short_cuts_read_what_the_models_read(parser, monkeypatch):
    chance = random.Random(0)
    labels = [[b'{"id": "a", "y": 1}', b'{"id": "b", "y": 2}'], [b'{"id": "a", "y": 1}', b'{"id": "a", "y": 2}']]
    ids = [[b'{"row": {"a": 1}, "id": "p"}', b'{"row": {"a": 2}, "id": "q"}'], [b'{"row": {"a": 1}, "id": null}'] * 2]
    everything = [(b"\n".join(lines), bodies.NDJSON) for lines in [*LINES, *labels, *ids]]
    everything += [(json.dumps(body).encode(), bodies.JSON) for body in BODIES]
    for _ in range(300):  # the same, damaged
        body, kind = chance.choice(everything[:-5])
        at = chance.randrange(min(len(body), 200))
        everything.append(
            (body[:at] + chance.choice([b"", b"[", b"]", b"{", b"}", b",", b'"', b"\n"]) + body[at + 1 :], kind)
        )
    short = [outcome(parser, *each) for each in everything]
    monkeypatch.setattr(bodies, "plain_lines", lambda *_: None)
    monkeypatch.setattr(bodies, "is_plain_body", lambda *_: False)
    long = [outcome(parser, *each) for each in everything]
    assert short == long
    assert any(isinstance(each, str) for each in short)


def test_the_log_gives_back_every_bit(tmp_path):
    chance = random.Random(0)
    numbers = [value for (value,) in struct.iter_unpack("d", chance.randbytes(8 * 2000)) if np.isfinite(value)]
    rows = [[value, "é\u2028\0\U0001f600", None, True, 10**30, 7] for value in [*numbers, 0.0, -0.0, 5e-324, 1e16]]
    log = Log(str(tmp_path))
    log.append(rows, list(range(len(rows))), 0.0)
    (entry,) = log.entries()
    assert repr(entry.rows) == repr(rows)
    log.close()


def test_figures_do_not_depend_on_how_rows_are_grouped():
    rng = np.random.default_rng(0)
    labels = rng.choice(["a", "b", "c"], size=7000, p=[0.4, 0.35, 0.25]).tolist()
    errors = (rng.random(7000) < np.where(np.arange(7000) < 5000, 0.1, 0.6)).astype(float)
    sure = rng.random(7000)
    states = []
    for sizes in ([7000], [1], [16, 3, 1000, 255, 77]):
        monitor, at = Monitor(), 0
        while at < 7000:
            end = min(at + sizes[monitor.rows % len(sizes)], 7000)
            monitor.count_classes(labels[at:end], errors[at:end], sure[at:end])
            at = end
        states.append(json.dumps(monitor.state(), default=np.ndarray.tolist))
    assert len(set(states)) == 1
    assert monitor.warnings
    most = max(("a", "b", "c"), key=labels.count)
    assert monitor.class_counts[most] == labels.count(most)
    before = [max(dict.fromkeys(labels[:at]), key=labels[:at].count, default=None) for at in range(200)]
    short = Monitor()
    short.count_classes(labels[:200], errors[:200], sure[:200])
    assert short.baseline_errors == sum(guess != label for guess, label in zip(before, labels[:200], strict=True))


def test_figures_of_numbers_do_not_depend_on_how_rows_are_grouped():
    targets = np.random.default_rng(0).normal(1e3, 1.0, size=500)
    states = set()
    for size in (500, 1, 7):
        monitor = Monitor()
        for at in range(0, 500, size):
            monitor.count_numbers(targets[at : at + size], np.abs(targets[at : at + size] - 1e3))
        states.add(json.dumps(monitor.state(), default=np.ndarray.tolist))
    assert len(states) == 1


def test_curves_of_the_first_version_go_on():
    old = Monitor()
    old.count_numbers(np.arange(1600.0), np.ones(1600))
    state = old.state()
    del state["weights"], state["weight_stride"]
    state["points"] = {**state["points"], "kernel_weights": [[rows / 1600, 0.0] for rows in state["points"]["rows"]]}
    monitor = Monitor.restore(state)
    assert monitor.figures() == old.figures()
    curves = monitor.curves()
    assert curves["rows"] == list(range(16, 1601, 16))
    assert curves["weight_rows"] == list(range(64, 1601, 64))
    assert curves["kernel_weights"][-1] == [1.0, 0.0]
    assert json.dumps(Monitor.restore(monitor.state()).curves()) == json.dumps(curves)


def test_weights_are_read_at_the_same_rows_however_rows_are_grouped(stream):
    rows, labels = stream
    cells = [list(row.values()) for row in rows] * 6
    labels = labels * 6
    curves = []
    for size, most in ((1200, 10_000), (7, MICRO_BATCH), (400, 50)):
        learner = Learner(Start(budget=30).estimator("integer"))
        columns = columns_of(learner.estimator.__class__(budget=30).partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]))
        for at in range(0, 1200, size):
            part = slice(at, at + size)
            learner.learn([Entry(at + 1, at, cells[part], labels[part])], columns, lambda most=most: most)
        curves.append(json.dumps(learner.monitor.curves()))
        assert learner.monitor.curves()["weight_rows"] == list(range(64, 1201, 64))
    assert len(set(curves)) == 1


def test_everybody_gets_an_answer_when_the_model_fails(serving, stream, monkeypatch, capsys):
    rows, labels = stream
    with serving() as client:
        monkeypatch.setattr(Learner, "learn", lambda *_: 1 / 0)
        problem = client.learn(rows, labels, 503)
        assert "failed" in problem["detail"]
        assert client.get("/healthz").status_code == 503
    assert "ZeroDivisionError" in capsys.readouterr().err

"""Rows from a broker: the model is that of a file with the same rows, whatever happens on the way."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.command_line import bomkl

from bomkl import modelfile
from bomkl.sources import SourceUrl, open_source
from bomkl_lab.benchmarks.common.brokers import as_json, make_rows

ROWS = make_rows(700)
ARGUMENTS = ("--budget", 60, "--ignore", "id")


def knowledge(path):
    model = modelfile.load(path)
    names = ("a", "b", "c", "colour")
    return model.n_seen_, model.mistakes_, model.predict_proba({name: [row[name] for row in ROWS] for name in names})


def assert_same(path, other):
    for mine, theirs in zip(knowledge(path), knowledge(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def from_file(tmp_path, rows, *options):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join(as_json(rows)) + b"\n")
    assert bomkl("train", file, "-o", tmp_path / "file.bomkl", *ARGUMENTS, *options).exit_code == 0
    return tmp_path / "file.bomkl"


def records_of(text):
    source = open_source(SourceUrl(text))
    source.seek({})
    ends, found = source.ends(), []
    while len(found) < sum(ends.values()) - (text.startswith("nats") and 1):
        found += source.poll(1000, 1.0)
    source.close()
    return found


def train(tmp_path, *options):
    run = bomkl("train", "-o", tmp_path / "topic.bomkl", *ARGUMENTS, *options)
    assert run.exit_code == 0, run.output
    return run


def test_a_model_learned_from_a_topic_is_that_of_a_file(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS[:500]))
    train(tmp_path, "--from", url("rows", until="end"))
    assert_same(tmp_path / "topic.bomkl", from_file(tmp_path, ROWS[:500]))
    broker.send("rows", as_json(ROWS[500:]))
    train(tmp_path, "--from", url("rows", until="end"), "--resume")
    assert_same(tmp_path / "topic.bomkl", from_file(tmp_path, ROWS))


def test_a_topic_without_new_rows_changes_nothing(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS[:100]))
    train(tmp_path, "--from", url("rows", until="end"))
    before = knowledge(tmp_path / "topic.bomkl")
    assert "no rows have come" in train(tmp_path, "--from", url("rows", until="end"), "--resume").stderr
    assert before[0] == knowledge(tmp_path / "topic.bomkl")[0] == 100


def test_predictions_are_published_once_for_each_row(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS[:200]))
    broker.send("predictions", [])
    train(tmp_path, "--from", url("rows", until="end"), "--to", url("predictions"))
    broker.send("rows", as_json(ROWS[200:300]))
    train(tmp_path, "--from", url("rows", until="end"), "--to", url("predictions"), "--resume")
    published = [json.loads(record.value) for record in records_of(url("predictions"))]
    assert [each["position"] for each in published] == [record.position for record in records_of(url("rows"))]
    from_file(tmp_path, ROWS[:300], "--predictions", tmp_path / "predictions.txt")
    assert [each["prediction"] for each in published] == (tmp_path / "predictions.txt").read_text().split()


@pytest.mark.parametrize("payload", ["json", "csv", "arrow"])
def test_damaged_records_go_to_the_dead_letters(broker, url, tmp_path, payload):
    good = ROWS[:120]
    if payload == "csv":
        values = [",".join(map(str, row.values())).encode() for row in good]
    elif payload == "arrow":
        pyarrow = pytest.importorskip("pyarrow")
        values = []
        for begin in range(0, 120, 3):
            sink = pyarrow.BufferOutputStream()
            table = pyarrow.Table.from_pylist(good[begin : begin + 3])
            with pyarrow.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            values.append(sink.getvalue().to_pybytes())
    else:
        values = as_json(good)
    damaged = [b"", b"{", b"\xff\xfe", b"[1]", b"1,2", b"null", bytes(range(256)), values[0][:-9]]
    mixed = [each for value, bad in zip(values, damaged * 20, strict=False) for each in (value, bad)]
    broker.send("rows", mixed)
    letters = tmp_path / "letters.jsonl"
    settings = {"columns": ",".join(ROWS[0])} if payload == "csv" else {}
    run = train(tmp_path, "--from", url("rows", until="end", payload=payload, dead_letters=letters, **settings))
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert len(kept) == len(mixed) - len(values)
    assert all(letter["reason"] for letter in kept)
    assert f"{len(kept)} records were left out" in run.stderr
    assert_same(tmp_path / "topic.bomkl", from_file(tmp_path, good))


def test_labels_that_come_later_are_joined(broker, url, tmp_path):
    random = np.random.default_rng(1)
    rows = [{name: value for name, value in row.items() if name != "label"} for row in ROWS]
    labels, by_id = [{"id": row["id"], "label": row["label"]} for row in ROWS], {row["id"]: row for row in ROWS}
    delays = np.arange(len(labels)) + random.integers(0, 300, len(labels))
    order = [at for at in np.argsort(delays, kind="stable") if random.random() > 0.05]
    first, later = ([labels[at] for at in order if (at < 300) == early] for early in (True, False))
    options = ("--from", url("rows", labels="labels", key="id", until="end"), "--to", url("predictions"))
    for topic in ("rows", "labels", "predictions"):
        broker.send(topic, [])
    resume: tuple[str, ...] = ()
    for topic, records in (("rows", rows[:400]), ("labels", first), ("rows", rows[400:]), ("labels", later)):
        broker.send(topic, as_json(records))  # one at a time, for nobody knows which of two a broker hands out first
        run = train(tmp_path, *options, *resume)
        resume = ("--resume",)
    assert f"{len(rows) - len(order)} rows wait for their label" in run.stderr
    assert_same(tmp_path / "topic.bomkl", from_file(tmp_path, [by_id[each["id"]] for each in first + later]))
    published = [json.loads(record.value) for record in records_of(url("predictions"))]
    assert len(published) == len(rows)
    assert {each["prediction"] for each in published[400:]} == {"yes", "no"}


@pytest.mark.slow
def test_a_killed_run_goes_on_without_gap_or_repeat(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS), partitions=broker.partitions)
    broker.send("predictions", [])
    model = tmp_path / "topic.bomkl"
    command = [sys.executable, "-m", "bomkl", "train", "--from", url("rows"), "--to", url("predictions"), "-q"]
    command += ["-o", model, "--resume", "--checkpoint-every", "100", "--block-rows", "64", *ARGUMENTS]
    for kill in (True, True, False):
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)
        while process.poll() is None and len(records_of(url("predictions"))) < (650 if not kill else 1):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        _, said = process.communicate(timeout=120)
        assert process.returncode == (-signal.SIGKILL if kill else 143), said
    if knowledge(model)[0] < len(ROWS):
        train(tmp_path, "--from", url("rows", until="end"), "--to", url("predictions"), "--resume")
    published = [json.loads(record.value) for record in records_of(url("predictions"))]
    published.sort(key=lambda each: each["learned"])
    places = [(each["partition"], each["position"]) for each in published]
    assert len(places) == len(set(places)) == len(ROWS)
    rows = {(record.partition, record.position): json.loads(record.value) for record in records_of(url("rows"))}
    assert_same(model, from_file(tmp_path, [rows[place] for place in places]))
    assert not os.path.exists(f"{model}.order")


def test_a_model_of_files_is_not_resumed_from_a_topic(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS[:50]))
    model = from_file(tmp_path, ROWS[:50])
    run = bomkl("train", "--from", url("rows", until="end"), "-o", model, "--resume", *ARGUMENTS)
    assert run.exit_code == 1
    assert "was not trained with --from URL" in run.stderr


def test_predict_and_eval_read_topics(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS[:200]))
    broker.send("predictions", [])
    model = from_file(tmp_path, ROWS)
    positions = tmp_path / "positions.json"
    options = ("--from", url("rows", until="end"), "--to", url("predictions"), "--positions", positions)
    for _ in range(2):
        assert bomkl("predict", model, *options).exit_code == 0
    printed = bomkl("predict", model, "--from", url("rows", until="end"))
    labels = [json.loads(line)["label"] for line in printed.stdout.splitlines()]
    assert [json.loads(record.value)["prediction"] for record in records_of(url("predictions"))] == labels
    evaluated = bomkl("eval", "--from", url("rows", until="end"), *ARGUMENTS)
    assert evaluated.stdout.startswith("rows\t200\n")

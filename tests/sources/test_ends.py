"""Where reading begins and ends, and what is published, with topics and groups that are out of the ordinary."""

import asyncio
import json

import pytest
from tests.command_line import bomkl

from bomkl import modelfile
from bomkl.sources import publishing
from bomkl.sources.base import Record, SourceError, SourceUrl, open_source
from bomkl.sources.joining import TwoTopics
from bomkl.sources.order import Ordered, OrderLog
from bomkl_lab.benchmarks.common.brokers import MockKafka, as_json, make_rows

ROWS = make_rows(60)
OPTIONS = ("--budget", 20, "--ignore", "id", "-q")
COLUMNS = ("a", "b", "c", "colour", "label")


def rows_learned(tmp_path, *options):
    run = bomkl("train", "-o", tmp_path / "m.bomkl", *OPTIONS, *options)
    assert run.exit_code == 0, run.output
    return getattr(modelfile.load(tmp_path / "m.bomkl"), "n_seen_", 0)


def test_until_end_ends_where_nothing_is_to_come(broker, url, tmp_path):
    broker.send("empty", [])
    assert rows_learned(tmp_path, "--from", url("empty", until="end")) == 0
    broker.send("rows", as_json(ROWS))
    assert rows_learned(tmp_path, "--from", url("rows", until="end", start="latest")) == 0


def test_start_latest_holds_for_the_first_run_only(broker, url, tmp_path):
    broker.send("rows", as_json(ROWS[:10]))
    source = url("rows", until="end", start="latest")
    assert rows_learned(tmp_path, "--from", source) == 0
    broker.send("rows", as_json(ROWS[10:]))
    assert rows_learned(tmp_path, "--from", source, "--resume") == 50


def test_ends_are_known_while_a_fetch_waits_for_records(broker, url):
    waiting = {"fetch.wait.max.ms": 10_000} if broker.scheme == "kafka" else {}
    broker.send("rows", as_json(ROWS))
    source = open_source(SourceUrl(url("rows", **waiting)))
    source.seek({})
    found = []
    while len(found) < len(ROWS):
        found += source.poll(1000, 0.2)
    assert source.poll(1000, 0.5) == []
    assert source.ends() == source.positions()
    source.close()


def test_each_row_of_a_record_has_its_prediction(broker, url, tmp_path):
    lines = [",".join(str(row[name]) for name in COLUMNS) for row in ROWS]
    broker.send("rows", ["\n".join(lines[at : at + 4]).encode() for at in range(0, 60, 4)])
    broker.send("predictions", [])
    source = url("rows", until="end", payload="csv", columns=",".join(COLUMNS))
    for runs in (1, 2):  # a second model publishes to the same topic
        assert rows_learned(tmp_path, "--from", source, "--to", url("predictions")) == 60
        reader = publishing.open_source(publishing.SourceUrl(url("predictions")))
        reader.seek({})
        found = []
        while reader.positions() != reader.ends():
            found += reader.poll(1000, 1.0)
        reader.close()
        assert len(found) == 60 * runs


@pytest.mark.slow
def test_a_group_reads_until_the_end_and_does_not_move_others(tmp_path):
    pytest.importorskip("confluent_kafka")
    broker = MockKafka()
    broker.send("rows", as_json(ROWS), partitions=2)
    assert rows_learned(tmp_path, "--from", broker.url("rows", until="end", group="bomkl")) == 60
    assert rows_learned(tmp_path, "--from", broker.url("rows", until="end")) == 60
    broker.stop()


@pytest.mark.parametrize("broker", ["nats"], indirect=True)
def test_one_subject_of_a_stream_ends_at_its_own_last_message(broker, url, tmp_path):
    import nats

    async def fill():
        connection = await nats.connect(f"nats://{broker.server}")
        stream = connection.jetstream()
        await stream.add_stream(name="visits", subjects=["visits.*"])
        for row in as_json(ROWS[:5]):
            await stream.publish("visits.mine", row)
        await stream.publish("visits.other", b"{}")
        await connection.close()

    asyncio.run(fill())
    assert rows_learned(tmp_path, "--from", url("visits", until="end", subject="visits.mine")) == 5


@pytest.mark.parametrize("broker", ["nats"], indirect=True)
def test_a_stream_that_was_made_anew_is_not_taken_for_the_old_one(broker, url, tmp_path):
    import nats

    async def delete():
        connection = await nats.connect(f"nats://{broker.server}")
        await connection.jetstream().delete_stream("rows")
        await connection.close()

    broker.send("rows", as_json(ROWS))
    assert rows_learned(tmp_path, "--from", url("rows", until="end")) == 60
    asyncio.run(delete())
    broker.send("rows", as_json(ROWS[:20]))
    run = bomkl("train", "--from", url("rows", until="end"), "-o", tmp_path / "m.bomkl", "--resume", *OPTIONS)
    assert run.exit_code == 1
    assert "it was made anew" in run.stderr


@pytest.mark.parametrize("broker", ["nats"], indirect=True)
@pytest.mark.parametrize("place", [0, 7, -1])
def test_messages_that_are_lost_on_the_way_are_read_again(broker, url, place):
    broker.send("rows", as_json(ROWS))
    source = publishing.open_source(publishing.SourceUrl(url("rows")))
    source.seek({})
    fetch, lost = source._fetch, []

    async def lossy(most, seconds):
        messages = await fetch(most, seconds)
        if messages and not lost:
            lost.append(messages.pop(place))
        return messages

    source._fetch = lossy
    found = []
    while len(found) < 60:
        found += source.poll(1000, 0.2)
    assert lost
    assert [record.position for record in found] == list(range(1, 61))
    source.close()


class Fake:
    """A source of given records, which can be away."""

    def __init__(self, records, starts):
        self.records, self.at, self.away = records, dict(starts), False

    def seek(self, positions):
        self.at |= positions

    def poll(self, most, seconds):
        found, self.records = self.records[:1], self.records[1:]
        self.at |= {each.partition: each.position + 1 for each in found}
        return found

    def positions(self):
        return dict(self.at)

    def ends(self):
        if self.away:
            raise SourceError("away")
        return self.at | {each.partition: each.position + 1 for each in self.records}


def test_after_a_kill_exactly_what_is_missing_is_published(monkeypatch):
    sent = []
    there = [("0", 10), ("0", 7), ("0", 7)]  # 9 was on its way to another partition
    values = [json.dumps({"partition": part, "position": at}).encode() for part, at in there]
    reader = Fake([Record("0", at, value) for at, value in enumerate(values)], {"0": 0})
    sink = type("Sink", (), {"send": lambda self, records: sent.extend(records)})()
    monkeypatch.setattr(publishing, "open_source", lambda url: reader)
    monkeypatch.setattr(publishing, "open_sink", lambda url: sink)
    publisher = publishing.Publisher(None, {"ends": {"0": 0}, "early": []})
    publisher.publish([Record("0", 7, b"")], ["x"], [0])
    state = publisher.state()
    assert state == {"ends": {"0": 3}, "early": [["0", 10, 1], ["0", 7, 1]]}
    publisher = publishing.Publisher(None, state)  # killed again, when that was saved
    publisher.publish([Record("0", at, b"") for at in (7, 7, 9, 10)], ["x"] * 4, range(4))
    assert [each.position for each in sent] == [7, 9]
    reader.away = True
    assert publisher.state() == state


def test_the_order_is_kept_from_the_first_record_of_several_partitions(tmp_path):
    log = OrderLog(str(tmp_path / "order"))
    records = [Record("0", 0, b""), Record("1", 0, b"")]
    ordered = Ordered(Fake(records, {"0": 0, "1": 0}), log, {})
    while ordered.poll(10, 0.0):
        pass
    assert log.runs_after({}) == [("0", 1), ("1", 1)]


def test_labels_come_first_when_too_many_rows_wait():
    rows = Fake([Record("0", at, b"") for at in range(3)], {"0": 0})
    labels = Fake([Record("0", at, b"") for at in range(2)], {"0": 0})
    full = iter([False, True, True, True, False])
    both = TwoTopics(rows, labels, lambda: next(full))
    partitions = [both.poll(10, 0.0)[0].partition for _ in range(5)]
    assert partitions == ["0", "labels/0", "labels/0", "0", "0"]

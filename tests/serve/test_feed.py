"""Rows of a broker, learned by a service: each once, also after a crash; what cannot be used is a dead letter."""

import json
import time

import pytest

from bomkl.serve.requests import feed as feeding
from bomkl.serve.requests.feed import Feed
from bomkl.serve.storage.log import Log
from bomkl.sources import Record, SourceError, SourceUrl

TOPICS = {}


class Memory:
    """A topic in memory, as a source."""

    def __init__(self, url):
        self.records, self.at = TOPICS[url.topic], {}

    def seek(self, positions):
        self.at = {"0": 0, "1": 0} | positions

    def poll(self, most, seconds):
        time.sleep(0.01)
        found = [each for each in self.records if each.position >= self.at[each.partition]][:5]
        for each in found:
            self.at[each.partition] = each.position + 1
        return found

    def positions(self):
        return dict(self.at)

    def ends(self):
        return {name: 1 + max((e.position for e in self.records if e.partition == name), default=-1) for name in "01"}

    def commit(self, positions):
        pass

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _memory(monkeypatch):
    TOPICS.clear()
    monkeypatch.setattr(feeding, "open_source", Memory)


def send(topic, values):
    there = TOPICS.setdefault(topic, [])
    for value in values:
        partition = str(len(there) % 2)
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        there.append(Record(partition, len(there) // 2, text))


def feed(settings="", label="label"):
    return Feed(SourceUrl(f"memory://here/rows{settings}", lambda line: None), label)


def wait_for(client, rows):
    for _ in range(500):
        if (state := client.state())["rows"] >= rows:
            return state
        time.sleep(0.02)
    raise AssertionError(state)


def entries(folder):
    with Log(str(folder), read_only=True) as log:
        with_rows = list(log.entries())
    return [(row, label) for entry in with_rows for row, label in zip(entry.rows, entry.labels, strict=True)]


@pytest.fixture
def labelled(stream):
    return [{**row, "label": label} for row, label in zip(*stream, strict=True)]


def test_a_service_learns_each_record_once_across_restarts(serving, labelled, tmp_path):
    send("rows", labelled[:80])
    with serving(feed=feed()) as client:
        wait_for(client, 80)
    send("rows", labelled[80:120])
    with serving(feed=feed()) as client:
        state = wait_for(client, 120)
        assert state["rows"] == 120
        assert state["source"]["records"] == 40
    learned = entries(tmp_path / "data")
    assert sorted(learned) == sorted(([row["a"], row["b"]], row["label"]) for row in labelled[:120])


def test_metrics_have_the_lag(serving, labelled, monkeypatch):
    monkeypatch.setattr(feeding, "_LOOK_SECONDS", 0.0)
    send("rows", labelled[:10])
    with serving(feed=feed()) as client:
        wait_for(client, 10)
        for _ in range(100):
            if "bomkl_source_lag 0.0" in (text := client.get("/metrics").text):
                break
            time.sleep(0.02)
        assert "bomkl_source_lag 0.0" in text
        assert "bomkl_source_records_total 10.0" in text
    with serving() as client:
        assert "bomkl_source" not in client.get("/metrics").text


def test_records_that_cannot_be_used_are_dead_letters(serving, labelled, tmp_path):
    bad = [b"", b"{", b"[1]", b"null", b'{"a": 1.0}', b'{"a": NaN, "b": 1.0, "label": 1}', b"\xff", {"label": 1}]
    bad += [{"a": 1.0, "b": 2.0, "label": "text"}, {"a": 1.0, "b": 2.0, "label": None}, {"a": [[]], "label": {}}]
    mixed = [each for row, wrong in zip(labelled, bad * 3, strict=False) for each in (row, wrong)]
    send("rows", mixed)
    letters = tmp_path / "letters.jsonl"
    with serving(feed=feed(f"?dead_letters={letters}")) as client:
        state = wait_for(client, 33)
        while client.state()["source"]["records"] < 66:
            time.sleep(0.02)
        assert client.state()["rows"] == 33
        assert client.state()["source"]["dead_letters"] == 33, state
    assert len(letters.read_text().splitlines()) == 33
    assert sorted(entries(tmp_path / "data")) == sorted(([r["a"], r["b"]], r["label"]) for r in labelled[:33])


def test_numbers_in_csv_are_numbers(serving, labelled):
    send("rows", [f"{row['a']},{row['b']},{row['label']}".encode() for row in labelled[:20]])
    with serving(feed=feed("?payload=csv&columns=a,b,label")) as client:
        assert [each["kind"] for each in wait_for(client, 20)["columns"]] == ["number", "number"]


def test_rows_wait_in_the_service_for_labels_of_another_topic(serving, labelled, tmp_path):
    send("rows", [{"id": str(at), "a": row["a"], "b": row["b"]} for at, row in enumerate(labelled[:40])])
    send("labels", [{"id": str(at), "label": labelled[at]["label"]} for at in (3, 1, 30, 99)])
    settings = f"?labels=labels&key=id&dead_letters={tmp_path / 'letters.jsonl'}"
    with serving(feed=feed(settings)) as client:
        state = wait_for(client, 3)
        assert state["labels"]["waiting"] == 37
    send("labels", [{"id": str(at), "label": labelled[at]["label"]} for at in (2, 39)])
    with serving(feed=feed(settings), most_waiting=35) as client:
        assert wait_for(client, 5)["labels"]["waiting"] == 35
        send("rows", [{"id": "new", "a": 1.0, "b": 1.0}])  # the oldest has to go
        while client.state()["labels"]["expired"] < 1:
            time.sleep(0.02)
        assert client.state()["labels"]["waiting"] == 35
    learned = entries(tmp_path / "data")
    assert learned == [([labelled[at]["a"], labelled[at]["b"]], labelled[at]["label"]) for at in (3, 1, 30, 2, 39)]
    assert "no row '99' waits" in (tmp_path / "letters.jsonl").read_text()


def test_a_source_that_fails_ends_the_service(serving, labelled, monkeypatch):
    send("rows", labelled[:3])

    def fail(self, most, seconds):
        raise SourceError("records are gone")

    monkeypatch.setattr(Memory, "poll", fail)
    with serving(feed=feed(), ready=False) as client:
        while client.service.failed is None:
            time.sleep(0.01)
    assert isinstance(client.service.failed, SourceError)


@pytest.mark.parametrize("setting", ["until=end", "most_waiting=5"])
def test_settings_that_are_not_for_a_service_are_refused(setting):
    TOPICS["rows"] = []
    with pytest.raises(SourceError, match=setting.partition("=")[0]):
        feed(f"?{setting}")

"""What is wrong with a source is said before anything is read."""

import pytest
from tests.command_line import bomkl

from bomkl.sources import SourceError, SourceUrl, base, open_source
from bomkl.sources.joining import Join


@pytest.mark.parametrize("text", ["kafka://host/", "kafka:///topic", "host/topic", "kafka://host/a/b", "kafka://h/t?x"])
def test_a_url_without_its_parts_is_refused(text):
    with pytest.raises(SourceError, match=r"URL such as|NAME=VALUE"):
        SourceUrl(text)


def test_an_unknown_broker_is_named_with_those_that_are_known():
    with pytest.raises(SourceError, match=r"no broker is known as 'kafak'. Did you mean 'kafka'\?"):
        open_source(SourceUrl("kafak://host/topic"))


@pytest.mark.parametrize("scheme", ["kafka", "nats"])
def test_a_setting_that_nobody_reads_is_refused(scheme):
    with pytest.raises(SourceError, match="there is no setting 'gruop'"):
        open_source(SourceUrl(f"{scheme}://127.0.0.1:1/topic?gruop=x"))


def test_a_topic_that_is_not_there_is_said(broker, url):
    if broker.scheme == "kafka":
        pytest.skip("the mock cluster makes every topic that is asked for")
    source = open_source(SourceUrl(url("nothing")))
    with pytest.raises(SourceError, match="there is no such stream"):
        source.seek({})
    source.close()


def test_a_source_excludes_files():
    run = bomkl("train", "rows.csv", "--from", "nats://host/rows", "-o", "m.bomkl")
    assert run.exit_code == 2
    assert "--from excludes INPUT" in run.stderr
    assert "INPUT is missing" in bomkl("eval").stderr


def test_another_package_can_add_a_broker(monkeypatch, tmp_path):
    class Listed:
        def __init__(self, url):
            self.url, self.at = url, 0

        def seek(self, positions):
            self.at = positions.get("0", 0)

        def poll(self, most, seconds):
            rows = [b'{"a": %d, "label": %d}' % (at, at % 2) for at in range(40)][self.at : self.at + 7]
            found = [base.Record("0", self.at + k, row) for k, row in enumerate(rows)]
            self.at += len(rows)
            return found

        def positions(self):
            return {"0": self.at}

        def ends(self):
            return {"0": 40}

        def commit(self, positions):
            assert positions.get("0", 0) == self.at

        def close(self):
            pass

    class Entry:
        name = "listed"

        def load(self):
            return Listed

    monkeypatch.setattr(base, "entry_points", lambda group: [Entry()])
    model = tmp_path / "m.bomkl"
    assert bomkl("train", "--from", "listed://here/rows?until=end", "-o", model).exit_code == 0
    refused = bomkl("train", "--from", "listed://here/rows?until=end", "--to", "listed://here/rows", "-o", model)
    assert "nothing can be published there" in refused.stderr


def test_the_oldest_rows_go_when_too_many_wait():
    join = Join(2)
    for key in ("a", "b", "c"):
        assert join.row(key, {"x": key}) is None
    assert join.label("a", {"y": 1}) is None
    assert join.label("c", {"y": 3}) == {"x": "c", "y": 3}
    assert (join.waiting, join.unmatched_rows) == (1, 1)
    again = Join(2, join.state())
    assert again.row("a", {"x": "late"}) == {"x": "late", "y": 1}

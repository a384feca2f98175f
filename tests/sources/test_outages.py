"""A broker that is away for a while: the command waits for it and goes on by itself."""

import pytest

from bomkl.sources.base import SourceUrl, open_source
from bomkl_lab.benchmarks.common.brokers import NatsServer

pytest.importorskip("nats")
pytest.importorskip("pyarrow")


@pytest.fixture
def broker(tmp_path):
    try:
        server = NatsServer(tmp_path / "nats")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


def test_what_was_fetched_ahead_outlives_the_broker(broker):
    broker.send("rows", [b"%d" % at for at in range(3000)])
    source = open_source(SourceUrl(broker.url("rows"), tell=lambda line: None))
    source.seek({})
    found = source.poll(1024, 1.0)
    source._prefetched.result(10)
    broker.stop()
    found += source.poll(1024, 1.0)
    assert len(found) == 2048
    broker.start()
    while len(found) < 3000:
        found += source.poll(1024, 1.0)
    source.close()
    assert [int(each.value) for each in found] == list(range(3000))


@pytest.mark.slow
def test_a_broker_that_comes_back_is_read_on(broker, tmp_path):
    from bomkl_lab.benchmarks.source_trouble import away

    assert [claim for met, claim in away(broker, 3.0, tmp_path) if not met] == []

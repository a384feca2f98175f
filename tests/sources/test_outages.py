"""A broker that is away for a while: the command waits for it and goes on by itself."""

import pytest

from bomkl_lab.benchmarks.common.brokers import NatsServer

pytest.importorskip("nats")
pytest.importorskip("pyarrow")


@pytest.mark.slow
def test_a_broker_that_comes_back_is_read_on(tmp_path):
    from bomkl_lab.benchmarks.source_trouble import away

    try:
        broker = NatsServer(tmp_path / "nats")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    try:
        assert [claim for met, claim in away(broker, 3.0, tmp_path) if not met] == []
    finally:
        broker.stop()

import pytest

pytest.importorskip("bomkl_lab", reason="the brokers of the tests come with bomkl-lab, which is not installed")

from bomkl_lab.benchmarks.common.brokers import MockKafka, NatsServer


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.slow), "nats"])  # the mock cluster answers slowly
def broker(request, tmp_path_factory):
    try:
        server = MockKafka() if request.param == "kafka" else NatsServer(tmp_path_factory.mktemp("nats"))
    except (ImportError, FileNotFoundError) as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def url(broker):
    return broker.url

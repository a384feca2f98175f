import contextlib
import sqlite3
import threading
import time

import pytest

from bomkl.serve.errors import LogError
from bomkl.serve.folder.start import Start
from bomkl.serve.model.learner import Learner
from bomkl.serve.requests.service import ServiceSettings
from bomkl.serve.server import open_service
from bomkl.serve.storage.logfile import log_path


@pytest.fixture
def killed(serving, stream, tmp_path):
    """A folder of a service that was killed: 2,400 rows in the log and no snapshot."""
    rows, labels = stream
    with serving() as client:
        for at in range(12):
            client.learn(rows, labels, key=f"part-{at}")
        model = client.get("/v1/model").content
    for path in (tmp_path / "data" / "snapshots").iterdir():
        path.unlink()
    return model


@pytest.fixture
def pausing(monkeypatch):
    """Let the replay learn one group of rows, then wait."""
    paused, goes_on, learn = threading.Event(), threading.Event(), Learner.learn

    def learn_and_pause(learner, *args):
        if learner.rows:
            paused.set()
            goes_on.wait(60)
        return learn(learner, *args)

    monkeypatch.setattr(Learner, "learn", learn_and_pause)
    yield paused, goes_on
    goes_on.set()


def test_the_port_answers_while_the_log_is_replayed(killed, pausing, serving, stream):
    paused, goes_on = pausing
    with serving(ready=False) as client:
        assert paused.wait(60)
        assert client.get("/healthz").json() == {"status": "ok"}
        for path in ("/readyz", "/metrics", "/v1/state", "/v1/events", "/v1/model"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert (answer.json()["replayed"], answer.json()["rows"]) == (1200, 2400)
        assert "replayed" in client.ask("/v1/predict", {"row": stream[0][0]}, 503)["detail"]
        assert client.ask("/v1/learn", b"{", 503)["rows"] == 2400
        goes_on.set()
        while client.get("/readyz").status_code != 200:
            time.sleep(0.005)
        assert client.get("/readyz").json() == {"status": "ready"}
        assert client.state()["rows"] == 2400
        assert client.get("/v1/model").content == killed
        assert client.learn(*stream, key="part-3")["rows"] == 800


def test_a_service_that_stops_while_it_replays_goes_on_later(killed, pausing, serving, tmp_path):
    paused, goes_on = pausing
    with serving(ready=False) as client:
        assert paused.wait(60)
        client.service._stopping = True
        goes_on.set()
    assert [path.name for path in (tmp_path / "data" / "snapshots").iterdir()]
    with serving() as client:
        assert client.service._replayed_from > 0
        assert client.get("/v1/model").content == killed


def test_damage_that_the_replay_finds_ends_the_service(killed, serving, tmp_path):
    with contextlib.closing(sqlite3.connect(log_path(tmp_path / "data"))) as db, db:
        db.execute("UPDATE entries SET at = 0 WHERE seq = 7")
    with serving(ready=False) as client:
        client.service._model_thread.join()
        assert "entry 7" in client.get("/healthz").json()["detail"]
        assert client.get("/readyz").status_code == 503
    assert isinstance(client.service.failed, LogError)
    service = open_service(str(tmp_path / "data"), Start(budget=30), None, ServiceSettings())
    with pytest.raises(LogError, match="entry 7"):
        service.catch_up()
    service._log.close()

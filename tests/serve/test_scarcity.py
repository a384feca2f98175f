"""The service when something runs out: descriptors, memory, room on the disk; and clocks that jump."""

import resource
import socket
import time

import httpx
import numpy as np
import pytest

from bomkl import AutoMKLClassifier
from bomkl.auto.growth import Growth
from bomkl.serve import ledger as ledgers
from bomkl.serve import reports
from bomkl.serve.connection import Room
from bomkl.serve.ledger import Ledger
from bomkl.serve.log import Log
from bomkl.serve.start import Start, set_up
from bomkl.serve.work import Work


@pytest.mark.slow
def test_idle_connections_do_not_keep_others_out_when_descriptors_run_out(tmp_path):
    from benchmarks.common.service import Server

    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))}
    with Server(tmp_path / "data", "--budget", "30") as server, open(tmp_path / "err", "wb") as err:
        server.start(stderr=err, **few)
        idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(150)]
        for _ in range(3):
            assert httpx.get(f"{server.url}/healthz", trust_env=False, timeout=60).status_code == 200
            time.sleep(0.5)
        body = {"row": {"a": 1.0}, "y": 1}
        assert httpx.post(f"{server.url}/v1/learn", json=body, trust_env=False, timeout=60).json()["rows"] == 1
        for each in idle:
            each.close()
        assert server.stop() == 0
    assert (tmp_path / "err").stat().st_size < 100_000


@pytest.mark.parametrize("limit", [40, 64, 256, 1024, 10**6])
def test_there_are_descriptors_for_all_connections(limit, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    room = Room.of_process()
    assert room.connections >= 4
    assert room.limit <= max(limit - 32, 8)


def test_the_same_message_is_written_once_in_a_while(monkeypatch, capsys):
    now = [1000.0]
    monkeypatch.setattr(reports, "_sparing", reports.Sparing())
    monkeypatch.setattr(reports.time, "monotonic", lambda: now[0])
    for _ in range(10_000):
        reports.report("the log cannot be written", "disk full")
    now[0] += 20
    reports.report("the log cannot be written", "disk full")
    assert capsys.readouterr().err == (
        "bomkl: the log cannot be written: disk full\n"
        "bomkl: the log cannot be written: disk full (and 9999 more that were not written)\n"
    )


def test_a_full_disk_fills_no_log_of_messages(serving, stream, capsys):
    rows, labels = stream
    with serving() as client:
        client.learn(rows[:10], labels[:10])
        client.service._log._db.execute("PRAGMA query_only=ON")
        for _ in range(50):
            client.learn(rows[:10], labels[:10], 507)
        client.service._log._db.execute("PRAGMA query_only=OFF")
        assert client.learn(rows[10:], labels[10:])["rows"] == 200
    assert capsys.readouterr().err.count("cannot be written") <= 2


def test_rows_that_came_when_memory_ran_out_are_learned_after_a_restart(serving, stream, monkeypatch, capsys):
    rows, labels = stream

    def no_memory(*_):
        raise MemoryError

    with serving() as client:
        client.learn(rows[:100], labels[:100])
        with monkeypatch.context() as patch:
            patch.setattr(AutoMKLClassifier, "score_and_learn", no_memory)
            client.learn(rows[100:], labels[100:], 503, key="k")
    with serving() as client:
        assert client.state()["rows"] == 200
        assert client.learn(rows[100:], labels[100:], key="k")["rows"] == 200
        assert client.state()["rows"] == 200
    assert "MemoryError" in capsys.readouterr().err


def test_clocks_that_jump_lose_no_row(tmp_path, monkeypatch):
    now = [1e9]
    monkeypatch.setattr(ledgers.time, "time", lambda: now[0])
    for jump in (1e8, -1e9, 0.0):
        log = Log(str(tmp_path))
        set_up(str(tmp_path), log, Start(budget=30), None)
        ledger = Ledger(log, 10, True)
        ledger.begin()
        ledger.store(Work([{"a": 1.0}], ["row"], ids=[f"id {jump}"]))
        now[0] += jump
        ledger.expire(ledger.now() - 60.0)  # as for a timeout of a minute
        ledger.store(Work([], ["row"], labels=[1], ids=[f"id {jump}"]))
        ledger.commit()
        log.close()
    assert [entry.last_row for entry in Log(str(tmp_path), read_only=True).entries()] == [1, 2, 3]


@pytest.mark.slow
def test_a_hundred_thousand_keys(tmp_path):
    log = Log(str(tmp_path))
    log.begin()
    for number in range(1, 11):
        log.append([[1.0]] * 10_000, [1] * 10_000, 0.0)
        for at in range(10_000):
            log.remember(f"label:{number}-{at}", number, "f")
    log.commit()
    log.begin()
    for number in range(1, 11):
        log.set_reply(number, {"rows": number})
    log.commit()
    log.close()
    log = Log(str(tmp_path))
    assert log.known("label:7-4711").reply == {"rows": 7}
    assert log.known("label:7-10000") is None
    assert not log.unanswered(0)
    log.begin()
    assert log.prune(9)
    log.commit()
    log.close()
    log = Log(str(tmp_path), read_only=True)
    assert log.known("label:9-1") is None
    assert log.known("label:10-1") is not None


def test_many_new_classes_do_not_begin_the_same_work_again_and_again(monkeypatch):
    made = []
    begin = Growth.__init__
    monkeypatch.setattr(Growth, "__init__", lambda self, *rest: (made.append(self), begin(self, *rest))[1])
    y = np.arange(250)
    AutoMKLClassifier(budget=100, random_state=0).partial_fit(np.random.default_rng(0).normal(size=(250, 3)), y)
    assert 0 < len(made) < 20  # there were 32

"""The service when something runs out: descriptors, memory, room on the disk; and clocks that jump."""

import os
import random
import resource
import socket
import subprocess
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from bomkl import AutoMKLClassifier
from bomkl.auto.trees.regrowth import Growth
from bomkl.serve import reports
from bomkl.serve.folder.start import Start, set_up
from bomkl.serve.formats.bodies import Parser
from bomkl.serve.http.limits import Room
from bomkl.serve.requests import ledger as ledgers
from bomkl.serve.requests.ledger import Ledger
from bomkl.serve.requests.service import Service
from bomkl.serve.requests.work import Work
from bomkl.serve.storage.log import Log


@pytest.mark.slow
def test_idle_connections_do_not_keep_others_out_when_descriptors_run_out(tmp_path):
    Server = pytest.importorskip("bomkl_lab.benchmarks.common.service").Server

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
    with Log(str(tmp_path), read_only=True) as log:
        assert [entry.last_row for entry in log.entries()] == [1, 2, 3]


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
    with Log(str(tmp_path), read_only=True) as log:
        assert log.known("label:9-1") is None
        assert log.known("label:10-1") is not None


def test_many_new_classes_do_not_begin_the_same_work_again_and_again(monkeypatch):
    made = []
    begin = Growth.__init__
    monkeypatch.setattr(Growth, "__init__", lambda self, *rest: (made.append(self), begin(self, *rest))[1])
    y = np.arange(250)
    AutoMKLClassifier(budget=100, random_state=0).partial_fit(np.random.default_rng(0).normal(size=(250, 3)), y)
    assert 0 < len(made) < 20  # there were 32


def learned_by(server, requests, columns=30):
    """Learn in requests of 100 rows until one fails; returns how many were learned from, and the last status code."""
    draw = random.Random(0)
    for number in range(requests):
        rows = [{f"c{at}": draw.random() for at in range(columns)} for _ in range(100)]
        body, key = {"rows": rows, "y": [draw.randrange(2) for _ in rows]}, {"idempotency-key": str(number)}
        try:
            answer = httpx.post(f"{server.url}/v1/learn", json=body, headers=key, trust_env=False, timeout=60)
        except (httpx.NetworkError, httpx.RemoteProtocolError):  # it has ended; no answer at all is an error
            return number, 0
        if answer.status_code != 200:
            return number, answer.status_code
    return requests, 200


@pytest.mark.slow
def test_a_process_whose_files_cannot_grow_goes_on_predicting(tmp_path):
    Server = pytest.importorskip("bomkl_lab.benchmarks.common.service").Server

    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))}
    with Server(tmp_path / "data", "--budget", "30") as server:
        server.start(stderr=subprocess.DEVNULL, **few)
        learned, status = learned_by(server, 100)
        assert status == 507
        row = {"row": {"c0": 1.0}}
        predicted = httpx.post(f"{server.url}/v1/predict", json=row, trust_env=False, timeout=60).json()
        assert predicted["rows"] == 100 * learned > 0
        assert server.stop() == 0
        server.start(stderr=subprocess.DEVNULL)
        assert server.state()["rows"] == 100 * learned


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [3, 4, 5])
def test_a_process_without_memory_answers_or_ends_and_loses_no_row(tmp_path, megabytes):
    Server = pytest.importorskip("bomkl_lab.benchmarks.common.service").Server

    with Server(tmp_path / "data", "--budget", "400") as server:
        server.start(stderr=subprocess.DEVNULL, env=os.environ | {"RUST_BACKTRACE": "1"})
        pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + megabytes * 2**20
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, limit))
        learned, _ = learned_by(server, 10, 300)  # raises an error if there is neither an answer nor an end
        server.kill()
        server.start(stderr=subprocess.DEVNULL)
        assert server.state()["rows"] in (100 * learned, 100 * learned + 100)
        assert learned_by(server, learned + 2, 300) == (learned + 2, 200)
        assert server.state()["rows"] == 100 * learned + 200


def test_a_request_that_takes_too_much_memory_is_refused(serving, stream, monkeypatch):
    rows, labels = stream

    def no_memory(*_):
        raise MemoryError

    with serving() as client:
        with monkeypatch.context() as patch:
            patch.setattr(Parser, "_json", no_memory)
            assert "no memory" in client.learn(rows, labels, 503)["detail"]
        assert client.learn(rows, labels)["rows"] == 200


def test_a_thread_that_cannot_even_fail_ends_the_process(monkeypatch):
    ended = []

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(Service, "__init__", lambda _: None)
    monkeypatch.setattr(Service, "fail", no_memory)
    monkeypatch.setattr(os, "_exit", ended.append)
    Service()._guarded(no_memory)
    assert ended == [1]

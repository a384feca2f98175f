"""`bomkl bench serve_kills`: a service that is killed again and again loses no row and learns none twice.

Four clients send rows with idempotency keys, again and again until they are acknowledged; every reply is kept.
Meanwhile the server is killed by SIGKILL at random moments and started again. Afterwards every acknowledged row must be
in the log exactly once, no row may be there that was never sent, replies to repeated requests must be the same, and the
final model must be, byte for byte, that of one sequential run over the log.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bomkl import AutoMKLClassifier, modelfile
from bomkl._support.progress import progress_bar
from bomkl.serve.folder.replay import Replay, Report
from bomkl.serve.folder.start import Start, takes_tables
from bomkl.serve.model.columns import Columns
from bomkl.serve.storage.log import Log
from bomkl_lab.benchmarks.common.service import Server, learn_until_acknowledged
from bomkl_lab.benchmarks.common.verdicts import finish

CLIENTS = 4


class Client(threading.Thread):
    """Sends rows that say who they are, one to eight at a time, and notes every acknowledgement."""

    def __init__(self, number: int, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.number, self.url, self.random = number, url, random.Random(f"{seed}-{number}")
        self.ended = False
        self.acknowledged: list[tuple[str, dict[str, Any], Any]] = []
        self.unsure: list[float] = []  # rows of the last request, which may or may not be in the log
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send until told to end."""
        try:
            with httpx.Client(timeout=20, trust_env=False) as client:
                count = 0
                while not self.ended:
                    size = self.random.randint(1, 8)
                    rows = [self._row(count + at) for at in range(size)]
                    body = {"rows": rows, "y": [int(row["a"] * row["b"] > 0) for row in rows]}
                    key = f"{self.number}-{count}"
                    reply = None
                    while reply is None:
                        reply = learn_until_acknowledged(client, self.url, body, key, 1.0)
                        if reply is None and self.ended:
                            self.unsure = [row["name"] for row in rows]
                            return
                    self.acknowledged.append((key, body, reply))
                    count += size
        except BaseException as error:
            self.error = error

    def _row(self, count: int) -> dict[str, float]:
        return {"name": self.number * 1e7 + count, "a": self.random.gauss(0, 1), "b": self.random.gauss(0, 1)}


def run(folder: Path, kills: int, seed: int, budget: int) -> dict[str, Any]:
    """Kill a service and check what is left."""
    with Server(folder, "--budget", str(budget), "--snapshot-every", "500") as server:
        clients, same_replies = kill_again_and_again(server, kills, seed)
        if server.stop() != 0:
            raise RuntimeError("the service did not end well after SIGTERM")
    return {"kills": kills, "same_replies": same_replies, **check(folder, clients, budget)}


def kill_again_and_again(server: Server, kills: int, seed: int) -> tuple[list[Client], int]:
    """Kill a service under load; returns what the clients noted, and how many repeated requests got the same reply."""
    quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL}
    server.start(**quiet)
    clients = [Client(number, server.url, seed) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    chance = random.Random(seed)
    with progress_bar(kills, "killing", "kill") as bar:
        for _ in range(kills):
            # Sometimes while it serves, sometimes while it starts and learns what the last snapshot lacks.
            time.sleep(chance.choice([chance.uniform(0, 0.3), chance.uniform(0, 1.0)]))
            server.kill()
            server.start(wait=chance.random() < 0.8, **quiet)
            bar.update()
    before = [len(client.acknowledged) for client in clients]
    while any(
        len(client.acknowledged) == count and client.is_alive() for client, count in zip(clients, before, strict=True)
    ):
        time.sleep(0.1)
    for client in clients:
        client.ended = True
    for client in clients:
        client.join(60)
        if client.error is not None:
            raise client.error
    return clients, repeat_some(server, clients, chance)


def repeat_some(server: Server, clients: list[Client], chance: random.Random) -> int:
    """Send some acknowledged requests again; returns how many, all of which got the reply they got before."""
    everything = [each for client in clients for each in client.acknowledged]
    chosen = chance.sample(everything, min(100, len(everything)))
    with httpx.Client(timeout=20, trust_env=False) as client:
        for key, body, reply in chosen:
            again = learn_until_acknowledged(client, server.url, body, key, 60)
            if again != reply:
                raise RuntimeError(f"the reply to {key} was {reply}, and then {again}")
    return len(chosen)


def check(folder: Path, clients: list[Client], budget: int) -> dict[str, Any]:
    """Compare the log with what was acknowledged, and the model with one sequential run."""
    with Log(str(folder), read_only=True) as log:
        entries = list(log.entries())
    in_log = Counter(row[0] for entry in entries for row in entry.rows)
    acknowledged = {row["name"] for client in clients for _, body, _ in client.acknowledged for row in body["rows"]}
    unsure = {name for client in clients for name in client.unsure}
    with Replay(str(folder)) as replay:
        verdicts = [line for line in replay.run() if not isinstance(line, Report)]
    for verdict in verdicts:
        if verdict.problem:
            raise RuntimeError(f"{verdict.snapshot}: {verdict.problem}")
    # one call on all rows, without the service
    rows = [row for entry in entries for row in entry.rows]
    X = Columns(dict.fromkeys(("name", "a", "b")), tables=takes_tables(Start().estimator)).input(rows)
    y = np.array([label for entry in entries for label in entry.labels])
    plain = AutoMKLClassifier(budget=budget, random_state=0).partial_fit(X, y)
    with tempfile.TemporaryDirectory() as scratch:
        modelfile.save(plain, f"{scratch}/plain.bomkl")
        last = replay.snapshots[-1]
        modelfile.save(modelfile.load(last.path), f"{scratch}/served.bomkl")
        same = Path(f"{scratch}/plain.bomkl").read_bytes() == Path(f"{scratch}/served.bomkl").read_bytes()
    return {
        "rows": len(y),
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - set(in_log)),
        "twice": sum(count > 1 for count in in_log.values()),
        "never_sent": len(set(in_log) - acknowledged - unsure),
        "snapshots_verified": len(verdicts),
        "model_is_that_of_one_run": same and last.seq == log.end.seq,
        "log_intact": _integrity(folder / "log.sqlite"),
    }


def _integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return str(database.execute("PRAGMA integrity_check").fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = run(Path(scratch) / "data", options.kills, options.seed, options.budget)
    for name, value in found.items():
        print(f"{name.replace('_', ' ')}\t{value}")
    finish(
        [
            (found["acknowledged"] > 0 and found["lost"] == 0, f"{found['lost']} acknowledged rows lost"),
            (found["twice"] == 0, f"{found['twice']} rows learned twice"),
            (found["never_sent"] == 0, f"{found['never_sent']} rows in the log that were never sent"),
            (found["model_is_that_of_one_run"], "the model is, byte for byte, that of one run over the log"),
            (found["log_intact"] == "ok", "the log is intact"),
        ]
    )

"""Real brokers on this machine: librdkafka's own mock cluster, and a NATS server from its package."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


class MockKafka:
    """A cluster inside this process; topics have four partitions."""

    scheme = "kafka"
    partitions = 4

    def __init__(self) -> None:
        from confluent_kafka import Producer

        # It keeps 5 MB a partition: 200,000 rows of `make_rows` as zstd, but not as lz4
        settings = {"test.mock.num.brokers": 1, "compression.type": "zstd", "queue.buffering.max.messages": 1_000_000}
        self._producer = Producer({"bootstrap.servers": "none", "log_level": 0, **settings})
        [broker] = self._producer.list_topics(timeout=10).brokers.values()
        self.server = f"{broker.host}:{broker.port}"

    def send(self, topic: str, values: list[bytes], keys: list[str] | None = None, partitions: int = 1) -> None:
        """Publish records; this makes the topic."""
        self._producer.list_topics(topic, timeout=10)  # which makes it
        for at, value in enumerate(values):
            key = None if keys is None else keys[at]
            self._producer.produce(topic, value, key=key, partition=at % partitions)
        assert self._producer.flush(30) == 0

    def url(self, topic: str, **settings: Any) -> str:
        """Return the URL of a topic."""
        return _url(self, topic, settings)

    def stop(self) -> None:
        """Stop it."""
        self._producer.flush(1)


class NatsServer:
    """A server with a folder of its own; it can be stopped and started again."""

    scheme = "nats"
    partitions = 1

    def __init__(self, folder: Path) -> None:
        beside = str(Path(sys.executable).parent)
        program = shutil.which("nats-server", path=beside) or shutil.which("nats-server")
        if program is None:
            raise FileNotFoundError("nats-server is not installed")
        self._program = program
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder, self.server = folder, f"127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [self._program, "-js", "-sd", str(self._folder), "-p", str(self.port), "-a", "127.0.0.1"],
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("nats-server does not answer")

    def send(self, topic: str, values: list[bytes], keys: list[str] | None = None, partitions: int = 1) -> None:
        """Publish records; this makes the topic."""
        import nats

        async def publish() -> None:
            connection = await nats.connect(f"nats://{self.server}")
            stream = connection.jetstream(timeout=30)
            await stream.add_stream(name=topic, subjects=[topic])
            for begin in range(0, len(values), 500):
                sent = [
                    stream.publish(topic, value, headers=None if keys is None else {"key": keys[begin + at]})
                    for at, value in enumerate(values[begin : begin + 500])
                ]
                await asyncio.gather(*sent)
            await connection.close()

        asyncio.run(publish())

    def url(self, topic: str, **settings: Any) -> str:
        """Return the URL of a stream."""
        return _url(self, topic, settings)

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(30)


def _url(broker: Any, topic: str, settings: dict[str, Any]) -> str:
    text = "&".join(f"{name}={value}" for name, value in settings.items())
    return f"{broker.scheme}://{broker.server}/{topic}" + (f"?{text}" if text else "")


def make_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Make rows with numbers, a text and a label."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, 3)).round(4)
    colour = random.choice(["red", "blue", "green"], count)
    label = np.where(X[:, 0] * X[:, 1] + (colour == "red") > 0.3, "yes", "no")
    return [
        {"id": f"{seed}-{at}", "a": a, "b": b, "c": c, "colour": str(colour[at]), "label": str(label[at])}
        for at, (a, b, c) in enumerate(X.tolist())
    ]


def as_json(rows: list[dict[str, Any]]) -> list[bytes]:
    """Write each row as a JSON object."""
    return [json.dumps(row).encode() for row in rows]

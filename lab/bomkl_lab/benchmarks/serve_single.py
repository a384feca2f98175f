"""`bomkl bench serve_single`: requests with one row, against a bare FastAPI service that sends back what it gets.

Sixteen connections send one request after the other, in turns of a few seconds: to the bare service, predictions,
predictions while 300 rows a second are learned, and rows to learn from. Figures are ratios to the bare service in the
same round, and the median of all rounds counts. Everything shares the cores of this machine; where others use them as
well, the ratio of the processor time a request tells more.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.service import Server, processor_seconds
from bomkl_lab.benchmarks.common.verdicts import finish
from bomkl_lab.benchmarks.peers_streams import stream
from bomkl_lab.benchmarks.serve_load import WARM_UP, at_rate, bodies_of, learn_all, line_bodies

PREDICT_SHARE, LEARN_SHARE, SLOWER = 0.55, 0.3, 3.0


class Figures(NamedTuple):
    """Requests a second, the 99th percentile of their latency in ms, and processor time of the service a request."""

    rate: float
    slow: float
    processor: float


def echo(port: int) -> None:
    """Serve the bare service."""
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/echo")
    async def send_back(body: dict[str, Any]) -> dict[str, Any]:
        return body

    uvicorn.run(app, port=port, access_log=False, log_level="warning")


class Client(asyncio.Protocol):
    """A connection that sends the next request when the last one is answered.

    Parameters
    ----------
    path : str
        Where to.
    bodies : list of bytes
        The requests.
    """

    def __init__(self, path: str, bodies: list[bytes]) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
        self._requests = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]
        self.latencies: list[float] = []
        self.failed, self._data, self._begun = 0, b"", 0.0
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Send the first request."""
        self.transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Wait for the whole answer."""
        self._data += data
        head, ends, body = self._data.partition(b"\r\n\r\n")
        if not ends:
            return
        _, _, length = head.lower().partition(b"content-length: ")
        if len(body) >= int(length.split(b"\r\n", 1)[0]):
            self.latencies.append(time.perf_counter() - self._begun)
            self.failed += not head.startswith(b"HTTP/1.1 200")
            self._data = b""
            self._send()

    def _send(self) -> None:
        self._begun = time.perf_counter()
        self.transport.write(self._requests[len(self.latencies) % len(self._requests)])


async def saturate(port: int, path: str, bodies: list[bytes], connections: int, seconds: float) -> tuple[float, float]:
    """Return requests a second and the 99th percentile of their latency, in ms."""
    loop, part = asyncio.get_running_loop(), len(bodies) // connections
    clients = []
    for at in range(connections):
        mine = bodies[at * part : (at + 1) * part]
        clients.append((await loop.create_connection(lambda mine=mine: Client(path, mine), "127.0.0.1", port))[1])
    begun = time.perf_counter()
    await asyncio.sleep(seconds)
    passed, latencies = time.perf_counter() - begun, [each for client in clients for each in client.latencies]
    failed = sum(client.failed for client in clients)
    for client in clients:
        client.transport.close()
    if failed:
        raise RuntimeError(f"{failed} of {len(latencies)} requests to {path} failed")
    return len(latencies) / passed, 1000 * float(np.percentile(latencies, 99))


async def while_learning(
    port: int, predict: list[bytes], learn: list[bytes], connections: int, seconds: float, rate: float
) -> tuple[float, float]:
    learning = asyncio.create_task(at_rate(port, "/v1/learn", learn, rate, seconds))
    found = await saturate(port, "/v1/predict", predict, connections, seconds)
    await learning
    return found


def rounds(server: Server, bare: Any, port: int, options: argparse.Namespace) -> dict[str, list[Figures]]:
    X, y = stream("magic04", 0)
    predict, learn = bodies_of(X, y)
    asyncio.run(learn_all(server.port, line_bodies(learn[:WARM_UP], 1000)))
    connections, seconds, rows = options.connections, options.seconds, learn[WARM_UP:]
    found: dict[str, list[Figures]] = {}
    with progress_bar(options.rounds, "rounds", "round") as bar:
        for _ in range(options.rounds):
            for name, made in {
                "echo": saturate(port, "/echo", predict, connections, seconds),
                "predict": saturate(server.port, "/v1/predict", predict, connections, seconds),
                "predict while learning": while_learning(server.port, predict, rows, connections, seconds, 300),
                "learn": saturate(server.port, "/v1/learn", rows, connections, seconds),
            }.items():
                process = bare.pid if name == "echo" else server.process.pid  # type: ignore[union-attr]
                used = processor_seconds(process)
                rate, slow = asyncio.run(made)
                milliseconds = 1000 * (processor_seconds(process) - used) / (rate * seconds)
                found.setdefault(name, []).append(Figures(rate, slow, milliseconds))
            bar.update()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3, help="of each part of a round")
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    bare = multiprocessing.get_context("spawn").Process(target=echo, args=(port,), daemon=True)
    bare.start()
    with tempfile.TemporaryDirectory() as scratch, Server(Path(scratch) / "data") as server:
        server.start(stderr=subprocess.DEVNULL)
        found = rounds(server, bare, port, options)
        bare.terminate()
        well = server.stop() == 0
    for name, figures in found.items():
        for rate, slow, processor in figures:
            print(f"{name}\t{rate:.0f} requests/s, p99 {slow:.1f} ms, processor {processor:.3f} ms")
    verdicts = [(well, "the service ended well")]
    for name, share in (("predict", PREDICT_SHARE), ("predict while learning", PREDICT_SHARE), ("learn", LEARN_SHARE)):
        pairs = list(zip(found[name], found["echo"], strict=True))
        rate, slower, processor = (statistics.median(mine[at] / bare[at] for mine, bare in pairs) for at in range(3))
        text = f"{name}: {rate:.0%} of the rate of the bare service ({1 / processor:.0%} by processor time)"
        verdicts.append((rate >= share, text))
        if share == PREDICT_SHARE:
            verdicts.append((slower <= SLOWER, f"{name}: p99 {slower:.1f} times that of the bare service"))
    finish(verdicts)

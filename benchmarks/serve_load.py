"""`bomkl bench serve_load`: latency of predictions while rows are learned, bulk rate, and memory, on magic04.

Predictions are single-row requests at a fixed rate, sent when they are due whether or not earlier ones have been
answered, so that a slow answer does not hide behind a pause. Rows to learn from come at a fixed rate beside them. Then
all rows are learned in bulk, beside the same rows learned in this process. Everything shares the cores of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.service import Server
from benchmarks.common.verdicts import finish
from benchmarks.peers_streams import stream
from bomkl import AutoMKLClassifier
from bomkl.progress import progress_bar

SLOWEST = 25.0  # ms
BULK_SHARE = 0.6
FLAT = 1.1  # memory at the end of full load, as a multiple of that at its beginning
WARM_UP = 5000  # rows learned before anything is measured: the budget is full, and weak kernels are gone


class Connection:
    """One HTTP connection that is kept open, without the cost of a full client."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes, kind: str = "application/json") -> tuple[int, bytes]:
        """Send one request and wait for its answer."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lines = answer.decode().lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        return int(lines[0].split()[1]), await self.reader.readexactly(length)


async def at_rate(port: int, path: str, bodies: list[bytes], rate: float, seconds: float) -> tuple[list[float], int]:
    """Send requests when they are due; returns the latency of each and how many failed."""
    free: list[Connection] = []
    latencies: list[float] = []
    failed = 0

    async def one(body: bytes, due: float) -> None:
        nonlocal failed
        status = 0
        while status == 0:
            used = bool(free)
            connection = free.pop() if used else Connection(port)
            try:
                status, _ = await asyncio.wait_for(connection.post(path, body), 10)
                free.append(connection)
            except (OSError, EOFError):
                if not used:  # else the service has closed a connection that lay idle, as any may
                    break
            except TimeoutError:
                break
        latencies.append(time.perf_counter() - due)
        failed += status != 200

    begun, tasks = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        due = begun + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(bodies[number % len(bodies)], due)))
    await asyncio.gather(*tasks)
    return latencies, failed


def bodies_of(X: Any, y: Any) -> tuple[list[bytes], list[bytes]]:
    names = [f"x{number + 1}" for number in range(X.shape[1])]
    rows = [dict(zip(names, cells, strict=True)) for cells in X.tolist()]
    predict = [json.dumps({"row": row}).encode() for row in rows]
    return predict, [json.dumps({"row": row, "y": int(label)}).encode() for row, label in zip(rows, y, strict=True)]


async def learn_all(port: int, lines: list[bytes], batch: int, begin: int = 0) -> float:
    """Learn rows in bulk, in order; returns rows a second."""
    connection, begun = Connection(port), time.perf_counter()
    for at in range(begin, len(lines), batch):
        status, answer = await connection.post("/v1/learn", b"\n".join(lines[at : at + batch]), "application/x-ndjson")
        if status != 200:
            raise RuntimeError(answer)
    return (len(lines) - begin) / (time.perf_counter() - begun)


async def mixed(port: int, predict: list[bytes], learn: list[bytes], rate: float, seconds: float) -> dict[str, Any]:
    predicting = asyncio.create_task(at_rate(port, "/v1/predict", predict, rate, seconds))
    (learned, lost), (latencies, failed) = await asyncio.gather(
        at_rate(port, "/v1/learn", learn, rate, seconds), predicting
    )
    figures: dict[str, Any] = {}
    for name, values in (("predict", latencies), ("learn", learned)):
        for share in (50, 99, 99.9):
            figures[f"{name} p{share}, ms"] = round(1000 * float(np.percentile(values, share)), 2)
    return figures | {"requests": len(latencies) + len(learned), "failed": failed + lost}


def run(folder: Path, seconds: float, rate: float, minutes: float) -> dict[str, Any]:
    with Server(folder) as server:
        server.start(stderr=subprocess.DEVNULL)
        return measure(server, seconds, rate, minutes)


def measure(server: Server, seconds: float, rate: float, minutes: float) -> dict[str, Any]:
    X, y = stream("magic04", 0)
    predict, learn = bodies_of(X, y)
    asyncio.run(learn_all(server.port, learn[:WARM_UP], 1000))
    figures = asyncio.run(mixed(server.port, predict, learn[WARM_UP:], rate, seconds))

    # bulk rate and the same in this process, in turn; both with the budget full
    model = AutoMKLClassifier(random_state=0).partial_fit(X[:WARM_UP], y[:WARM_UP])
    begun = time.perf_counter()
    model.score_and_learn(X[WARM_UP:], y[WARM_UP:])
    inside = (len(y) - WARM_UP) / (time.perf_counter() - begun)
    served = asyncio.run(learn_all(server.port, learn, 4096, WARM_UP))
    figures |= {"rows/s in process": round(inside), "rows/s served": round(served), "share": round(served / inside, 3)}

    memory, end = [], time.monotonic() + 60 * minutes
    with progress_bar(int(60 * minutes), "full load", "s") as bar:
        while time.monotonic() < end:
            asyncio.run(learn_all(server.port, learn, 4096))
            memory.append(server.resident_bytes() / 2**20)
            bar.update(max(0, int(60 * minutes - (end - time.monotonic())) - bar.n))
    if memory:
        quarter = max(len(memory) // 4, 1)
        figures["rows learned"] = server.state()["rows"]
        figures["MiB in the first and last quarter"] = [
            round(float(np.mean(part)), 1) for part in (memory[:quarter], memory[-quarter:])
        ]
    figures["ended well"] = server.stop() == 0
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of mixed load")
    parser.add_argument("--rate", type=float, default=300, help="predictions and rows to learn from, each, a second")
    parser.add_argument("--minutes", type=float, default=10, help="of full load, watching the memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = run(Path(scratch) / "data", options.seconds, options.rate, options.minutes)
    for name, value in found.items():
        print(f"{name}\t{value}")
    slow, share = found["predict p99, ms"], found["share"]
    verdicts = [
        (slow < SLOWEST, f"p99 of a prediction {slow} ms, at {options.rate:g} predictions and rows to learn a second"),
        (found["failed"] == 0, f"{found['failed']} of {found['requests']} requests failed"),
        (share >= BULK_SHARE, f"bulk learning at {share:.0%} of the rate in this process"),
        (found["ended well"], "the service ended well"),
    ]
    if memory := found.get("MiB in the first and last quarter"):
        verdicts.append((memory[1] <= FLAT * memory[0], f"memory {memory[0]} and then {memory[1]} MiB"))
    finish(verdicts)

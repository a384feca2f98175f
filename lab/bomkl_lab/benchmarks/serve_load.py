"""`bomkl bench serve_load`: latency of predictions while the service learns, bulk speed and memory.

Predictions are single-row requests at a fixed rate, sent when they are due whether or not earlier ones have been
answered, so that a slow answer does not hide behind a pause. Rows to learn from come at a fixed rate beside them. Then
all rows are learned in bulk, in turn with the same rows learned in this process, and at last several clients learn and
predict as fast as they can. Everything shares the cores of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from bomkl import AutoMKLClassifier
from bomkl._support.progress import progress_bar
from bomkl.serve.formats.bodies import ARROW, JSON, NDJSON
from bomkl_lab.benchmarks.common.service import Server
from bomkl_lab.benchmarks.common.verdicts import finish
from bomkl_lab.benchmarks.peers_streams import stream

SLOWEST = 25.0  # ms
BULK_SHARE = 0.6
FLAT = 1.1  # memory at the end of full load, as a multiple of that after its first minute
BATCH = 4096  # rows of a bulk request
KEPT = 1_000_000  # rows that the log keeps: ten minutes learn several millions
WARM_UP = 5000  # rows learned before anything is measured: the budget is full, and weak kernels are gone


class Connection:
    """One HTTP connection that is kept open, without the cost of a full client."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes, kind: str = JSON, key: str | None = None) -> tuple[int, bytes]:
        """Send one request and wait for its answer."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        head += f"Idempotency-Key: {key}\r\n\r\n" if key else "\r\n"
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


def line_bodies(lines: list[bytes], batch: int) -> list[bytes]:
    return [b"\n".join(lines[at : at + batch]) for at in range(0, len(lines), batch)]


def arrow_bodies(X: Any, y: Any, batch: int) -> list[bytes]:
    import pyarrow as pa

    table = pa.table({f"x{number + 1}": X[:, number] for number in range(X.shape[1])} | {"y": y})
    bodies = []
    for at in range(0, len(y), batch):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(at, batch))
        bodies.append(sink.getvalue().to_pybytes())
    return bodies


async def learn_all(port: int, bodies: list[bytes], kind: str = NDJSON) -> float:
    """Send bodies one after another, each once the one before is learned; returns the seconds."""
    connection, begun = Connection(port), time.perf_counter()
    for body in bodies:
        status, answer = await connection.post("/v1/learn", body, kind)
        if status != 200:
            raise RuntimeError(answer)
    return time.perf_counter() - begun


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


def run(folder: Path, seconds: float, rate: float, rounds: int, minutes: float) -> dict[str, Any]:
    with Server(folder, "--keep-log", str(KEPT)) as server:
        server.start(stderr=subprocess.DEVNULL)
        X, y = stream("magic04", 0)
        predict, learn = bodies_of(X, y)
        asyncio.run(learn_all(server.port, line_bodies(learn[:WARM_UP], 1000)))
        figures = asyncio.run(mixed(server.port, predict, learn[WARM_UP:], rate, seconds))
        figures |= bulk(server, X[WARM_UP:], y[WARM_UP:], learn[WARM_UP:], rounds)
        if minutes:
            figures |= asyncio.run(full_load(server, predict, learn, minutes))
        return figures | {"ended well": server.stop() == 0}


def bulk(server: Server, X: Any, y: Any, lines: list[bytes], rounds: int) -> dict[str, Any]:
    """Learn rows in bulk and in this process, in turn; of each the fastest round counts.

    In this process they are learned from arrays in one call, which is the fastest way there is. Both models have their
    budget full. The share of processor time is what the service does beside learning; waiting for the disk and for the
    client is not in it.
    """
    n = len(y)
    model = AutoMKLClassifier(random_state=0).partial_fit(X[:WARM_UP], y[:WARM_UP])
    ways = {"JSON lines": (line_bodies(lines, BATCH), NDJSON), "Arrow": (arrow_bodies(X, y, BATCH), ARROW)}
    seconds: dict[str, list[float]] = {name: [] for name in ("in process", *ways)}
    processor: dict[str, list[float]] = {name: [] for name in seconds}
    for _ in range(rounds):
        begun, used = time.perf_counter(), time.process_time()
        model.score_and_learn(X, y)
        processor["in process"].append(time.process_time() - used)
        seconds["in process"].append(time.perf_counter() - begun)
        for name, (bodies, kind) in ways.items():
            used = server.processor_seconds()
            seconds[name].append(asyncio.run(learn_all(server.port, bodies, kind)))
            processor[name].append(server.processor_seconds() - used)
    figures: dict[str, Any] = {f"rows/s, {name}": round(n / min(each)) for name, each in seconds.items()}
    for name in ways:
        figures[f"share, {name}"] = round(min(seconds["in process"]) / min(seconds[name]), 3)
        figures[f"share of processor time, {name}"] = round(min(processor["in process"]) / min(processor[name]), 3)
    return figures


async def full_load(server: Server, predict: list[bytes], learn: list[bytes], minutes: float) -> dict[str, Any]:
    """Learn and predict as fast as it goes, from several clients at once, and look at the memory.

    Two clients learn in bulk, every request with a key; one predicts; one predicts with an id and sends the label next.
    """
    end, failures = time.monotonic() + 60 * minutes, Counter[str]()
    bodies = line_bodies(learn, 1000)

    async def client(number: int) -> None:
        connection, count = Connection(server.port), 0
        while time.monotonic() < end:
            count += 1
            at = count % len(predict)
            name = f"{number}-{count}"
            requests: list[tuple[str, bytes, str, str | None]]
            if number < 2:
                requests = [("/v1/learn", bodies[count % len(bodies)], NDJSON, name)]
            elif number == 2:
                requests = [("/v1/predict", predict[at], JSON, None)]
            else:
                row = json.loads(learn[at])
                requests = [
                    ("/v1/predict", json.dumps({"row": row["row"], "id": name}).encode(), JSON, None),
                    ("/v1/label", json.dumps({"id": name, "y": row["y"]}).encode(), JSON, None),
                ]
            for request in requests:
                status: int | str
                try:
                    status, _ = await connection.post(*request)
                except (OSError, EOFError) as error:
                    connection, status = Connection(server.port), type(error).__name__
                if status != 200:
                    failures[f"{request[0]} {status}"] += 1

    async def watch() -> list[float]:
        memory = [server.resident_bytes() / 2**20]
        pause = 60.0 if minutes >= 2 else 60 * minutes / 4
        with progress_bar(int(60 * minutes), "full load", "s") as bar:
            while (left := end - time.monotonic()) > 0:
                await asyncio.sleep(min(pause, left))
                memory.append(server.resident_bytes() / 2**20)
                bar.update(max(0, int(60 * minutes - (end - time.monotonic())) - bar.n))
                sizes = {path.name: path.stat().st_size / 2**20 for path in server.folder.glob("log.sqlite*")}
                files = ", ".join(f"{name} {size:.0f} MiB" for name, size in sorted(sizes.items()))
                print(f"{memory[-1]:.1f} MiB resident; {files}; {failures.total()} requests failed", flush=True)
        return memory

    before = server.state()["rows"]
    memory: Any
    memory, *_ = await asyncio.gather(watch(), *(client(number) for number in range(4)))
    return {
        "rows learned at full load": server.state()["rows"] - before,
        "failed at full load": dict(failures),
        "MiB after a minute and at the end": [round(memory[1], 1), round(memory[-1], 1)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of mixed load")
    parser.add_argument("--rate", type=float, default=300, help="predictions and rows to learn from, each, a second")
    parser.add_argument("--rounds", type=int, default=3, help="of bulk learning; the fastest one counts")
    parser.add_argument("--minutes", type=float, default=10, help="of full load, watching the memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = run(Path(scratch) / "data", options.seconds, options.rate, options.rounds, options.minutes)
    for name, value in found.items():
        print(f"{name}\t{value}")
    slow = found["predict p99, ms"]
    verdicts = [
        (slow < SLOWEST, f"p99 of a prediction {slow} ms, at {options.rate:g} predictions and rows to learn a second"),
        (found["failed"] == 0, f"{found['failed']} of {found['requests']} requests failed"),
    ]
    for name in ("JSON lines", "Arrow"):
        share = found[f"share, {name}"]
        verdicts.append((share >= BULK_SHARE, f"bulk learning from {name} at {share:.0%} of the rate in this process"))
    if options.minutes:
        begin, end = found["MiB after a minute and at the end"]
        failed = found["failed at full load"]
        verdicts.append((end <= FLAT * begin, f"{options.minutes:g} minutes at full load: {begin} MiB, then {end} MiB"))
        verdicts.append((not failed, f"requests that failed at full load: {failed or 'none'}"))
    verdicts.append((found["ended well"], "the service ended well"))
    finish(verdicts)

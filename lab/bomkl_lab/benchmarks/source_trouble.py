"""`bomkl bench source_trouble`: brokers that are away, damaged records, and labels that come late or never.

Each part ends with the same model as `bomkl train` makes of a file with the rows that could be used:

* away: the NATS server is stopped while the command reads from it, and comes back after some seconds;
* damaged: half of the records cannot be read, in JSON, CSV and Arrow; each is counted and a dead letter;
* late: labels come up to 10,000 rows after their row, one in twenty never, and memory stays as it was.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from bomkl import modelfile
from bomkl_lab.benchmarks.common.brokers import NatsServer, as_json, make_rows
from bomkl_lab.benchmarks.common.verdicts import finish
from bomkl_lab.benchmarks.source_kills import Published

_OPTIONS = ("--budget", "100", "--ignore", "id")
_FLAT = 1.1  # memory at the end, as a multiple of that after a quarter of the rows
Verdict = tuple[bool, str]


def bomkl(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bomkl", "train", *map(str, arguments), *_OPTIONS]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def is_that_of_a_file(model: Path, rows: list[dict[str, Any]], folder: Path) -> bool:
    """Compare a model with one learned from rows in a file."""
    file, other = folder / "rows.jsonl", folder / "file.bomkl"
    file.write_bytes(b"\n".join(as_json(rows)) + b"\n")
    run = bomkl(file, "-o", other, "-q")
    run.communicate()
    if run.returncode:
        return False
    table = {name: [row[name] for row in rows[:2000]] for name in ("a", "b", "c", "colour")}
    mine, theirs = modelfile.load(model), modelfile.load(other)
    same = (mine.n_seen_, mine.mistakes_) == (theirs.n_seen_, theirs.mistakes_)
    return bool(same and np.array_equal(mine.predict_proba(table), theirs.predict_proba(table)))


def away(broker: NatsServer, seconds: float, folder: Path) -> Iterator[Verdict]:
    rows = make_rows(6000, 1)
    broker.send("visits", as_json(rows[:3000]))
    broker.send("answers", [])
    model = folder / "away.bomkl"
    run = bomkl("--from", broker.url("visits"), "--to", broker.url("answers"), "-o", model, "-q")
    published = Published(broker.url("answers"))
    while published.read() < 1000 and run.poll() is None:
        pass
    broker.stop()
    time.sleep(seconds)
    broker.start()
    broker.send("visits", as_json(rows[3000:]))
    end = time.monotonic() + 300
    while published.read() < len(rows) and run.poll() is None and time.monotonic() < end:
        pass
    run.send_signal(signal.SIGTERM)
    said = run.communicate()[1]
    once = len({each["position"] for each in published.found}) == len(published.found) == len(rows)
    yield once, f"away for {seconds:g} s: {len(published.found)} predictions of {len(rows)} rows, each once"
    yield is_that_of_a_file(model, rows, folder), "away: the model is that of a file"
    yield "is back" in said, "away: the command said that the broker was back"


def damaged(broker: NatsServer, payload: str, count: int, folder: Path) -> Iterator[Verdict]:
    draw, rows = random.Random(0), make_rows(count, 2)
    if payload == "json":
        good = as_json(rows)
    elif payload == "csv":
        good = [",".join(map(str, row.values())).encode() for row in rows]
    else:
        good = [_arrow([row]) for row in rows]

    def wrong(value: bytes) -> bytes:
        if draw.random() < 0.3:
            return draw.choice([b"", b"\xff\xfe", b"null", b"[1]", draw.randbytes(40)])
        return value[: draw.randrange(value.rindex(b",") if payload == "csv" else len(value) // 2)]

    topic, letters, model = f"bad-{payload}", folder / f"{payload}.letters", folder / f"{payload}.bomkl"
    broker.send(topic, [each for value in good for each in (wrong(value), value)])
    settings = {"payload": payload, "dead_letters": letters, "until": "end"}
    settings |= {"columns": ",".join(rows[0])} if payload == "csv" else {}
    run = bomkl("--from", broker.url(topic, **settings), "-o", model, "-q")
    said = run.communicate()[1]
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    counted = f"{count} records were left out" in said and all(each["reason"] for each in kept)
    yield run.returncode == 0 and counted, f"damaged: {payload}: {count} damaged records counted"
    yield len(kept) == count, f"damaged: {payload}: {len(kept)} dead letters with reasons"
    yield is_that_of_a_file(model, rows, folder), f"damaged: {payload}: the model is that of a file"


def _arrow(rows: list[dict[str, Any]]) -> bytes:
    table, sink = pyarrow.Table.from_pylist(rows), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def late(broker: NatsServer, count: int, folder: Path) -> Iterator[Verdict]:
    rows, draw = make_rows(count, 3), np.random.default_rng(3)
    arrival = np.arange(count) + draw.integers(0, 10_001, count)
    order = [int(at) for at in np.argsort(arrival, kind="stable") if draw.random() > 0.05]
    broker.send("late-rows", as_json([{name: row[name] for name in row if name != "label"} for row in rows]))
    broker.send("late-labels", as_json([{"id": rows[at]["id"], "label": rows[at]["label"]} for at in order]))
    model = folder / "late.bomkl"
    url = broker.url("late-rows", labels="late-labels", key="id", most_waiting=20_000, until="end")
    run = bomkl("--from", url, "-o", model, "--json", stdout=subprocess.PIPE)
    memory: list[tuple[int, float]] = []
    assert run.stdout is not None
    for line in run.stdout:
        pages = int(Path(f"/proc/{run.pid}/statm").read_text().split()[1])
        memory.append((json.loads(line)["rows"], pages * 4096 / 2**20))
    said = run.communicate()[1]
    quarter = next(size for learned, size in memory if learned >= len(order) / 4)
    yield "labels had no match" in said, f"late: {said.strip().splitlines()[-1]}"
    yield is_that_of_a_file(model, [rows[at] for at in order], folder), "late: the model is that of joining offline"
    yield memory[-1][1] <= _FLAT * quarter, f"late: {quarter:.0f} MiB after a quarter, {memory[-1][1]:.0f} at the end"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("away", "damaged", "late"), default=["away", "damaged", "late"])
    parser.add_argument("--away", type=float, default=30, help="seconds")
    parser.add_argument("--damaged", type=int, default=5000, help="records of each format")
    parser.add_argument("--rows", type=int, default=100_000, help="whose labels come late")
    options = parser.parse_args()
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        broker = NatsServer(folder / "nats")
        try:
            if "away" in options.parts:
                verdicts += away(broker, options.away, folder)
            for payload in ("json", "csv", "arrow") if "damaged" in options.parts else ():
                verdicts += damaged(broker, payload, options.damaged, folder)
            if "late" in options.parts:
                verdicts += late(broker, options.rows, folder)
        finally:
            broker.stop()
    finish(verdicts)

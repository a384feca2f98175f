"""`bomkl bench serve_fuzz`: schemathesis and thousands of malformed requests against the service."""

from __future__ import annotations

import argparse
import io
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.service import Server
from bomkl_lab.benchmarks.common.verdicts import finish

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
GOOD = {"row": {"a": 0.5, "b": -1.0}, "y": 1}
Request = tuple[str, dict[str, str], bytes]


def malformed(seed: int, count: int) -> Iterator[Request]:
    """Make requests that a service which knows the number columns a and b and whole labels must refuse."""
    chance = random.Random(seed)
    makers = [_cell, _label, _names, _cut, _deep, _bytes, _shape, _lines, _arrow, _huge]
    for _ in range(count):
        kind, body = chance.choice(makers)(chance)
        yield chance.choice(["/v1/learn", "/v1/label"]) if kind == JSON else "/v1/learn", {"content-type": kind}, body


def _json(content: Any) -> tuple[str, bytes]:
    return JSON, json.dumps(content).encode()


def _cell(chance: random.Random) -> tuple[str, bytes]:
    bad = chance.choice(["x" * 20_000, [float("nan")], float("nan"), float("inf"), 10**400])
    row = {"a": 0.5, "b": 0.5} | {chance.choice("ab"): bad}
    return _json({"row": row, "y": 1} if chance.random() < 0.5 else {"rows": [GOOD["row"], row], "y": [1, 0]})


def _label(chance: random.Random) -> tuple[str, bytes]:
    return _json(
        {"row": GOOD["row"], "y": chance.choice([None, True, "x", [], {}, 0.5, float("nan"), 2**60, "", -(2**99)])}
    )


def _names(chance: random.Random) -> tuple[str, bytes]:
    names = chance.choice([[], ["a", ""], ["x" * 5000, "b"]])
    return _json({"row": dict.fromkeys(names, 1.0), "y": 1})


def _cut(chance: random.Random) -> tuple[str, bytes]:
    body = json.dumps({"rows": [GOOD["row"]] * 5, "y": [1] * 5}).encode()
    return JSON, body[: chance.randrange(len(body))]


def _deep(chance: random.Random) -> tuple[str, bytes]:
    depth = chance.randrange(3, 100_000)
    return JSON, chance.choice(
        [b"[" * depth, b'{"row":' * depth, b'{"row":{"a":' + b"[" * depth + b"]" * depth + b"}}"]
    )


def _bytes(chance: random.Random) -> tuple[str, bytes]:
    if chance.random() < 0.5:
        return chance.choice([JSON, NDJSON, ARROW]), chance.randbytes(chance.randrange(1, 300))
    body = bytearray(json.dumps(GOOD).encode())
    body[chance.randrange(len(body))] = chance.choice([0, 0x80, 0xC0, 0xFF])
    return chance.choice([JSON, NDJSON]), bytes(body)


def _shape(chance: random.Random) -> tuple[str, bytes]:
    row = GOOD["row"]
    shapes: list[Any] = [[], None, 1, "x", {}, {"rows": row, "y": 1}, {"row": [row], "y": 1}, {"rows": [row], "y": []}]
    shapes += [{"rows": [], "y": []}, {"row": row, "rows": [row], "y": 1}, {**GOOD, "weight": 1}, {"row": None, "y": 1}]
    shapes += [{"id": 1, "y": 1}, {"id": "", "y": 1}, {"id": "x" * 999, "y": 1}, {"labels": []}, {"labels": [GOOD]}]
    return _json(chance.choice(shapes))


def _lines(chance: random.Random) -> tuple[str, bytes]:
    lines = [json.dumps(GOOD).encode()] * chance.randrange(1, 5)
    bad = chance.choice(
        [b"{", b"[]", b"null", b'{"row": {"a": NaN, "b": 1}, "y": 1}', json.dumps(GOOD).encode()[:-1], b"\xff"]
    )
    lines.insert(chance.randrange(len(lines) + 1), bad)
    return NDJSON, b"\n".join(lines)


def _arrow(chance: random.Random) -> tuple[str, bytes]:
    try:
        import pyarrow as pa
    except ImportError:
        return ARROW, b"ARROW1"
    sink = io.BytesIO()
    whole: dict[str, list[Any]] = {"a": [0.5] * 99, "b": [1.0] * 99, "y": [1] * 99}
    nan: dict[str, list[Any]] = {"a": [0.5], "b": [float("nan")], "y": [1]}
    nested: dict[str, list[Any]] = {"a": [[1.0]], "b": [1.0], "y": [1]}
    columns = chance.choice([whole, {"a": [0.5]}, {"y": [1]}, nan, nested])
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue()
    return ARROW, body if columns is not whole else body[: chance.randrange(1, len(body) - 600)]


def _huge(chance: random.Random) -> tuple[str, bytes]:
    size = chance.choice([20_000, 100_000])
    huge = [{"row": {"a": "x" * size, "b": 1.0}, "y": 1}, {"row": {str(at): 1.0 for at in range(size)}, "y": 1}]
    huge += [{"rows": [GOOD["row"]] * 10_001, "y": [1] * 10_001}, {"row": GOOD["row"], "y": "y" * size}]
    return _json(chance.choice(huge))


def fuzz(server: Server, count: int, seed: int) -> dict[str, Any]:
    """Send malformed bodies; returns how many of each status came back."""
    statuses: Counter[int] = Counter()
    unnamed = 0
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        client.post("/v1/learn", json=GOOD).raise_for_status()
        with progress_bar(count, "sending", "body") as bar:
            for path, headers, body in malformed(seed, count):
                response = client.post(path, content=body, headers=headers)
                statuses[response.status_code] += 1
                unnamed += not response.json().get("field")
                bar.update()
    return {"malformed bodies": count, "statuses": dict(sorted(statuses.items())), "without a field": unnamed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=2000)
    parser.add_argument("--cases", type=int, default=5000, help="cases of schemathesis")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, Server(Path(scratch) / "data", "--budget", "50") as server:
        server.start()
        figures = fuzz(server, options.bodies, options.seed)
        # about half of the cases of an operation are valid by the schema, half are not
        each = max(options.cases // 3, 1)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--checks"]
        command += ["not_a_server_error", "--mode", "all", "--max-examples", str(each), "--exclude-path", "/v1/events"]
        command += [
            "--seed",
            str(options.seed),
            "--phases",
            "examples,coverage,fuzzing",
            "--suppress-health-check",
            "all",
        ]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
        print("\n".join(done.stdout.splitlines()[-25:]))
        rows = server.state()["rows"]
        figures |= {"schemathesis": "passed" if done.returncode == 0 else "FAILED", "rows after it": rows}
        figures["ended well"] = server.stop() == 0
    for name, value in figures.items():
        print(f"{name}\t{value}")
    refused = all(400 <= status < 500 for status in figures["statuses"])
    finish(
        [
            (refused, f"{options.bodies} malformed bodies: {figures['statuses']}"),
            (figures["without a field"] == 0, f"{figures['without a field']} refusals name no field"),
            (done.returncode == 0, f"schemathesis: {figures['schemathesis']}, no 5xx"),
            (figures["ended well"], "the service ended well"),
        ]
    )

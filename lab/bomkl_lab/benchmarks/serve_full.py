"""`bomkl bench serve_full`: the service while the disk fills up: what it answers, and that nothing is lost.

The data folder lies on a small tmpfs, which only root can mount. Clients learn until the disk is full; then predictions
must go on and learning must be refused with 507. With more room the same requests are sent again, and the log must hold
every acknowledged row once.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from bomkl.serve.folder.replay import Replay, Report
from bomkl.serve.storage.log import Log
from bomkl_lab.benchmarks.common.service import Server
from bomkl_lab.benchmarks.common.verdicts import finish


def run(folder: Path, megabytes: int) -> dict[str, Any]:
    """Fill a disk, make room, and count what is there."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
    try:
        with Server(folder / "data", "--budget", "100", "--snapshot-every", "500") as server:
            return fill(server, folder, megabytes)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(server: Server, folder: Path, megabytes: int) -> dict[str, Any]:
    """Learn until the disk is full, make room, go on, and compare the log with what was acknowledged."""
    server.start(stderr=subprocess.DEVNULL)
    statuses: Counter[int] = Counter()
    acknowledged: set[float] = set()
    chance = random.Random(0)
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        number, full, room = 0, 0, False
        while full < 20 or not room or number < 20_000:
            rows = [{"name": float(number + at), "a": chance.gauss(0, 1)} for at in range(200)]
            body = {"rows": rows, "y": [int(row["a"] > 0) for row in rows]}
            while True:
                response = client.post("/v1/learn", json=body, headers={"Idempotency-Key": f"k{number}"})
                statuses[response.status_code] += 1
                if response.status_code == 200:
                    acknowledged |= {row["name"] for row in rows}
                    number += 200
                    break
                full += 1
                detail = response.json()["detail"]
                # reading goes on
                client.post("/v1/predict", json={"row": rows[0]}).raise_for_status()
                client.get("/v1/state").raise_for_status()
                if full == 20:
                    subprocess.run(["mount", "-o", f"remount,size={64 * megabytes}m", str(folder)], check=True)
                    room = True
    ended = server.stop()
    with Log(str(server.folder), read_only=True) as log:
        in_log = Counter(row[0] for entry in log.entries() for row in entry.rows)
    with Replay(str(server.folder)) as run:
        problems = [line.problem for line in run.run() if not isinstance(line, Report)]
    return {
        "statuses": dict(statuses),
        "message": detail,
        "acknowledged rows": len(acknowledged),
        "lost": len(acknowledged - set(in_log)),
        "learned twice": sum(count > 1 for count in in_log.values()),
        "snapshots verified": len(problems),
        "snapshots wrong": sum(problem is not None for problem in problems),
        "exit code": ended,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = run(Path(scratch), options.megabytes)
    for name, value in found.items():
        print(f"{name}\t{value}")
    statuses = found["statuses"]
    finish(
        [
            (statuses.get(507, 0) > 0 and set(statuses) <= {200, 507}, f"statuses {statuses}: 200 and 507 only"),
            (found["lost"] == 0, f"{found['lost']} acknowledged rows lost"),
            (found["learned twice"] == 0, f"{found['learned twice']} rows learned twice"),
            (found["snapshots wrong"] == 0, f"{found['snapshots wrong']} snapshots wrong"),
            (found["exit code"] == 0, f"exit code {found['exit code']}"),
        ]
    )

"""`bomkl bench source_rate`: rows a second from a broker, against the same rows in a file of JSON lines.

`bomkl train` learns from the file, from Kafka (librdkafka's mock cluster) and from NATS in turn, in processes of their
own that all start in the same way; of each the fastest round counts. Where others use the processor as well, the ratio
of the processor time tells more.

Topics have one partition, so that all learn from the rows in the same order: what a model has to do depends on it, and
the same rows in another order can take it twice as long, also from a file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bomkl import modelfile
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.brokers import MockKafka, NatsServer, as_json, make_rows
from bomkl_lab.benchmarks.common.verdicts import finish

SHARE = 0.7


def seconds(*source: str, folder: Path, rows: int) -> tuple[float, float]:
    """Learn from all rows of a source; returns the seconds it took, and those of the processor."""
    model = str(folder / "m.bomkl")
    command = [sys.executable, "-m", "bomkl", "train", *source, "-o", model, "--ignore", "id", "-q"]
    begun = time.perf_counter()
    process = subprocess.Popen([*command, "--classes", "yes,no"])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command} ended with {status}")
    wall = time.perf_counter() - begun
    if (learned := modelfile.read(model).estimator.n_seen_) != rows:
        raise RuntimeError(f"{command} learned from {learned} rows instead of {rows}")
    return wall, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    values = as_json(make_rows(options.rows))
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "rows.jsonl").write_bytes(b"\n".join(values) + b"\n")
        brokers: list[Any] = [MockKafka(), NatsServer(folder / "nats")]
        sources: dict[str, tuple[str, ...]] = {"file": (str(folder / "rows.jsonl"),)}
        for broker in brokers:
            broker.send("rows", values)
            sources[broker.scheme] = ("--from", broker.url("rows", until="end"))
        try:
            with progress_bar(options.rounds, "rounds", "round") as bar:
                for _ in range(options.rounds):
                    for name, source in sources.items():
                        found.setdefault(name, []).append(seconds(*source, folder=folder, rows=options.rows))
                    bar.update()
        finally:
            for broker in brokers:
                broker.stop()
    for name, rounds in found.items():
        for wall, processor in rounds:
            print(f"{name}\t{options.rows / wall:.0f} rows/s, processor {processor:.2f} s")
    best = {name: [min(each) for each in zip(*rounds, strict=True)] for name, rounds in found.items()}
    finish(
        (
            best["file"][0] / wall >= SHARE,
            f"{name}: {best['file'][0] / wall:.0%} of the rate from a file "
            f"({best['file'][1] / processor:.0%} by processor time)",
        )
        for name, (wall, processor) in best.items()
        if name != "file"
    )

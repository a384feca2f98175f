"""`bomkl bench source_kills`: a run that is killed again and again learns what one uninterrupted run learns.

`bomkl train --from URL --to URL --resume` reads a topic of Kafka (librdkafka's mock cluster, four partitions) or a
stream of NATS and is killed (SIGKILL) at random moments until it has learned from all rows. Then they are learned
once more from a file, in the order of the published predictions: model and predictions must be the same, none lost,
none twice. The command runs in forks of a process that has imported all it needs, so that little time goes to imports.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from bomkl import modelfile
from bomkl._support.progress import progress_bar
from bomkl.sources import SourceUrl, open_source
from bomkl_lab.benchmarks.common.brokers import MockKafka, NatsServer, as_json, make_rows

_AT_ANY_MOMENT = 0.2  # share of the kills that wait for no prediction: also while a run starts
_IMPORTS = ["bomkl.cli", "bomkl.auto", "bomkl.evaluate", "bomkl.modelfile", "bomkl.sources.publishing"]
_IMPORTS += ["bomkl.sources.records", "bomkl.sources.kafka", "bomkl.sources.nats"]
_OPTIONS = ["--budget", "100", "--ignore", "id", "-q"]


def command_line(arguments: list[str]) -> None:
    """Do what `bomkl` does with these arguments."""
    from bomkl.cli import app

    app(arguments, prog_name="bomkl")


class Published:
    """Predictions of a topic, read as they come: a mock cluster keeps only some of them."""

    def __init__(self, url: str) -> None:
        self._source = open_source(SourceUrl(url))
        self._source.seek({})
        self.found: list[dict[str, Any]] = []

    def read(self) -> int:
        """Take what is there; returns how many there are in all."""
        self.found += [json.loads(record.value) for record in self._source.poll(10_000, 0.02)]
        return len(self.found)


def killed_again_and_again(broker: Any, rows: int, kills: int, folder: Path, seed: int) -> tuple[int, str]:
    """Return how often it was killed, and what is not the same in the end."""
    values = as_json(make_rows(rows, seed))
    broker.send("rows", values, partitions=broker.partitions)
    broker.send("predictions", [])
    # A fetch of the mock cluster is answered at the end of its wait, also where records come earlier
    soon = {"fetch.wait.max.ms": 10} if broker.scheme == "kafka" else {}
    published, draw = Published(broker.url("predictions", **soon)), random.Random(seed)
    model, done = folder / "topic.bomkl", 0
    command = ["train", "--from", broker.url("rows", until="end"), "--to", broker.url("predictions"), "-o", str(model)]
    command += ["--resume", "--checkpoint-every", "500", "--block-rows", "256", *_OPTIONS]
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(_IMPORTS)
    with progress_bar(kills, broker.scheme, "kill") as bar:
        while True:
            run = forks.Process(target=command_line, args=(command,))
            run.start()
            end, enough = monotonic() + 60, published.read()
            if draw.random() < _AT_ANY_MOMENT:
                end = monotonic() + draw.uniform(0.0, 3.0)
            enough += round(draw.uniform(0.0, 1.0) * (rows - enough) / max(kills - done, 1))
            while run.is_alive() and (published.read() <= enough or done >= kills):
                if monotonic() >= end and done < kills:
                    break
            if not run.is_alive():
                break
            run.kill()
            run.join()
            done += 1
            bar.update()
    assert run.exitcode == 0
    end = monotonic() + 3.0
    while monotonic() < end:
        published.read()
    order = sorted(published.found, key=lambda each: int(each["learned"]))
    places = [(each["partition"], each["position"]) for each in order]
    if len(places) != rows or len(set(places)) != rows:
        twice = [place for place, count in Counter(places).items() if count > 1]
        return done, f"{len(places)} predictions of {len(set(places))} records; more than one of {twice[:5]}"
    first = 1 if broker.scheme == "nats" else 0
    numbers = [(position - first) * broker.partitions + int(partition) for partition, position in places]
    file = folder / "rows.jsonl"
    file.write_bytes(b"".join(values[number] + b"\n" for number in numbers))
    offline = [sys.executable, "-m", "bomkl", "train", "-", "-o", str(folder / "file.bomkl"), *_OPTIONS]
    with file.open("rb") as pipe:  # of a file, a first pass would tell the classes before the first row
        subprocess.run([*offline, "--predictions", str(folder / "predictions.txt")], stdin=pipe, check=True)
    predictions = (folder / "predictions.txt").read_text().split()
    one, other = (modelfile.load(folder / name) for name in ("topic.bomkl", "file.bomkl"))
    probe = [json.loads(value) for value in values[:1000]]
    table = {name: [row[name] for row in probe] for name in ("a", "b", "c", "colour")}
    counts = [(model.n_seen_, model.mistakes_) for model in (one, other)]
    if counts[0] != counts[1] or not np.array_equal(one.predict_proba(table), other.predict_proba(table)):
        return done, f"rows and mistakes of the models: {counts}"
    wrong = [at for at, each in enumerate(order) if each["prediction"] != predictions[at]]
    return done, f"{len(wrong)} predictions, the first for row {wrong[0]}" if wrong else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="bomkl bench source_kills", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--brokers", nargs="+", choices=("kafka", "nats"), default=["kafka", "nats"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failed = False
    for name in arguments.brokers:
        with tempfile.TemporaryDirectory() as folder:
            broker: Any = MockKafka() if name == "kafka" else NatsServer(Path(folder) / "nats")
            try:
                done, difference = killed_again_and_again(
                    broker, arguments.rows, arguments.kills, Path(folder), arguments.seed
                )
            finally:
                broker.stop()
            print(f"{name}: {arguments.rows} rows, killed {done} times: {difference or 'the same'}", flush=True)
            failed |= bool(difference)
    sys.exit(failed)

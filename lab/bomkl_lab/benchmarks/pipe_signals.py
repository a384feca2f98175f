"""`bomkl bench pipe_signals`: a live pipe that is stopped again and again ends with the same model.

A producer writes 20 rows a second, texts, dates and gaps among them, to ``bomkl train -``. SIGTERM or SIGINT comes at a
random moment, also while the command starts; the next command resumes where the model file stands. In the end the model
file must be, byte for byte, that of one run over the same rows, and every exit code the documented one. It also
measures how long after the tenth row the first checkpoint is there.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from bomkl import modelfile
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.verdicts import finish

HEADER = "city,size,when,mood,label\n"
CITIES = ("Oslo", "Bonn", "Lima", "Rome", "Kyiv")
FIRST = 5  # rows with both labels among them: a Budget model waits for two
SECONDS = 1.0  # from the tenth row to the first checkpoint


def line(number: int) -> str:
    """Row of a given number, always the same."""
    chance = random.Random(number)
    city, size, hour = chance.choice(CITIES), chance.gauss(0, 1), number % 24
    label = "late" if size * (hour - 12) + 4 * (city == "Oslo") + chance.gauss(0, 1) > 0 else "on time"
    cells = [city, f"{size:.6f}", f"2024-03-{1 + number // 24 % 28:02d}T{hour:02d}:00:00", f"m{number % 997}"]
    return ",".join(["" if chance.random() < 0.1 else cell for cell in cells]) + f",{label}\n"


class Run:
    """One ``bomkl train -`` with a producer before it."""

    def __init__(self, model: Path, settings: list[str], *more: str) -> None:
        options = [*settings, "--checkpoint-every", "10", "--resume", "--only-new", "-q", *more]
        command = [sys.executable, "-m", "bomkl", "train", "-", "-o", str(model), *options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        self.row = rows_in(model)
        self._write(HEADER)

    def _write(self, text: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended
            self.process.stdin.write(text)

    def produce(self, rate: float, seconds: float) -> None:
        """Write rows at a rate for some seconds."""
        begun, written = time.monotonic(), 0
        while (now := time.monotonic() - begun) < seconds:
            if written < now * rate:
                self._write(line(self.row + written))
                written += 1
            else:
                time.sleep(min(1 / rate, seconds - now))

    def stop(self, number: int) -> tuple[int, str]:
        """Send a signal; returns the exit code and what the command said."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> tuple[int, str]:
        """Wait for the end, the pipe being open until then."""
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        code = self.process.wait()
        # as a shell counts; a signal that comes while Python itself starts ends the process before our code can
        return (code if code >= 0 else 128 - code), said

    def finish(self, rows: int) -> None:
        """Write all rows up to a number, and the end of the pipe."""
        for number in range(self.row, rows):
            self._write(line(number))
        assert self.process.stdin is not None
        self.process.stdin.close()
        code, said = self.end()
        if code:
            raise RuntimeError(f"ended with {code}: {said}")


def rows_in(model: Path) -> int:
    """Rows that a model file has learned from."""
    return int(modelfile.read(model).notes["row"]) if model.exists() else 0


def first_checkpoint(model: Path, rate: float, settings: list[str]) -> tuple[float, float]:
    """Seconds from the start to the first row learned, and from the tenth row to the first checkpoint."""
    begun, run = time.monotonic(), Run(model, settings, "--predictions", "-")
    for number in range(FIRST):
        run._write(line(number))
    assert run.process.stdout is not None
    run.process.stdout.readline()  # the prediction of the first
    starting = time.monotonic() - begun
    for number in range(FIRST, 10):
        time.sleep(1 / rate)
        run._write(line(number))
    begun = time.monotonic()
    while not model.exists():
        time.sleep(0.01)
    waited = time.monotonic() - begun
    run.stop(signal.SIGTERM)
    return starting, waited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=100)
    parser.add_argument("--rate", type=float, default=20, help="rows a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="longest time from the first row to a signal")
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument(
        "--algorithm", default="auto", help="as for bomkl train; SPA and others learn on tables as well"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = ["--algorithm", options.algorithm, "--budget", str(options.budget)]
    chance, codes, wrong = random.Random(options.seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as scratch:
        starting, waited = first_checkpoint(Path(scratch) / "first.bomkl", options.rate, settings)
        model, whole = Path(scratch) / "stopped.bomkl", Path(scratch) / "whole.bomkl"
        with progress_bar(options.signals, "stopping", "signal") as bar:
            for _ in range(options.signals):
                stop = chance.choice([signal.SIGINT, signal.SIGTERM])
                before, run = rows_in(model), Run(model, settings)
                run.produce(options.rate, chance.uniform(0, starting + options.seconds))
                code, said = run.stop(stop)
                codes[f"{stop.name} {code}"] += 1
                # -15 and -2: the signal came before Python could handle it
                if code not in (128 + stop, -stop) or "Traceback" in said or rows_in(model) < before:
                    wrong.append((stop.name, code, said))
                bar.update()
        learned = rows_in(model)
        rows = learned + 50
        Run(model, settings).finish(rows)
        Run(whole, settings).finish(rows)
        same = model.read_bytes() == whole.read_bytes()
    finish(
        [
            (waited <= SECONDS, f"first checkpoint {waited:.2f} s after the tenth row ({starting:.1f} s to start)"),
            (not wrong, f"exit codes of {options.signals} signals: {dict(codes)}; wrong: {wrong[:3]}"),
            (same, f"after {learned} rows learned between signals, the model of {rows} rows is that of one run"),
        ]
    )

"""`bomkl bench serve_equal`: a file pushed to a service gives the same error as `bomkl eval`.

The tables are those of `bomkl bench tables`. It also tells how long it takes from the command to the live page.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import httpx

from bomkl_lab.benchmarks.common.service import Server
from bomkl_lab.benchmarks.common.verdicts import finish
from bomkl_lab.benchmarks.tables import TARGETS, folder

SECONDS = 3.0  # until the page is live


def bomkl(*arguments: str) -> dict[str, float]:
    """Run a command; returns the last of the figures it writes as JSON."""
    command = [sys.executable, "-m", "bomkl", *arguments, "--json"]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(name: str, most: int | None, scratch: Path) -> tuple[bool, str]:
    """Push a table and evaluate it; returns whether all errors are the same, and a line for the user."""
    rows = scratch / f"{name}.csv"
    with gzip.open(folder() / "tables" / f"{name}.csv.gz", "rt") as packed, rows.open("w") as plain:
        plain.writelines(islice(packed, None if most is None else most + 1))
    numbers = name == "hotel"
    label = ["--label", TARGETS[name]]
    with Server(scratch / f"{name}-data") as server:
        begun = time.monotonic()
        server.start(stderr=subprocess.DEVNULL)
        page = httpx.get(f"{server.url}/", trust_env=False)
        live = time.monotonic() - begun
        page.raise_for_status()
        pushed = bomkl("push", str(rows), *label, "--url", server.url, *(["--regression"] if numbers else []))
        served = server.state()["error"]
        server.stop()
    evaluated = bomkl("eval", str(rows), *label, "-q", *(["--algorithm", "auto-regression"] if numbers else []))
    errors = [pushed["error"], served, evaluated["error"]]
    same = max(errors) - min(errors) <= 1e-9 * max(errors)  # numbers are added up in another order
    met = same and live <= SECONDS
    figures = ", ".join(f"{what} {error:.6f}" for what, error in zip(("push", "state", "eval"), errors, strict=True))
    return met, f"{name}: {figures} after {int(pushed['rows'])} rows; live in {live:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=list(TARGETS), choices=TARGETS)
    parser.add_argument("--rows", type=int, default=None, help="first rows of each table only")
    options = parser.parse_args()
    verdicts = []
    for name in options.tables:
        with tempfile.TemporaryDirectory() as scratch:
            verdicts.append(compare(name, options.rows, Path(scratch)))
        print(verdicts[-1][1], flush=True)
    finish(verdicts)

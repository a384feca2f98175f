"""Results are rows: printed as they come, and kept as one JSON object a line."""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from bomkl import _core
from bomkl_lab.experiments import environment

Row = dict[str, Any]
PEERS = ("capymoa", "lightgbm", "river", "vowpalwabbit")


def machine() -> Row:
    """Describe what a run was made on."""
    versions = environment.versions()
    for package in PEERS:
        try:
            versions = versions | {package: version(package)}
        except PackageNotFoundError:
            continue
    facts = {"instruction_set": _core.instruction_set(), "load": round(os.getloadavg()[0], 1)}
    return {"bench": "machine", **environment.machine(), **facts, **versions}


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option that all benchmarks have."""
    made = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    made.add_argument("--out", type=Path, metavar="FOLDER", help="also write the rows to a file in this folder")
    return made


def keeping_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser for benchmarks that keep results, measure only what is missing, and have tables in pages."""
    made = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    told = "keep results here; what is there already is shown, not measured again"
    made.add_argument("--rows", type=Path, metavar="FILE", help=told)
    add_into(made)
    return made


def add_into(options: argparse.ArgumentParser) -> None:
    """Add the option of benchmarks whose tables stand in pages."""
    options.add_argument(
        "--into",
        type=Path,
        nargs="+",
        default=[],
        metavar="PAGE",
        help="put the tables in the places of those in pages",
    )


def report(name: str, rows: Iterable[Row], show: Callable[[Row], str], out: Path | None) -> list[Row]:
    """Print rows as they come, write them to ``out/name.jsonl`` after one that describes the machine, return them."""
    kept: list[Row] = []
    for row in rows:
        kept.append({"bench": name, **{key: _short(value) for key, value in row.items()}})
        print(show(kept[-1]), flush=True)
    if out:
        write_rows(out / f"{name}.jsonl", [machine(), *kept])
    return kept


def write_rows(path: Path | None, rows: Sequence[Row]) -> None:
    """Write a file of rows, if one is named, compressed if it ends in .gz: the same bytes for the same rows."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_rows(path: Path | None) -> list[Row]:
    """Read a file of rows; one that does not exist holds none."""
    if path is None or not path.exists():
        return []
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def means(rows: Iterable[Row], by: Iterable[str]) -> list[Row]:
    """Means of the numbers of rows that agree in `by`, in the order they first came; "runs" says how many."""
    names = tuple(by)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [
        dict(zip(names, values, strict=True))
        | {"runs": len(group)}
        | {name: float(np.mean([row[name] for row in group])) for name in group[0] if name not in names}
        for values, group in groups.items()
    ]


def markdown(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Draw a table."""
    head = list(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *map(list, lines)])


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value

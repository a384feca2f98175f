"""Results of benchmarks as rows: one JSON object a line, so that tables and plots can be drawn again without a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Rows of a file; none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


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

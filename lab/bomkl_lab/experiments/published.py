"""The numbers the paper prints, and the rule that says whether ours agree with them."""

from __future__ import annotations

import functools
import math
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

PUBLISHED_RUNS = 10
PUBLISHED_BETA = {"susy": 300.0}


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over permutations.

    Examples
    --------
    >>> Summary.of([1.0, 2.0, 3.0])
    Summary(mean=2.0, std=1.0, runs=3)
    """

    mean: float
    std: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Summarise a sample; the deviation of a single value counts as zero."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0, len(values))


@dataclass(frozen=True)
class PublishedRow:
    """One line of a published table."""

    mistake: Summary
    svs: Summary
    seconds: float


@functools.cache
def _published() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def published_table(table: int) -> dict[str, dict[str, PublishedRow]]:
    """Return a published table: data set, then algorithm (by its full name), then the printed numbers.

    Examples
    --------
    >>> published_table(2)["a9a"]["BOMKC(BPAS)"].mistake.mean
    17.09
    """
    prefix = "BOMKC({})" if table == 2 else "{}"
    return {
        dataset: {
            prefix.format(name): PublishedRow(_summary(row["mistake"]), _summary(row["svs"]), row["seconds"])
            for name, row in block.items()
            if name != "B"
        }
        for dataset, block in _published()[f"table{table}"].items()
    }


def _summary(mean_and_std: tuple[float, float]) -> Summary:
    mean, std = mean_and_std
    return Summary(mean, std, PUBLISHED_RUNS)


def published_budget(dataset: str) -> int:
    """Return Table 2's budget per kernel."""
    return int(_published()["table2"][dataset]["B"])


@functools.cache
def published_differences() -> list[dict[str, Any]]:
    """Return the differences from the paper whose reason is known, as written in ``differences.toml``."""
    text = resources.files(__package__).joinpath("differences.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["difference"])


def known_reason(dataset: str, algorithm: str, quantity: str) -> str | None:
    """Return why a cell differs from the paper, where that is known; "*" in the list stands for any."""
    for entry in published_differences():
        if all(
            actual in entry[field] or "*" in entry[field]
            for field, actual in (("datasets", dataset), ("algorithms", algorithm), ("quantities", quantity))
        ):
            return str(entry["reason"])
    return None


def agrees(ours: Summary, paper: Summary) -> bool:
    """Tell whether two means agree: within two pooled standard errors, or within 2 % of the published value.

    Examples
    --------
    >>> agrees(Summary(30.0, 0.4, 10), Summary(30.19, 0.29, 10))
    True
    >>> agrees(Summary(31.6, 0.4, 10), Summary(34.8, 1.25, 10))
    False
    """
    freedom = ours.runs + paper.runs - 2
    pooled_variance = ((ours.runs - 1) * ours.std**2 + (paper.runs - 1) * paper.std**2) / freedom
    standard_error = math.sqrt(pooled_variance * (1 / ours.runs + 1 / paper.runs))
    difference = abs(ours.mean - paper.mean)
    return difference <= max(2 * standard_error, 0.02 * abs(paper.mean))

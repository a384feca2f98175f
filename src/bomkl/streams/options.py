"""How a stream is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bomkl._validation import (
    check_bool,
    check_choice,
    check_count,
    check_not_negative,
    is_finite_number,
    parameter_error,
)

FORMATS = ("svmlight", "csv", "tsv", "jsonl", "parquet", "arrow", "npz")


@dataclass(frozen=True)
class Options:
    """Settings of `open_stream`, checked; see there for their meaning."""

    format: str | None = None
    label: str | int | None = None
    labels: bool = True
    weight: str | int | None = None
    target: Literal["class", "number"] = "class"
    header: bool = True
    delimiter: str | None = None
    ignore: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    missing: str | float = "error"
    categorical: str = "vocabulary"
    buckets: int = 1024
    max_values: int = 1000
    zero_based: bool = False
    n_features: int | None = None
    on_bad_line: Literal["stop", "skip"] = "stop"
    block_rows: int = 4096
    flush_seconds: float = 0.2
    as_tables: bool = False

    def __post_init__(self) -> None:
        owner = "open_stream"
        if self.format is not None:
            check_choice(owner, "format", self.format, FORMATS)
        check_bool(owner, "labels", self.labels)
        check_bool(owner, "header", self.header)
        check_bool(owner, "zero_based", self.zero_based)
        check_choice(owner, "target", self.target, ("class", "number"))
        check_choice(owner, "categorical", self.categorical, ("vocabulary", "hash", "error"))
        check_choice(owner, "on_bad_line", self.on_bad_line, ("stop", "skip"))
        check_bool(owner, "as_tables", self.as_tables)
        check_not_negative(owner, "flush_seconds", self.flush_seconds)
        if self.missing not in ("error", "skip", "keep") and not is_finite_number(self.missing):
            raise parameter_error(owner, "missing", "'error', 'skip', 'keep' or a finite number", self.missing)
        if self.missing == "keep" and not self.as_tables:
            raise parameter_error(owner, "missing", "'error', 'skip' or a finite number in a matrix", self.missing)
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise parameter_error(owner, "delimiter", "one character", self.delimiter)
        check_count(owner, "buckets", self.buckets)
        check_count(owner, "max_values", self.max_values)
        check_count(owner, "block_rows", self.block_rows)
        if self.n_features is not None:
            check_count(owner, "n_features", self.n_features)

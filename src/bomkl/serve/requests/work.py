"""A request on its way through the service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bomkl.serve.model.columns import Columns
from bomkl.serve.storage.entry import Entry


@dataclass
class Work:
    rows: Sequence[Mapping[str, Any]]  # rows as they came; empty for labels
    where: Sequence[str]  # what messages call each row
    labels: Sequence[Any] | None = None  # labels to learn; None for predictions
    ids: Sequence[str] | None = None  # names of rows that wait for their label, or of the labels' rows
    key: str | None = None  # the idempotency key
    fingerprint: str = ""  # tells requests with the same key apart
    # Share of the numbers that should lie in an interval around each prediction, if one is asked for
    interval: float | None = None
    explain: bool = False  # whether reasons for each prediction are asked for
    facts: dict[str, Any] = field(default_factory=dict)  # what is written to the log together with the rows
    cells: list[list[Any]] = field(default_factory=list)
    columns: Columns | None = None
    entry: Entry | None = None
    waiters: list[asyncio.Future[Any]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.where)

    @property
    def keys(self) -> list[str]:
        """What the log remembers a request to learn by: its own key, and the rows whose labels it brings."""
        own = [self.key] if self.key else []
        return own if self.ids is None else own + [f"label:{identifier}" for identifier in self.ids]

"""What goes to the workers and what comes back; and errors that name the partition they came from."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.components.combination import Combination
from bomkl.auto.features.coding import Codes, Coding
from bomkl.auto.features.geometry import Float
from bomkl.auto.rounds.round_learner import RoundLearner
from bomkl.auto.rounds.sums import Sums
from bomkl.tables import TableEncoder
from bomkl.tables.cells import Kind
from bomkl.tables.counts import Counts
from bomkl.tables.notices import Notices

Labels = NDArray[Any]


@dataclass(frozen=True)
class Summary:
    """Rows of a partition, its columns, and the labels in it (None for numbers); rows of weight 0 do not count."""

    rows: int
    columns: int
    labels: Labels | None
    contents: tuple[int, ...] = ()  # checksums of the rows, an eighth at a time
    kinds: dict[Any, Kind] = field(default_factory=dict)  # what the columns of a table hold, where they are not empty


@dataclass(frozen=True)
class Piece:
    """Some rows of a partition: places `begin` to `end` in its drawn order."""

    partition: int
    rows: int  # of the whole partition
    begin: int
    end: int
    seed: int
    first: int = 0  # place of its first row in the round
    sent: int = 0  # first rows that growth learns from, and that are sent to the model

    def places(self) -> NDArray[np.int64]:
        """Numbers of the rows."""
        drawn = np.random.default_rng([self.seed, self.partition]).permutation(self.rows)
        return drawn[self.begin : self.end]


@dataclass(frozen=True)
class Static:
    """What workers need to know of a model once: a learner without its means and information."""

    learner: RoundLearner
    labels: Labels | None
    coding: Coding | None = None  # of the rows that growth learns from


@dataclass(frozen=True)
class Means:
    """What changes from round to round, and all that workers need of it."""

    w: list[Float]
    combination: Combination
    log_rows: int
    encoder: TableEncoder | None  # of tables


@dataclass(frozen=True)
class CodedRows:
    """Rows of a piece that growth learns from, and what the learner within said of them."""

    first: int  # place in the round
    codes: Codes
    y: Float
    weight: Float
    said: Float


@dataclass
class Gains:
    """What rows of a round add to a model: sums, and of tables counts of their categories and what did not fit."""

    sums: Sums
    counts: Counts | None
    notices: Notices = field(default_factory=Notices)
    coded: list[CodedRows] = field(default_factory=list)  # in any order

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.sums.rows

    def add(self, other: Gains) -> None:
        """Add those of other rows of the same round."""
        self.sums.add(other.sums)
        self.notices.add(other.notices)
        self.coded += other.coded
        if self.counts is not None and other.counts is not None:
            self.counts.add(other.counts)


def total(parts: Sequence[Gains]) -> Gains:
    """Add up gains of one round, which stay as they are; the order does not matter."""
    out = copy.deepcopy(parts[0])
    for each in parts[1:]:
        out.add(each)
    return out


class PartitionError(ValueError):
    """A partition that cannot be learned from; the message names it."""


@contextmanager
def named(partition: int, name: str | None = None) -> Iterator[None]:
    """Say in every error which partition it came from."""
    called = f"Partition {partition}" + ("" if name is None else f" ({name})")
    try:
        yield
    except PartitionError:
        raise
    except MemoryError as error:
        raise PartitionError(f"{called}: out of memory. Use smaller partitions.") from error
    except Exception as error:
        raise PartitionError(f"{called}: {error}") from error

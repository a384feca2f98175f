"""Learning from a table in many partitions, with any engine that can call a function on each of them.

A `Job` plans the work and holds the model; workers only call `drawn_rows` and `piece_sums`, which need nothing but the
rows of one partition. The head of the model learns from rows drawn from many partitions, and each round takes its rows
from partitions in a drawn order, each of them shuffled, so that sorted tables are no trap. Sums are whole numbers:
neither the number of workers nor the order in which their sums arrive changes a bit.

>>> import numpy as np
>>> from bomkl import AutoMKLClassifier
>>> from bomkl.partitions import Job, drawn_rows, piece_sums, summary
>>> rng = np.random.default_rng(0)
>>> tables = [(X := rng.normal(size=(500, 2)), X[:, 0] * X[:, 1] > 0) for _ in range(4)]
>>> job = Job(AutoMKLClassifier(budget=50, update="rounds", random_state=0), [summary(*table) for table in tables])
>>> job.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
>>> while pieces := job.next_round():
...     static, means = job.static(), job.means()
...     for piece in pieces:
...         job.add(piece_sums(static, means, piece, *tables[piece.partition]))
...     job.end_round()
>>> job.model.n_seen_, job.model.score(*tables[0]) > 0.9
(2000, True)
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.classifier import AutoMKLClassifier, label_codes
from bomkl.auto.combination import Combination
from bomkl.auto.component import RoundsComponent
from bomkl.auto.constants import PRUNE_AT
from bomkl.auto.geometry import Float
from bomkl.auto.information import Information
from bomkl.auto.regressor import AutoMKLRegressor
from bomkl.auto.rounds import RoundLearner
from bomkl.auto.rows import LARGEST
from bomkl.auto.sum_engine import CoreEngine, newton_parts
from bomkl.auto.sums import Sums, log_rows_of

GROUP = 8  # partitions that a round takes rows from at the same time
_HEAD_PARTITIONS = 64  # partitions that the head is drawn from, more where they are small
_MOST_LABELS = 1000

Labels = NDArray[Any]


@dataclass(frozen=True)
class Summary:
    """Rows of a partition, its columns, and the labels in it (None for numbers)."""

    rows: int
    columns: int
    labels: Labels | None


@dataclass(frozen=True)
class Piece:
    """Some rows of a partition: places `begin` to `end` in its drawn order."""

    partition: int
    rows: int  # of the whole partition
    begin: int
    end: int
    seed: int

    def places(self) -> NDArray[np.int64]:
        """Numbers of the rows."""
        drawn = np.random.default_rng([self.seed, self.partition]).permutation(self.rows)
        return drawn[self.begin : self.end]


@dataclass(frozen=True)
class Static:
    """What workers need to know of a model once: a learner without its means and information."""

    learner: RoundLearner
    labels: Labels | None


@dataclass(frozen=True)
class Means:
    """What changes from round to round, and all that workers need of it."""

    w: list[Float]
    combination: Combination
    log_rows: int


class PartitionError(ValueError):
    """A partition that cannot be learned from; the message names it."""


@contextmanager
def named(partition: int, name: str | None = None) -> Iterator[None]:
    """Say in every error which partition it came from."""
    try:
        yield
    except PartitionError:
        raise
    except MemoryError as error:
        raise MemoryError(f"Partition {partition}{_called(name)}: out of memory. Use smaller partitions.") from error
    except Exception as error:
        raise PartitionError(f"Partition {partition}{_called(name)}: {error}") from error


def _called(name: str | None) -> str:
    return "" if name is None else f" ({name})"


# ---------------------------------------------------------------- on the workers


def summary(X: Any, y: Any, regression: bool = False) -> Summary:
    """Count the rows of a partition and list its labels."""
    labels = None if regression else np.unique(np.asarray(y))
    if labels is not None and len(labels) > _MOST_LABELS:
        raise ValueError(f"y holds more than {_MOST_LABELS} different labels; these are not classes.")
    return Summary(int(X.shape[0]), int(X.shape[1]), labels)


def drawn_rows(piece: Piece, X: Any, y: Any) -> tuple[Any, Any]:
    """Rows and targets of a piece."""
    with named(piece.partition):
        _check_count(piece, X)
        places = piece.places()
        return X[places], np.asarray(y)[places]


def piece_sums(static: Static, means: Means, piece: Piece, X: Any, y: Any) -> Sums:
    """Add up the rows of a piece: the one thing that workers compute in a round."""
    with named(piece.partition):
        _check_count(piece, X)
        places = piece.places()
        X, y = X[places], np.asarray(y)[places]
        _check_numbers(X, places)
        learner = copy.copy(static.learner)
        learner.components = [
            RoundsComponent(each.name, each.features, Information.empty(each.regression.rank, w))
            for each, w in zip(newton_parts(static.learner), means.w, strict=True)
        ]
        learner.combination = copy.deepcopy(means.combination)  # some engines hand out arrays that cannot be written to
        targets = learner._targets(_codes(y, static.labels, places))
        return CoreEngine().sums(learner, X, targets, np.ones(len(places)), means.log_rows, map)[1]


def _check_count(piece: Piece, X: Any) -> None:
    if X.shape[0] != piece.rows:
        raise ValueError(f"it had {piece.rows} rows when they were counted, and has {X.shape[0]} now.")


def _check_numbers(X: Any, places: NDArray[np.int64]) -> None:
    values = X.data if hasattr(X, "indptr") else X
    if np.isfinite(values).all():
        return
    rows, columns = np.nonzero(~np.isfinite(X.toarray() if hasattr(X, "toarray") else np.asarray(X)))
    first = int(np.argmin(places[rows]))
    row, column = rows[first], columns[first]
    raise ValueError(f"row {places[row]}, column {column} holds {X[row, column]!r}; all cells must be finite numbers.")


def _codes(y: Any, labels: Labels | None, places: NDArray[np.int64]) -> Float:
    if labels is None:
        targets = np.asarray(y, dtype=np.float64)
        if not np.isfinite(targets).all():
            row = int(places[~np.isfinite(targets)].min())
            raise ValueError(f"row {row} has a target that is not a finite number.")
        return np.clip(targets, -LARGEST, LARGEST)
    codes = label_codes(np.asarray(y), labels)
    if (codes < 0).any():
        place = int(np.argmin(np.where(codes < 0, places, places.max() + 1)))
        label = np.asarray(y)[place : place + 1].tolist()[0]
        raise ValueError(f"row {places[place]} has the label {label!r}, which was not there when labels were listed.")
    return codes.astype(np.float64)


# ---------------------------------------------------------------- where the model is


class Job:
    """A model that learns from partitions, and how far it is.

    Parameters
    ----------
    model : AutoMKLClassifier or AutoMKLRegressor
        With ``update="rounds"``; a fitted one goes on learning.
    summaries : sequence of Summary
        One for each partition, in an order that does not change.
    """

    def __init__(self, model: Any, summaries: Sequence[Summary]) -> None:
        if not isinstance(model, AutoMKLClassifier | AutoMKLRegressor) or model.update != "rounds":
            raise ValueError('A Job learns with AutoMKLClassifier or AutoMKLRegressor with update="rounds".')
        model._check_parameters()
        self.model = model
        self.regression = isinstance(model, AutoMKLRegressor)
        self.counts = [each.rows for each in summaries]
        columns = {each.columns for each in summaries if each.rows}
        if len(columns) > 1:
            raise PartitionError(f"Partitions have different numbers of columns: {sorted(columns)}.")
        if not sum(self.counts):
            raise PartitionError("There are no rows in any of the partitions.")
        self.labels = None if self.regression else _all_labels(summaries)
        self.used = [0] * len(self.counts)
        if hasattr(model, "_learner"):
            self._learner().end_round()
        fresh = np.random.default_rng(None if model.random_state is None else [hash_seed(model), 1])
        self.seed = int(fresh.integers(2**62))
        self.sums: Sums | None = None
        self._static: Static | None = None

    @property
    def rows(self) -> int:
        """Rows of all partitions."""
        return sum(self.counts)

    @property
    def done(self) -> int:
        """Rows learned from so far."""
        return sum(self.used)

    def _order(self) -> list[int]:
        order = np.random.default_rng([self.seed, 2**31]).permutation(len(self.counts))
        return [int(i) for i in order if self.counts[i]]

    # ------------------------------------------------------------ the head

    def head_pieces(self) -> list[Piece]:
        """Pieces whose rows `learn_head` needs, in this order; none where the head is there already."""
        learner = getattr(self.model, "_learner", None)
        seen = 0 if learner is None else learner.seen
        wanted = min(max(PRUNE_AT * int(self.model.budget) - seen, 0), self.rows)
        if self.done or not wanted:
            return []
        chosen: list[int] = []
        available = 0
        for i in self._order():
            if len(chosen) >= _HEAD_PARTITIONS and available >= 2 * wanted:
                break
            chosen.append(i)
            available += self.counts[i]
        return [self._piece(i, size) for i, size in zip(chosen, self._shares(chosen, wanted), strict=True) if size]

    def learn_head(self, parts: Iterable[tuple[Any, Any]]) -> None:
        """Learn from the rows of `head_pieces`, in a drawn order."""
        pieces, parts = self.head_pieces(), list(parts)
        if not pieces:
            return
        X = np.vstack([np.asarray(X.toarray() if hasattr(X, "toarray") else X) for X, _ in parts])
        y = np.concatenate([np.asarray(y) for _, y in parts])
        order = np.random.default_rng([self.seed, 2**31 + 1]).permutation(len(y))
        where = np.concatenate([[piece.partition] * (piece.end - piece.begin) for piece in pieces])
        places = np.concatenate([piece.places() for piece in pieces])
        self._check_head(X, y, where, places)
        more = {} if self.regression else {"classes": self._classes()}
        self.model.partial_fit(X[order], y[order], **more)
        self._take(pieces)

    def _check_head(self, X: Any, y: Any, where: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        for partition in np.unique(where):
            own = where == partition
            with named(int(partition)):
                _check_numbers(X[own], places[own])
                _codes(y[own], self.labels, places[own])

    def _classes(self) -> Labels:
        assert self.labels is not None
        known = self.model.classes_ if hasattr(self.model, "classes_") else self.labels[:0]
        return np.unique(np.concatenate([known, self.labels]))

    # ------------------------------------------------------------ rounds

    def next_round(self) -> list[Piece]:
        """Pieces of the open round; none where all rows have been learned from."""
        if self.done == self.rows:
            return []
        learner = self._learner()
        wanted = min(learner.round_end() - learner.seen, self.rows - self.done)
        pieces: list[Piece] = []
        order = self._order()
        for first in range(0, len(order), GROUP):
            group = order[first : first + GROUP]
            left = sum(self.counts[i] - self.used[i] for i in group)
            sizes = self._shares(group, min(wanted, left))
            pieces += [self._piece(i, size) for i, size in zip(group, sizes, strict=True) if size]
            wanted -= sum(sizes)
            if not wanted:
                break
        return pieces

    def static(self) -> Static:
        """Return what workers need to know of the model once."""
        if self._static is None:
            self._static = Static(self._learner().without_information(), getattr(self.model, "_labels", None))
        return self._static

    def means(self) -> Means:
        """Return what workers need to know of the model in this round."""
        learner = self._learner()
        w = [each.regression.means() for each in newton_parts(learner)]
        return Means(w, learner.combination, log_rows_of(learner.round_end() - learner.round_start))

    def add(self, sums: Sums) -> None:
        """Add what a piece of the round gave; in any order."""
        if self.sums is None:
            self.sums = copy.deepcopy(sums)
        else:
            self.sums.add(sums)

    def end_round(self) -> None:
        """Learn what the pieces gave; raises where not every row of the round is in it, and nothing has changed."""
        pieces = self.next_round()
        expected = sum(piece.end - piece.begin for piece in pieces)
        sums, self.sums = self.sums, None
        if sums is None or sums.rows != expected:
            raise PartitionError(f"The round has {expected} rows, but {0 if sums is None else sums.rows} came back.")
        learner = self._learner()
        with ThreadPoolExecutor(min(len(learner.components), os.cpu_count() or 1)) as pool:  # workers are idle now
            learner.end_round_elsewhere(sums, pool.map)
        if not self.regression:
            self.model._mistakes += round(sums.combination_sums().combined_error)
        self._take(pieces)

    def _learner(self) -> RoundLearner:
        learner = self.model._learner
        assert isinstance(learner, RoundLearner)
        return learner

    # ------------------------------------------------------------ rows

    def _shares(self, partitions: list[int], wanted: int) -> list[int]:
        """Rows to take from each of some partitions, in proportion to what is left in them."""
        left = np.array([self.counts[i] - self.used[i] for i in partitions], dtype=np.int64)
        ends = [round(wanted * int(part) / max(int(left.sum()), 1)) for part in np.cumsum(left)]
        return [end - begin for begin, end in pairwise([0, *ends])]

    def _piece(self, partition: int, size: int) -> Piece:
        begin = self.used[partition]
        return Piece(partition, self.counts[partition], begin, begin + size, self.seed)

    def _take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self.used[piece.partition] += piece.end - piece.begin

    # ------------------------------------------------------------ going on later

    def notes(self) -> dict[str, Any]:
        """Where the job stands, as plain values to keep beside the model."""
        return {"counts": list(self.counts), "used": list(self.used), "seed": self.seed}

    def resume(self, model: Any, notes: dict[str, Any]) -> None:
        """Go on with a saved model where `notes` were taken; refuse other partitions."""
        if notes.get("counts") != self.counts:
            raise ValueError(
                "The checkpoint is of other partitions: their numbers of rows differ. Remove it to begin anew."
            )
        if model.get_params() != self.model.get_params():
            raise ValueError("The checkpoint is of a model with other settings. Remove it to begin anew.")
        self.model, self.used, self.seed = model, list(notes["used"]), int(notes["seed"])
        self._static = None


def hash_seed(model: Any) -> int:
    """Draw a number that the random state of a model decides, without changing it."""
    from sklearn.utils import check_random_state

    return int(copy.deepcopy(check_random_state(model.random_state)).randint(2**31 - 1))


def _all_labels(summaries: Sequence[Summary]) -> Labels:
    found = [each.labels for each in summaries if each.labels is not None and len(each.labels)]
    kinds = {labels.dtype.kind in "biuf" for labels in found}
    if len(kinds) > 1:
        raise PartitionError("Some partitions have numbers as labels and some have texts. Convert them first.")
    labels = np.unique(np.concatenate(found))
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        wrong = [each.labels is not None and not np.isfinite(each.labels).all() for each in summaries]
        raise PartitionError(f"Partition {wrong.index(True)} has a label that is not a finite number.")
    if len(labels) > _MOST_LABELS:
        raise PartitionError(f"There are more than {_MOST_LABELS} different labels; these are not classes.")
    return labels


# ---------------------------------------------------------------- any engine


class Runner(Protocol):
    """An engine: it calls functions of this module on partitions, wherever they are."""

    def head(self, pieces: list[Piece]) -> list[tuple[Any, Any]]:
        """`drawn_rows` of each piece, in order."""

    def sums(self, job: Job, pieces: list[Piece]) -> Iterable[Sums]:
        """`piece_sums` of all pieces, added up in any way."""


def learn_partitions(job: Job, runner: Runner, save: Callable[[], None], progress: Callable[[int], None]) -> None:
    """Learn from all rows that are left; `save` is called after the head and after each round."""
    if pieces := job.head_pieces():
        job.learn_head(runner.head(pieces))
        progress(sum(piece.end - piece.begin for piece in pieces))
        save()
    while pieces := job.next_round():
        for sums in runner.sums(job, pieces):
            job.add(sums)
            progress(sums.rows)
        job.end_round()
        save()

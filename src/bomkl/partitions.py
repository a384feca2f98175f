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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._validation import first_not_a_number
from bomkl.auto.classifier import AutoMKLClassifier, label_codes
from bomkl.auto.combination import Combination
from bomkl.auto.component import RoundsComponent
from bomkl.auto.constants import LARGEST, PRUNE_AT
from bomkl.auto.device import engine_for
from bomkl.auto.estimator import WEIGHT_LIMIT
from bomkl.auto.geometry import Float
from bomkl.auto.information import Information
from bomkl.auto.regressor import AutoMKLRegressor
from bomkl.auto.rounds import RoundLearner
from bomkl.auto.sum_engine import newton_parts
from bomkl.auto.sums import Sums, log_rows_of
from bomkl.tables import TableEncoder
from bomkl.tables.cells import is_gap
from bomkl.tables.counts import Counts
from bomkl.tables.errors import TableError
from bomkl.tables.frames import Table, is_table, read_table, stacked

GROUP = 8  # partitions that a round takes rows from at the same time
_HEAD_PARTITIONS = 64  # partitions that the head is drawn from, more where they are small
_MOST_LABELS = 1000

Labels = NDArray[Any]


@dataclass(frozen=True)
class Summary:
    """Rows of a partition, its columns, and the labels in it (None for numbers); rows of weight 0 do not count."""

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
    encoder: TableEncoder | None  # of tables


@dataclass
class Gains:
    """What rows of a round add to a model: sums, and of tables counts of their categories."""

    sums: Sums
    counts: Counts | None

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.sums.rows

    def add(self, other: Gains) -> None:
        """Add those of other rows of the same round."""
        self.sums.add(other.sums)
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


# ---------------------------------------------------------------- on the workers


@dataclass(frozen=True)
class Rows:
    """Rows of a partition that count: those whose weight is not 0."""

    X: Any  # a matrix, a CSR matrix, or a Table
    y: NDArray[Any]
    weight: Float
    numbers: NDArray[np.int64]  # in the partition, for messages

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Check what a partition holds."""
        X, y = features(X), np.asarray(y).reshape(-1)
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} rows, but y has {len(y)}.")
        numbers = np.arange(len(y))
        if sample_weight is None:
            return cls(X, y, np.ones(len(y)), numbers)
        weight = np.asarray(sample_weight, dtype=np.float64).reshape(-1)
        if len(weight) != len(y):
            raise ValueError(f"X has {len(y)} rows, but sample_weight has {len(weight)}.")
        wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if len(wrong):
            first = wrong[0]
            raise ValueError(f"row {first} has the weight {weight[first]}; weights must be finite and not negative.")
        if weight.all():
            return cls(X, y, np.minimum(weight, WEIGHT_LIMIT), numbers)
        return cls(X, y, np.minimum(weight, WEIGHT_LIMIT), numbers).take(weight > 0)

    def take(self, rows: NDArray[Any]) -> Self:
        """Take some rows, by a mask or by their numbers."""
        return type(self)(self.X[rows], self.y[rows], self.weight[rows], self.numbers[rows])

    def drawn(self, piece: Piece) -> Self:
        """Take the rows of a piece."""
        if len(self.y) != piece.rows:
            raise ValueError(f"it had {piece.rows} rows when they were counted, and has {len(self.y)} now.")
        return self.take(piece.places())


def features(X: Any) -> Any:
    """Rows of a partition as a matrix, a CSR matrix, or a table that is still to be encoded."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if is_table(X):
        return read_table(X)
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"X must be a table or a matrix of numbers. Got an array of shape {X.shape} of {X.dtype}.")
    return X


def summary(X: Any, y: Any, sample_weight: Any = None, *, regression: bool = False) -> Summary:
    """Count the rows of a partition and list its labels."""
    rows = Rows.of(X, y, sample_weight)
    labels = None if regression else _labels(rows)
    if labels is not None and len(labels) > _MOST_LABELS:
        raise ValueError(f"y holds more than {_MOST_LABELS} different labels; these are not classes.")
    return Summary(len(rows.y), int(rows.X.shape[1]), labels)


def _labels(rows: Rows) -> Labels:
    if rows.y.dtype == object:
        gaps = [is_gap(label) for label in rows.y.tolist()]
        if any(gaps):
            raise ValueError(f"row {rows.numbers[gaps.index(True)]} has no label.")
    return np.unique(rows.y)


def drawn_rows(piece: Piece, X: Any, y: Any, sample_weight: Any = None) -> Rows:
    """Rows of a piece, for `Job.learn_head`."""
    with named(piece.partition):
        return Rows.of(X, y, sample_weight).drawn(piece)


def piece_sums(static: Static, means: Means, piece: Piece, X: Any, y: Any, sample_weight: Any = None) -> Gains:
    """Add up the rows of a piece: the one thing that workers compute in a round."""
    with named(piece.partition):
        rows = Rows.of(X, y, sample_weight).drawn(piece)
        codes = _codes(rows.y, static.labels, rows.numbers)
        matrix, counts = rows.X, None
        if means.encoder is None:
            _check_numbers(matrix, rows.numbers)
        else:
            matrix = _encoded(means.encoder, rows)
            counts = Counts.of(means.encoder, rows.X, codes)
        learner = copy.copy(static.learner)
        learner.components = [
            RoundsComponent(each.name, each.features, Information.empty(each.regression.rank, w))
            for each, w in zip(newton_parts(static.learner), means.w, strict=True)
        ]
        learner.combination = copy.deepcopy(means.combination)  # some engines hand out arrays that cannot be written to
        targets = learner._targets(codes)
        return Gains(
            engine_for(learner.device).sums(learner, matrix, targets, rows.weight, means.log_rows, map)[1], counts
        )


def _encoded(encoder: TableEncoder, rows: Rows) -> Float:
    if not isinstance(rows.X, Table):
        raise ValueError("it is a matrix, but the first partitions were tables.")
    try:
        return encoder.transform(rows.X)
    except TableError as error:
        raise _with_row(error, rows.numbers) from error


def _with_row(error: TableError, numbers: NDArray[np.int64]) -> TableError:
    """Name the row of the partition rather than that of the piece."""
    if error.row is None:
        return error
    return TableError(str(error).replace(f"in row {error.row} instead", f"in row {numbers[error.row]} instead"))


def _check_numbers(X: Any, numbers: NDArray[np.int64]) -> None:
    if isinstance(X, Table):
        raise ValueError("it is a table, but the first partitions were matrices.")
    values = X.data if hasattr(X, "indptr") else X
    if np.isfinite(values).all():
        return
    rows, columns = np.nonzero(~np.isfinite(X.toarray() if hasattr(X, "toarray") else np.asarray(X)))
    first = int(np.argmin(numbers[rows]))
    row, column = rows[first], columns[first]
    raise ValueError(f"row {numbers[row]}, column {column} holds {X[row, column]!r}; all cells must be finite numbers.")


def _codes(y: Any, labels: Labels | None, numbers: NDArray[np.int64]) -> Float:
    if labels is None:
        try:
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            wrong = first_not_a_number(y.tolist())
            row = numbers[y.tolist().index(wrong)]
            raise ValueError(f"row {row} has the target {wrong!r}, which is not a number.") from None
        outside = ~(np.abs(targets) <= LARGEST)
        if outside.any():
            place = int(np.argmin(np.where(outside, numbers, numbers.max() + 1)))
            raise ValueError(
                f"row {numbers[place]} has the target {targets[place]}; targets must be numbers within {LARGEST:g}."
            )
        return targets
    codes = label_codes(np.asarray(y), labels)
    if (codes < 0).any():
        place = int(np.argmin(np.where(codes < 0, numbers, numbers.max() + 1)))
        label = np.asarray(y)[place : place + 1].tolist()[0]
        raise ValueError(f"row {numbers[place]} has the label {label!r}, which was not there when labels were listed.")
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
        self.gains: Gains | None = None
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

    def learn_head(self, parts: Iterable[Rows]) -> None:
        """Learn from the rows of `head_pieces`, in a drawn order."""
        pieces, parts = self.head_pieces(), list(parts)
        if not pieces:
            return
        tables = isinstance(parts[0].X, Table)
        for piece, rows in zip(pieces, parts, strict=True):
            with named(piece.partition):
                if isinstance(rows.X, Table) != tables:
                    raise ValueError("some partitions are tables and some are matrices; they must be all alike.")
                if not tables:
                    _check_numbers(rows.X, rows.numbers)
                _codes(rows.y, self.labels, rows.numbers)
        X = stacked([rows.X for rows in parts]) if tables else np.vstack([_dense(rows.X) for rows in parts])
        y, weight, numbers = (
            np.concatenate([getattr(rows, name) for rows in parts]) for name in ("y", "weight", "numbers")
        )
        order = np.random.default_rng([self.seed, 2**31 + 1]).permutation(len(y))
        more = {} if self.regression else {"classes": self._classes()}
        try:
            self.model.partial_fit(X[order], y[order], sample_weight=weight[order], **more)
        except TableError as error:
            if error.row is None:
                raise
            where = np.repeat([piece.partition for piece in pieces], [len(rows.y) for rows in parts])[order]
            with named(int(where[error.row])):
                raise _with_row(error, numbers[order]) from error
        self._take(pieces)

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
        log_rows = log_rows_of(learner.round_end() - learner.round_start)
        return Means(w, learner.combination, log_rows, self.model.encoder_)

    def add(self, gains: Gains) -> None:
        """Add what a piece of the round gave; in any order."""
        if self.gains is None:
            self.gains = copy.deepcopy(gains)
        else:
            self.gains.add(gains)

    def end_round(self) -> None:
        """Learn what the pieces gave; raises where not every row of the round is in it, and nothing has changed."""
        pieces = self.next_round()
        expected = sum(piece.end - piece.begin for piece in pieces)
        gains, self.gains = self.gains, None
        if gains is None or gains.rows != expected:
            raise PartitionError(f"The round has {expected} rows, but {0 if gains is None else gains.rows} came back.")
        learner = self._learner()
        with ThreadPoolExecutor(min(len(learner.components), os.cpu_count() or 1)) as pool:  # workers are idle now
            learner.end_round_elsewhere(gains.sums, pool.map)
        if gains.counts is not None:
            self.model._encoder = gains.counts.learned(self.model._encoder)
        if not self.regression:
            self.model._mistakes += round(gains.sums.combination_sums().combined_error)
        self._take(pieces)

    def _learner(self) -> RoundLearner:
        learner = self.model._learner
        assert isinstance(learner, RoundLearner)
        learner.use(self.model.device)
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


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


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

_IDLE_ATTEMPTS = 2  # in a row in which workers died and nothing was done; Dask lets four die for each

Call = tuple[Callable[..., Any], list[int], tuple[Any, ...]]  # a function, the partitions it needs, other arguments


class Runner(ABC):
    """An engine: it calls functions of this module on partitions, wherever they are."""

    @abstractmethod
    def attempt(self, calls: dict[int, Call]) -> Iterator[tuple[int, Any]]:
        """Yield results as they are ready, by number; those whose workers die are left out."""

    @abstractmethod
    def gains(self, job: Job, pieces: list[Piece]) -> Iterable[Gains]:
        """`piece_sums` of all pieces, added up in any way."""

    def place(self, partition: int) -> str | None:
        """Say where a partition is, for messages."""
        return None

    def summaries(self, count: int, regression: bool, done: Callable[[int], Any]) -> list[Summary]:
        """`summary` of each partition."""
        found: dict[int, Summary] = {}
        for i, each in self.results([(_summary, [i], (i, regression)) for i in range(count)]):
            found[i] = each
            done(1)
        return [found[i] for i in range(count)]

    def head(self, pieces: list[Piece]) -> list[Rows]:
        """`drawn_rows` of each piece, in order."""
        found = dict(self.results([(_drawn_rows, [piece.partition], (piece,)) for piece in pieces]))
        return [found[i] for i in range(len(pieces))]

    def results(self, calls: list[Call]) -> Iterator[tuple[int, Any]]:
        """Results of calls as they are ready; those whose workers died begin again."""
        left, idle = dict(enumerate(calls)), 0
        while left:
            before = len(left)
            for i, result in self.attempt(dict(left)):
                del left[i]
                yield i, result
            idle = 0 if len(left) < before else idle + 1
            if idle == _IDLE_ATTEMPTS:
                with named(next(iter(left.values()))[1][0], self.place(next(iter(left.values()))[1][0])):
                    raise ValueError(
                        "workers died again and again while they worked on it, most likely for want of memory. Use "
                        "smaller partitions, fewer workers, or workers with more memory."
                    )


def _summary(table: tuple[Any, ...], number: int, regression: bool) -> Summary:
    with named(number):
        return summary(*table, regression=regression)


def _drawn_rows(table: tuple[Any, ...], piece: Piece) -> Rows:
    return drawn_rows(piece, *table)


def learn_partitions(job: Job, runner: Runner, save: Callable[[], None], progress: Callable[[int], None]) -> None:
    """Learn from all rows that are left; `save` is called after the head and after each round."""
    if pieces := job.head_pieces():
        job.learn_head(runner.head(pieces))
        progress(sum(piece.end - piece.begin for piece in pieces))
        save()
    while pieces := job.next_round():
        for gains in runner.gains(job, pieces):
            job.add(gains)
            progress(gains.rows)
        job.end_round()
        save()

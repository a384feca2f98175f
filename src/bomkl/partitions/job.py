"""Where the model is: which rows come next, and what it learns from what the workers add up."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from bomkl._support.limits import MOST_CLASSES
from bomkl.auto.build import learner_of_rows
from bomkl.auto.constants import PRUNE_AT
from bomkl.auto.estimators.class_learning import mistaken
from bomkl.auto.estimators.classifier import AutoMKLClassifier
from bomkl.auto.estimators.regressor import AutoMKLRegressor
from bomkl.auto.growth.round_growth import MOST_ROWS, RoundGrowthLearner
from bomkl.auto.learner import Learner
from bomkl.auto.rounds.engine import newton_parts
from bomkl.auto.rounds.round_learner import RoundLearner
from bomkl.auto.rounds.sums import log_rows_of
from bomkl.partitions.pieces import CodedRows, Gains, Labels, Means, PartitionError, Piece, Static, Summary, named
from bomkl.partitions.rows import Rows, check_numbers, codes_of
from bomkl.tables.cells import Kind
from bomkl.tables.errors import TableError, with_row
from bomkl.tables.frames import Table, stacked

GROUP = 8  # partitions that a round takes rows from at the same time
_PLURALS: dict[Kind, str] = {"number": "numbers", "boolean": "booleans", "date": "dates", "category": "strings"}
_HEAD_PARTITIONS = 64  # partitions that the head is drawn from, more where they are small


class Job:
    """A model that learns from partitions, and how far it has come.

    Parameters
    ----------
    model : AutoMKLClassifier or AutoMKLRegressor
        A model with ``update="rounds"``. If it has learned before, it goes on.
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
        self.contents = [list(each.contents) for each in summaries]
        columns = {each.columns for each in summaries if each.rows}
        if len(columns) > 1:
            raise PartitionError(f"Partitions have different numbers of columns: {sorted(columns)}.")
        _check_kinds(summaries, model.types or {})
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
        """Return the pieces whose rows `learn_head` needs, in order; none if the model has its first rows already."""
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
        """Learn from the rows of `head_pieces`, in a random order."""
        pieces, parts = self.head_pieces(), list(parts)
        if not pieces:
            return
        tables = isinstance(parts[0].X, Table)
        for piece, rows in zip(pieces, parts, strict=True):
            with named(piece.partition):
                if isinstance(rows.X, Table) != tables:
                    raise ValueError("some partitions are tables and some are matrices; they must be all alike.")
                if not tables:
                    check_numbers(rows.X, rows.numbers)
                codes_of(rows.y, self.labels, rows.numbers)
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
                raise with_row(error, numbers[order]) from error
        self._take(pieces)

    def _classes(self) -> Labels:
        assert self.labels is not None
        known = self.model.classes_ if hasattr(self.model, "classes_") else self.labels[:0]
        return np.unique(np.concatenate([known, self.labels]))

    # ------------------------------------------------------------ rounds

    def next_round(self) -> list[Piece]:
        """Return the pieces of the open round; none after the last row."""
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
        return self._with_rows_sent(pieces)

    def _with_rows_sent(self, pieces: list[Piece]) -> list[Piece]:
        """Tell pieces their place in the round, and how many of their rows growth learns from."""
        if self._growth() is None:
            return pieces
        ends = np.cumsum([piece.end - piece.begin for piece in pieces])
        sent = [int(end) * min(MOST_ROWS, int(ends[-1])) // int(ends[-1]) for end in ends]
        places = zip(pairwise([0, *ends.tolist()]), pairwise([0, *sent]), pieces, strict=True)
        return [replace(piece, first=first, sent=to - begin) for (first, _), (begin, to), piece in places]

    def static(self) -> Static:
        """Return what workers need to know of the model once."""
        if self._static is None:
            growth = self._growth()
            coding = None if growth is None else growth.coding
            self._static = Static(self._learner().without_information(), getattr(self.model, "_labels", None), coding)
        return self._static

    def means(self) -> Means:
        """Return what workers need to know of the model in this round."""
        learner = self._learner()
        w = [each.regression.means() for each in newton_parts(learner)]
        log_rows = log_rows_of(learner.round_end() - learner.round_start)
        return Means(w, learner.combination, log_rows, self.model.encoder_)

    def add(self, gains: Gains) -> None:
        """Add the sums of a piece of the round, in any order."""
        if self.gains is None:
            self.gains = copy.deepcopy(gains)
        else:
            self.gains.add(gains)

    def end_round(self) -> None:
        """Learn from the sums of the round. If rows are missing, raise an error and change nothing."""
        pieces = self.next_round()
        expected = sum(piece.end - piece.begin for piece in pieces)
        gains, self.gains = self.gains, None
        if gains is None or gains.rows != expected:
            raise PartitionError(f"The round has {expected} rows, but {0 if gains is None else gains.rows} came back.")
        gains.notices.warn()
        learner = self.model._learner.fork()  # takes the place of the other when all went well
        rounds, wrong = self._rounds(learner), 0
        with ThreadPoolExecutor(min(len(rounds.components), os.cpu_count() or 1)) as pool:  # workers are idle now
            rounds.learn_round(gains.sums, pool.map)
        if not self.regression:
            wrong = round(gains.sums.combination_sums().combined_error)
        if isinstance(learner, RoundGrowthLearner):
            wrong += self._let_grow(learner, gains.coded)
        encoder = None if gains.counts is None else gains.counts.learned(self.model._encoder)
        self.model._learner = learner
        if encoder is not None:
            self.model._encoder = encoder
        if not self.regression:
            self.model._mistakes += wrong
        self._take(pieces)

    def _let_grow(self, growth: RoundGrowthLearner, parts: list[CodedRows]) -> int:
        """Let growth learn from the rows that were sent, in a random order: partitions may be sorted.

        Returns how many more mistakes it made than the learner within, whose mistakes have been counted.
        """
        if not parts:
            return 0
        parts = sorted(parts, key=lambda each: each.first)
        order = np.random.default_rng([self.seed, 2**31 + 2, growth.seen]).permutation(sum(len(e.y) for e in parts))
        codes, y, weight, said = (
            np.concatenate([getattr(each, name) for each in parts])[order] for name in ("codes", "y", "weight", "said")
        )
        scores = growth.take(codes, y, weight, said, coded=True)
        return 0 if self.regression else int(mistaken(scores, y).sum()) - int(mistaken(said, y).sum())

    def _learner(self) -> RoundLearner:
        return self._rounds(self.model._learner)

    def _rounds(self, learner: Learner) -> RoundLearner:
        """Return the learner in rounds within a learner, on its device."""
        rounds = cast(RoundLearner, learner_of_rows(learner))
        rounds.use(self.model.device)
        return rounds

    def _growth(self) -> RoundGrowthLearner | None:
        """Trees and a network around the rounds; models of earlier versions have none."""
        learner = self.model._learner
        return learner if isinstance(learner, RoundGrowthLearner) else None

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
        """Return how far the job has come, as plain values to save with the model."""
        return {
            "counts": list(self.counts),
            "contents": list(self.contents),
            "used": list(self.used),
            "seed": self.seed,
        }

    def resume(self, model: Any, notes: dict[str, Any]) -> None:
        """Go on with a saved model and its notes; the partitions must be the same."""
        if notes.get("counts") != self.counts:
            raise ValueError(
                "The checkpoint is of other partitions: their numbers of rows differ. Remove it to begin anew."
            )
        self._check_contents(notes.get("contents", self.contents), notes["used"])  # files of older versions have none
        if model.get_params() != self.model.get_params():
            raise ValueError("The checkpoint is of a model with other settings. Remove it to begin anew.")
        self.model, self.used, self.seed = model, list(notes["used"]), int(notes["seed"])
        self._static = None

    def _check_contents(self, before: list[list[int]], used: list[int]) -> None:
        """Refuse other rows, and any change of a partition that is learned from whole.

        In others some may have been repaired: a row that was an error has not been learned from.
        """
        for number, (old, new) in enumerate(zip(before, self.contents, strict=True)):
            changed = sum(one != other for one, other in zip(old, new, strict=True))
            if 2 * changed > len(new) or (changed and used[number] == self.counts[number]):
                moved = sorted(before) == sorted(self.contents)
                raise ValueError(
                    f"The checkpoint is of {'the same partitions in another order' if moved else 'other rows'}: "
                    f"partition {number} is the first that differs. Give the partitions as they were to go on, or "
                    "remove the checkpoint to begin anew."
                )


def hash_seed(model: Any) -> int:
    """Draw a number that the random state of a model decides, without changing it."""
    from sklearn.utils import check_random_state

    return int(copy.deepcopy(check_random_state(model.random_state)).randint(2**31 - 1))


def _check_kinds(summaries: Sequence[Summary], declared: Mapping[Any, Any]) -> None:
    """Refuse a column that holds numbers in one partition and strings or dates in another."""
    first: dict[Any, tuple[int, Kind]] = {}
    for number, each in enumerate(summaries):
        for name, kind in each.kinds.items():
            where, before = first.setdefault(name, (number, kind))
            if {kind, before} in ({"number", "category"}, {"number", "date"}) and name not in declared:
                raise PartitionError(
                    f"Partition {number}: the column {name!r} holds {_PLURALS[kind]}, but {_PLURALS[before]} in "
                    f"partition {where}. Convert it first, or declare what it holds with types={{{name!r}: ...}}."
                )


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _all_labels(summaries: Sequence[Summary]) -> Labels:
    found = [each.labels for each in summaries if each.labels is not None and len(each.labels)]
    kinds = {labels.dtype.kind in "biuf" for labels in found}
    if len(kinds) > 1:
        raise PartitionError("Some partitions have numbers as labels and some have strings. Convert them first.")
    labels = np.unique(np.concatenate(found))
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        wrong = [each.labels is not None and not np.isfinite(each.labels).all() for each in summaries]
        raise PartitionError(f"Partition {wrong.index(True)} has a label that is not a finite number.")
    if len(labels) > MOST_CLASSES:
        raise PartitionError(f"There are more than {MOST_CLASSES} different labels; these are not classes.")
    return labels

"""What workers do with the rows of one partition: check them, count them, draw some, add them up."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._support.checksums import checksum
from bomkl._support.limits import LARGEST, MOST_CLASSES
from bomkl._support.validation import check_sparse, first_not_a_number
from bomkl.auto.components.component import RoundsComponent
from bomkl.auto.components.information import Information
from bomkl.auto.device import engine_for
from bomkl.auto.estimators.labels import label_codes
from bomkl.auto.features.geometry import Float
from bomkl.auto.rounds.engine import newton_parts
from bomkl.auto.rows.arrays import counted, dense_rows
from bomkl.partitions.pieces import CodedRows, Gains, Labels, Means, Piece, Static, Summary, named
from bomkl.tables import TableEncoder
from bomkl.tables.cells import Kind, kind_of
from bomkl.tables.counts import Counts
from bomkl.tables.errors import TableError, with_row
from bomkl.tables.frames import Table, is_table, read_table
from bomkl.tables.notices import Notices
from bomkl.tables.numbers import is_gap

_CHECKSUMS = 8  # of a partition


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
            return cls(X, y, counted(weight), numbers)
        return cls(X, y, counted(weight), numbers).take(weight > 0)

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
        return check_sparse(X)
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
    if labels is not None and len(labels) > MOST_CLASSES:
        raise ValueError(f"y holds more than {MOST_CLASSES} different labels; these are not classes.")
    return Summary(len(rows.y), int(rows.X.shape[1]), labels, _contents(rows), _kinds(rows.X))


def _contents(rows: Rows) -> tuple[int, ...]:
    places = np.array_split(np.arange(len(rows.y)), min(_CHECKSUMS, max(len(rows.y), 1)))
    return tuple(_content(rows.take(each)) for each in places)


def _content(rows: Rows) -> int:
    """Checksum of rows, targets and weights."""
    if isinstance(rows.X, Table):
        columns = [cells.values for cells in rows.X.columns.values()]
    else:
        columns = [rows.X.data, rows.X.indices, rows.X.indptr] if hasattr(rows.X, "indptr") else [rows.X]
    content = 0
    for values in (*columns, rows.y, rows.weight):
        content = checksum(values, content)
    return content


def _kinds(X: Any) -> dict[Any, Kind]:
    """Tell what each column of a table holds: what the table says, else what its first value is."""
    if not isinstance(X, Table):
        return {}
    found: dict[Any, Kind] = {}
    for name, cells in X.columns.items():
        first = next((value for value in cells.values if not is_gap(value)), None)
        kind = cells.kind or ("category" if isinstance(first, str) else kind_of(first))
        if first is not None and kind is not None:
            found[name] = kind
    return found


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
        codes = codes_of(rows.y, static.labels, rows.numbers)
        matrix, counts, notices = rows.X, None, Notices()
        if means.encoder is None:
            check_numbers(matrix, rows.numbers)
        else:
            matrix, notices = _encoded(means.encoder, rows)
            counts = Counts.of(means.encoder, rows.X, codes)
        learner = copy.copy(static.learner)
        learner.components = [
            RoundsComponent(each.name, each.features, Information.empty(each.regression.rank, w))
            for each, w in zip(newton_parts(static.learner), means.w, strict=True)
        ]
        learner.combination = copy.deepcopy(means.combination)  # some engines hand out arrays that cannot be written to
        targets = learner.targets(codes)
        scores, sums = engine_for(learner.device).sums(learner, matrix, targets, rows.weight, means.log_rows, map)
        coded = []
        if static.coding is not None and piece.sent:
            sent = slice(0, piece.sent)
            said = scores[sent] * learner.spread + learner.centre
            cells = static.coding(dense_rows(matrix, 0, piece.sent))
            coded.append(CodedRows(piece.first, cells, codes[sent], rows.weight[sent], said))
        return Gains(sums, counts, notices, coded)


def _encoded(encoder: TableEncoder, rows: Rows) -> tuple[Float, Notices]:
    if not isinstance(rows.X, Table):
        raise ValueError("it is a matrix, but the first partitions were tables.")
    try:
        return encoder.encode_and_note(rows.X)
    except TableError as error:
        raise with_row(error, rows.numbers) from error


def check_numbers(X: Any, numbers: NDArray[np.int64]) -> None:
    """Refuse cells that are not finite; `numbers` are those of the rows in their partition."""
    if isinstance(X, Table):
        raise ValueError("it is a table, but the first partitions were matrices.")
    values = X.data if hasattr(X, "indptr") else X
    if np.isfinite(values).all():
        return
    rows, columns = np.nonzero(~np.isfinite(X.toarray() if hasattr(X, "toarray") else np.asarray(X)))
    first = int(np.argmin(numbers[rows]))
    row, column = rows[first], columns[first]
    raise ValueError(f"row {numbers[row]}, column {column} holds {X[row, column]!r}; all cells must be finite numbers.")


def codes_of(y: Any, labels: Labels | None, numbers: NDArray[np.int64]) -> Float:
    """Targets as numbers, or the place of each label among `labels`; refuse what is neither."""
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

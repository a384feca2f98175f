"""`TableEncoder`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bomkl._repr import ShowsState
from bomkl._validation import check_choice, check_count
from bomkl.tables.cells import Kind, check_kinds, is_gap, kind_of_cells
from bomkl.tables.columns import LARGEST, Change, Column, Targets, column_width, first_kind
from bomkl.tables.errors import TableError
from bomkl.tables.filling import WIDEST, Filling, Layout
from bomkl.tables.frames import Cells, Table, read_table
from bomkl.tables.values import GAP, Float, Values

STATE_VERSION = 2  # 1 had no value seen last and no rows alike
TARGETS = {None: 0, "number": 1, "class": 3}  # sums of targets a category
ONE_HOT_PER_CATEGORY = 8  # columns of zeros and ones that the values of one column may take, and that it adds
ONE_HOT_PER_OTHER = 1  # what any other column adds, for its gap


@dataclass(frozen=True)
class TargetSums:
    """Sums over the targets learned.

    Parameters
    ----------
    rows : int
        How many.
    shift : float
        The first of them where they are numbers: sums are of differences from it.
    sums, squares : ndarray of shape (n_targets,)
        Sums of the targets and of their squares.
    """

    rows: int
    shift: float
    sums: Float
    squares: Float

    def over(
        self, places: Sequence[int], amounts: Sequence[float], learned: NDArray[np.bool_]
    ) -> tuple[Targets, TargetSums]:
        """Give the means and deviations before each row of a block, and the sums after it."""
        n, width = len(places), len(self.sums)
        chosen = learned.tolist()
        shift = self.shift
        if not self.rows and shift == 0.0 and width == 1 and any(chosen):
            shift = amounts[chosen.index(True)]
        # sums run in the order of the rows from where the last block ended, so that the split changes no bit
        sums, squares = np.zeros((n + 1, width)), np.zeros((n + 1, width))
        sums[0], squares[0] = self.sums, self.squares
        for row, (place, amount) in enumerate(zip(places, amounts, strict=True), 1):
            if place >= 0 and chosen[row - 1]:
                sums[row, place] = amount - shift
                squares[row, place] = (amount - shift) ** 2
        sums, squares = np.cumsum(sums, axis=0), np.cumsum(squares, axis=0)
        rows = self.rows + np.concatenate([[0], np.cumsum(learned)])
        counts = np.maximum(rows[:-1], 1)[:, None]
        means = sums[:-1] / counts
        deviations = np.sqrt(np.maximum(squares[:-1] / counts - means * means, 0.0))
        means = np.where(rows[:-1, None] > 0, means + shift, 0.0)  # the first row does not know its own target
        return Targets(places, amounts, means, deviations), TargetSums(int(rows[-1]), shift, sums[-1], squares[-1])


@dataclass(frozen=True)
class Undecided:
    """A column that had no value yet and no type: rows before its first value have zeros in its place."""

    name: Any
    at: int
    width: int

    def feature_names(self) -> list[str]:
        """Name its columns of numbers."""
        return [f"{self.name}_{at}" for at in range(self.width)]


@dataclass
class Update:
    """What learning from a block changes, held apart until `TableEncoder.apply`."""

    columns: list[Column | Undecided]
    changes: list[Change | None]
    claims: list[tuple[int, int, int]]
    filling: Filling
    labels: list[Any]
    targets_seen: TargetSums
    n_rows: int


class TableEncoder(ShowsState, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn tables with texts, gaps and dates into numbers, while they stream.

    Numbers stay as they are; a gap becomes the mean of the values so far. Categories become the mean target of the rows
    of that category so far, drawn towards the mean of all rows, and the first values of a column that come up more than
    once, its gap among them, have a column of zeros and ones each. Dates become a trend and cycles of the hour, the
    weekday and the day of the year.

    A row is encoded with what the rows before it showed, never with its own target. The result does not depend on how
    the rows are split into calls. Its width is fixed by the first row and memory by `max_values`.

    Parameters
    ----------
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns hold. Others are taken as the table has them, or as their first cells look.
    target : {"class", "number"} or None, default=None
        What `y` holds; None for an encoder that does not use it.
    one_hot : int, default=64
        Most columns of zeros and ones, which all columns of the table share, no more than 8 of them for one column.
    max_values : int, default=10000
        Most categories of a column that are told apart; those that come later share 255 places.

    Attributes
    ----------
    n_features_in_ : int
        Columns of the table.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names.
    kinds_ : dict of column to kind
        What they hold; None where a column has shown no value yet.
    n_features_out_ : int
        Columns of numbers.
    n_rows_ : int
        Rows learned.

    Examples
    --------
    >>> from bomkl.tables import TableEncoder
    >>> encoder = TableEncoder(target="class", one_hot=2)
    >>> rows = [{"size": 3.0, "colour": "red"}, {"size": None, "colour": "red"}, {"size": 5.0, "colour": "blue"}]
    >>> encoder.partial_fit(rows, ["yes", "no", "yes"]).kinds_
    {'size': 'number', 'colour': 'category'}
    >>> encoder.transform({"size": None, "colour": "red"}).round(2).tolist()
    [[4.0, 0.36, 0.0, 0.0, 1.0, 0.0]]
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'colour_target0', 'colour_target1', 'colour_target2', 'colour=red', 'one_hot1']
    """

    _columns: list[Column | Undecided]
    _labels: list[Any]
    _n_rows: int
    _one_hot_used: int
    _filling: Filling
    _targets_seen: TargetSums

    def __init__(
        self,
        types: dict[Any, str] | None = None,
        target: str | None = None,
        one_hot: int = 64,
        max_values: int = 10_000,
    ) -> None:
        self.types = types
        self.target = target
        self.one_hot = one_hot
        self.max_values = max_values

    # ------------------------------------------------------------ scikit-learn

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from a table.

        Parameters
        ----------
        X : pandas, polars or Arrow table, dict, list of dicts or matrix
            Rows.
        y : array-like of shape (n_samples,), default=None
            Targets.

        Returns
        -------
        self : object
            The encoder.
        """
        self._take(self._fresh(), X, y)
        return self

    def partial_fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn from more rows.

        Parameters
        ----------
        X : pandas, polars or Arrow table, dict, list of dicts or matrix
            Rows.
        y : array-like of shape (n_samples,), default=None
            Targets.

        Returns
        -------
        self : object
            The encoder.
        """
        self._take(self.fork(), X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Float:
        """Forget everything, then encode rows, each just before it is learned from.

        This is not the same as ``fit(X, y).transform(X)``, which would show a model the target of the row itself.

        Parameters
        ----------
        X : pandas, polars or Arrow table, dict, list of dicts or matrix
            Rows.
        y : array-like of shape (n_samples,), default=None
            Targets.
        **params
            Must be empty.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features_out_)
            The encoded rows.
        """
        if params:
            raise TypeError(f"TableEncoder.fit_transform takes no {sorted(params)}.")
        return self._take(self._fresh(), X, y)

    def transform_and_learn(self, X: Any, y: ArrayLike | None = None) -> Float:
        """Encode rows, each just before it is learned from.

        Parameters
        ----------
        X : pandas, polars or Arrow table, dict, list of dicts or matrix
            Rows.
        y : array-like of shape (n_samples,), default=None
            Targets.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features_out_)
            The encoded rows.
        """
        return self._take(self.fork(), X, y)

    def transform(self, X: Any) -> Float:
        """Encode rows with what was learned, without learning from them.

        Parameters
        ----------
        X : pandas, polars or Arrow table, dict, list of dicts or matrix
            Rows.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features_out_)
            The encoded rows.
        """
        check_is_fitted(self)
        table = read_table(X)
        nothing = np.zeros(table.n_rows, dtype=bool)
        return self._encode(table, nothing, [-1] * table.n_rows, [0.0] * table.n_rows, [])[0]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Name the columns of numbers; a column of zeros and ones that no value has taken yet has a number.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns; must be those of the table.

        Returns
        -------
        names : ndarray of str
            The names.
        """
        check_is_fitted(self)
        if input_features is not None and list(np.asarray(input_features)) != list(self.kinds_):
            raise ValueError(f"input_features must be the columns of the table: {list(self.kinds_)}.")
        return np.array([name for _, name in self._features()], dtype=object)

    def columns_of_features(self) -> list[Any]:
        """Tell from which column of the table each column of numbers comes; None for one not in use.

        Returns
        -------
        list
        """
        check_is_fitted(self)
        return [column for column, _ in self._features()]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = self.target is not None
        return tags

    # ------------------------------------------------------------ insight

    def _shown_state(self) -> list[tuple[str, str]]:
        if not hasattr(self, "_columns"):
            return []
        kinds = [(str(name), kind or "no value yet") for name, kind in self.kinds_.items()]
        return [("rows", f"{self._n_rows:,}"), ("columns of numbers", str(self.n_features_out_)), *kinds]

    @property
    def kinds_(self) -> dict[Any, Kind | None]:
        """What the columns hold."""
        check_is_fitted(self)
        return {column.name: getattr(column, "kind", None) for column in self._columns}

    @property
    def n_features_in_(self) -> int:
        """Columns of the table."""
        check_is_fitted(self)
        return len(self._columns)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of the table."""
        return np.array(list(self.kinds_), dtype=object)

    @property
    def n_features_out_(self) -> int:
        """Columns of numbers."""
        check_is_fitted(self)
        return self._one_hot_at + self._one_hot

    @property
    def n_rows_(self) -> int:
        """Rows learned."""
        check_is_fitted(self)
        return self._n_rows

    def _features(self) -> list[tuple[Any, str]]:
        """Column of the table and name of each column of numbers."""
        features = [(column.name, name) for column in self._columns for name in column.feature_names()]
        taken: list[tuple[Any, str]] = [(None, f"one_hot{at}") for at in range(self._one_hot)]
        for column in self._columns:
            if isinstance(column, Column):
                for code, place in column.values.places.items():
                    taken[place] = (column.name, f"{column.name}={column.values.text(code)}")
        return features + taken

    # ------------------------------------------------------------ learning, in two steps

    def prepare(self, X: Any, y: Any, learned: NDArray[np.bool_] | None = None) -> tuple[Float, Update]:
        """Encode rows, each as of just before it is learned from, and tell what learning from them changes.

        Nothing is learned before `apply`: a model learns from the rows in between, and an error there changes nothing.

        Parameters
        ----------
        X : Table or anything `read_table` takes
            Rows.
        y : array-like of shape (n_rows,) or None
            Targets.
        learned : ndarray of bool or None, default=None
            Rows to learn from; None for all.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features_out_)
            The encoded rows.
        update : Update
            For `apply`.
        """
        table = read_table(X)
        if not hasattr(self, "_columns"):
            self.begin(table)
        if learned is None:
            learned = np.ones(table.n_rows, dtype=bool)
        places, amounts, labels = self._targets(y, table.n_rows, learned)
        return self._encode(table, learned, places, amounts, labels)

    def apply(self, update: Update) -> None:
        """Take over what a block changes.

        Parameters
        ----------
        update : Update
            From `prepare`, with nothing applied in between.
        """
        places: list[dict[int, int]] = [{} for _ in update.columns]
        for at, code, place in update.claims:
            places[at][code] = place
        self._columns = [
            column.after(change, given) if isinstance(column, Column) and change is not None else column
            for column, change, given in zip(update.columns, update.changes, places, strict=True)
        ]
        self._one_hot_used += len(update.claims)
        self._filling = update.filling
        self._labels = self._labels + update.labels
        self._targets_seen = update.targets_seen
        self._n_rows += update.n_rows

    def fork(self) -> Self:
        """Make a copy that learns on its own; what was learned is shared, as nothing of it changes in place.

        Returns
        -------
        TableEncoder
        """
        beside = object.__new__(type(self))
        beside.__dict__ = dict(vars(self))  # copy.copy would go through the state of a pickle
        return beside

    def _take(self, encoder: Self, X: Any, y: Any) -> Float:
        """Learn with a copy, which then takes the place of all that this encoder is."""
        rows, update = encoder.prepare(X, y)
        encoder.apply(update)
        self.__dict__ = encoder.__dict__
        return rows

    def _fresh(self) -> Self:
        return type(self)(**self.get_params(deep=False))

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        check_kinds(self.types)
        if self.target is not None:
            check_choice(owner, "target", self.target, ("class", "number"))
        check_count(owner, "max_values", self.max_values)
        if self.one_hot != 0:
            check_count(owner, "one_hot", self.one_hot)

    def begin(self, X: Any) -> Self:
        """Lay the columns out by the first row of a table, without learning from it.

        Parameters
        ----------
        X : pandas, polars or Arrow table, dict, list of dicts or matrix
            The table.

        Returns
        -------
        self : object
            The encoder.
        """
        self._check_parameters()
        table = read_table(X)
        if not table.n_rows:
            raise TableError("The first table must have a row.")
        types = check_kinds(self.types)
        if unknown := [name for name in types if name not in table.columns]:
            raise TableError(f"The column {unknown[0]!r} has a type but is not in the table: {list(table.columns)}.")
        if not table.columns:
            raise TableError("A table must have at least one column.")
        self._columns = []
        at, one_hot, plain = 0, 0, True
        for name, cells in table.columns.items():
            kind = first_kind(name, cells, types.get(name))
            width = column_width(kind, TARGETS[self.target])
            self._columns.append(self._column(name, kind, at, width) if kind else Undecided(name, at, width))
            at += width
            one_hot += ONE_HOT_PER_CATEGORY if kind in (None, "category") else ONE_HOT_PER_OTHER
            plain = plain and kind in ("number", "boolean") and not is_gap(cells.values[0])
        self._one_hot_at = at
        self._one_hot = 0 if plain else min(one_hot, self.one_hot)  # plain numbers stay what they are
        self._one_hot_used = 0
        self._filling = Filling()
        self._labels = []
        self._targets_seen = TargetSums(0, 0.0, np.zeros(TARGETS[self.target]), np.zeros(TARGETS[self.target]))
        self._n_rows = 0
        return self

    def _column(self, name: Any, kind: Kind, at: int, width: int) -> Column:
        values = Values(TARGETS[self.target], kind == "category", int(self.max_values))
        return Column(name, kind, at, width, values)

    def _targets(
        self, y: Any, n_rows: int, learned: NDArray[np.bool_]
    ) -> tuple[Sequence[int], Sequence[float], list[Any]]:
        """Sum that each target adds to, how much, and the labels not seen before."""
        if self.target is None:
            return [-1] * n_rows, [0.0] * n_rows, []
        if y is None:
            raise TableError(f"TableEncoder(target={self.target!r}) learns from targets: pass y.")
        values = column_or_1d(y)
        if len(values) != n_rows:
            raise TableError(f"X has {n_rows} rows, but y has {len(values)} targets. There must be one for each row.")
        if self.target == "number":
            try:
                numbers = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise TableError("The targets y must be numbers.") from None
            wrong = np.flatnonzero(learned & ~np.isfinite(numbers))
            if len(wrong):
                raise TableError(f"The targets y must be finite. Got {numbers[wrong[0]]} in row {wrong[0]} instead.")
            return [0] * n_rows, np.clip(np.where(learned, numbers, 0.0), -LARGEST, LARGEST).tolist(), []
        known = {label: at for at, label in enumerate(self._labels)}
        places = []
        for row, (label, learn) in enumerate(zip(values.tolist(), learned.tolist(), strict=True)):
            if learn and is_gap(label):
                raise TableError(f"The labels y must be known. Got {label!r} in row {row} instead.")
            code = known.setdefault(label, len(known)) if learn else 0
            places.append((code - 1) % TARGETS["class"] if code else -1)  # the first label is what others leave
        return places, [1.0] * n_rows, list(known)[len(self._labels) :]

    def _encode(
        self,
        table: Table,
        learned: NDArray[np.bool_],
        places: Sequence[int],
        amounts: Sequence[float],
        labels: list[Any],
    ) -> tuple[Float, Update]:
        n = table.n_rows
        out = np.zeros((n, self.n_features_out_))
        targets, targets_seen = self._targets_seen.over(places, amounts, learned)
        columns: list[Column | Undecided] = []
        changes: list[Change | None] = []
        for column, cells in zip(self._columns, self._cells(table), strict=True):
            begin = 0
            if isinstance(column, Undecided):
                undecided = column
                column, begin = self._decide(undecided, cells, learned)
                self._encode_apart(undecided, cells, begin, targets, out)
            columns.append(column)
            if isinstance(column, Undecided):
                changes.append(None)
                continue
            part = out[begin:, column.at : column.at + column.width]
            rest = targets.of(slice(begin, None)) if begin else targets
            change = column.encode(cells.after(begin) if begin else cells, learned[begin:], rest, part)
            changes.append(_moved(change, begin))
        claims = self._write_one_hot(out, columns, changes)
        filling = self._fill(out, columns, changes, claims, learned)
        return out, Update(columns, changes, claims, filling, labels, targets_seen, int(learned.sum()))

    def _fill(
        self,
        out: Float,
        columns: list[Column | Undecided],
        changes: list[Change | None],
        claims: list[tuple[int, int, int]],
        learned: NDArray[np.bool_],
    ) -> Filling:
        """Fill gaps from the other columns and from what was seen last."""
        if not 1 < self._one_hot_at <= WIDEST:
            return self._filling
        missing = np.zeros((len(out), len(columns)), dtype=bool)
        owner = np.full(out.shape[1], -1)
        for at, (column, change) in enumerate(zip(columns, changes, strict=True)):
            if change is not None:
                assert isinstance(column, Column)
                missing[:, at] = change.codes == GAP
                owner[column.at : column.at + column.used] = at
                owner[[self._one_hot_at + place for code, place in column.values.places.items() if code != GAP]] = at
        for at, code, place in claims:
            if code != GAP:
                owner[self._one_hot_at + place] = at
        first = np.array([column.at for column in columns])
        return self._filling.fill(out, missing, Layout(owner, first, self._one_hot_at), learned)

    def _cells(self, table: Table) -> list[Cells]:
        """Cells of each column, in the order of the first table."""
        names = [column.name for column in self._columns]
        if unknown := [name for name in table.columns if name not in set(names)]:
            raise TableError(f"The column {unknown[0]!r} was not there before. The columns are {names}.")
        if not table.sparse and (absent := [name for name in names if name not in table.columns]):
            raise TableError(f"The column {absent[0]!r} is missing. The columns are {names}.")
        gaps = Cells([None] * table.n_rows)
        return [table.columns.get(name, gaps) for name in names]

    def _decide(self, column: Undecided, cells: Cells, learned: NDArray[np.bool_]) -> tuple[Column | Undecided, int]:
        """Find the first learned value of a column, and what it is."""
        for row, learn in enumerate(learned):
            if learn and not is_gap(cells.values[row]):
                kind = cells.kind or kind_of_cells(cells.values[row:], column.name)
                assert kind is not None
                return self._column(column.name, kind, column.at, column.width), row
        return column, len(learned)

    def _encode_apart(self, column: Undecided, cells: Cells, end: int, targets: Targets, out: Float) -> None:
        """Encode rows that are not learned and come before the first learned value, as if each were that value."""
        rows = [row for row in range(end) if not is_gap(cells.values[row])]
        if rows:
            part = (
                Cells([cells.values[row] for row in rows])
                if cells.kind is None
                else Cells(cells.values[rows], cells.kind)
            )
            kind = cells.kind or kind_of_cells(part.values, column.name)
            assert kind is not None
            nothing = np.zeros(len(rows), dtype=bool)
            encoded = np.zeros((len(rows), column.width))
            self._column(column.name, kind, column.at, column.width).encode(part, nothing, targets.of(rows), encoded)
            out[rows, column.at : column.at + column.width] = encoded

    def _write_one_hot(
        self, out: Float, columns: list[Column | Undecided], changes: list[Change | None]
    ) -> list[tuple[int, int, int]]:
        """Set the ones; return (column, code, place) of the values that take a place after their row."""
        wishes = sorted(
            (row, at, code)
            for at, change in enumerate(changes)
            if change is not None
            for row, code in change.tally.claims
        )
        given: list[tuple[int, int, int, int]] = []
        taken = [len(column.values.places) if isinstance(column, Column) else 0 for column in columns]
        for row, at, code in wishes:
            place = self._one_hot_used + len(given)
            if place < self._one_hot and taken[at] < ONE_HOT_PER_CATEGORY:
                taken[at] += 1
                given.append((row, at, code, place))
        for column, change in zip(columns, changes, strict=True):
            if change is None or not self._one_hot:
                continue
            assert isinstance(column, Column)
            for code, place in column.values.places.items():
                out[change.codes == code, self._one_hot_at + place] = 1.0
        for row, at, code, place in given:
            change = changes[at]
            assert change is not None
            rows = np.flatnonzero(change.codes == code)
            out[rows[rows > row], self._one_hot_at + place] = 1.0
        return [(at, code, place) for _, at, code, place in given]

    # ------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Everything that was learned, as plain values and arrays.

        Returns
        -------
        dict
        """
        check_is_fitted(self)
        return {
            "version": STATE_VERSION,
            "columns": [
                {
                    "name": column.name,
                    "kind": getattr(column, "kind", None),
                    "width": column.width,
                    "total": getattr(column, "total", 0.0),
                    "count": getattr(column, "count", 0.0),
                    "values": column.values.state() if isinstance(column, Column) else None,
                }
                for column in self._columns
            ],
            "one_hot": self._one_hot,
            "one_hot_used": self._one_hot_used,
            "filling": self._filling.state(),
            "labels": list(self._labels),
            "targets_seen": vars(self._targets_seen).copy(),
            "n_rows": self._n_rows,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken.

        Parameters
        ----------
        state : dict
            From `state`.
        """
        if not 1 <= state["version"] <= STATE_VERSION:
            raise TableError(f"an encoder of version {state['version']}, but this bomkl reads 1 to {STATE_VERSION}")
        fresh = self._fresh()
        fresh._check_parameters()
        n_targets, places = TARGETS[self.target], int(state["one_hot"])
        fresh._columns, at = [], 0
        for each in state["columns"]:
            kind, width = each["kind"], int(each["width"])
            if width not in (column_width(kind, n_targets), column_width(None, n_targets)):
                raise TableError(f"a column of width {width} cannot be a {kind}")
            if kind is None:
                fresh._columns.append(Undecided(each["name"], at, width))
            else:
                column = fresh._column(each["name"], kind, at, width)
                values = Values.from_state(each["values"], n_targets, column.values.named, column.values.limit, places)
                fresh._columns.append(
                    replace(column, values=values, total=float(each["total"]), count=float(each["count"]))
                )
            at += width
        fresh._one_hot_at, fresh._one_hot, fresh._one_hot_used = at, places, int(state["one_hot_used"])
        fresh._filling = Filling.from_state(state["filling"], len(fresh._columns), at, at + places)
        fresh._labels = list(state["labels"])
        seen = state["targets_seen"]
        sums, squares = (np.array(seen[name], dtype=np.float64) for name in ("sums", "squares"))
        if sums.shape != (n_targets,) or squares.shape != (n_targets,) or not 0 <= fresh._one_hot_used <= places:
            raise TableError("the sums of the targets do not fit")
        fresh._targets_seen = TargetSums(int(seen["rows"]), float(seen["shift"]), sums, squares)
        fresh._n_rows = int(state["n_rows"])
        self.__dict__.update({name: value for name, value in vars(fresh).items() if name.startswith("_")})

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            name: value
            for name, value in dict(super().__getstate__()).items()
            if not name.startswith("_") or name == "_sklearn_version"
        }
        if hasattr(self, "_columns"):
            state["_learned"] = copy.deepcopy(self.state())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        learned = state.pop("_learned", None)
        super().__setstate__(state)
        if learned is not None:
            self.restore(learned)


def _moved(change: Change, begin: int) -> Change:
    """Count the rows of a change from the start of the block."""
    if begin:
        change.codes = np.concatenate([np.full(begin, -1), change.codes])
        change.tally.claims = [(row + begin, code) for row, code in change.tally.claims]
    return change

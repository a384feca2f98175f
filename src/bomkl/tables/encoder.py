"""`TableEncoder`."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bomkl._support.repr import ShowsState
from bomkl._support.validation import check_choice, check_count
from bomkl.tables.cells import Cells, Kind, check_kinds
from bomkl.tables.early import Room
from bomkl.tables.encoded import EncodedRows
from bomkl.tables.errors import TableError, shown_names
from bomkl.tables.frames import Table, read_table
from bomkl.tables.learned import Learned, Update
from bomkl.tables.notices import Notices
from bomkl.tables.values import Float


class TableEncoder(ShowsState, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn tables with strings, missing values and dates into numbers, while they stream.

    Numbers stay as they are. A missing value is filled with an estimate: at first the mean of its column so far, later
    a mix of what the other columns say, the value seen last and similar rows. A category becomes the mean target of the
    rows of that category so far, pulled towards the mean of all rows. The first values of a column that come more than
    once also have a column of zeros and ones each. A date becomes a trend and cycles of the hour, the weekday and the
    day of the year.

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
        What they hold; None for a column that has shown no value yet.
    n_features_out_ : int
        Columns of numbers.
    n_rows_ : int
        Rows learned from.

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

    _learned: Learned

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

        It takes and returns what `fit` does.
        """
        self._take(self.fork(), X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Float:
        """Forget everything, then encode rows, each before the encoder learns from it.

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
        """Encode rows, each before the encoder learns from it.

        It takes and returns what `fit_transform` does.
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
        return self.encode(X)

    def encode(self, X: Any) -> Float:
        """Encode rows as `transform` does, but never as the table that ``set_output`` asks for."""
        return self.encode_with_cells(X).numbers

    def encode_with_cells(self, X: Any) -> EncodedRows:
        """Encode rows as `encode` does, and give their cells with them.

        A table that has none of the columns is refused; rows by name may lack any, and so all of them.
        """
        check_is_fitted(self)
        table, known = read_table(X), self.kinds_
        if known and table.columns and not table.sparse and known.keys().isdisjoint(table.columns):
            raise TableError(
                f"The table must have columns that were learned from: {shown_names(known)}. "
                f"Got {shown_names(table.columns)} instead."
            )
        rows, update = self._learned.encode(table)
        update.notices.warn()
        return EncodedRows(rows, update.cells)

    def encoded_again(self, rows: EncodedRows) -> EncodedRows:
        """Encode rows of before by their cells, with what was learned since."""
        columns = [column for column in self._learned.columns if not column.waits]
        cells = {
            column.name: Cells(values, column.kind)
            for column, (_, values) in zip(columns, rows.cells, strict=True)
            if values is not None
        }
        return EncodedRows(self._learned.encode(Table(cells, rows.shape[0], sparse=True))[0], rows.cells)

    def encode_and_note(self, X: Any) -> tuple[Float, Notices]:
        """Encode rows, and give what could not be used instead of a warning, which nobody would see on a worker."""
        check_is_fitted(self)
        rows, update = self._learned.encode(read_table(X))
        return rows, update.notices

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
        return np.array([name for _, name in self._learned.features()], dtype=object)

    def columns_of_features(self) -> list[Any]:
        """Tell from which column of the table each column of numbers comes; None for one not in use."""
        check_is_fitted(self)
        return [column for column, _ in self._learned.features()]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = self.target is not None
        return tags

    # ------------------------------------------------------------ insight

    def _shown_state(self) -> list[tuple[str, str]]:
        if not hasattr(self, "_learned"):
            return []
        kinds = [(str(name), kind or "no value yet") for name, kind in self.kinds_.items()]
        return [("rows", f"{self._learned.n_rows:,}"), ("columns of numbers", str(self.n_features_out_)), *kinds]

    @property
    def kinds_(self) -> dict[Any, Kind | None]:
        """What the columns hold."""
        check_is_fitted(self)
        kinds = {column.name: column.kind for column in self._learned.columns}
        return {name: kinds[name] for name in self._learned.names}

    def first_categories(self) -> dict[Any, str]:
        """Give the first category that was learned from in each column of categories."""
        check_is_fitted(self)
        found = ((column.name, column.values.names()) for column in self._learned.columns)
        return {name: names[0] for name, names in found if names}

    @property
    def n_features_in_(self) -> int:
        """Columns of the table."""
        check_is_fitted(self)
        return max(len(self._learned.columns), 1)  # a first row may have no value at all

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of the table."""
        return np.array(list(self.kinds_), dtype=object)

    @property
    def n_features_out_(self) -> int:
        """Columns of numbers."""
        check_is_fitted(self)
        return self._learned.width

    @property
    def hashed_columns(self) -> int:
        """Columns of the table whose cells `encode_with_cells` gives, if one holds texts or codes; otherwise 0."""
        check_is_fitted(self)
        texts = any(column.kind == "category" or column.codes for column in self._learned.columns if not column.waits)
        return len(self.hashed_names()) if texts else 0

    def hashed_names(self) -> list[Any]:
        """Name the columns whose cells `encode_with_cells` gives."""
        return [column.name for column in self._learned.columns if not column.waits]

    @property
    def n_rows_(self) -> int:
        """Rows learned."""
        check_is_fitted(self)
        return self._learned.n_rows

    # ------------------------------------------------------------ learning, in two steps

    def prepare(
        self, X: Any, y: Any, learned: NDArray[np.bool_] | None = None, room: Room | None = None
    ) -> tuple[Float, Update]:
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
        room : Room or None, default=None
            How columns are taken that the encoder has not met; None: they are ignored.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features_out_)
            The encoded rows.
        update : Update
            For `apply`.
        """
        table = read_table(X)
        if not hasattr(self, "_learned"):
            self.begin(table)
        if y is None and self.target is not None:
            raise TableError(f"TableEncoder(target={self.target!r}) learns from targets: pass y.")
        if learned is None:
            learned = np.ones(table.n_rows, dtype=bool)
        rows, update = self._learned.encode(table, learned, y, room, check_kinds(self.types), int(self.max_values))
        update.notices.warn()
        return rows, update

    def apply(self, update: Update) -> None:
        """Take over what `prepare` told, with nothing applied in between."""
        self._learned = update.learned

    def fork(self) -> Self:
        """Make a copy that learns on its own; what was learned is shared, as nothing of it changes in place."""
        fork = object.__new__(type(self))
        fork.__dict__ = dict(vars(self))  # copy.copy would go through the state of a pickle
        return fork

    def _take(self, encoder: Self, X: Any, y: Any) -> Float:
        """Learn with a copy and take over what it has learned, so that an error leaves this encoder as it was."""
        rows, update = encoder.prepare(X, y)
        self.apply(update)
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

    def begin(self, X: Any, grows: bool = False) -> Self:
        """Lay the columns out by the first row of a table, without learning from it.

        An encoder that grows keeps the rows that it learns from, so that `grown` can take in columns that come later.
        """
        self._check_parameters()
        types = check_kinds(self.types)
        self._learned = Learned.begin(read_table(X), types, self.target, self.one_hot, int(self.max_values), grows)
        return self

    # ------------------------------------------------------------ columns that come later

    @property
    def grows(self) -> bool:
        """Whether it keeps its rows, so that it can take in columns that come later."""
        return self._learned.early is not None

    @property
    def waits(self) -> bool:
        """Whether columns have come that `grown` would take in, or hold something else than their first value."""
        return self.grows and self._learned.waits

    @property
    def is_plain(self) -> bool:
        """Whether rows of numbers stay what they are."""
        return self._learned.is_plain

    def grown(self, widest: int) -> tuple[Self, EncodedRows, NDArray[Any], Float]:
        """Make the encoder with the columns that have come as they are now, and let it learn from the rows so far.

        Parameters
        ----------
        widest : int
            Most columns of numbers.

        Returns
        -------
        encoder : TableEncoder
            It has learned from the rows so far.
        rows : EncodedRows
            These rows, each as of just before it was learned from.
        y, weight : ndarray of shape (n_rows_,)
            Their targets and weights.
        """
        early = self._learned.early
        assert early is not None
        encoder = self.fork()
        encoder._learned = self._learned.with_room(self.one_hot, widest)
        table, y, weight = early.arrays()
        rows, update = encoder.prepare(table, y, room=Room(len(y), weight=weight))
        encoder.apply(update)
        return encoder, EncodedRows(rows, update.cells), y, weight

    def lays_out_otherwise(self, other: Self) -> bool:
        """Tell whether the columns of numbers, what they hold or what is hashed differ from those of another one."""
        return any(
            getattr(self, name) != getattr(other, name) for name in ("n_features_out_", "kinds_", "hashed_columns")
        )

    def settled(self) -> Self:
        """Make the encoder that keeps no rows and grows no more."""
        encoder = self.fork()
        encoder._learned = replace(self._learned, early=None)
        return encoder

    # ------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Everything that was learned, as plain values and arrays."""
        check_is_fitted(self)
        return self._learned.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken."""
        self._check_parameters()
        self._learned = Learned.from_state(state, self.target, int(self.max_values))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            name: value
            for name, value in dict(super().__getstate__()).items()
            if not name.startswith("_") or name in ("_sklearn_version", "_sklearn_output_config")
        }
        if hasattr(self, "_learned"):
            state["_learned"] = copy.deepcopy(self.state())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        learned = state.pop("_learned", None)
        super().__setstate__(state)
        if learned is not None:
            self.restore(learned)

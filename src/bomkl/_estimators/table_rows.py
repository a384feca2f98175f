"""Tables as input of all estimators: one place that turns what the user passes into rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from bomkl._support.validation import check_not_masked, parameter_error, validated
from bomkl.tables import TableEncoder
from bomkl.tables.early import Room
from bomkl.tables.errors import TableError, with_row
from bomkl.tables.frames import Table, is_table, read_table
from bomkl.tables.learned import Update


class TableRows:
    """The encoder of an estimator that learned from tables."""

    takes_tables_ = True
    _target: str  # what the encoder takes means of

    types: Any
    n_features_in_: int
    _encoder: TableEncoder

    @property
    def encoder_(self) -> TableEncoder | None:
        """The encoder of the model's tables; None if the model learns from matrices."""
        return vars(self).get("_encoder")

    def _table(self, X: Any, first: bool) -> Table | None:
        """Read a table; None for a matrix, which goes to the learner as it is."""
        encoder = None if first else self.encoder_
        if (encoder is None and not first) or not is_table(X) or _is_sparse_frame(X):
            if first and self.types:
                rule = "None for a matrix: it names columns of tables"
                raise parameter_error(type(self).__name__, "types", rule, self.types)
            if encoder is not None and not encoder.is_plain:
                raise ValueError(
                    f"This {type(self).__name__} learned from a table and needs one with the columns "
                    f"{list(encoder.kinds_)}. Got {type(X).__name__} instead."
                )
            return None
        table = read_table(X)
        if first and (hasattr(X, "iloc") or hasattr(X, "get_columns")):
            validate_data(self, X, skip_check_array=True)  # names that are mixed with numbers
        if not table.n_rows or not (table.columns or (table.sparse and not first)):
            raise ValueError(f"Found a table of shape {table.shape}, while at least 1 row and 1 column are required.")
        if first:
            self._encoder = TableEncoder(self.types, self._target).begin(table, self._grows_from(table))
            self._take_names()
        if self._new_columns == "refuse":
            known = dict.fromkeys([*self._encoder.kinds_, *(table.first_names if first else ())])
            if new := [name for name in table.columns if name not in known]:
                raise TableError(
                    f"The column {new[0]!r} was not there before, and new_columns='refuse' takes no new ones. The "
                    f"columns are {list(known)}."
                )
        return table

    def _grows_from(self, table: Table) -> bool:
        """Whether a model that begins with a table can take in columns that come after its first row."""
        return False

    @property
    def _new_columns(self) -> str:
        """What to do with columns that were not there before."""
        return str(getattr(self, "new_columns", "ignore"))

    def _take_names(self) -> None:
        """Take over the names of the columns that the encoder has met."""
        names = list(self._encoder.kinds_)
        self.n_features_in_ = self._encoder.n_features_in_
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _matrix(self, X: Any, first: bool, **settings: Any) -> Any:
        """Rows of a model that learns from matrices."""
        try:
            return validated(self, X, accept_sparse="csr", reset=first, **settings)
        except TypeError:
            if first or not is_table(X):
                raise
        raise ValueError(
            f"This {type(self).__name__} learned from a matrix and needs rows of {self.n_features_in_} numbers. Got "
            f"{type(X).__name__} with names or dates instead. To use tables, let a new model begin with one."
        )

    def _encoded(
        self, X: Any, y: Any, learned: NDArray[np.bool_], numbers: Sequence[int] | Any, room: Room | None = None
    ) -> tuple[Any, Update | None]:
        """Rows as the learner takes them, and what the encoder learns from them; `numbers` are for messages."""
        if not isinstance(X, Table):
            return X, None
        try:
            return self._encoder.prepare(X, y, learned, room)
        except TableError as error:
            raise with_row(error, numbers) from None

    def _take_over(self, update: Update | None) -> None:
        """Let the encoder learn, after the learner has; the one of before stays what it was."""
        if update is not None:
            encoder = self._encoder.fork()
            encoder.apply(update)
            self._encoder = encoder
            if encoder.n_features_in_ != self.n_features_in_:
                self._take_names()

    def _columns_of_features(self) -> Sequence[Any]:
        """Name of the user's column that each column of the learner comes from; None for one not in use."""
        encoder = self.encoder_
        if encoder is not None:
            return encoder.columns_of_features()
        names = vars(self).get("feature_names_in_")
        return range(self.n_features_in_) if names is None else names.tolist()

    def _n_columns(self) -> int:
        encoder = self.encoder_
        return int(self.n_features_in_) if encoder is None else encoder.n_features_out_

    def _named_row(self, x: Any) -> NDArray[Any]:
        """Values of a mapping or Series, in the order of the columns."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            raise ValueError(
                f"This {type(self).__name__} was fitted without names of columns, so it cannot take a row by names. "
                "Pass an array, or fit it with a DataFrame."
            )
        keys, known = list(x.keys()), set(names)
        missing, unknown = [name for name in names if name not in x], [key for key in keys if key not in known]
        if missing or unknown:
            raise ValueError(f"x must have the columns of the model. Missing: {missing}, unknown: {unknown}.")
        return np.array([x[name] for name in names])

    def _one_row(self, x: Any) -> Any:
        if hasattr(x, "toarray"):
            return x
        check_not_masked("x", x)
        return self._named_row(x) if hasattr(x, "keys") and self.__sklearn_is_fitted__() else np.asarray(x)

    def _whole_row(self, x: Any) -> Any:
        """One row as `predict` and `partial_fit` take it."""
        is_frame, is_sparse = hasattr(x, "columns"), hasattr(x, "toarray")
        by_name = hasattr(x, "keys") and not (is_frame or is_sparse)
        if by_name and (self.encoder_ is not None or not self.__sklearn_is_fitted__()):
            return [dict(x.items())]  # a dict of lists would be columns
        dicts = isinstance(x, list | tuple) and is_table(x)
        row = x if is_frame or dicts else self._one_row(x)
        if dicts or len(row.shape) == 2:
            n_rows = len(x) if dicts else row.shape[0]
            if n_rows != 1:
                raise ValueError(f"learn_one and predict_one take one row at a time. Got {n_rows} rows instead.")
        if is_frame or dicts or is_sparse:
            return row
        names = getattr(self, "feature_names_in_", None)
        if names is None or len(row.shape) != 1 or len(row) != len(names):
            return np.atleast_2d(row)
        from pandas import DataFrame

        return DataFrame([row], columns=names)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether the model has learned from any row."""
        raise NotImplementedError

    def _encoder_from_state(self, state: dict[str, Any]) -> None:
        encoder = TableEncoder(self.types, self._target)
        encoder.restore(state)
        if encoder.n_features_in_ != vars(self).get("n_features_in_"):
            raise ValueError("'n_features_in_' of the saved model is not the number of columns of its encoder.")
        self._encoder = encoder


def _is_sparse_frame(X: Any) -> bool:
    """Tell whether all columns leave out their zeros, as those of a sparse matrix do."""
    dtypes = X.dtypes if hasattr(X, "iloc") and hasattr(X, "columns") else ()
    if not all(str(dtype).startswith("Sparse") and dtype.fill_value == 0 for dtype in dtypes):
        return False
    kinds = {dtype.kind for dtype in dtypes}
    return len(kinds) > 0 and (kinds <= set("iuf") or kinds == {"b"})  # others have no type in common

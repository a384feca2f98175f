"""Tables of any make as named columns: pandas, polars and Arrow tables, dicts and lists of dicts.

narwhals would save some lines, and takes twice as long for a row that comes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from bomkl.tables.cells import Cells, are_categories, days_of_microseconds, kind_of
from bomkl.tables.errors import TableError

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Named columns of equal length."""

    columns: dict[Any, Cells]  # the columns in their order
    n_rows: int  # their length
    # Whether it is made of dicts: a column may be absent without a word, and is met with its first value
    sparse: bool = False
    n_first: int | None = None  # how many of the columns the first row has, which come first; None for all

    @property
    def first_names(self) -> list[Any]:
        """Columns of the first row."""
        return list(self.columns)[: self.n_first]

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.columns)

    def __getitem__(self, rows: NDArray[Any]) -> Table:
        places = np.arange(self.n_rows)[rows]
        columns = {name: cells[places] for name, cells in self.columns.items()}
        return Table(columns, len(places), self.sparse, self.n_first)


def stacked(tables: Sequence[Table]) -> Table:
    """Rows of tables, one table after the other; a column that one of them lacks is missing there.

    Examples
    --------
    >>> stacked([read_table({"a": [1, 2]}), read_table({"a": ["x"], "b": [3]})]).columns["b"].values
    [None, None, 3]
    """
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {name: _stacked_cells([cells_of(table, name) for table in tables]) for name in names}
    first = len(tables[0].first_names)
    return Table(columns, sum(table.n_rows for table in tables), any(each.sparse for each in tables), first)


def cells_of(table: Table, name: Any) -> Cells:
    """Give the cells of a column, all missing where the table has none of this name."""
    found = table.columns.get(name)
    return Cells([None] * table.n_rows) if found is None else found


def _stacked_cells(parts: Sequence[Cells]) -> Cells:
    # a part without a value does not take the type of the others away
    kinds = {each.kind for each in parts if each.kind is not None or any(cell is not None for cell in each.values)}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is not None and kind != "category":
        numbers = [each.values if each.kind else np.full(len(each.values), np.nan) for each in parts]
        return Cells(np.concatenate(numbers), kind)
    return Cells([cell for each in parts for cell in (each.values if each.kind is None else each.objects())], kind)


def is_table(X: Any) -> bool:
    """Tell whether something is a table with named columns rather than a matrix.

    Examples
    --------
    >>> is_table({"size": 3.0}), is_table([{"size": 3.0}]), is_table([[3.0]]), is_table(np.zeros((1, 1)))
    (True, True, False, False)
    """
    if isinstance(X, np.ndarray) or issparse(X):  # some sparse matrices are dicts
        return False
    if isinstance(X, Mapping | Table):
        return True
    if isinstance(X, Sequence):
        return bool(len(X)) and isinstance(X[0], Mapping)
    return _is_arrow(X) or _is_polars(X) or _is_pandas(X) or hasattr(X, "collect")  # which `read_table` refuses


def in_single_precision(X: Any) -> bool:
    """Tell whether all columns of a table are of type float32.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    >>> in_single_precision(frame), in_single_precision(frame.astype("float32")), in_single_precision({"a": 1.0})
    (False, True, False)
    """
    types = X.schema.types if _is_arrow(X) else getattr(X, "dtypes", ())
    return len(types) > 0 and all(str(each).lower() in ("float32", "float") for each in types)


def read_table(X: Any) -> Table:
    """Read a table.

    `X`: a dict is one row, or columns where all its values are lists or arrays. What one of a sequence of dicts lacks
    is missing; an object or a list in it becomes columns such as "place.city" and "sizes.0". The columns of a matrix
    are named 0, 1, 2 ...

    Examples
    --------
    >>> read_table([{"size": 3, "colour": "red"}, {"size": 4}]).columns["colour"].values
    ['red', None]
    """
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise TableError(f"A matrix must have two dimensions. Got one of shape {X.shape} instead.")
        return _checked([(at, _of_array(X[:, at])) for at in range(X.shape[1])], len(X))
    if isinstance(X, Mapping):
        if X and all(isinstance(value, list | tuple | np.ndarray) for value in X.values()):
            return _checked([(name, _of_array(values)) for name, values in X.items()], sparse=True)
        return _of_dicts([X])
    if isinstance(X, Sequence):
        return _of_dicts(X)
    if _is_arrow(X):
        _validate_arrow(X)
        return _checked([(name, _of_arrow(X.column(at))) for at, name in enumerate(X.schema.names)], X.num_rows)
    if _is_polars(X):
        return _checked([(column.name, _of_polars(column)) for column in X.get_columns()], X.height)
    if hasattr(X, "collect"):
        raise TableError(f"A table must be in memory. Got {type(X).__name__}; pass what its collect() gives.")
    if not _is_pandas(X):
        raise TableError(
            f"A table must be of pandas, polars or Arrow, a dict or a list of dicts. Got {type(X).__name__}."
        )
    types = set(X.dtypes)
    if len(types) == 1 and isinstance(only := types.pop(), np.dtype) and only.kind in "iuf":
        matrix = X.to_numpy()  # to take columns from a frame is slow
        return _checked([(name, _of_array(matrix[:, at])) for at, name in enumerate(X.columns)], len(X))
    return _checked([(name, _of_pandas(X.iloc[:, at])) for at, name in enumerate(X.columns)], len(X))


def _is_arrow(X: Any) -> bool:
    return hasattr(X, "num_rows") and hasattr(X, "column") and hasattr(X, "schema")


def _is_polars(X: Any) -> bool:
    return hasattr(X, "get_columns") and hasattr(X, "height") and hasattr(X, "to_arrow")


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _checked(columns: list[tuple[Any, Cells]], n_rows: int = 0, sparse: bool = False) -> Table:
    lengths = {len(cells.values) for _, cells in columns}
    if len(lengths) > 1:
        longest = {name: len(cells.values) for name, cells in columns}
        raise TableError(f"The columns of a table must be of one length. Got {longest} instead.")
    named: dict[Any, Cells] = {}
    for name, cells in columns:
        if not isinstance(name, str | int | np.integer):
            raise TableError(f"The names of columns must be strings or integers. Got {name!r} instead.")
        name = int(name) if isinstance(name, np.integer) else name
        if name in named:
            raise TableError(f"The column {name!r} is there twice. Column names must differ.")
        named[name] = cells
    return Table(named, lengths.pop() if lengths else n_rows, sparse)


def _of_dicts(rows: Sequence[Any]) -> Table:
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TableError(f"The rows of a table must all be dicts. Got {row!r} in row {at} instead.")
    rows = [flat(row) for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    table = _checked([(name, Cells([row.get(name) for row in rows])) for name in names], len(rows), True)
    return replace(table, n_first=len(rows[0]))


_MOST_VALUES = 10_000  # of a row with lists or objects
_PLAIN = frozenset({bool, int, float, str, type(None), np.float64, np.int64})


def flat(row: Mapping[Any, Any], ignore: Collection[str] = ()) -> Mapping[Any, Any]:
    """Give the values inside objects and lists columns of their own; an empty list or object has none.

    `row`: a row, which may hold objects and lists. `ignore`: keys to leave out if they hold objects or lists, with all
    that is in them.

    Examples
    --------
    >>> flat({"y": 1, "user": {"age": 30, "tags": ["new", "vip"]}})
    {'y': 1, 'user.age': 30, 'user.tags.0': 'new', 'user.tags.1': 'vip'}
    """
    if _PLAIN.issuperset(map(type, row.values())):  # several times as fast as the next line
        return row
    if not any(isinstance(value, Mapping | list | tuple) for value in row.values()):
        return row
    found: dict[Any, Any] = {}
    left: list[Iterator[tuple[Any, Any]]] = [iter(row.items())]
    names: list[Any] = [None]
    while left:
        for key, value in left[-1]:
            name = key if names[-1] is None else f"{names[-1]}.{key}"
            nested = isinstance(value, Mapping | list | tuple)
            if nested and name in ignore:
                continue
            if nested:
                names.append(name)
                left.append(iter(value.items()) if isinstance(value, Mapping) else enumerate(value))
                break
            if name in found:
                raise TableError(f"two values have the name {str(name)[:80]!r}")
            found[name] = value
            if len(found) > _MOST_VALUES:
                raise TableError(f"more than {_MOST_VALUES} values")
        else:
            left.pop()
            names.pop()
    return found


def _of_array(values: Any) -> Cells:
    if not isinstance(values, np.ndarray):
        return Cells(list(values))
    if values.ndim != 1:
        raise TableError(f"A column must have one dimension. Got one of shape {values.shape} instead.")
    if are_categories(values):
        return Cells(values.tolist(), "category")
    kind = values.dtype.kind
    if kind in "iufb":
        return Cells(values.astype(np.float64), "boolean" if kind == "b" else "number")
    if kind == "m":
        return Cells(values / np.timedelta64(1, "s"), "number")
    if kind == "M":
        moments = values.astype("datetime64[us]")
        found: Float = days_of_microseconds(moments.astype(np.int64))
        return Cells(np.where(np.isnat(moments), np.nan, found), "date")
    return Cells(values.tolist())


def _of_pandas(series: Any) -> Cells:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _of_array(series.to_numpy())
    if hasattr(dtype, "categories"):
        # Numbers that are categories have no order that means anything; intervals and the like have a text
        names = [name if kind_of(name) is not None else str(name) for name in dtype.categories.tolist()]
        return Cells([names[code] if code >= 0 else None for code in series.cat.codes.tolist()], "category")
    kind = getattr(dtype, "kind", "O")
    if kind in "iufb":
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return Cells(numbers, "boolean" if kind == "b" else "number")
    if kind in "Mm":
        return _of_array(series.to_numpy(dtype="datetime64[us]" if kind == "M" else "timedelta64[us]"))
    return Cells(series.tolist())


def _of_polars(column: Any) -> Cells:
    import polars as pl

    found = column.dtype
    if found.is_numeric() or found == pl.Boolean:
        return Cells(column.cast(pl.Float64).to_numpy().copy(), "boolean" if found == pl.Boolean else "number")
    if found in (pl.Date, pl.Datetime):
        return _of_array(column.cast(pl.Datetime("us")).to_numpy())
    if found == pl.Duration:
        return _of_array(column.cast(pl.Duration("us")).to_numpy())
    return Cells(column.to_list(), "category" if found in (pl.Categorical, pl.Enum) else None)


def _validate_arrow(table: Any) -> None:
    """Refuse a table whose buffers do not fit together, as a damaged file or a faulty program makes them."""
    from pyarrow import ArrowException

    try:
        table.validate(full=True)
    except ArrowException as error:
        raise TableError(f"The Arrow table is damaged: {error}") from error


def _of_arrow(column: Any) -> Cells:
    import pyarrow as pa

    found = column.type
    if pa.types.is_dictionary(found):
        return Cells(column.to_pylist(), "category")
    if pa.types.is_boolean(found):
        return Cells(_arrow_floats(column.cast(pa.int8())), "boolean")
    if pa.types.is_integer(found) or pa.types.is_floating(found):
        return Cells(_arrow_floats(column), "number")
    if pa.types.is_decimal(found):
        return Cells(_arrow_floats(column.cast(pa.float64())), "number")
    if pa.types.is_duration(found):
        micros = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
        return Cells(_arrow_floats(micros) / 1e6, "number")
    if pa.types.is_timestamp(found) or pa.types.is_date(found):
        micros = column.cast(pa.timestamp("us", tz=getattr(found, "tz", None)), safe=False).cast(pa.int64())
        return Cells(days_of_microseconds(_arrow_floats(micros)), "date")
    return Cells(column.to_pylist())


def _arrow_floats(column: Any) -> Float:
    from pyarrow import compute

    gaps = np.asarray(compute.is_null(column)) if column.null_count else False
    return np.where(gaps, np.nan, np.asarray(column.fill_null(0), dtype=np.float64))

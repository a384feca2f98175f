"""Checks of parameters, with messages that name the owner, the rule and the value received."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, cast


def parameter_error(owner: str, name: str, rule: str, value: object) -> ValueError:
    """Make the error every invalid parameter raises.

    Examples
    --------
    >>> parameter_error("SPA", "beta", ">= alpha (1.0)", 0.5)
    ValueError("The 'beta' parameter of SPA must be >= alpha (1.0). Got 0.5 instead.")
    """
    return ValueError(f"The {name!r} parameter of {owner} must be {rule}. Got {value!r} instead.")


def validated(estimator: Any, *arrays: Any, **settings: Any) -> Any:
    """Call scikit-learn's `validate_data`.

    It adds up all cells to see whether one is not finite. That the sum of large cells overflows is nothing to warn of.
    A cell that is no finite number is named here, and what to do is said for this estimator: scikit-learn names others.
    """
    import numpy as np  # here, because the command line needs this module and no arrays to show its help
    from sklearn.utils.validation import validate_data

    X, *others = arrays
    check_not_masked("X", X)
    X = check_sparse(X) if hasattr(X, "tocsr") else X
    X = np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "shape") else X
    X = _with_nan(X) if isinstance(X, np.ndarray) and X.dtype == object else X
    if not others and not settings["reset"] and is_as_before(estimator, X):
        dtypes = settings["dtype"] if isinstance(settings["dtype"], list) else [settings["dtype"]]
        if any(X.dtype == each for each in dtypes):
            return X
        if X.dtype == np.float32 and dtypes == [np.float64]:  # which loses nothing
            return X.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            found = validate_data(estimator, X, *others, **settings)
            _check_columns(estimator, found[0] if others else found, settings["reset"])
            return found
        except ValueError as error:
            if str(error).startswith("could not convert string"):
                named = _text_error(X)
            elif str(error).startswith("Input X contains"):
                named = _not_finite_error(X, settings.get("ensure_all_finite", True) == "allow-nan")
            else:
                raise
            if named is None:
                raise
    raise named


def _with_nan(X: Any) -> Any:
    """Put NaN for pandas.NA, which a nullable DataFrame has in ``to_numpy()`` and which is no float."""
    import numpy as np

    gaps = np.array([type(cell).__name__ == "NAType" for cell in X.flat], dtype=bool).reshape(X.shape)
    return np.where(gaps, np.nan, X) if gaps.any() else X


def _check_columns(estimator: Any, rows: Any, first: bool) -> None:
    """Let the columns that the rows have count: scikit-learn believes what an array-like says of itself."""
    if first:
        estimator.n_features_in_ = rows.shape[1]
    elif rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input."
        )


def check_not_masked(name: str, values: Any) -> None:
    """Refuse an array that hides some of its values: NumPy would go on with what it hides.

    Examples
    --------
    >>> import numpy as np
    >>> check_not_masked("X", np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    Traceback (most recent call last):
    ...
    ValueError: X must not be masked. Leave the rows without a value out.
    """
    import numpy as np

    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked. Leave the rows without a value out.")


def check_all_finite(name: str, values: Any) -> None:
    """Refuse NaN and infinite numbers, as scikit-learn does.

    It adds them up first: that the sum of huge numbers is infinite, or of infinite parts, is nothing to warn of.

    Examples
    --------
    >>> check_all_finite("y", [1.0, float("inf")])
    Traceback (most recent call last):
    ...
    ValueError: Input y contains infinity or a value too large for dtype('float64').
    """
    import numpy as np
    from sklearn.utils import assert_all_finite

    with np.errstate(over="ignore", invalid="ignore"):
        assert_all_finite(values, input_name=name)


def is_as_before(estimator: Any, X: Any) -> bool:
    """Whether rows are a plain matrix of finite numbers like those before: scikit-learn would find no fault."""
    import numpy as np

    if (
        type(X) is not np.ndarray
        or X.ndim != 2
        or len(X) == 0
        or X.shape[1] != estimator.n_features_in_
        or not X.flags.c_contiguous
        or X.dtype not in (np.float64, np.float32)
        or hasattr(estimator, "feature_names_in_")
    ):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(X.sum())


def _not_finite_error(X: Any, allow_nan: bool) -> ValueError | None:
    """Make the error of the first cell that is infinite, or NaN where that is no missing value; None for no cell."""
    import numpy as np

    if hasattr(X, "tocoo"):
        entries = X.tocoo()
        places = np.isinf(entries.data) if allow_nan else ~np.isfinite(entries.data)
        rows, columns, values = (part[places].tolist() for part in (entries.row, entries.col, entries.data))
        wrong = sorted(zip(rows, columns, values, strict=True), key=lambda cell: cell[:2])
    else:
        numbers = np.asarray(X, dtype=np.float64)
        places = np.argwhere(np.isinf(numbers) if allow_nan else ~np.isfinite(numbers))[:1].tolist()
        wrong = [(row, column, float(numbers[row, column])) for row, column in places]
    if not wrong:
        return None
    row, column, value = wrong[0]
    if value != value:
        return _cell_error(X, row, column, "NaN", "missing values")
    return _cell_error(X, row, column, value)


def _text_error(X: Any) -> ValueError | None:
    """Make the error of the first cell that is a string and no number; None where no cell is."""
    import numpy as np

    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return None
    for (row, column), cell in np.ndenumerate(cells):
        try:
            float(cell)
        except ValueError:
            return _cell_error(X, row, column, repr(cell), "strings")
        except TypeError:
            return None
    return None


def _cell_error(X: Any, row: int, column: int, value: object, tables_have: str = "") -> ValueError:
    name = X.columns[column] if hasattr(X, "columns") else column
    name = repr(name) if isinstance(name, str) else name
    message = f"X must hold finite numbers. Got {value} in row {row}, column {name} instead."
    if tables_have:
        instead = "learn from and predict with a DataFrame or dicts instead of a matrix"
        message += f" Tables may have {tables_have}: {instead}."
    return ValueError(message)


def check_sparse(X: Any) -> Any:
    """Refuse a SciPy matrix whose parts do not fit together, in any format: SciPy would go beyond its memory.

    Others than CSR are converted.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1.0, 0.0], [0.0, 2.0]])
    >>> X.indptr[1] = 9
    >>> check_sparse(X)
    Traceback (most recent call last):
    ...
    ValueError: X must have ascending row pointers from 0 to at most 2. Got 9 in its indptr.
    """
    if X.ndim == 2 and X.format == "coo":
        _check_numbers("row", X.row, X.shape[0], "row")
        _check_numbers("column", X.col, X.shape[1], "col")
    elif X.ndim == 2 and X.format in ("csr", "csc", "bsr"):
        _check_lines(X)
    if X.format == "csr":
        return X
    rows = X.tocsr()
    return rows if X.format in ("csc", "bsr", "coo") else check_sparse(rows)


def _check_lines(X: Any) -> None:
    """Check pointers and numbers of a matrix that is stored by rows, by columns or by rows of blocks."""
    import numpy as np

    names, counts = ["row", "column"], np.floor_divide(X.shape, X.blocksize if X.format == "bsr" else 1)
    if X.format == "csc":
        names, counts = names[::-1], counts[::-1]
    starts, stored = X.indptr, min(len(X.indices), len(X.data))
    if len(starts) != counts[0] + 1:
        raise ValueError(f"X must have {counts[0] + 1} {names[0]} pointers. Got {len(starts)} in its indptr.")
    wrong = (np.diff(starts, prepend=0) < 0) | (starts > stored)
    wrong[0] = starts[0] != 0
    if wrong.any():
        raise ValueError(
            f"X must have ascending {names[0]} pointers from 0 to at most {stored}. "
            f"Got {starts[wrong.argmax()]} in its indptr."
        )
    _check_numbers(names[1], X.indices[: starts[-1]], counts[1], "indices")


def _check_numbers(name: str, numbers: Any, end: int, where: str) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= end)]
    if len(wrong):
        raise ValueError(f"X must have {name} numbers from 0 to {end - 1}. Got {wrong[0]} in its {where}.")


def check_as_many(n_rows: int, n_labels: int, what: str) -> None:
    """Refuse labels (or targets, or whatever `what` calls them) that are more or fewer than the rows.

    Examples
    --------
    >>> check_as_many(3, 2, "labels")
    Traceback (most recent call last):
    ...
    ValueError: X has 3 rows, but y has 2 labels. There must be one for each row.
    """
    if n_rows != n_labels:
        raise ValueError(f"X has {n_rows} rows, but y has {n_labels} {what}. There must be one for each row.")


def check_positive(owner: str, name: str, value: Any) -> None:
    if not (is_finite_number(value) and value > 0):
        raise parameter_error(owner, name, "a finite number > 0", value)


def check_not_negative(owner: str, name: str, value: Any) -> None:
    if not (is_finite_number(value) and value >= 0):
        raise parameter_error(owner, name, "a finite number >= 0", value)


def check_finite(owner: str, name: str, value: Any) -> None:
    if not is_finite_number(value):
        raise parameter_error(owner, name, "a finite number", value)


def check_open_unit(owner: str, name: str, value: Any) -> None:
    if not (is_finite_number(value) and 0 < value < 1):
        raise parameter_error(owner, name, "a number in the open interval (0, 1)", value)


def check_count(owner: str, name: str, value: Any, largest: int = 2**31 - 1) -> None:
    """Refuse anything but a whole number of at least one."""
    if not (isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1):
        raise parameter_error(owner, name, "an int >= 1", value)
    if int(value) > largest:
        raise parameter_error(owner, name, f"an int of at most {largest}", value)


def check_class_weights(owner: str, class_weight: dict[Any, Any]) -> None:
    """Refuse weights of classes that are not finite numbers, or below zero."""
    for weight in class_weight.values():  # an int may be too large for a float
        if not (isinstance(weight, Real) and 0 <= cast(float, weight) <= sys.float_info.max):
            raise parameter_error(owner, "class_weight", "finite numbers >= 0", class_weight)


def check_n_jobs(owner: str, n_jobs: Any) -> None:
    """Refuse anything but None and a count of threads as joblib has it."""
    if n_jobs is not None and not (isinstance(n_jobs, Integral) and n_jobs != 0 and abs(int(n_jobs)) < 2**31):
        raise parameter_error(owner, "n_jobs", "None or an int other than 0", n_jobs)


def thread_count(owner: str, n_jobs: Any) -> int:
    """Threads that `n_jobs` stands for; it is checked again, for it may have changed since the first call."""
    if n_jobs is None:
        return 1
    check_n_jobs(owner, n_jobs)
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def check_choice(owner: str, name: str, value: Any, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value not in choices:
        raise parameter_error(owner, name, f"one of {choices}", value)


def check_bool(owner: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise parameter_error(owner, name, "True or False", value)


def check_kept(estimator: Any, settings: dict[str, Any]) -> None:
    """Raise an error where a setting is no longer what it was when learning began."""
    for name, value in settings.items():
        now = getattr(estimator, name)
        if now is not value and now != value:
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} was changed from {value!r} to {now!r} after "
                "learning had begun. Call fit, or make a new estimator."
            )


def weights_as_numbers(owner: str, sample_weight: Any) -> Any:
    """Weights of rows as an array of numbers, of whatever shape and size.

    Examples
    --------
    >>> weights_as_numbers("SPA", [1, "a"])
    Traceback (most recent call last):
    ...
    ValueError: The 'sample_weight' parameter of SPA must be numbers. Got 'a' instead.
    """
    import numpy as np

    check_not_masked("sample_weight", sample_weight)
    try:
        if np.asarray(sample_weight).dtype.kind == "c":
            raise TypeError
        return np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        wrong = first_not_a_number(sample_weight)
        raise parameter_error(owner, "sample_weight", "numbers", wrong) from None


def first_not_a_number(values: Any) -> Any:
    """Find what kept values from being numbers; all of them where each alone is one."""
    parts = values if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    return next((value for value in parts if not isinstance(value, Real)), values)


def is_finite_number(value: Any) -> bool:
    """Tell whether a value is a real, finite number (booleans are not numbers here)."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floating-point numbers
        return False


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint at the known name that a mistyped one is closest to, as a sentence; empty where none is close.

    Examples
    --------
    >>> did_you_mean("usr_id", ["user_id", "age"]), did_you_mean("usr_id", ["age"])
    (" Did you mean 'user_id'?", '')
    """
    near = nearest(name, known)
    return f" Did you mean {near!r}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that a mistyped one is closest to; None where none is close."""
    by_lower_case = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[near[0]] if near else None

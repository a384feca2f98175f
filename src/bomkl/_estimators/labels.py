"""Checks of what estimators learn: labels of classes, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bomkl._support.validation import check_all_finite, check_not_masked
from bomkl.tables.numbers import is_gap

Float = NDArray[np.float64]


def checked_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array of one type.

    Examples
    --------
    >>> checked_labels(np.array([3, 1], dtype=object))
    array([3, 1])
    >>> checked_labels(np.array(["a", None], dtype=object))
    Traceback (most recent call last):
    ...
    ValueError: y must have a label in each row. Got None in row 1 instead.
    """
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biu":
        return y  # to check whole numbers would take longer than to learn from a few rows
    labels = _of_one_type(column_or_1d(_typed(y, "y"), warn=True), "y", "row")
    with np.errstate(invalid="ignore"):  # it makes them whole numbers, of which none is as large as some floats
        check_classification_targets(labels)
    return labels


def checked_classes(classes: Any) -> NDArray[Any]:
    """Return all labels that may come, each once and in order.

    Examples
    --------
    >>> checked_classes(["b", "a", "b"])
    array(['a', 'b'], dtype='<U1')
    >>> checked_classes(["b", None])
    Traceback (most recent call last):
    ...
    ValueError: classes must have a label in each place. Got None in place 1 instead.
    """
    return np.unique(_of_one_type(np.ravel(_typed(classes, "classes")), "classes", "place"))


def checked_numbers(y: Any) -> Float:
    """Return the targets of a regression.

    Examples
    --------
    >>> checked_numbers([1, 2.5])
    array([1. , 2.5])
    >>> checked_numbers(["1", "high"])
    Traceback (most recent call last):
    ...
    ValueError: y must hold numbers. Got 'high' in row 1 instead.
    """
    given: NDArray[Any] = column_or_1d(_typed(y, "y"), warn=True)
    if given.dtype.kind in "biuf":
        numbers = given.astype(np.float64)
    else:
        numbers = np.empty(len(given))
        for row, value in enumerate(given.tolist()):
            try:
                numbers[row] = float(value)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(f"y must hold numbers. Got {value!r} in row {row} instead.") from None
    check_all_finite("y", numbers)
    return numbers


def _typed(y: Any, name: str) -> Any:
    """Make a list an array in which values keep their types; others stay as they are."""
    if y is None:
        raise ValueError(f"{name} should be a 1d array with one entry for each row. Got None instead.")
    check_not_masked(name, y)
    if not isinstance(y, list | tuple):
        return _without_gaps(y)
    if y and hasattr(y[0], "as_py"):  # values of Arrow, which NumPy may take for texts of one character
        y = [value.as_py() if hasattr(value, "as_py") else value for value in y]
    try:
        array = np.asarray(y)
    except ValueError:
        raise ValueError(f"{name} should be a 1d array. Got lists of several lengths instead.") from None
    # NumPy turns all values into strings where one is, gaps as well
    mixed = array.dtype.kind == "U" and array.ndim == 1 and not all(isinstance(value, str) for value in y)
    return np.array(y, dtype=object) if mixed else array


def _without_gaps(y: Any) -> Any:
    """Give a nullable pandas column without missing values its plain type: scikit-learn would make it floats."""
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is None or plain.kind not in "biuf" or not hasattr(y, "isna") or y.isna().any():
        return y
    return y.to_numpy(dtype=plain)


def _of_one_type(labels: NDArray[Any], name: str, place: str) -> NDArray[Any]:
    kind = labels.dtype.kind
    if kind == "f":
        check_all_finite(name, labels)
        return _of_usual_precision(labels, name)
    if kind not in "OTVcmM":
        return labels
    values = list(labels) if kind in "mM" else labels.tolist()
    for row, value in enumerate(values):
        if not isinstance(value, str) and is_gap(value):
            raise ValueError(f"{name} must have a label in each {place}. Got {value!r} in {place} {row} instead.")
        if not _is_label(value):
            raise ValueError(
                f"{name} must hold strings or numbers. Got {value!r} in {place} {row} instead. Convert the labels to "
                "strings."
            )
        if isinstance(value, str) != isinstance(values[0], str):
            raise ValueError(
                f"{name} must hold labels of one type. Got {values[0]!r} in {place} 0 and {value!r} in {place} {row}. "
                "Convert them to strings."
            )
        if isinstance(value, str) and value.endswith("\0"):
            raise ValueError(
                f"{name} must hold strings that do not end with a zero character, which NumPy leaves out. "
                f"Got {value!r} in {place} {row} instead."
            )
    return labels.astype(object) if values and isinstance(values[0], str) else np.array(values)


def _of_usual_precision(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Numbers of 32 or 64 bits: model files hold no others."""
    if labels.dtype.itemsize in (4, 8):
        return labels
    plain = labels.astype(np.float64)
    if (plain != labels).any():
        label = labels[(plain != labels).argmax()]
        raise ValueError(f"{name} must hold labels that float64 can hold. Got {label} instead. Convert them first.")
    return plain


def _is_label(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64  # larger ones have no type in NumPy
    return isinstance(value, str | bytes | float | np.generic) and not isinstance(value, np.datetime64 | np.timedelta64)

"""Checks of what estimators learn: labels of classes, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bomkl.tables.cells import is_gap

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
    labels: NDArray[Any] = column_or_1d(_given(y), warn=True)
    if labels.dtype.kind == "O":
        labels = _of_one_type(labels)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


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
    given: NDArray[Any] = column_or_1d(_given(y), warn=True)
    if given.dtype.kind in "biuf":
        numbers = given.astype(np.float64)
    else:
        numbers = np.empty(len(given))
        for row, value in enumerate(given.tolist()):
            try:
                numbers[row] = float(value)
            except (TypeError, ValueError):
                raise ValueError(f"y must hold numbers. Got {value!r} in row {row} instead.") from None
    assert_all_finite(numbers, input_name="y")
    return numbers


def _given(y: Any) -> Any:
    if y is None:
        raise ValueError("y should be a 1d array with one entry for each row. Got None instead.")
    return y


def _of_one_type(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels of an array of objects, as strings or numbers."""
    values = labels.tolist()
    for row, value in enumerate(values):
        if not isinstance(value, str) and is_gap(value):
            raise ValueError(f"y must have a label in each row. Got {value!r} in row {row} instead.")
        if isinstance(value, str) != isinstance(values[0], str):
            raise ValueError(
                f"y must hold labels of one type. Got {values[0]!r} in row 0 and {value!r} in row {row}. "
                "Convert them to strings."
            )
    return labels if isinstance(values[0], str) else np.array(values)

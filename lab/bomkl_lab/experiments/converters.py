"""From the public source files to the canonical form: X float32, y in {-1, +1}, rows in source order.

Files are read by `bomkl.streams`, so every error names the file and the line where reading stopped.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.streams import StreamError, open_stream
from bomkl.streams.sources import Source, open_source

Arrays = tuple[NDArray[np.float32], NDArray[np.int8]]

SUSY_ROWS = 1_000_000
_SIGNS = {-1: -1, 0: -1, 1: 1}


class DataFileError(ValueError):
    """A data file that is corrupt, truncated or not in the expected format."""


def _read(paths: Sequence[Path], columns: int, signs: Mapping[Any, int] = _SIGNS, **options: Any) -> Arrays:
    """Read files with `open_stream`, one after the other, as one dense matrix with labels -1 and +1."""
    parts: list[Arrays] = []
    for path in paths:
        try:
            rows = 0
            for X, y in open_stream(path, **options):
                dense = X.toarray() if hasattr(X, "toarray") else X
                if dense.shape[1] != columns:
                    raise DataFileError(f"{path}: {dense.shape[1]} columns instead of {columns}.")
                parts.append((dense.astype(np.float32), _signs(path, y, signs, rows)))
                rows += len(y)
        except StreamError as error:
            raise DataFileError(str(error)) from error
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _signs(path: Path, labels: NDArray[Any], signs: Mapping[Any, int] = _SIGNS, before: int = 0) -> NDArray[np.int8]:
    """Map labels to -1 and +1."""
    for row, label in enumerate(labels.tolist(), start=before + 1):
        if label not in signs:
            raise DataFileError(f"{path}, row {row}: label {label!r} is none of {', '.join(map(str, signs))}.")
    return np.array([signs[label] for label in labels.tolist()], dtype=np.int8)


def read_svmlight(paths: Sequence[Path], columns: int) -> Arrays:
    """Read svmlight/libsvm files, one after the other, as one dense matrix.

    Parameters
    ----------
    paths : sequence of Path
        Plain or compressed files; labels -1/+1 or 0/1, indices from 1.
    columns : int
        Number of columns of the result; an index beyond it is an error.

    Returns
    -------
    X, y : arrays
        Rows of all files in order.
    """
    return _read(paths, columns, format="svmlight", n_features=columns)


def read_magic04(paths: Sequence[Path], columns: int) -> Arrays:
    """Read UCI's magic04.data: comma-separated numbers, then g (gamma, +1) or h (hadron, -1)."""
    return _read(paths, columns, {"g": 1, "h": -1}, format="csv", header=False, label=columns, categorical="error")


def read_susy(paths: Sequence[Path], columns: int, keep: int = SUSY_ROWS) -> Arrays:
    """Read UCI's SUSY.csv(.gz): label 0/1, then the columns; keep a fixed random part, in source order.

    The paper does not say which fifth of the rows it drew, so the draw here is our own: ``default_rng(0)``.
    """
    X, y = _read(paths, columns, format="csv", header=False, label=0, categorical="error")
    if len(X) < keep:
        raise DataFileError(f"{paths[0]}: ends after {len(X)} rows; {keep} are to be drawn from it.")
    kept = np.sort(np.random.default_rng(0).choice(len(X), size=keep, replace=False))
    return X[kept], y[kept]


def read_kdd08(paths: Sequence[Path], columns: int) -> Arrays:
    """Read the KDD Cup 2008 training files: Info.txt (label -1/+1 first) and Features.txt (117 numbers a line)."""
    info, features = paths
    X = _read_aligned(features)
    if X.shape[1] != columns:
        raise DataFileError(f"{features}, line 1: {X.shape[1]} columns instead of {columns}.")
    labels = _read_aligned(info, usecols=0)[:, 0]
    if len(labels) != len(X):
        raise DataFileError(f"{info} has {len(labels)} lines but {features} has {len(X)}: one of them is truncated.")
    return X, _signs(info, labels)


def _read_aligned(path: Path, **options: Any) -> NDArray[np.float32]:
    """Read numbers in columns that any number of blanks separates; NumPy's error names the row and column."""
    try:
        with open_source(Source(str(path)), flush_seconds=0) as (file, _):
            return np.loadtxt(file, dtype=np.float32, ndmin=2, **options)
    except ValueError as error:
        raise DataFileError(f"{path}: {error}.") from error


CONVERTERS: dict[str, Callable[[Sequence[Path], int], Arrays]] = {
    "svmlight": read_svmlight,
    "magic04": read_magic04,
    "susy": read_susy,
    "kdd08": read_kdd08,
}


def read_npz(path: Path) -> Arrays:
    """Read a canonical .npz file."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            X, y = archive["X"], archive["y"]
    except KeyError as error:
        raise DataFileError(f"{path}: the archive has no array {error.args[0]!r}; it needs X and y.") from error
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
        size = path.stat().st_size
        raise DataFileError(
            f"{path}: corrupt or truncated at or before byte {size}, its last one ({error})."
        ) from error
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise DataFileError(f"{path}: X {X.shape} and y {y.shape} do not fit together.")
    return np.ascontiguousarray(X, dtype=np.float32), _signs(path, y)

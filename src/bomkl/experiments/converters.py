"""From the public source files to the canonical form: X float32, y in {-1, +1}, rows in source order.

Every error names the file and the line (or, inside a compressed or binary file, the byte) where reading stopped.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[np.float32], NDArray[np.int8]]

_OPENERS: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
SUSY_ROWS = 1_000_000


class DataFileError(ValueError):
    """A data file that is corrupt, truncated or not in the expected format."""


@contextmanager
def open_source(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzip, bz2 or xz file for reading; a damaged one is reported with the byte that was reached."""
    opener = _OPENERS.get(path.suffix, open)
    with cast("IO[bytes]", opener(path, "rb")) as stream:
        try:
            yield stream
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(path, stream, error) from error
        except OSError as error:
            # bz2 has no exception of its own: a damaged stream is an OSError without an errno.
            if error.errno is not None:
                raise
            raise _damaged(path, stream, error) from error


def _damaged(path: Path, stream: IO[bytes], error: Exception) -> DataFileError:
    return DataFileError(
        f"{path}: truncated or corrupt after byte {stream.tell()} of its uncompressed content ({error})."
    )


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
    from sklearn.datasets import load_svmlight_file

    parts = []
    for path in paths:
        with open_source(path) as stream:
            try:
                X, y = load_svmlight_file(stream, n_features=columns, zero_based=False, dtype=np.float32)
            except (ValueError, OverflowError) as error:
                raise _explain_svmlight(path, columns, error) from error
        parts.append((X.toarray(), _signs(path, y)))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _explain_svmlight(path: Path, columns: int, error: Exception) -> DataFileError:
    """Find the first line that breaks the format, since the fast parser does not tell."""
    with open_source(path) as stream:
        for number, line in enumerate(stream, start=1):
            fields = line.split(b"#", 1)[0].split()
            try:
                for position, field in enumerate(fields):
                    if position == 0:
                        float(field)
                        continue
                    index, value = field.split(b":")
                    float(value)
                    if not 1 <= int(index) <= columns:
                        return DataFileError(f"{path}, line {number}: column {int(index)} is not in 1..{columns}.")
            except ValueError:
                text = line[:60].decode("ascii", "replace").strip()
                return DataFileError(f"{path}, line {number}: not an svmlight line: {text!r}.")
    return DataFileError(f"{path}: {error}.")


def _signs(path: Path, labels: NDArray[Any]) -> NDArray[np.int8]:
    """Map labels -1/+1 or 0/1 to -1/+1."""
    wrong = np.flatnonzero(~np.isin(labels, (-1, 0, 1)))
    if len(wrong):
        raise DataFileError(f"{path}, row {wrong[0] + 1}: label {labels[wrong[0]]:g} is none of -1, 0, +1.")
    return np.where(labels > 0, 1, -1).astype(np.int8)


def _read_table(path: Path, columns: int, delimiter: str | None, **options: Any) -> NDArray[np.float32]:
    """Read a numeric text table; NumPy's error already names the row and column."""
    with open_source(path) as stream:
        try:
            table = np.loadtxt(stream, dtype=np.float32, delimiter=delimiter, ndmin=2, **options)
        except ValueError as error:
            raise DataFileError(f"{path}: {error}.") from error
    if table.shape[1] != columns:
        raise DataFileError(f"{path}, line 1: {table.shape[1]} columns instead of {columns}.")
    return cast("NDArray[np.float32]", table)


def read_magic04(paths: Sequence[Path], columns: int) -> Arrays:
    """Read UCI's magic04.data: comma-separated numbers, then g (gamma, +1) or h (hadron, -1)."""
    (path,) = paths
    codes = {"g": 1.0, "h": -1.0}

    def code(field: str) -> float:
        if field.strip() not in codes:
            raise ValueError(f"class {field!r} is neither g nor h")
        return codes[field.strip()]

    table = _read_table(path, columns + 1, ",", converters={columns: code}, encoding="ascii")
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int8)


def read_susy(paths: Sequence[Path], columns: int, keep: int = SUSY_ROWS) -> Arrays:
    """Read UCI's SUSY.csv(.gz): label 0/1, then the columns; keep a fixed random part, in source order.

    The paper does not say which fifth of the rows it drew, so the draw here is our own: ``default_rng(0)``.
    """
    (path,) = paths
    table = _read_table(path, columns + 1, ",")
    if len(table) < keep:
        raise DataFileError(f"{path}: ends after {len(table)} rows; {keep} are to be drawn from it.")
    kept = np.sort(np.random.default_rng(0).choice(len(table), size=keep, replace=False))
    return np.ascontiguousarray(table[kept, 1:]), _signs(path, table[kept, 0])


def read_kdd08(paths: Sequence[Path], columns: int) -> Arrays:
    """Read the KDD Cup 2008 training files: Info.txt (label -1/+1 first) and Features.txt (117 numbers a line)."""
    info, features = paths
    X = _read_table(features, columns, None)
    with open_source(info) as stream:
        try:
            labels = np.loadtxt(stream, dtype=np.float32, usecols=0, ndmin=1)
        except ValueError as error:
            raise DataFileError(f"{info}: {error}.") from error
    if len(labels) != len(X):
        raise DataFileError(f"{info} has {len(labels)} lines but {features} has {len(X)}: one of them is truncated.")
    return X, _signs(info, labels)


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

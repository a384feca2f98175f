"""NumPy .npz files, read without loading the whole arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from bomkl.streams.errors import StreamError
from bomkl.streams.parts import Matrix, Part
from bomkl.streams.reading import Reading


def read_npz(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read arrays X and y of a NumPy .npz file, a block of rows at a time."""
    if not file.seekable():
        raise StreamError(f"{reading.file}: npz cannot be read from a pipe; pass the path of a file")
    try:
        with zipfile.ZipFile(file) as archive:
            X = _NpyMember(archive, "X", 2)
            y = _NpyMember(archive, "y", 1) if reading.options.labels else None
            if y is not None and y.shape[0] != X.shape[0]:
                raise StreamError(f"{reading.file}: X has {X.shape[0]} rows and y has {y.shape[0]}")
            for start in range(0, X.shape[0], reading.options.block_rows):
                rows = min(reading.options.block_rows, X.shape[0] - start)
                labels = None if y is None else y.take(rows)
                lines = np.arange(start + 1, start + rows + 1)
                yield Matrix(reading.file, X.take(rows), labels, lines)
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError) as error:
        if isinstance(error, StreamError):
            raise
        raise StreamError(f"{reading.file}: not readable as npz: {error}") from error


class _NpyMember:
    """An array inside an .npz file, read a few rows at a time."""

    def __init__(self, archive: zipfile.ZipFile, name: str, ndim: int) -> None:
        info = archive.getinfo(f"{name}.npy")
        self._name, self._file = name, archive.open(info)
        version = np.lib.format.read_magic(self._file)
        read_header = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        self.shape, fortran, self._dtype = read_header(self._file)
        if len(self.shape) != ndim or self._dtype.kind not in "biufU":
            raise ValueError(f"{name} must be a {ndim}-dimensional array, not {self._dtype} {self.shape}")
        if fortran and ndim > 1:  # whose rows cannot be read a few at a time
            raise ValueError(f"{name} is in Fortran order. Save numpy.ascontiguousarray({name}) instead")
        self._row_bytes = int(np.prod(self.shape[1:], dtype=object)) * self._dtype.itemsize
        if self._row_bytes * self.shape[0] != info.file_size - self._file.tell():
            raise ValueError(f"{name} does not have the size that its header says")

    def take(self, rows: int) -> Any:
        data = self._file.read(self._row_bytes * rows)
        if len(data) != self._row_bytes * rows:
            raise ValueError(f"{self._name} ends too early")
        return np.frombuffer(data, dtype=self._dtype).reshape(rows, *self.shape[1:])

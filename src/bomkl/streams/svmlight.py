"""svmlight text: ``label index:value ...``, one row a line; parsed by the compiled core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, overload

from scipy import sparse

from bomkl._core import parse_svmlight
from bomkl.streams.errors import BadLineError, StreamError
from bomkl.streams.parts import Matrix, Part
from bomkl.streams.reading import LONGEST_LINE, Reading

_CHUNK = 1 << 20  # bytes parsed at a time


def read_svmlight(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read ``label index:value ...`` lines."""
    base = 0 if reading.options.zero_based else 1
    line, rest = 1, b""
    room = reading.options.block_rows  # parts that end where blocks end need not be cut
    while True:
        more = file.read(_CHUNK)
        data = rest + more
        cut = data.rfind(b"\n") + 1 if more else len(data)
        if cut == 0 and len(data) > LONGEST_LINE:
            raise StreamError(f"{reading.file}:{line}: the line is longer than {LONGEST_LINE} bytes")
        rest, data, at = data[cut:], data[:cut], 0
        while at < len(data):
            labels, starts, indices, values, offsets, consumed, error, wrong = parse_svmlight(
                data, at, room, base, reading.options.labels
            )
            room = room - len(labels) or reading.options.block_rows
            if len(labels):
                X = sparse.csr_array((values, indices, starts), shape=(len(labels), 2**31 - 1))
                yield Matrix(reading.file, X, labels, _LazyLines(data, at + offsets, line))
            if error:
                reading.bad.report(_svmlight_error(data, at + wrong, line, error, reading.file))
                consumed = data.find(b"\n", at + wrong) + 1 - at or len(data) - at
            at += consumed
        line += data.count(b"\n")
        if not more:
            return


_SVMLIGHT_ERRORS = {
    1: "the label is missing",
    2: "the label is not a number",
    3: "not an index:value pair",
    4: "indices start at 1 (zero_based=True reads files that start at 0)",
    5: "the index does not ascend",
    6: "the index is too large",
    7: "the value is not a finite number",
}


def _svmlight_error(data: bytes, wrong: int, first_line: int, error: int, file: str) -> BadLineError:
    start = data.rfind(b"\n", 0, wrong) + 1
    token = data[wrong : wrong + 200].split(b"\n")[0].split(maxsplit=1)
    text = token[0].decode("utf-8", "replace") if token else ""
    line = first_line + data.count(b"\n", 0, wrong)
    return BadLineError(file, line, _SVMLIGHT_ERRORS[error], column=str(wrong - start + 1), text=text)


class _LazyLines(Sequence[int]):
    """Line numbers of rows, counted only when a message needs them."""

    def __init__(self, data: bytes, offsets: Any, first: int) -> None:
        self._data, self._offsets, self._first = data, offsets, first

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, row: int) -> int: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[int]: ...
    def __getitem__(self, row: int | slice) -> int | Sequence[int]:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        return self._first + self._data.count(b"\n", 0, int(self._offsets[row]))

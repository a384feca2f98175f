"""svmlight text: ``label index:value ...``, one row a line; parsed by the compiled core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from scipy import sparse

from bomkl._core import parse_svmlight
from bomkl.streams.errors import BadLineError, StreamError
from bomkl.streams.parts import Matrix, Part
from bomkl.streams.reading import LONGEST_LINE, Reading

_CHUNK = 1 << 20  # bytes parsed at a time


def read_svmlight(file: BinaryIO, reading: Reading) -> Iterator[Part]:
    """Read ``label index:value ...`` lines."""
    options, bad = reading.options, reading.bad
    base = 0 if options.zero_based else 1
    line, rest = 1, b""
    room = options.block_rows  # parts that end where blocks end need not be cut
    while True:
        more = file.read1(_CHUNK)  # type: ignore[attr-defined]
        data = rest + more
        cut = data.rfind(b"\n") + 1 if more else len(data)
        if cut == 0 and len(data) > LONGEST_LINE:
            raise StreamError(f"{reading.file}:{line}: the line is longer than {LONGEST_LINE} bytes")
        rest, data, at = data[cut:], data[:cut], 0
        while at < len(data):
            labels, starts, indices, values, lines, errors, offsets, error_lines, consumed, lines_read = parse_svmlight(
                data, at, room, base, options.labels, bad.skip
            )
            room = room - len(labels) or options.block_rows
            if len(labels):
                X = sparse.csr_array((values, indices, starts), shape=(len(labels), 2**31 - 1))
                yield Matrix(reading.file, X, labels, line + lines)
            for error, offset, number in zip(errors, offsets, error_lines, strict=True):
                bad.report(_svmlight_error(data, at + int(offset), line + int(number), int(error), reading.file))
            at += consumed
            line += lines_read
        if not more:
            return


_SVMLIGHT_ERRORS = {
    1: "the label is missing",
    2: "the label is not a number",
    3: "not an index:value pair",
    4: "indices start at 1 (the option 'zero_based' is for files that start at 0)",
    5: "the index does not ascend",
    6: "the index is too large",
    7: "the value is not a finite number",
}


def _svmlight_error(data: bytes, wrong: int, line: int, error: int, file: str) -> BadLineError:
    start = data.rfind(b"\n", 0, wrong) + 1
    token = data[wrong : wrong + 200].split(b"\n")[0].split(maxsplit=1)
    text = token[0].decode("utf-8", "replace") if token else ""
    return BadLineError(file, line, _SVMLIGHT_ERRORS[error], column=str(wrong - start + 1), text=text)

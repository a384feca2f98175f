"""Rows of a stream in a random order, in bounded memory: they are dealt out to files, and each file is mixed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from scipy import sparse

from bomkl.streams.parts import Block, joined
from bomkl.streams.stream import Stream

_FILES = 64


def shuffled(stream: Stream, seed: int) -> Iterator[Block]:
    r"""Yield the rows of a stream in a random order, which the seed and the number of rows alone decide.

    Every row is read before the first is returned. Each goes to one of 64 temporary files by chance. The files are
    then read one after the other, each in a random order. So memory holds a 64th of the rows.

    Parameters
    ----------
    stream : Stream
        The rows.
    seed : int
        Seed of the order.

    Yields
    ------
    Block

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bomkl.streams import open_stream
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("x,label\n" + "".join(f"{x},{x > 4}\n" for x in range(10)))
    >>> sorted(float(x) for X, y in shuffled(open_stream(path), seed=0) for x in X[:, 0])
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    """
    draw, size = np.random.default_rng([seed, _FILES]), stream.options.block_rows
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(_FILES)]
        for block in stream:
            _deal(block, draw, files)
        for number, file in enumerate(files):
            if rows := list(_stored(file)):
                mixed = joined(rows)
                order = np.random.default_rng([seed, number]).permutation(mixed.n_rows)
                for begin in range(0, len(order), size):
                    yield mixed.take(order[begin : begin + size])
            file.close()


def _deal(block: Block, draw: np.random.Generator, files: list[Any]) -> None:
    """Write rows to files that are drawn one by one, so that blocks of any size lead to the same files."""
    chosen = (draw.random(block.n_rows) * len(files)).astype(np.intp)
    for number in np.unique(chosen):
        _store(block.take(chosen == number), files[number])


def _store(rows: Block, file: Any) -> None:
    """Write rows as arrays, one after the other; what is no array of numbers as JSON."""
    X: Any = rows.X
    names: Any
    if isinstance(X, dict):
        names, parts = list(X), list(X.values())
    elif hasattr(X, "indptr"):
        names, parts = X.shape[1], [X.data, X.indices, X.indptr]
    else:
        names, parts = None, [X]
    parts += [rows.y, rows.weight]
    plain = [isinstance(part, np.ndarray) and part.dtype.kind != "O" for part in parts]
    _write(file, json.dumps([names, plain]))
    for part, is_array in zip(parts, plain, strict=True):
        if is_array:
            np.save(file, part, allow_pickle=False)
        else:
            _write(file, json.dumps(part.tolist() if isinstance(part, np.ndarray) else part, default=str))


def _write(file: Any, text: str) -> None:
    np.save(file, np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8))


def _stored(file: Any) -> Iterator[Block]:
    """Read what `_store` wrote."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    while file.tell() < end:
        names, plain = _read(file)
        parts = [np.load(file) if is_array else _read(file) for is_array in plain]
        *columns, y, weight = parts
        y = np.array(y, dtype=object) if isinstance(y, list) else y
        if isinstance(names, list):
            yield Block(dict(zip(names, columns, strict=True)), y, weight)
        elif names is not None:
            data, indices, starts = columns
            yield Block(sparse.csr_array((data, indices, starts), shape=(len(starts) - 1, names)), y, weight)
        else:
            yield Block(columns[0], y, weight)


def _read(file: Any) -> Any:
    return json.loads(np.load(file).tobytes().decode("utf-8", "surrogatepass"))

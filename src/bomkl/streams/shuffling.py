"""Rows of a stream in a random order, in bounded memory: they are dealt out to files, and each file is mixed."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from bomkl.streams.parts import Block, joined
from bomkl.streams.stream import Stream

_FILES = 64


def shuffled(stream: Stream, seed: int) -> Iterator[Block]:
    r"""Yield the rows of a stream in a random order, which the seed and the number of rows alone decide.

    Every row is read before the first is returned. Each goes to one of 64 temporary files by chance. The files are
    then read one after the other, each in a random order. So memory holds a 64th of the rows.

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
        rows = block.take(chosen == number)
        pickle.dump((rows.X, rows.y, rows.weight), files[number])  # no other process can open these files


def _stored(file: Any) -> Iterator[Block]:
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    while file.tell() < end:
        yield Block(*pickle.load(file))

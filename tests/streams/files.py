"""Files of rows in every format."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from bomkl.streams import open_stream

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
COMPRESSIONS = [
    gzip.compress,
    bz2.compress,
    lzma.compress,
    lambda content: pyarrow.compress(content, "zstd", asbytes=True),
]


def rows_of(stream):
    blocks = list(stream)
    X = np.concatenate([b.X.toarray() if sparse.issparse(b.X) else b.X for b in blocks])
    return X, None if blocks[0].y is None else np.concatenate([b.y for b in blocks])


def write(path: Path, X, y) -> Path:
    """Write rows in the format that the name asks for."""
    names = [f"x{i}" for i in range(X.shape[1])]
    rows = [
        dict(zip([*names, "label"], [*map(float, row), int(label)], strict=True))
        for row, label in zip(X, y, strict=True)
    ]
    suffix = path.name.split(".")[1]
    if suffix == "svm":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    elif suffix in ("csv", "tsv"):
        between = {"csv": ",", "tsv": "\t"}[suffix]
        path.write_text(
            "".join(between.join(map(str, r)) + "\n" for r in [[*names, "label"], *(r.values() for r in rows)])
        )
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "npz":
        np.savez_compressed(path, X=X, y=y)
    else:
        table = pyarrow.Table.from_pylist(rows)
        if suffix == "parquet":
            parquet.write_table(table, path, row_group_size=20)
        else:
            make = pyarrow.ipc.new_stream if suffix == "arrows" else pyarrow.ipc.new_file
            with make(str(path), table.schema) as sink:
                sink.write_table(table, max_chunksize=20)
    return path


def table(tmp_path, text: str, name: str = "rows.csv", **options):
    path = tmp_path / name
    path.write_text(text, newline="", encoding="utf-8")
    return open_stream(path, **options)

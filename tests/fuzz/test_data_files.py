"""Damaged data files of every format: rows that are finite, or an error that names the file."""

import bz2
import gzip
import io
import json

import numpy as np
import pytest

from bomkl.streams import StreamError, open_stream

pyarrow = pytest.importorskip("pyarrow")


def table(rng):
    n = int(rng.integers(1, 40))
    return {
        "a": rng.normal(size=n).round(3).tolist(),
        "b": [f"t{int(i)}" for i in rng.integers(0, 4, size=n)],
        "y": rng.integers(0, 2, size=n).tolist(),
    }


def csv(columns, separator=","):
    lines = [separator.join(columns), *(separator.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(lines).encode()


def jsonl(columns):
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "\n".join(json.dumps(row) for row in rows).encode()


def svmlight(columns):
    return "\n".join(f"{y} 1:{a} 7:1" for a, y in zip(columns["a"], columns["y"], strict=True)).encode()


def npz(columns):
    buffer = io.BytesIO()
    np.savez(buffer, X=np.array(columns["a"])[:, None], y=np.array(columns["y"]))
    return buffer.getvalue()


def arrow(columns):
    buffer = io.BytesIO()
    with pyarrow.ipc.new_file(buffer, (whole := pyarrow.table(columns)).schema) as writer:
        writer.write_table(whole)
    return buffer.getvalue()


def parquet(columns):
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


FORMATS = {
    "csv": csv,
    "tsv": lambda columns: csv(columns, "\t"),
    "jsonl": jsonl,
    "svm": svmlight,
    "npz": npz,
    "arrow": arrow,
    "parquet": parquet,
}


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data) + 1))
        kind = int(rng.integers(5))
        if kind == 0:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 20))]
        elif kind == 2:
            data[at:at] = data[at : at + int(rng.integers(1, 50))]
        elif kind == 3 and at < len(data):
            data[at] ^= int(rng.integers(1, 256))
        else:
            odd = [b"\x00", b"nan", b"inf", b"1e999", b'"', b"\xff\xfe", b"\r", b",,,", b"-1:", b"99999999999:1 "]
            data[at:at] = odd[int(rng.integers(len(odd)))]
    return bytes(data)


def test_data_files(cases, choose, tmp_path):
    for rng in cases(120):
        format = choose(rng, list(FORMATS))
        data = damaged(rng, FORMATS[format](table(rng)))
        packed, ending = choose(
            rng, [(data, ""), (data, ""), (gzip.compress(data), ".gz"), (bz2.compress(data), ".bz2")]
        )
        if rng.random() < 0.2:
            packed = damaged(rng, packed)
        path = tmp_path / f"rows.{format}{ending}"
        path.write_bytes(packed)
        label = {} if format in ("svm", "npz") else {"label": "y"}
        try:
            for X, _ in open_stream(path, **label):
                values = X.data if hasattr(X, "indptr") else X
                assert np.isfinite(np.asarray(values, dtype=float)).all()
        except (StreamError, OSError) as error:
            assert path.name in str(error)

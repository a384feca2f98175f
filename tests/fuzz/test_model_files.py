"""Model files changed by someone who can sign them: refused, or a model that answers without a crash or NaN."""

import hashlib
import json
import struct

import numpy as np

from bomkl import modelfile
from bomkl.modelfile import ModelFileError

PREFIX = struct.Struct("<8sIQQ")
ODD = (
    0,
    -1,
    1,
    2,
    2**31 - 1,
    2**31,
    2**63,
    -(2**63),
    1e300,
    -0.5,
    "",
    "linear",
    "x" * 50,
    None,
    True,
    [],
    {},
    [[]],
    [0] * 9,
)


def parts(data):
    magic, version, header, arrays = PREFIX.unpack(data[: PREFIX.size])
    begin = PREFIX.size + header
    return magic, version, json.loads(data[PREFIX.size : begin]), bytearray(data[begin : begin + arrays])


def signed(magic, version, tree, arrays):
    header = json.dumps(tree).encode()
    data = PREFIX.pack(magic, version, len(header), len(arrays)) + header + bytes(arrays)
    return data + hashlib.sha256(data).digest()


def places(tree):
    """Every value of a tree with the container that holds it."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from places(tree[key])


def change(rng, choose, tree, arrays):
    kind = int(rng.integers(6))
    container, key = choose(rng, list(places(tree)))
    if kind < 3:
        value = container[key]
        near = [value + 1, value - 1, -value, 2 * value] if isinstance(value, int) and rng.integers(2) else ODD
        container[key] = choose(rng, near)
    elif kind == 3:
        if isinstance(container, dict) and rng.integers(2):
            container[f"{key}x"] = container.pop(key)
        else:
            del container[key]
    elif len(arrays) >= 8:
        at = int(rng.integers(len(arrays) // 8)) * 8
        odd = rng.choice([np.nan, np.inf, 1e300, -1.0, 0.0, 1e-320])
        arrays[at : at + 8] = struct.pack("<d", odd) if kind == 4 else rng.bytes(8)


def check_changed_file(rng, choose, data, path, X, y):
    """Change a file at random places and sign it: refused, or finite answers."""
    magic, version, tree, arrays = parts(data)
    for _ in range(int(rng.integers(1, 4))):
        change(rng, choose, tree, arrays)
    path.write_bytes(signed(magic, version, tree, arrays))
    try:
        hostile = modelfile.load(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return
    try:
        assert np.isfinite(np.asarray(hostile.predict(X), dtype=float)).all()
        hostile.partial_fit(X, y)
        assert np.isfinite(np.asarray(hostile.predict(X), dtype=float)).all()
    except ValueError as error:
        assert str(error)


def test_model_files(cases, choose, learned, digest, tmp_path):
    for rng in cases(20):
        model, X, y, _ = learned(rng)
        check_changed_file(rng, choose, digest(model), tmp_path / "hostile.bomkl", X, y)


def test_damaged_model_files(cases, learned, digest, tmp_path):
    path = tmp_path / "damaged.bomkl"
    for rng in cases(20):
        model, *_ = learned(rng)
        data = bytearray(digest(model))
        if rng.integers(2):
            data = data[: int(rng.integers(len(data)))]
        else:
            data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        try:
            modelfile.load(path)
        except ModelFileError as error:
            assert str(path) in str(error)
        else:
            raise AssertionError("a damaged file was loaded")

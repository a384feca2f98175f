"""Model files that are damaged or hostile: an error for everything that is not one."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import rows, small_model

from bomkl import AutoMKLClassifier, BudgetMKLClassifier, modelfile
from bomkl.kernels import Gaussian, Linear
from bomkl.learners import SPA, Forgetron, Projectron
from bomkl.modelfile import Model, ModelFileError


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    modelfile.write(path, small_model(position=7))
    return path.read_bytes()


def refuse(path, data, match=None):
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=match) as caught:
        modelfile.read(path)
    assert str(path) in str(caught.value)


def is_refused(path):
    try:
        modelfile.read(path)
    except ModelFileError:
        return True
    return False


def test_cut_off_at_every_byte(tmp_path, content):
    path = tmp_path / "m"
    path.write_bytes(content)
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        assert is_refused(path), length


def test_a_flipped_bit_in_every_byte(tmp_path, content):
    rng = np.random.default_rng(0)
    path = tmp_path / "m"
    path.write_bytes(content)
    with open(path, "r+b", buffering=0) as file:
        for at, byte in enumerate(content):
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.integers(8)]))
            assert is_refused(path), at
            file.seek(at)
            file.write(bytes([byte]))
    modelfile.read(path)


def test_bytes_too_many(tmp_path, content):
    refuse(tmp_path / "m", content + b"\0", "cut off or damaged")
    refuse(tmp_path / "m", b"\0" + content, "not a model file")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80\x04\x95", b"PK\x03\x04" + bytes(99), b"\x93NUMPY\x01\0", b"BOMKL\n\x1a" + bytes(99), b"x" * 5000],
)
def test_foreign_formats(tmp_path, data):
    refuse(tmp_path / "m", data, "not a model file")


def test_a_folder_a_pipe_and_nothing(tmp_path):
    with pytest.raises(OSError, match="directory"):
        modelfile.read(tmp_path)
    with pytest.raises(ModelFileError, match="not a regular file"):
        modelfile.read("/dev/zero")
    with pytest.raises(FileNotFoundError):
        modelfile.read(tmp_path / "absent")


def sealed(header, data=b"", version=1, header_bytes=None, array_bytes=None):
    """A file whose checksum is right, whatever else it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    sizes = [len(text) if header_bytes is None else header_bytes, len(data) if array_bytes is None else array_bytes]
    body = struct.pack("<8sIQQ", b"BOMKL\r\n\x1a", version, *sizes) + text + data
    return body + hashlib.sha256(body).digest()


def test_the_version_comes_first(tmp_path):
    for version in (0, 2, 2**32 - 1):
        refuse(
            tmp_path / "m",
            sealed({}, version=version),
            f"format version {version}, but this bomkl reads versions 1 to 1",
        )


@pytest.mark.parametrize("sizes", [(2**63, None), (None, 2**63), (2**64 - 1, 2**64 - 1), (0, None), (None, 5)])
def test_sizes_that_lie(tmp_path, sizes):
    refuse(
        tmp_path / "m",
        sealed({"model": {}, "arrays": []}, header_bytes=sizes[0], array_bytes=sizes[1]),
        "does not have the size",
    )


def header(estimator=None, notes=None, arrays=()):
    return {
        "model": {"estimator": estimator or {"$estimator": ["BudgetMKLClassifier", {}, {}]}, "notes": notes or {}},
        "arrays": list(arrays),
    }


@pytest.mark.parametrize(
    ("bad", "data"),
    [
        (b"\xff", b""),
        (b"[" * 100_000, b""),
        (b"1" * 10_000, b""),
        ([], b""),
        ({}, b""),
        (header(estimator={"$estimator": ["Pipeline", {}, {}]}), b""),
        (header(estimator={"$estimator": ["paper", {}, {}]}), b""),
        (header(estimator={"$estimator": ["BudgetMKLClassifier", {"depth": 3}, {}]}), b""),
        (header(estimator={"$estimator": ["BudgetMKLClassifier", {}, {"predict": 3}]}), b""),
        (header(estimator={"$estimator": ["BudgetMKLClassifier", {}, {"__class__": 3}]}), b""),
        (header(estimator={"$estimator": ["BudgetMKLClassifier", {}, {"_engine": {}}]}), b""),
        (header(estimator={"$estimator": 3}), b""),
        (header(estimator="BudgetMKLClassifier"), b""),
        (header(notes=[1]), b""),
        (header(notes={"a": {"$eval": "1"}}), b""),
        (header(notes={"a": {"$float": "1"}}), b""),
        (header(notes={"a": {"$dtype": "O"}}), b""),
        (header(notes={"a": {"$spec": ["Gaussian", {"sigma": -1}]}}), b""),
        (header(notes={"a": {"$spec": ["Matrix", {}]}}), b""),
        (header(notes={"a": {"$spec": ["_Kernel", {}]}}), b""),
        (header(notes={"a": {"$array": 0}}), b""),
        (header(notes={"a": {"$array": -1}}, arrays=[{"dtype": "<f8", "shape": [1]}]), bytes(8)),
        (header(notes={"a": {"$strings": [[2**40], []]}}), b""),
        (header(notes={"a": {"$strings": [[1], [3]]}}), b""),
        (header(notes={"a": {"$array": 0}, "b": {"$array": 0}}, arrays=[{"dtype": "<f8", "shape": [1]}]), bytes(8)),
        (header(arrays=[{"dtype": "<f8", "shape": [1]}]), bytes(8)),
        (header(notes={"a": {"$strings": [[1], "x"]}}), b""),
        (header(arrays=[{"dtype": "<f8", "shape": [2]}]), bytes(8)),
        (header(arrays=[{"dtype": "<f8", "shape": [2**62, 4]}]), bytes(8)),
        (header(arrays=[{"dtype": "<f8", "shape": [-1]}]), bytes(8)),
        (header(arrays=[{"dtype": "<f8", "shape": [True]}]), bytes(8)),
        (header(arrays=[{"dtype": "<f8", "shape": [0, 2**63]}]), b""),
        (header(arrays=[{"dtype": "<f8", "shape": [1] * 99}]), bytes(8)),
        (header(arrays=[{"dtype": "O", "shape": [1]}]), bytes(8)),
        (header(arrays=[{"dtype": "<U1000000000", "shape": [1]}]), bytes(8)),
        (header(arrays=[]), bytes(8)),
        (header(arrays=[{}]), b""),
        (header(arrays=[7]), b""),
    ],
)
def test_headers_that_lie_under_a_right_checksum(tmp_path, bad, data):
    refuse(tmp_path / "m", sealed(bad, data))


@given(st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "m"
    refuse(path, data)
    refuse(path, sealed(data))


HOSTILE = """
import hashlib, json, random, resource, struct, sys
from bomkl import modelfile
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
rng = random.Random(0)
outcomes = {"loaded": 0, "refused": 0}

def leaves(node, path=()):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)

for name in sys.argv[1:]:
    data = open(name, "rb").read()
    _, _, n, size = struct.unpack("<8sIQQ", data[:28])
    header, arrays = json.loads(data[28 : 28 + n]), data[28 + n : 28 + n + size]
    places = list(leaves(header))
    for _ in range(150):
        changed, body = json.loads(json.dumps(header)), bytearray(arrays)
        if rng.random() < 0.5:
            *path, last = rng.choice(places)
            node = changed
            for key in path:
                node = node[key]
            node[last] = rng.choice([0, 1, -1, 2, 7, 2**31, 2**40, 2**63 - 1, -(2**63), 1e300, "x", None, True, [], {}])
        else:
            at = rng.randrange(0, len(body) - 8, 4)
            small = struct.pack("<q", rng.randrange(100))
            body[at : at + 8] = rng.choice([bytes(8), b"\\xff" * 8, rng.randbytes(8), small])
        text = json.dumps(changed).encode()
        whole = struct.pack("<8sIQQ", b"BOMKL\\r\\n\\x1a", 1, len(text), len(body)) + text + bytes(body)
        open(name + ".x", "wb").write(whole + hashlib.sha256(whole).digest())
        try:
            model = modelfile.load(name + ".x")
        except modelfile.ModelFileError:
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        try:
            model.decision_function([[0.0, 1.0, 2.0]])
            model.score_and_learn([[0.0, 1.0, 2.0]] * 3, [0, 1, 0])
        except Exception:
            pass
print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_states_that_lie_never_crash_the_process(tmp_path):
    X, y = rows(40)
    for name, learner in (("spa", SPA()), ("projectron", Projectron()), ("forgetron", Forgetron())):
        model = BudgetMKLClassifier([Gaussian(), Linear()], learner, budget=8, random_state=0).fit(X, y)
        modelfile.save(model, tmp_path / name)
    command = [sys.executable, "-c", HOSTILE, *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["refused"] > 20
    assert outcomes["loaded"] > 20


def peak_memory(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_one_long_string_among_many_takes_no_more_memory_than_the_file(tmp_path):
    texts = ["x" * 50_000, *["y"] * 20_000]
    (tmp_path / "m").write_bytes(sealed(header(notes={"a": {"$strings": [[len(texts)], texts]}})))
    modelfile.read(tmp_path / "m")  # imports
    peak = peak_memory(lambda: modelfile.read(tmp_path / "m"))
    assert peak < 30 * (tmp_path / "m").stat().st_size
    assert modelfile.read(tmp_path / "m").notes["a"].tolist() == texts


def test_a_large_file_is_held_twice_at_most(tmp_path):
    modelfile.write(tmp_path / "m", Model(BudgetMKLClassifier(), {"a": np.zeros(1_000_000)}))
    assert peak_memory(lambda: modelfile.read(tmp_path / "m")) < 2.2 * (tmp_path / "m").stat().st_size


@pytest.mark.parametrize("estimator", [BudgetMKLClassifier, AutoMKLClassifier])
def test_numbers_that_are_not_finite_are_refused(tmp_path, estimator):
    model = estimator(budget=20, random_state=0).fit(*rows(60))
    modelfile.save(model, tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    length = struct.unpack("<8sIQQ", data[:28])[2]
    content, body = json.loads(data[28 : 28 + length]), bytearray(data[28 + length : -32])
    at, refused = 0, 0
    for entry in content["arrays"]:
        if entry["dtype"] in ("<f8", "<f4") and math.prod(entry["shape"]):
            number = np.array([math.nan, math.inf][refused % 2], dtype=entry["dtype"]).tobytes()
            changed = body[:at] + number + body[at + len(number) :]
            refuse(tmp_path / "m", sealed(content, bytes(changed)), "not finite")
            refused += 1
        at += math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize
    assert refused >= 3


def test_a_model_that_is_not_finite_is_not_saved(tmp_path):
    model = BudgetMKLClassifier(budget=20, random_state=0).fit(*rows(60))
    model.loss_ = math.nan
    with pytest.raises(ModelFileError, match="loss_ holds a number that is not finite"):
        modelfile.save(model, tmp_path / "m")
    assert os.listdir(tmp_path) == []

"""Model files: exact round trips, and an error for everything that is not one."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import resource
import secrets
import stat
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bomkl import AutoMKLClassifier, BudgetMKLClassifier, BudgetMKLRegressor, _files, modelfile, paper
from bomkl._files import BusyError, locked, replacing
from bomkl.combiners import Hedge, Uniform
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, NOGD, PA, RBP, SPA, Forgetron, Perceptron, Projectron
from bomkl.modelfile import Model, ModelFileError

LEARNERS = [
    Perceptron(),
    PA(),
    SPA(),
    RBP(),
    Forgetron(may_grow=True),
    BOGD(),
    BPAS(),
    BPAS(unit_norm=True),
    Projectron(),
    Projectron(margin_updates=True),
    NOGD(),
]
KERNELS = [Gaussian(0.5), Polynomial(2, 0.5, 1.0), Linear(), Exponential(), Cauchy(), Cosine(), Laplacian(0.5)]


def rows(n=120, n_classes=2):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    return X, (np.abs(X).sum(axis=1) * 1.3).astype(int) % n_classes


def small_model(**notes):
    X, y = rows(12)
    return Model(BudgetMKLClassifier(kernels=[Gaussian()], random_state=0).fit(X, y), notes)


def assert_equal(a, b):
    """Equality that knows arrays, NaN and types."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_equal(left, right)
    elif isinstance(a, np.ndarray):
        assert (a.dtype.kind, a.shape, a.tolist()) == (b.dtype.kind, b.shape, b.tolist())
    else:
        assert repr(a) == repr(b)


# round trips


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learning_goes_on_exactly_where_it_stopped(tmp_path, learner, n_classes):
    X, y = rows(n_classes=n_classes)
    for labels in (y, np.array(["a", "b", "c"])[y]):
        whole = BudgetMKLClassifier(KERNELS, learner, Hedge(share=0.01), budget=10, random_state=3)
        whole.partial_fit(X[:70], labels[:70], classes=np.unique(labels))
        modelfile.save(whole, tmp_path / "m.bomkl")
        resumed = modelfile.load(tmp_path / "m.bomkl")
        np.testing.assert_array_equal(
            whole.score_and_learn(X[70:], labels[70:]), resumed.score_and_learn(X[70:], labels[70:])
        )
        modelfile.save(whole, tmp_path / "whole")
        modelfile.save(resumed, tmp_path / "resumed")
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
        assert resumed.get_params() == whole.get_params()


@pytest.mark.parametrize("learner", [PA(), SPA(), BOGD(), BPAS()], ids=repr)
def test_regressors(tmp_path, learner):
    X, _ = rows()
    model = BudgetMKLRegressor(learner=learner, combiner=Uniform(), budget=10, random_state=0).fit(X[:60], X[:60, 0])
    modelfile.save(model, tmp_path / "m")
    resumed = modelfile.load(tmp_path / "m")
    np.testing.assert_array_equal(model.score_and_learn(X, X[:, 0]), resumed.score_and_learn(X, X[:, 0]))


def test_single_precision_feature_names_class_weights_and_unfitted_models(tmp_path):
    import pandas as pd

    X, y = rows()
    model = BudgetMKLClassifier(class_weight={0: 2.0, 1: 1.0}, random_state=1).partial_fit(
        pd.DataFrame(X, columns=["a", "b", "c"]), y
    )
    modelfile.save(model, tmp_path / "m")
    again = modelfile.load(tmp_path / "m")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.class_weight == {0: 2.0, 1: 1.0}
    modelfile.save(BudgetMKLClassifier(random_state=0).fit(X.astype(np.float32), y), tmp_path / "m")
    assert modelfile.load(tmp_path / "m").support_vectors_.dtype == np.float32
    modelfile.save(BudgetMKLClassifier(budget=3), tmp_path / "m")
    assert modelfile.load(tmp_path / "m").budget == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": [lambda X, Z: X @ Z.T]}, r"kernels\[0\] is the Python function"),
        ({"selection_delta": lambda t: 0.5}, "selection_delta is the Python function"),
        ({"random_state": np.random.RandomState(0)}, "random_state is a RandomState, which a model file cannot hold"),
    ],
)
def test_code_and_foreign_objects_are_refused_and_nothing_is_written(tmp_path, settings, message):
    with pytest.raises(ModelFileError, match=message):
        modelfile.save(BudgetMKLClassifier(**settings), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
arrays = st.builds(
    lambda dtype, shape, seed: np.random.default_rng(seed).integers(0, 2, shape).astype(dtype),
    st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "str"]),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 9),
)
trees = st.recursive(
    plain | arrays | st.sampled_from(LEARNERS + KERNELS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), trees, max_size=3))
@settings(max_examples=50, deadline=None)
def test_any_tree_of_values_comes_back(tmp_path_factory, notes):
    path = tmp_path_factory.mktemp("tree") / "m"
    modelfile.write(path, Model(BudgetMKLClassifier(), notes))
    assert_equal(modelfile.read(path).notes, notes)


def test_big_endian_and_strided_arrays_are_stored_as_any_other(tmp_path):
    values = np.arange(12.0).reshape(3, 4)
    modelfile.write(
        tmp_path / "m",
        Model(
            BudgetMKLClassifier(), {"a": values.astype(">f8"), "b": np.asfortranarray(values), "c": values[::2, ::-1]}
        ),
    )
    notes = modelfile.read(tmp_path / "m").notes
    for name, expected in (("a", values), ("b", values), ("c", values[::2, ::-1])):
        np.testing.assert_array_equal(notes[name], expected)
        assert notes[name].dtype == np.dtype("<f8")


def test_every_algorithm_of_the_paper_can_be_saved(tmp_path):
    X, y = rows()
    for name in paper.ALGORITHMS:
        model = paper.algorithm(name).set_params(random_state=0).fit(X, y)
        modelfile.save(model, tmp_path / "m")
        again = modelfile.load(tmp_path / "m")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("change", [{"budget": 5}, {"learner": RBP(), "budget": 3}, {"kernels": [Linear()]}])
def test_parameters_set_after_learning_do_not_change_what_was_learned(tmp_path, change):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = BudgetMKLClassifier([Gaussian(0.5)], random_state=0).fit(X, y)
    expected = model.decision_function(X)
    model.set_params(**change)
    modelfile.save(model, tmp_path / "model.bomkl")
    for restored in (modelfile.load(tmp_path / "model.bomkl"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(restored.decision_function(X), expected)
        assert restored.get_params()["budget"] == model.budget
        with pytest.raises(ValueError, match="after learning had begun"):
            restored.partial_fit(X, y)


def test_pickle_carries_the_same_state(tmp_path):
    model = small_model().estimator
    modelfile.save(pickle.loads(pickle.dumps(model)), tmp_path / "a")
    modelfile.save(model, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# old versions


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "data").glob("model_v*.bomkl")), ids=lambda p: p.name)
def test_files_of_every_version_load(path):
    model = modelfile.read(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    np.testing.assert_allclose(model.estimator.decision_function(expected["X"]), expected["margins"], rtol=1e-12)
    assert model.notes == expected["notes"]


def test_a_file_of_every_version_is_kept():
    kept = {path.name for path in (Path(__file__).parent / "data").glob("model_v*.bomkl")}
    assert kept == {f"model_v{version}.bomkl" for version in range(1, modelfile.FORMAT_VERSION + 1)}


# damaged and hostile files


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


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("estimator", [BudgetMKLClassifier, AutoMKLClassifier])
def test_numbers_that_are_not_finite_are_refused(tmp_path, estimator, value):
    model = estimator(budget=20, random_state=0).fit(*rows(60))
    modelfile.save(model, tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    length = struct.unpack("<8sIQQ", data[:28])[2]
    content, body = json.loads(data[28 : 28 + length]), bytearray(data[28 + length : -32])
    at, refused = 0, 0
    for entry in content["arrays"]:
        if entry["dtype"] in ("<f8", "<f4") and math.prod(entry["shape"]):
            number = np.array(value, dtype=entry["dtype"]).tobytes()
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


# writing


def test_the_old_file_survives_a_full_disk(tmp_path):
    path = tmp_path / "m"
    modelfile.write(path, small_model(version="old"))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            modelfile.write(path, small_model(version="new"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_the_temporary_file_is_nobody_elses(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in (".m.tmp", ".m.lock"):
        (tmp_path / name).symlink_to(victim)
    seen = []
    for _ in range(2):
        with replacing(tmp_path / "m") as file:
            seen.append(set(os.listdir(tmp_path)) - {"m", "victim", ".m.tmp", ".m.lock"})
            file.write(b"whole")
    assert seen[0].isdisjoint(seen[1])
    assert len(seen[0]) == len(seen[1]) == 1
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "m").read_bytes() == b"whole"
    monkeypatch.setattr(secrets, "token_hex", lambda size: "taken")
    (tmp_path / f".bomkl-{zlib.crc32(b'm'):08x}-taken.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        modelfile.write(tmp_path / "m", small_model())
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(os.name != "posix", reason="folders are flushed on POSIX systems only")
def test_a_file_is_on_the_disk_before_it_takes_its_name_and_the_name_after_it(tmp_path, monkeypatch):
    steps = []

    def fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)

    def replace(source, target):
        steps.append("name")
        os.rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with replacing(tmp_path / "m") as file:
        file.write(b"ten bytes.")
    assert steps == [10, "name", "folder"]


def test_two_writers_at_once_leave_one_whole_file(tmp_path):
    with replacing(tmp_path / "m") as file:
        file.write(b"half")
        modelfile.write(tmp_path / "m", small_model(writer="inner"))
        assert modelfile.read(tmp_path / "m").notes == {"writer": "inner"}
    assert (tmp_path / "m").read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["m"]


KILLED_WRITER = """
import os, signal, sys
from bomkl._files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def make_old(path):
    os.utime(path, (1, 1))


@pytest.mark.skipif(os.name != "posix", reason="locks of files are those of POSIX")
def test_the_next_save_deletes_what_a_killed_one_left(tmp_path):
    for name in ("m", "other"):
        subprocess.run([sys.executable, "-c", KILLED_WRITER, str(tmp_path / name)], check=False)
    left = sorted(tmp_path.iterdir())
    assert len(left) == 2
    with replacing(tmp_path / "m"):
        assert len(os.listdir(tmp_path)) == 3  # too young to tell, where machines do not see each other's locks
    for path in left:
        make_old(path)
    with replacing(tmp_path / "m"):
        pass
    assert len(os.listdir(tmp_path)) == 2, "the file, and what was left when the other one was written"
    with replacing(tmp_path / "other"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["m", "other"]


def test_a_save_leaves_alone_what_others_write_and_what_is_not_its_own(tmp_path):
    begin = f".bomkl-{zlib.crc32(b'm'):08x}-"
    strangers = [tmp_path / f"{begin}notes.tmp", tmp_path / ".bomkl-0123456789abcdef.tmp"]
    link = tmp_path / f"{begin}{'0' * 16}.tmp"
    for path in strangers:
        path.write_bytes(b"kept")
        make_old(path)
    link.symlink_to(strangers[0])
    with replacing(tmp_path / "m") as file:
        file.write(b"slow")
        file.flush()
        (own,) = set(tmp_path.iterdir()) - {*strangers, link}
        make_old(own)
        modelfile.write(tmp_path / "m", small_model(writer="quick"))
        assert own.exists()
    assert (tmp_path / "m").read_bytes() == b"slow"
    assert all(path.read_bytes() == b"kept" for path in strangers)
    assert link.is_symlink()


def test_a_temporary_file_that_is_deleted_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, deleted = _files.try_lock, []

    def late(descriptor):
        if not deleted:
            deleted.extend(tmp_path.iterdir())
            deleted[0].unlink()
        return lock(descriptor)

    monkeypatch.setattr(_files, "try_lock", late)
    with replacing(tmp_path / "m") as file:
        file.write(b"whole")
    assert deleted
    assert (tmp_path / "m").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["m"]


def test_a_lock_is_held_by_one(tmp_path):
    with locked(tmp_path / "m"), pytest.raises(BusyError, match="another process is writing"), locked(tmp_path / "m"):
        pytest.fail("two hold it")
    with locked(tmp_path / "m"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"")
    path.chmod(0o600)
    modelfile.write(path, small_model())
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkdir(tmp_path / "folder")
    for path in (tmp_path / "pipe", tmp_path / "folder", "/dev/full"):
        with pytest.raises(OSError, match="not a regular file"):
            modelfile.write(path, small_model())
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


def test_links_are_followed_and_modes_are_those_of_new_files(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    before = os.umask(0o027)
    try:
        modelfile.write(tmp_path / "link", small_model())
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640


def test_nan_is_kept(tmp_path):
    modelfile.write(tmp_path / "m", Model(BudgetMKLClassifier(), {"a": [math.nan, math.inf, -math.inf, -0.0]}))
    assert repr(modelfile.read(tmp_path / "m").notes["a"]) == "[nan, inf, -inf, -0.0]"


def test_kernels_of_a_file_are_kernels():
    state = BudgetMKLRegressor([Gaussian(1.0)], budget=3).fit([[0.0], [1.0]], [0, 1]).__getstate__()
    state["kernels_"] = [3]
    with pytest.raises(ValueError, match="'kernels' parameter of a stored model must be"):
        BudgetMKLRegressor().__setstate__(state)


@pytest.mark.parametrize("kind", [AutoMKLClassifier, BudgetMKLClassifier])
def test_a_loaded_count_of_threads_is_checked_when_it_is_used(kind):
    model = kind(budget=8).fit(*rows())
    odd = modelfile.from_bytes(modelfile.to_bytes(Model(model.set_params(n_jobs="all")))).estimator
    with pytest.raises(ValueError, match=r"'n_jobs' parameter of .* must be None or an int other than 0"):
        odd.predict(rows()[0])

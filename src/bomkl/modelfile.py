"""Model files: one file with a version and a checksum, without pickle. An old file is never lost.

Layout, all numbers little-endian::

    8 bytes   magic
    4 bytes   format version
    8 bytes   length of the header
    8 bytes   length of the arrays
    header    JSON: a tree of plain values, and a table with the dtype and shape of every array
    arrays    raw, one after the other in the order of the table
    32 bytes  SHA-256 of everything before

Nothing of a file is used before its checksum and every size in it have been checked. Reading takes memory in
proportion to the size of the file, whatever the file says: every array in it is used once, and no text is padded to the
length of another. The numbers of a fitted estimator are finite, in what is written and in what is read.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl import combiners, kernels, learners
from bomkl._support.files import replacing

FORMAT_VERSION = 1
_MAGIC = b"BOMKL\r\n\x1a"  # like PNG's: a transfer that changes line ends is noticed
_PREFIX = struct.Struct("<8sIQQ")
_CHECKSUM_BYTES = 32
_MOST_PADDING = 16
_DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or holds what this version cannot read."""


@dataclass(frozen=True)
class Model:
    """What a model file holds.

    Parameters
    ----------
    estimator : estimator of this package
        Fitted or not.
    notes : dict, default={}
        Plain values that the program that wrote the file wants to find again, such as how rows are read.
    """

    estimator: Any
    notes: dict[str, Any] = field(default_factory=dict)


def save(estimator: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Save an estimator, fitted or not. A file at `path` is replaced only when the new one is complete.

    Parameters
    ----------
    estimator : estimator of this package
        The estimator. Python functions among its parameters cannot be saved.
    path : path
        The file to write.
    notes : mapping or None, default=None
        Plain values to store with the estimator.

    Examples
    --------
    >>> import tempfile, os
    >>> from bomkl import BudgetMKLClassifier
    >>> path = os.path.join(tempfile.mkdtemp(), "model.bomkl")
    >>> save(BudgetMKLClassifier(budget=100).fit([[0.0], [1.0]], [0, 1]), path)
    >>> load(path).predict([[1.0]]).shape
    (1,)
    """
    write(path, Model(estimator, dict(notes or {})))


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator, which goes on exactly where the saved one stopped.

    Parameters
    ----------
    path : path
        A model file.

    Returns
    -------
    estimator
    """
    return read(path).estimator


def write(path: str | os.PathLike[str], model: Model) -> None:
    """Write a model file atomically: it is either the old one or the complete new one, whatever happens."""
    pieces = list(_pieces(model))  # all of them before there is a file
    with replacing(path) as file:
        for piece in pieces:
            file.write(piece)


def to_bytes(model: Model) -> bytes:
    """Return the bytes that `write` writes."""
    return b"".join(_pieces(model))


def _pieces(model: Model) -> Iterator[Any]:
    arrays: list[NDArray[Any]] = []
    tree = {"estimator": _encode(model.estimator, "", arrays), "notes": _encode(model.notes, "notes", arrays)}
    table = [{"dtype": array.dtype.str, "shape": list(array.shape)} for array in arrays]
    header = json.dumps({"model": tree, "arrays": table}, allow_nan=False, separators=(",", ":")).encode()
    size = sum(array.nbytes for array in arrays)
    digest = hashlib.sha256()
    pieces: tuple[Any, ...] = (_PREFIX.pack(_MAGIC, FORMAT_VERSION, len(header), size), header, *arrays)
    for piece in pieces:
        digest.update(piece)
        yield piece
    yield digest.digest()


def read(path: str | os.PathLike[str]) -> Model:
    """Read a model file and check all of it; raises `ModelFileError` if anything is wrong."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ModelFileError("not a regular file")
            _sizes(file.read(_PREFIX.size), status.st_size)  # before all of it is in memory
            file.seek(0)
            return from_bytes(file.read(status.st_size))
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from error.__cause__


def from_bytes(content: bytes) -> Model:
    """Check the bytes of a model file and return what they hold; raises `ModelFileError` if anything is wrong."""
    header_bytes, array_bytes = _sizes(content[: _PREFIX.size], len(content))
    data = memoryview(content)
    if hashlib.sha256(data[:-_CHECKSUM_BYTES]).digest() != data[-_CHECKSUM_BYTES:]:
        raise ModelFileError("the checksum is wrong: the file is damaged")
    view = data[_PREFIX.size :]
    return _parse(bytes(view[:header_bytes]), view[header_bytes : header_bytes + array_bytes])


def _sizes(prefix: bytes, file_size: int) -> tuple[int, int]:
    """Lengths of header and arrays, after checking that they are those of the file."""
    if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
        raise ModelFileError("not a model file of bomkl, or cut off at its start")
    _, version, header_bytes, array_bytes = _PREFIX.unpack(prefix)
    if not 1 <= version <= FORMAT_VERSION:
        raise ModelFileError(f"format version {version}, but this bomkl reads versions 1 to {FORMAT_VERSION}")
    if _PREFIX.size + header_bytes + array_bytes + _CHECKSUM_BYTES != file_size:
        raise ModelFileError("the file does not have the size that its header says: it is cut off or damaged")
    return header_bytes, array_bytes


def _parse(header: bytes, data: memoryview) -> Model:
    try:
        content = json.loads(header)
        table, tree = content["arrays"], content["model"]
        reader = _Reader(_arrays(table, data))
        estimator, notes = reader.decode(tree["estimator"]), reader.decode(tree["notes"])
        reader.check_all_used()
    except ModelFileError:
        raise
    except Exception as error:  # what a hostile header can lead to has no end, and all of it means the same
        raise ModelFileError(f"the content is not one that bomkl writes ({error!r})") from error
    if not (hasattr(estimator, "get_params") and isinstance(notes, dict)):
        raise ModelFileError("the file does not hold an estimator")
    return Model(estimator, notes)


def _arrays(table: Any, data: memoryview) -> list[NDArray[Any]]:
    arrays, at = [], 0
    for entry in table:
        dtype, shape = entry["dtype"], entry["shape"]
        if dtype not in _DTYPES or not all(type(length) is int and length >= 0 for length in shape):
            raise ModelFileError(f"an array of type {dtype!r} and shape {shape!r} cannot be read")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(data) - at:
            raise ModelFileError("an array is larger than the file")
        arrays.append(np.frombuffer(data[at : at + size], dtype=dtype).reshape(shape).copy())
        at += size
    if at != len(data):
        raise ModelFileError("the arrays do not fill the file")
    return arrays


# Values that JSON lacks are objects with one key that starts with "$".


def _encode(value: Any, where: str, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        return _encode_array(value, where, arrays)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return [_encode(item, f"{where}[{at}]", arrays) for at, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": _encode(list(value), where, arrays)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _encode(item, f"{where}.{key}", arrays) for key, item in value.items()}
        return {"$pairs": _encode([list(pair) for pair in value.items()], where, arrays)}
    if is_dataclass(value) and spec_classes().get(type(value).__name__) is type(value):
        settings = {each.name: getattr(value, each.name) for each in fields(value)}
        return {"$spec": [type(value).__name__, _encode(settings, where, arrays)]}
    if isinstance(value, np.dtype):
        return {"$dtype": value.newbyteorder("<").str}
    if hasattr(value, "get_params") and _estimators().get(type(value).__name__) is type(value):
        return _encode_estimator(value, where, arrays)
    if callable(value):
        raise ModelFileError(
            f"{where} is the Python function {value!r}; a model file holds no code. Use one of the kernels of "
            "bomkl.kernels and plain numbers instead, or pickle the estimator."
        )
    raise ModelFileError(f"{where} is a {type(value).__name__}, which a model file cannot hold: {value!r}")


def _encode_estimator(estimator: Any, where: str, arrays: list[NDArray[Any]]) -> Any:
    params = estimator.get_params(deep=False)
    state = {name: value for name, value in estimator.__getstate__().items() if name not in params}
    if (wrong := _not_finite(state, where)) is not None:
        raise ModelFileError(f"{wrong.removeprefix('.')} holds a number that is not finite: the model is of no use")
    at = f"{where}." if where else ""
    # attributes in order of their names, so that equal models are equal files whatever happened to them in between
    encoded = [{name: _encode(part[name], at + name, arrays) for name in sorted(part)} for part in (params, state)]
    return {"$estimator": [type(estimator).__name__, *encoded]}


def _encode_array(array: NDArray[Any], where: str, arrays: list[NDArray[Any]]) -> Any:
    if array.dtype.kind in "UO":
        if not all(isinstance(item, str) for item in array.ravel()):
            raise ModelFileError(f"{where} is an array of objects that are not strings, which a model file cannot hold")
        return {"$strings": [list(array.shape), array.ravel().tolist()]}
    little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if little.dtype.str not in _DTYPES:
        raise ModelFileError(f"{where} is an array of type {array.dtype}, which a model file cannot hold")
    arrays.append(little)
    return {"$array": len(arrays) - 1}


class _Reader:
    """Turns the tree of a header back into values; every array may be used once, as it is written once."""

    def __init__(self, arrays: list[NDArray[Any]]) -> None:
        self._arrays: dict[int, NDArray[Any]] = dict(enumerate(arrays))

    def check_all_used(self) -> None:
        if self._arrays:
            raise ModelFileError("it holds arrays that belong to nothing")

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1 or not (tag := next(iter(value))).startswith("$"):
            return {key: self.decode(item) for key, item in value.items()}
        content = value[tag]
        match tag:
            case "$float":
                return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
            case "$array":
                if type(content) is not int or content not in self._arrays:
                    raise ModelFileError("an array number is wrong or used twice")
                return self._arrays.pop(content)
            case "$strings":
                return _decode_strings(*content)
            case "$tuple":
                return tuple(self.decode(content))
            case "$pairs":
                return dict(self.decode(content))
            case "$dtype":
                if content not in _DTYPES:
                    raise ModelFileError(f"arrays of type {content!r} cannot be read")
                return np.dtype(content)
            case "$estimator":
                name, params, state = content
                return _revive(name, self.decode(params), self.decode(state))
            case "$spec":
                name, settings = content
                return spec_classes()[name](**self.decode(settings))
        raise ModelFileError(f"unknown kind of value {tag!r}")


def _decode_strings(shape: Any, texts: Any) -> NDArray[Any]:
    if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise ModelFileError("an array of strings holds something else")
    length = max(map(len, texts), default=1)
    # NumPy pads every text to the longest; where that would take far more than the texts do, they stay objects
    if len(texts) * length > _MOST_PADDING * (sum(map(len, texts)) + len(texts) + 1000):
        return np.array(texts, dtype=object).reshape(shape)
    return np.array(texts, dtype=f"<U{max(length, 1)}").reshape(shape)


def _revive(name: str, params: dict[str, Any], state: dict[str, Any]) -> Any:
    kind = _estimators().get(name)
    if kind is None:
        raise ModelFileError(f"it holds a {name!r}, which is not an estimator of this version of bomkl")
    estimator = kind(**params)
    if (where := _not_finite(state, "")) is not None:
        raise ModelFileError(f"{where[1:]} holds a number that is not finite, so every prediction would be wrong")
    if hiding := [attribute for attribute in state if hasattr(kind, attribute) or attribute in params]:
        raise ModelFileError(f"what it holds for {hiding} cannot be part of a {name}")
    estimator.__setstate__({**params, **state})
    return estimator


def _not_finite(value: Any, where: str) -> str | None:
    """Name the first place that holds NaN or infinity: no state that an estimator learned does."""
    if _is_finite(value):
        return None
    if isinstance(value, dict):
        places = ((item, f"{where}.{key}") for key, item in value.items())
    elif isinstance(value, list | tuple):
        places = ((item, f"{where}[{at}]") for at, item in enumerate(value))
    else:
        return where
    return next(found for item, at in places if (found := _not_finite(item, at)) is not None)


def _is_finite(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float | np.floating) or math.isfinite(value)


@cache
def _estimators() -> dict[str, Any]:
    """Estimators by the name under which the package offers them: classes that a model file can bring to life."""
    package = importlib.import_module("bomkl")
    offered = [getattr(package, name) for name in package.__all__]
    offered += [kind for module in offered if isinstance(module, ModuleType) for kind in vars(module).values()]
    return {kind.__name__: kind for kind in offered if isinstance(kind, type) and hasattr(kind, "get_params")}


@cache
def spec_classes() -> dict[str, Any]:
    """Kernels, learners and combiners by name: the other classes that a model file can bring to life."""
    return {
        name: spec
        for module in (kernels, learners, combiners)
        for name, spec in vars(module).items()
        if is_dataclass(spec) and isinstance(spec, type) and spec.__module__ == module.__name__ and name[0] != "_"
    }

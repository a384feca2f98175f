"""The data registry: what the nine data sets are, where they lie, and how they are loaded.

A data set is looked for as a canonical ``.npz`` file, or as its public source files, in the folder named by the
environment variable ``BOMKL_DATA``, then in ``../shared/data``, then in the download cache. Only after that is it
downloaded.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import bomkl
from bomkl._support.files import replacing
from bomkl_lab.experiments.converters import CONVERTERS, Arrays, DataFileError, read_npz
from bomkl_lab.experiments.names import resolve_name

ENVIRONMENT_VARIABLE = "BOMKL_DATA"


class MissingDataError(RuntimeError):
    """A data set that is neither on this machine nor to be had from the network."""


@dataclass(frozen=True)
class DatasetSpec:
    """What is known about one data set before it is read; see ``datasets.toml`` for the meaning of each field.

    `budget` is for data sets of your own: the budget per kernel in Table 2. Without it, they are in Table 1 only.
    """

    name: str
    rows: int
    columns: int
    file: str
    sources: tuple[str, ...] = ()
    format: str = "svmlight"
    scaling: Literal["none", "minmax"] = "none"
    scaling_note: str = "as distributed"
    dtype: Literal["float32", "float64"] = "float64"
    citation: str = ""
    licence: str = ""
    access: Literal["automatic", "large", "registration", "local"] = "local"
    stands_for: str | None = None
    sha256: str | None = None
    budget: int | None = None

    @property
    def source_files(self) -> tuple[str, ...]:
        """Names of the public source files."""
        return tuple(source.rsplit("/", 1)[-1] for source in self.sources)


@dataclass(frozen=True)
class Dataset:
    """A data set in memory, scaled as the published tables need it.

    Attributes
    ----------
    spec : DatasetSpec
        Where it comes from.
    X : ndarray of shape (rows, columns)
        Features, in the dtype that was asked for.
    y : ndarray of shape (rows,)
        Labels, -1 or +1.
    """

    spec: DatasetSpec
    X: NDArray[Any]
    y: NDArray[np.int8]


_registered: dict[str, DatasetSpec] = {}


@functools.cache
def _paper_datasets() -> dict[str, DatasetSpec]:
    text = resources.files(__package__).joinpath("datasets.toml").read_text(encoding="utf-8")
    return {
        name: DatasetSpec(name=name, **{**fields, "sources": tuple(fields["sources"])})
        for name, fields in tomllib.loads(text).items()
    }


def registry() -> dict[str, DatasetSpec]:
    """Return every known data set by name: the paper's in the order of its appendix, then the registered ones."""
    return _paper_datasets() | _registered


def own_datasets(table: int) -> list[str]:
    """Return the registered data sets that are not the paper's and have a place in a table."""
    own = [spec for name, spec in _registered.items() if name not in _paper_datasets()]
    return [spec.name for spec in own if table == 1 or spec.budget is not None]


def register_dataset(spec: DatasetSpec) -> None:
    """Add a data set, or replace one of the same name, in this process."""
    _registered[spec.name] = spec


def get_spec(name: str) -> DatasetSpec:
    """Return the data set of that name, whatever its case; an unknown one raises with the nearest spelling."""
    return registry()[resolve_name("data set", name, registry())]


def canonical_sha256(X: NDArray[Any], y: NDArray[Any]) -> str:
    """Hash the canonical form: the shape as text, X as little-endian float32 by rows, y as int8.

    Examples
    --------
    >>> canonical_sha256(np.zeros((2, 3)), np.ones(2))[:12]
    '93d726554282'
    """
    digest = hashlib.sha256(f"{X.shape[0]}x{X.shape[1]}\n".encode())
    digest.update(np.ascontiguousarray(X, dtype="<f4").tobytes())
    digest.update(y.astype("<i1").tobytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return the folder that downloads and conversions are kept in."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bomkl"


# that of this package, and that of bomkl, which has the data of `bomkl demo`
BUNDLED = (Path(__file__).resolve().parents[1] / "data", Path(bomkl.__file__).resolve().parent / "data")


def data_folders() -> list[Path]:
    """Return the folders a data set is looked for in, first to last."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    repository = Path(__file__).resolve().parents[3]
    folders = [Path(chosen)] if chosen else []
    folders += [Path.cwd().parent / "shared" / "data", repository.parent / "shared" / "data", cache_folder(), *BUNDLED]
    return list(dict.fromkeys(folders))


def find_local(spec: DatasetSpec) -> tuple[Path, ...]:
    """Return the canonical file, or else the complete source files, of a data set on this machine; empty if neither."""
    for folder in data_folders():
        if (folder / spec.file).is_file():
            return (folder / spec.file,)
    for folder in data_folders():
        sources = tuple(folder / name for name in spec.source_files)
        if sources and all(source.is_file() for source in sources):
            return sources
    return ()


def how_to_get(spec: DatasetSpec) -> str:
    """Say what is missing and where to put it."""
    wanted = " or ".join(filter(None, (spec.file, " + ".join(spec.source_files))))
    folder = f"the folder named by the environment variable {ENVIRONMENT_VARIABLE}"
    if spec.access == "registration":
        return f"{spec.name} needs its owner's consent: {spec.licence}; put {wanted} into {folder}."
    if spec.access == "local":
        other = f", or fetch {spec.stands_for}" if spec.stands_for else ""
        return f"{spec.name} cannot be downloaded: put {wanted} into {folder}{other}."
    return f"{spec.name} comes from {', '.join(spec.sources)}; put {wanted} into {folder}."


def fetch(spec: DatasetSpec) -> Path:
    """Return the path of a data set's canonical file, downloading and converting it first if need be.

    Parameters
    ----------
    spec : DatasetSpec
        The data set.

    Returns
    -------
    Path
        The canonical ``.npz`` file, its content checked.
    """
    found = find_local(spec)
    if found and found[0].name == spec.file:
        _checked(spec, found[0], read_npz(found[0]))
        return found[0]
    sources = found or _download(spec)
    try:
        X, y = _checked(spec, sources[-1], CONVERTERS[spec.format](sources, spec.columns))
    except DataFileError:
        if not found:
            # A download that broke off must not be what the next call finds in the cache.
            for source in sources:
                source.unlink()
        raise
    return _save(spec, X, y)


def load_dataset(dataset: str | DatasetSpec, dtype: str | None = None) -> Dataset:
    """Load a data set, scaled as the published tables need it.

    Parameters
    ----------
    dataset : str or DatasetSpec
        The data set or its name.
    dtype : {"float32", "float64"}, optional
        Precision of X; by default the one the tables are computed in.

    Returns
    -------
    Dataset
        Features, labels and origin.
    """
    spec = get_spec(dataset) if isinstance(dataset, str) else dataset
    X, y = read_npz(fetch(spec))
    scaled = minmax_scaled(X) if spec.scaling == "minmax" else X
    return Dataset(spec, np.ascontiguousarray(scaled, dtype=dtype or spec.dtype), y)


def minmax_scaled(X: NDArray[Any]) -> NDArray[np.float64]:
    """Map each column to [0, 1]; a constant column becomes zero.

    Examples
    --------
    >>> minmax_scaled(np.array([[1.0, 7.0], [3.0, 7.0]]))
    array([[0., 0.],
           [1., 0.]])
    """
    low = X.min(axis=0).astype(np.float64)
    span = X.max(axis=0) - low
    scaled: NDArray[np.float64] = (X - low) / np.where(span > 0, span, 1.0)
    return scaled


def _checked(spec: DatasetSpec, path: Path, arrays: Arrays) -> Arrays:
    X, y = arrays
    if X.shape != (spec.rows, spec.columns):
        expected = f"{spec.rows} rows of {spec.columns} columns"
        raise DataFileError(
            f"{path}: {X.shape[0]} rows of {X.shape[1]} columns instead of {expected}; is it truncated?"
        )
    if spec.sha256 is not None and (found := canonical_sha256(X, y)) != spec.sha256:
        raise DataFileError(f"{path}: the content is not {spec.name}'s: SHA-256 {found} instead of {spec.sha256}.")
    return X, y


def _download(spec: DatasetSpec) -> tuple[Path, ...]:
    if spec.access in ("registration", "local"):
        raise MissingDataError(f"{spec.name} is not on this machine. {how_to_get(spec)}")
    import pooch

    paths = []
    for source, name in zip(spec.sources, spec.source_files, strict=True):
        try:
            # The sources publish no checksums: the converted content is what gets checked.
            path = pooch.retrieve(source, known_hash=None, fname=name, path=cache_folder(), progressbar=False)
        except OSError as error:
            # requests' errors are OSErrors too: no network, no such host, a page that has moved.
            message = f"{spec.name} is not on this machine, and {source} cannot be reached ({type(error).__name__})."
            raise MissingDataError(f"{message} {how_to_get(spec)}") from error
        paths.append(Path(path))
    return tuple(paths)


def _save(spec: DatasetSpec, X: NDArray[np.float32], y: NDArray[np.int8]) -> Path:
    """Write the canonical file under its name only once it is complete."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / spec.file
    with replacing(target) as stream:
        np.savez_compressed(stream, X=X, y=y)
    return target

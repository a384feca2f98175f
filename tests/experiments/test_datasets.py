"""The data registry: what is known, where it is looked for, what happens when it is not there."""

import dataclasses
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from bomkl.experiments import datasets
from bomkl.experiments.converters import DataFileError
from bomkl.experiments.datasets import DatasetSpec, MissingDataError, fetch, get_spec, load_dataset, registry
from bomkl.experiments.names import UnknownNameError
from bomkl.experiments.published import _published

SPEC = DatasetSpec(
    name="tiny",
    rows=2,
    columns=3,
    file="tiny.npz",
    sources=("https://example.org/data/tiny.svm",),
    format="svmlight",
    scaling="none",
    scaling_note="none",
    dtype="float32",
    citation="nobody",
    licence="none",
    access="automatic",
)
SVM = "-1 1:0.5 3:2\n+1 2:1\n"


def test_registry_has_the_papers_nine_sizes() -> None:
    sizes = {name: {"T": spec.rows, "d": spec.columns} for name, spec in registry().items() if not spec.stands_for}
    assert sizes == _published()["datasets"]
    assert all(spec.citation and spec.licence and spec.scaling_note for spec in registry().values())


def test_unknown_name_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown data set 'magic4'; did you mean 'magic04'\? Known: german, .*susy"
    ):
        get_spec("magic4")
    with pytest.raises(UnknownNameError, match=r"Unknown data set 'qqq'\. Known: german"):
        get_spec("qqq")


@pytest.mark.parametrize("name", [name for name, spec in registry().items() if spec.sha256])
def test_local_copies_are_what_the_registry_says(name: str) -> None:
    if not datasets.find_local(get_spec(name)):
        pytest.skip(f"{name} is not on this machine")
    data = load_dataset(name)
    assert data.X.dtype == data.spec.dtype
    assert set(np.unique(data.y)) == {-1, 1}
    if data.spec.scaling == "minmax":
        assert data.X.min(axis=0).tolist() == [0] * data.spec.columns
        assert data.X.max(axis=0).tolist() == [1] * data.spec.columns


def test_source_files_are_converted_and_kept(data_folder: Path) -> None:
    (data_folder / "tiny.svm").write_text(SVM)
    path = fetch(SPEC)
    assert path == datasets.cache_folder() / "tiny.npz"
    (data_folder / "tiny.svm").unlink()
    assert fetch(SPEC) == path
    assert load_dataset(SPEC).X.tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert [file.name for file in path.parent.iterdir()] == ["tiny.npz"]


def test_wrong_content_is_refused(data_folder: Path) -> None:
    (data_folder / "tiny.svm").write_text(SVM)
    with pytest.raises(DataFileError, match=r"the content is not tiny's: SHA-256 [0-9a-f]{64} instead of 00"):
        fetch(dataclasses.replace(SPEC, sha256="00"))
    (data_folder / "tiny.svm").write_text(SVM + "-1 1:1\n")
    with pytest.raises(DataFileError, match="3 rows of 3 columns instead of 2 rows of 3 columns"):
        fetch(SPEC)


class Downloads(types.ModuleType):
    """Stands in for pooch: a network that has one file, or none."""

    def __init__(self, content: str | None) -> None:
        super().__init__("pooch")
        self.content = content

    def retrieve(self, url: str, known_hash: None, fname: str, path: Path, progressbar: bool) -> str:
        if self.content is None:
            raise ConnectionError(f"no route to {url}")
        path.mkdir(parents=True)
        (path / fname).write_text(self.content)
        return str(path / fname)


def test_download_and_convert(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", Downloads(SVM))
    assert load_dataset(SPEC).y.tolist() == [-1, 1]


def test_without_a_network_it_says_what_to_do(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", Downloads(None))
    message = (
        r"tiny is not on this machine, and https://example\.org/data/tiny\.svm cannot be reached \(ConnectionError\)\. "
        r"tiny comes from .*; put tiny\.npz or tiny\.svm into the folder named by the environment variable BOMKL_DATA\."
    )
    with pytest.raises(MissingDataError, match=message):
        fetch(SPEC)


def test_pooch_itself_is_called_correctly(data_folder: Path) -> None:
    pooch = pytest.importorskip("pooch")
    assert pooch.retrieve is not None
    local = data_folder / "elsewhere.svm"
    local.write_text(SVM)
    # A file whose address cannot be resolved anywhere: the error of the real library becomes ours.
    with pytest.raises(MissingDataError, match="cannot be reached"):
        fetch(dataclasses.replace(SPEC, sources=("http://nowhere.invalid/tiny.svm",)))


@pytest.mark.parametrize(("name", "message"), [("kdd08", "registration at"), ("susy-sample", "or fetch susy")])
def test_sets_that_cannot_be_downloaded(data_folder: Path, name: str, message: str) -> None:
    with pytest.raises(MissingDataError, match=message):
        fetch(get_spec(name))


def test_minmax_scaling_is_applied(data_folder: Path) -> None:
    np.savez(data_folder / "tiny.npz", X=np.array([[0.0, 5, 1], [4, 5, 3]]), y=np.array([1, -1]))
    data = load_dataset(dataclasses.replace(SPEC, scaling="minmax"), "float64")
    assert data.X.tolist() == [[0, 0, 0], [1, 0, 1]]
    assert data.X.dtype == np.float64


def test_folders_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BOMKL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folders = datasets.data_folders()
    assert folders[0] == tmp_path
    assert folders[1] == tmp_path.parent / "shared" / "data"
    assert folders[-1] == tmp_path / "cache" / "bomkl"

"""The data registry: what is known, where it is looked for, what happens when it is not there."""

import bz2
import dataclasses
import functools
import sys
import threading
import types
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bomkl_lab import commands
from bomkl_lab.experiments import datasets
from bomkl_lab.experiments.converters import DataFileError
from bomkl_lab.experiments.datasets import DatasetSpec, MissingDataError, fetch, get_spec, load_dataset, registry
from bomkl_lab.experiments.names import UnknownNameError
from bomkl_lab.experiments.protocol import QUICK_DATASETS
from bomkl_lab.experiments.published import _published

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
        UnknownNameError, match=r"Unknown data set 'magic4'. Did you mean 'magic04'\? Known: german, .*susy"
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


@pytest.fixture
def web_page(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on this machine: its address, and the folder it serves."""
    folder = tmp_path / "web"
    folder.mkdir()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


def at(address: str, spec: DatasetSpec, **changes: Any) -> DatasetSpec:
    """The data set, to be had from another address."""
    return dataclasses.replace(spec, sources=tuple(f"{address}/{name}" for name in spec.source_files), **changes)


def test_the_command_downloads_checks_and_converts(data_folder: Path, web_page: tuple[str, Path]) -> None:
    """With the real pooch, in the format of ijcnn1: svmlight under bz2."""
    pytest.importorskip("pooch")
    address, folder = web_page
    (folder / "ijcnn1.bz2").write_bytes(bz2.compress(b"-1.000000 1:0.5 4:-0.25 \n1.000000 2:1 \n"))
    X, y = np.array([[0.5, 0, 0, -0.25], [0, 1, 0, 0]]), np.array([-1, 1])
    spec = at(address, get_spec("ijcnn1"), rows=2, columns=4, sha256=datasets.canonical_sha256(X, y))
    datasets.register_dataset(spec)
    result = CliRunner().invoke(commands.datasets_app, ["fetch", "ijcnn1"])
    assert result.exit_code == 0
    assert result.stdout.strip() == str(datasets.cache_folder() / "ijcnn1.npz")
    data = load_dataset("ijcnn1")
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, y)


def test_two_files_become_one_data_set(data_folder: Path, web_page: tuple[str, Path]) -> None:
    """As a9a: the training file, then the test file."""
    pytest.importorskip("pooch")
    address, folder = web_page
    (folder / "a9a").write_text("-1 3:1 11:1 \n+1 5:1 \n")
    (folder / "a9a.t").write_text("-1 1:1 123:1 \n")
    data = load_dataset(at(address, get_spec("a9a"), rows=3, sha256=None))
    assert [np.flatnonzero(row).tolist() for row in data.X] == [[2, 10], [4], [0, 122]]
    assert data.y.tolist() == [-1, 1, -1]


def test_magic04_is_downloaded_in_ucis_format(data_folder: Path, web_page: tuple[str, Path]) -> None:
    pytest.importorskip("pooch")
    address, folder = web_page
    lines = "28.7967,16.0021,2.6449,0.3918,0.1982,27.7004,22.011,-8.2027,40.092,81.8828,g\n"
    lines += "31.6036,11.7235,2.5185,0.5303,0.3773,26.2722,23.8238,-9.9574,6.3609,205.261,h\n"
    (folder / "magic04.data").write_text(lines)
    data = load_dataset(at(address, get_spec("magic04"), rows=2, sha256=None))
    assert data.X[1, -1] == np.float32(205.261)
    assert data.y.tolist() == [1, -1]


def test_a_broken_download_is_refused_and_not_kept(data_folder: Path, web_page: tuple[str, Path]) -> None:
    pytest.importorskip("pooch")
    address, folder = web_page
    X, y = np.array([[0.5, 0, 2], [0, 1, 0]]), np.array([-1, 1])
    spec = at(address, SPEC, sha256=datasets.canonical_sha256(X, y))
    (folder / "tiny.svm").write_text(SVM.splitlines()[0])
    with pytest.raises(DataFileError, match="1 rows of 3 columns instead of 2 rows"):
        fetch(spec)
    (folder / "tiny.svm").write_text(SVM.replace("0.5", "0.75"))
    with pytest.raises(DataFileError, match="the content is not tiny's"):
        fetch(spec)
    (folder / "tiny.svm").write_text(SVM)
    assert np.array_equal(load_dataset(spec).X, X)


def test_an_address_that_does_not_answer_is_named(data_folder: Path, web_page: tuple[str, Path]) -> None:
    pytest.importorskip("pooch")
    for address in (web_page[0], "http://nowhere.invalid"):  # no such page, no such host
        with pytest.raises(MissingDataError, match=rf"{address}/tiny\.svm cannot be reached"):
            fetch(at(address, SPEC))


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
    assert folders[-3:] == [tmp_path / "cache" / "bomkl", *datasets.BUNDLED]


def test_a_quick_reproduction_needs_nothing_but_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "data_folders", lambda: [*datasets.BUNDLED])
    monkeypatch.setattr(datasets, "_download", lambda spec: pytest.fail(f"{spec.name} is not in the package"))
    for name in QUICK_DATASETS:
        assert load_dataset(name).X.shape == (get_spec(name).rows, get_spec(name).columns)
        assert get_spec(name).licence.startswith("CC BY 4.0")
    assert sum(path.stat().st_size for folder in datasets.BUNDLED for path in folder.iterdir()) < 2**20

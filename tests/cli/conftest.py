"""Fixtures."""

from __future__ import annotations

import pytest
from tests.command_line import bomkl


@pytest.fixture
def pets(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("weight,coat,kind\n" + "4.5,short,cat\n30,long,dog\n0.1,none,fish\n" * 20)
    return path


@pytest.fixture
def model(svm, tmp_path):
    path = tmp_path / "m.bomkl"
    assert bomkl("train", svm, "-o", path, "-a", "SPA", "-q").exit_code == 0
    return path

"""A toy data set, a toy algorithm that worker processes can receive, and rows like those of a finished run."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bomkl_lab.experiments import algorithms, datasets
from bomkl_lab.experiments.protocol import Cell
from bomkl_lab.experiments.published import published_table
from bomkl_lab.experiments.results import Row

PLUGIN = '''
import time
import numpy as np
from bomkl_lab.experiments import register_algorithm


class Toy:
    """A linear perceptron with the attributes of a pool of two kernels."""

    def __init__(self, pause, random_state):
        self.pause, self.rng = pause, np.random.default_rng(random_state)

    def score_and_learn(self, X, y):
        time.sleep(self.pause)
        if not hasattr(self, "w"):
            self.w, self.n_support_ = self.rng.normal(size=X.shape[1]), np.zeros(2, dtype=int)
            self.kernel_weights_, self.kernels_ = np.array([0.25, 0.75]), ["a", "b"]
        margins = np.empty(len(X))
        for i, (row, label) in enumerate(zip(X, y)):
            margins[i] = row @ self.w
            if label * margins[i] <= 0:
                self.w, self.n_support_ = self.w + label * row, self.n_support_ + 1
        return margins


def broken(budget=None, random_state=0):
    raise RuntimeError("made to fail")


register_algorithm("toy", lambda budget=None, random_state=0: Toy(0.0, random_state))
register_algorithm("slow toy", lambda budget=None, random_state=0: Toy(0.0005, random_state))
register_algorithm("waits", lambda budget=None, random_state=0: Toy(600.0 * (random_state > 1), random_state))
register_algorithm("broken", broken)
'''


@pytest.fixture(autouse=True)
def _clean_registries() -> Iterator[None]:
    yield
    algorithms._registered.clear()
    datasets._registered.clear()


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "toy_algorithms.py"
    path.write_text(PLUGIN)
    algorithms.load_plugin(path)
    return path


def toy_arrays(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=rows) > 0, 1, -1).astype(np.int8)


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own: nothing is found elsewhere and nothing is written elsewhere."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("BOMKL_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "data_folders", lambda: [folder, datasets.cache_folder()])
    return folder


@pytest.fixture
def toy_german(data_folder: Path) -> datasets.DatasetSpec:
    """Numbers of german's shape under german's name."""
    spec = dataclasses.replace(datasets.get_spec("german"), sha256=None)
    X, y = toy_arrays(spec.rows, spec.columns)
    np.savez(data_folder / spec.file, X=X, y=y)
    datasets.register_dataset(spec)
    return spec


def _unit(cell: Cell, salt: str) -> float:
    digest = hashlib.sha256(f"{cell.key()}{salt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 - 0.5


def _fake_row(cell: Cell, shift: float = 0.0) -> Row:
    spec = datasets.get_spec(cell.dataset)
    blocks = [published_table(table).get(spec.stands_for or spec.name, {}) for table in (1, 2)]
    paper = next((block[cell.algorithm] for block in blocks if cell.algorithm in block), None)
    rate = (paper.mistake.mean if paper else 25.0) * (1 + 0.01 * _unit(cell, "mistakes") + shift) / 100
    beta = dict(cell.parameters).get("beta", 3.0)
    total = int((paper.svs.mean if paper else 100.0) * 3 / beta * (1 + 0.01 * _unit(cell, "svs")))
    total = 16 * cell.budget if cell.budget else total
    kernels = 13 if "Gaussian" in cell.algorithm else 16
    ends = np.unique(np.linspace(0, spec.rows, 21).round().astype(int))[1:]
    per_kernel = np.full(kernels, total // kernels)
    weights = np.full(kernels, 1 / kernels)
    names = [*(f"poly {p}" for p in (1, 2, 3)), *(f"sigma 2^{s}" for s in range(-6, 7))][-kernels:]
    return {
        "cell": cell.as_dict(),
        "status": "ok",
        "version": "0.1.0",
        "threads": 1,
        "machine": {"cpu": "a processor", "cores": 2, "system": "Linux x86_64", "python": "3.11"},
        "rows": spec.rows,
        "columns": spec.columns,
        "mistakes": round(rate * spec.rows),
        "hinge_loss": 0.6 * spec.rows,
        "seconds": 0.5 + _unit(cell, "seconds"),
        "peak_memory_mib": 100.0,
        "support": int(per_kernel.sum()),
        "support_per_kernel": per_kernel.tolist(),
        "weights": weights.tolist(),
        "kernel_mistakes": [10] * kernels,
        "kernels": names,
        "coefficient_sums": [5.0] * kernels,
        "curve": {
            "rows": ends.tolist(),
            "mistakes": (rate * ends).round().astype(int).tolist(),
            "support": (total * ends / spec.rows).round().astype(int).tolist(),
            "seconds": (ends / spec.rows).tolist(),
        },
        "weights_curve": {"rows": ends.tolist(), "weights": [weights.tolist()] * len(ends)},
    }


@pytest.fixture
def fake_row() -> Callable[..., Row]:
    return _fake_row


@pytest.fixture(scope="session")
def no_computing() -> Callable[[pytest.MonkeyPatch], None]:
    """Makes every cell "run" at once, with numbers near the published ones."""
    return lambda patch: patch.setattr(
        "bomkl_lab.experiments.runner.run_cell", lambda cell, factory, spec: _fake_row(cell)
    )

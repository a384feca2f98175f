"""The bounds against measurements, and the paper's algorithms in real cells."""

from collections.abc import Callable

import numpy as np
import pytest

from bomkl.kernels import Gaussian
from bomkl_lab.experiments import algorithms, bounds
from bomkl_lab.experiments.datasets import DatasetSpec, find_local, get_spec
from bomkl_lab.experiments.protocol import SPA, table_cells
from bomkl_lab.experiments.results import Row
from bomkl_lab.experiments.runner import run_cell


def test_comparators_are_elements_of_the_space() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] > 0.2, 1, -1)
    zero, *machines = bounds.comparators(X, y, sigma=1.5)
    assert zero == bounds.Comparator(60.0, 0.0)
    assert len(machines) == len(bounds.COMPARATOR_PENALTIES)
    # A larger penalty buys less loss with more norm.
    assert [m.norm for m in machines] == sorted(m.norm for m in machines)
    assert [m.loss for m in machines] == sorted((m.loss for m in machines), reverse=True)


def test_norm_of_a_comparator_is_that_of_its_expansion() -> None:
    from sklearn.svm import SVC

    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 2)), np.where(rng.random(40) > 0.5, 1, -1)
    machine = SVC(C=1.0, kernel="rbf", gamma=0.5).fit(X, y)
    coefficients, gram = machine.dual_coef_.ravel(), Gaussian(1.0)(machine.support_vectors_, machine.support_vectors_)
    found = bounds.comparators(X, y, sigma=1.0)[1 + bounds.COMPARATOR_PENALTIES.index(1.0)]
    assert found.norm == pytest.approx(np.sqrt(coefficients @ gram @ coefficients), rel=1e-6)


def test_table_of_bounds(
    toy_german: DatasetSpec, fake_row: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "comparators", lambda X, y, sigma: [bounds.Comparator(float(len(y)), 0.0)])
    rows = {cell.key(): fake_row(cell) for cell in bounds.bound_cells(["german"], range(2))}
    table = bounds.bounds_table(rows, ["german"], range(2))
    assert [line[0].text for line in table.rows] == ["german, delta = 0.001", "german, delta = 1"]
    assert {line[-1].text for line in table.rows} == {"yes"}
    for row in rows.values():
        row["support_per_kernel"][3] = 900  # more than alpha T / beta allows
    assert {line[-1].text for line in bounds.bounds_table(rows, ["german"], range(2)).rows} == {"no"}


def test_a_mean_may_exceed_its_bound_by_chance_only() -> None:
    noise = bounds._support_error(333.3, 1000, 3)
    assert noise == pytest.approx(8.6, abs=0.1)
    assert bounds._within(np.array([344.0]), [333.3], [noise])
    assert not bounds._within(np.array([370.0]), [333.3], [noise])


@pytest.fixture
def german() -> DatasetSpec:
    spec = get_spec("german")
    if not find_local(spec):
        pytest.skip("german is not on this machine")
    return spec


@pytest.mark.parametrize(
    ("table", "algorithm", "mistakes", "support"),
    [
        (1, SPA, (290, 320), (1400, 1950)),
        (1, "OMKC(DD)", (290, 330), (6700, 7100)),
        (1, "Perceptron(*)", (290, 340), (290, 340)),
    ],
)
def test_real_cells(
    german: DatasetSpec, table: int, algorithm: str, mistakes: tuple[int, int], support: tuple[int, int]
) -> None:
    (cell,) = table_cells(table, "german", [algorithm], [0])
    row = run_cell(cell, algorithms.factory_of(algorithm), german)
    assert row["status"] == "ok", row
    assert mistakes[0] <= row["mistakes"] <= mistakes[1]
    assert support[0] <= row["support"] <= support[1]
    assert len(row["kernels"]) == len(row["support_per_kernel"]) == (1 if algorithm == "Perceptron(*)" else 16)
    assert sum(row["weights"]) == pytest.approx(1, abs=1e-4)


def test_perceptron_chooses_one_kernel_for_all_permutations(german: DatasetSpec) -> None:
    cells = table_cells(1, "german", ["Perceptron(*)"], [0, 1])
    rows = [run_cell(cell, algorithms.factory_of("Perceptron(*)"), german) for cell in cells]
    assert rows[0]["kernels"] == rows[1]["kernels"]
    assert rows[0]["mistakes"] != rows[1]["mistakes"]


def test_gaussian_spa_has_thirteen_kernels_and_both_deltas(german: DatasetSpec) -> None:
    for cell in bounds.bound_cells(["german"], [0]):
        row = run_cell(cell, algorithms.factory_of(cell.algorithm), german)
        assert row["status"] == "ok", row
        assert len(row["support_per_kernel"]) == 13 == len(row["coefficient_sums"])
        assert row["hinge_loss"] > 0


def test_changed_parameters_reach_the_learner() -> None:
    estimator = algorithms.factory_of(SPA)(budget=None, random_state=3, alpha=0.5, beta=6.0)
    assert (estimator.learner.alpha, estimator.learner.beta, estimator.random_state) == (0.5, 6.0, 3)

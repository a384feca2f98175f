"""What is run: a frozen cell, and the cells that the paper's tables and figure consist of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bomkl_lab.experiments.datasets import get_spec, own_datasets
from bomkl_lab.experiments.published import PUBLISHED_BETA, published_budget, published_table

SPA = "BOMKC(SPA)"
BUDGET_RIVALS = ("BOMKC(RBP)", "BOMKC(Forgetron)", "BOMKC(BOGD)", "BOMKC(BPAS)")
QUICK_DATASETS = ("german", "magic04", "a9a")  # those that come with the package
FIGURE_DATASET = "a9a"
FIGURE_ALPHAS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
FIGURE_BETAS = (3.0, 4.0, 6.0, 10.0)
FIGURE_BETAS_COMPARED = (2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
DEFAULTS = {"alpha": 1.0, "beta": 3.0}
KERNELS = 16


@dataclass(frozen=True)
class Cell:
    """One run: a data set, an algorithm with its parameters, and a permutation.

    Attributes
    ----------
    dataset : str
        Name in the data registry.
    algorithm : str
        Name in the algorithm registry.
    seed : int
        Seed of the permutation, ``default_rng(seed).permutation(T)``, and ``random_state`` of the estimator.
    budget : int or None
        Support rows allowed to each kernel.
    parameters : tuple of (str, float)
        Changed parameters of the algorithm, sorted by name.
    dtype : str
        Precision the features are handed over in.

    Examples
    --------
    >>> Cell("a9a", "BOMKC(SPA)", 3, parameters=(("beta", 6.0),)).parameters
    (('beta', 6.0),)
    """

    dataset: str
    algorithm: str
    seed: int
    budget: int | None = None
    parameters: tuple[tuple[str, float], ...] = ()
    dtype: str = "float32"

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as plain JSON values."""
        return {
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "budget": self.budget,
            "parameters": dict(self.parameters),
            "dtype": self.dtype,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Cell:
        """Rebuild a cell from `as_dict`."""
        parameters = tuple(sorted(fields["parameters"].items()))
        return cls(
            fields["dataset"], fields["algorithm"], fields["seed"], fields["budget"], parameters, fields["dtype"]
        )

    def key(self) -> str:
        """Return the text that identifies the cell in a results file."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))


def make_cell(
    dataset: str, algorithm: str, seed: int, budget: int | None = None, parameters: Mapping[str, float] | None = None
) -> Cell:
    """Make a cell in the data set's own precision; parameters at the paper's default are left out.

    Leaving them out makes the cell of Figure 1 at beta = 3 the same as the one of the tables, so it runs once.
    """
    changed = {name: value for name, value in (parameters or {}).items() if DEFAULTS.get(name) != value}
    return Cell(dataset, algorithm, seed, budget, tuple(sorted(changed.items())), get_spec(dataset).dtype)


def spa_beta(dataset: str) -> float:
    """Return the beta of the paper's SPA rows; on a part of a data set, one that keeps the budget alpha T / beta.

    Examples
    --------
    >>> spa_beta("a9a"), spa_beta("susy"), round(spa_beta("susy-sample"), 2)
    (3.0, 300.0, 12.28)
    """
    spec = get_spec(dataset)
    whole = spec.stands_for or dataset
    return PUBLISHED_BETA.get(whole, DEFAULTS["beta"]) * spec.rows / get_spec(whole).rows


def table_budget(dataset: str) -> int:
    """Return the budget per kernel of Table 2: the published one, or that of a data set of one's own."""
    spec = get_spec(dataset)
    return spec.budget if spec.budget is not None else published_budget(spec.stands_for or dataset)


def table_cells(table: int, dataset: str, algorithms: Iterable[str], seeds: Iterable[int]) -> list[Cell]:
    """Return the cells of one data set's block of Table 1 or 2.

    Parameters
    ----------
    table : {1, 2}
        Which table; Table 2 gives every algorithm but SPA the published budget per kernel.
    dataset : str
        Name of the data set.
    algorithms : iterable of str
        Rows of the block.
    seeds : iterable of int
        Permutations.

    Returns
    -------
    list of Cell
        One for each algorithm and seed.
    """
    seeds = list(seeds)
    budget = table_budget(dataset) if table == 2 else None
    cells = []
    for algorithm in algorithms:
        if algorithm == SPA:
            cells += [make_cell(dataset, SPA, seed, parameters={"beta": spa_beta(dataset)}) for seed in seeds]
        else:
            cells += [make_cell(dataset, algorithm, seed, budget) for seed in seeds]
    return cells


def table_datasets(table: int, available: Iterable[str]) -> list[str]:
    """Return the data sets of a table, each followed by the part that stands in for it unless the whole is at hand."""
    available = set(available)
    names = []
    for name in published_table(table):
        names.append(name)
        if name == "susy" and "susy" not in available and "susy-sample" in available:
            names.append("susy-sample")
    return [*names, *own_datasets(table)]


def figure_sensitivity_cells(seeds: Iterable[int]) -> list[Cell]:
    """Return the SPA cells of Figure 1: every alpha with every beta, and more betas at alpha = 1."""
    pairs = [(alpha, beta) for alpha in FIGURE_ALPHAS for beta in FIGURE_BETAS if beta >= alpha]
    pairs += [(1.0, beta) for beta in FIGURE_BETAS_COMPARED]
    return [
        make_cell(FIGURE_DATASET, SPA, seed, parameters={"alpha": alpha, "beta": beta})
        for alpha, beta in dict.fromkeys(pairs)
        for seed in seeds
    ]


def figure_rival_cells(support: Mapping[float, float], seeds: Iterable[int]) -> list[Cell]:
    """Return the cells of the other budget algorithms in Figure 1 (e) and (f).

    Parameters
    ----------
    support : mapping of float to float
        Mean support of SPA over all kernels, by beta; each rival gets a sixteenth of it for each kernel.
    seeds : iterable of int
        Permutations.

    Returns
    -------
    list of Cell
        One for each beta, rival and seed.
    """
    seeds = list(seeds)
    return [
        make_cell(FIGURE_DATASET, rival, seed, rival_budget(total))
        for total in support.values()
        for rival in BUDGET_RIVALS
        for seed in seeds
    ]


def rival_budget(support: float) -> int:
    """Return the budget of each of the sixteen kernels that makes the total nearest to `support`."""
    return max(1, round(support / KERNELS))


def unique_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells without repetitions, in order."""
    return list(dict.fromkeys(cells))

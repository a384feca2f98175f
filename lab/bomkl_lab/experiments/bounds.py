"""The bounds of Theorems 1 and 2 against what was measured, where their assumptions hold: Gaussian kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl_lab import theory
from bomkl_lab.experiments.algorithms import GAUSSIAN_SPA
from bomkl_lab.experiments.datasets import load_dataset
from bomkl_lab.experiments.document import Table, Value
from bomkl_lab.experiments.protocol import Cell, make_cell
from bomkl_lab.experiments.results import Row

DATASETS = ("german", "svmguide3")
DELTAS = (0.001, 1.0)
COMPARATOR_PENALTIES = (0.01, 0.1, 1.0, 10.0)
ETA, ALPHA, BETA, GAMMA = 0.1, 1.0, 3.0, 0.99


@dataclass(frozen=True)
class Comparator:
    """A fixed function of one kernel's space: its cumulative hinge loss and its norm."""

    loss: float
    norm: float


def bound_cells(datasets: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """Return the cells the comparison needs: SPA on Gaussian kernels, with the paper's delta and with delta = 1."""
    return [
        make_cell(dataset, GAUSSIAN_SPA, seed, parameters={"delta": delta})
        for dataset in datasets
        for delta in DELTAS
        for seed in seeds
    ]


def comparators(X: NDArray[Any], y: NDArray[Any], sigma: float) -> list[Comparator]:
    """Return functions of a Gaussian kernel's space to measure regret against: zero, and SVMs of several penalties.

    The theorems hold for every fixed function, so the smallest bound over any set of them is a bound.
    """
    from sklearn.svm import SVC

    found = [Comparator(float(len(y)), 0.0)]
    for penalty in COMPARATOR_PENALTIES:
        # Without its intercept, which is no part of the space, the machine is an element of it.
        machine = SVC(C=penalty, kernel="rbf", gamma=1 / (2 * sigma**2)).fit(X, y)
        coefficients, vectors = machine.dual_coef_.ravel(), machine.support_vectors_
        values = machine.decision_function(X) - machine.intercept_[0]
        at_vectors = values[machine.support_]
        norm = float(np.sqrt(max(0.0, coefficients @ at_vectors))) if len(vectors) else 0.0
        found.append(Comparator(float(np.maximum(0, 1 - y * values).sum()), norm))
    return found


def bounds_table(rows: Mapping[str, Row], datasets: Sequence[str], seeds: Sequence[int]) -> Table:
    """Set Theorem 1's and 2's bounds beside the measured means.

    Parameters
    ----------
    rows : mapping
        Rows of the results file, by cell key.
    datasets : sequence of str
        Data sets whose cells of `bound_cells` were run.
    seeds : sequence of int
        Permutations to average over.

    Returns
    -------
    Table
        One line for each data set and delta.
    """
    from bomkl.kernels import Gaussian, paper_kernels

    sigmas = [kernel.sigma for kernel in paper_kernels() if isinstance(kernel, Gaussian)]
    lines = []
    for dataset in datasets:
        data = load_dataset(dataset, "float64")
        T = len(data.y)
        candidates = [comparators(data.X, data.y, sigma) for sigma in sigmas]
        for delta in DELTAS:
            found = [rows.get(make_cell(dataset, GAUSSIAN_SPA, s, parameters={"delta": delta}).key()) for s in seeds]
            good = [row for row in found if row and row["status"] == "ok"]
            if not good:
                continue
            best = [_best(group, T, delta) for group in candidates]
            # |f| <= sum of |coefficients| for a kernel of at most 1, and coefficients of SPA are never taken back.
            loss_bound = 1 + max(max(row["coefficient_sums"]) for row in good)
            loss = theory.mkl_loss_bound(
                [c.loss for c in best], [c.norm for c in best], T, ETA, ALPHA, BETA, GAMMA, delta, loss_bound
            )
            per_kernel = np.mean([row["support_per_kernel"] for row in good], axis=0)
            limits = [theory.support_bound(c.loss, c.norm, T, ETA, ALPHA, BETA) for c in best]
            noise = [_support_error(limit, T, len(good)) for limit in limits]
            nearest = int(np.argmax(per_kernel / np.array(limits)))
            measured_loss = float(np.mean([row["hinge_loss"] for row in good]))
            lines.append(
                (
                    Value(f"{dataset}, delta = {delta:g}"),
                    Value(f"{measured_loss:.0f}"),
                    Value(f"{loss:.4g}"),
                    Value(f"{100 * measured_loss / loss:.2g} %"),
                    Value(f"{per_kernel[nearest]:.1f} ± {noise[nearest]:.1f}"),
                    Value(f"{limits[nearest]:.1f}"),
                    Value(f"{100 * per_kernel[nearest] / limits[nearest]:.0f} %"),
                    _verdict(measured_loss <= loss and _within(per_kernel, limits, noise)),
                )
            )
    header = (
        "SPA, 13 Gaussian kernels",
        "hinge loss",
        "Theorem 1",
        "used",
        "SVs of a kernel",
        "Theorem 2",
        "used",
        "holds",
    )
    return Table(
        header,
        tuple(lines),
        "Measured means against the bounds; for Theorem 2 the kernel that comes nearest to its own",
    )


def _best(group: Sequence[Comparator], T: int, delta: float) -> Comparator:
    return min(group, key=lambda c: c.loss + theory.regret_bound(c.norm, T, ETA, ALPHA, BETA) / delta)


def _support_error(limit: float, T: int, runs: int) -> float:
    """Return the largest standard error that a mean of T coins can have whose expected sum is at most `limit`."""
    return float(np.sqrt(limit * (1 - limit / T) / runs))


def _within(means: NDArray[Any], limits: Sequence[float], noise: Sequence[float]) -> bool:
    """Tell whether means keep to bounds on their expectation, up to three standard errors."""
    return bool(np.all(means <= np.array(limits) + 3 * np.array(noise)))


def _verdict(holds: bool) -> Value:
    return Value("yes", tone="agrees") if holds else Value("no", tone="differs")


def support_limit_table(spa_rows: Mapping[str, Sequence[Row]]) -> Table:
    """Set Theorem 2's alpha T / beta beside the fullest kernel of each data set's SPA rows, all sixteen kernels."""
    lines = []
    for dataset, rows in spa_rows.items():
        beta = rows[0]["cell"]["parameters"].get("beta", BETA)
        limit = ALPHA * rows[0]["rows"] / beta
        per_kernel = np.mean([row["support_per_kernel"] for row in rows], axis=0)
        fullest = int(np.argmax(per_kernel))
        noise = _support_error(limit, rows[0]["rows"], len(rows))
        lines.append(
            (
                Value(dataset),
                Value(f"{beta:.4g}"),
                Value(str(rows[0]["kernels"][fullest])),
                Value(f"{per_kernel[fullest]:.1f} ± {noise:.1f}"),
                Value(f"{limit:.1f}"),
                Value(f"{100 * per_kernel[fullest] / limit:.0f} %"),
                _verdict(_within(per_kernel[fullest], [limit], [noise])),
            )
        )
    header = ("BOMKC(SPA)", "beta", "fullest kernel", "its SVs", "alpha T / beta", "used", "holds")
    return Table(
        header,
        tuple(lines),
        "The budget that Theorem 2 grants each kernel in expectation, and the fullest kernel's use of it",
    )

"""The constants of the zero-tuning learner: one choice for all data (see ``docs/what-was-tried.md``)."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_STAGE = 8  # rows after which the first model is built; it is rebuilt at 16, 32, ... and at the budget
LATE_FROM = 256  # rows from which on a rebuilt model takes its place later, so that no row has to wait for all the work
LATE = 32  # by how much later: the rows it is built from divided by this
PRUNE_AT = 4  # budgets after which only the best kernels go on
KEEP = 5  # kernels that go on; one less beside trees, which take the time of one
KEEP_NARROW = 2  # of them, beside trees, with half of the budget: they take most of the time
KEEP_FROM = 0.02  # part in the combination from which trees and the additive component go on
SAMPLE = 8  # rows that trees are grown from, in budgets
GROW_AT = (1.5, 2.5, 4)  # budgets at which trees are grown anew; after that boosted ones at each power of two
GROW_WITHIN = 64  # rows that trees are grown within, a part with every row; with small budgets a quarter of it
STACK_RIDGES = (10.0, 100.0)
SHARE = 1e-3  # part of the weight that the combination spreads evenly at every row
CHUNK = 256  # rows worked on at a time, up to a multiple of it: bounds the memory of long calls
LARGEST = 1e150  # larger numbers are taken as this: their squares still have a sum
DEVICE_FROM = CHUNK  # rows from which on a device learns


@dataclass(frozen=True)
class KernelChoice:
    """One kernel of the pool.

    Parameters
    ----------
    name : str
        What reports call it.
    kind : {"gaussian", "polynomial", "laplacian"}
        Its function.
    geometry : str
        The view of the columns it works on.
    width : float
        Of a Gaussian or Laplacian, in median distances of that view.
    ridge : float
        Strength of the prior.
    share : float
        Landmarks, as a share of the budget.
    """

    name: str
    kind: str
    geometry: str
    width: float
    ridge: float
    share: float


KERNELS = (
    KernelChoice("polynomial 2", "polynomial", "standard", 1.0, 0.3, 0.25),
    KernelChoice("gaussian normal 1", "gaussian", "normal", 1.0, 0.1, 0.25),
    KernelChoice("gaussian common 1", "gaussian", "common", 1.0, 0.1, 0.25),
    KernelChoice("gaussian leading 1/4", "gaussian", "leading", 0.25, 0.1, 0.25),
    KernelChoice("gaussian relevant 1/2", "gaussian", "relevant standard", 0.5, 0.03, 0.5),
    KernelChoice("gaussian relevant normal 1/2", "gaussian", "relevant normal", 0.5, 0.03, 0.5),
    KernelChoice("gaussian relevant 1", "gaussian", "relevant standard", 1.0, 0.3, 0.25),
    KernelChoice("gaussian relevant normal 1", "gaussian", "relevant normal", 1.0, 0.1, 0.25),
    KernelChoice("laplacian normal 1", "laplacian", "normal", 1.0, 0.1, 0.25),
    KernelChoice("laplacian relevant normal 1/2", "laplacian", "relevant normal", 0.5, 0.1, 0.5),
)
NARROW = tuple(choice.name for choice in KERNELS if choice.share == 0.5)
CURVED = KernelChoice("polynomial 2 log", "polynomial", "standard", 1.0, 0.3, 0.5)  # of numbers, on a curved scale
COMPONENTS = (*(choice.name for choice in KERNELS), "linear")
ADDITIVE = "additive"  # linear in the columns, their normal scores and squares of these, where columns are few


def regression_names(squares: bool, curved: bool) -> list[str]:
    """Name the components that are regressions, in their order: with squares of the columns, with a curved target."""
    return [*COMPONENTS, *([ADDITIVE] if squares else []), *([CURVED.name] if curved else [])]

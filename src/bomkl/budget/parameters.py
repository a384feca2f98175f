"""What the estimators of `bomkl.budget` ask of their parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bomkl._support.validation import (
    check_bool,
    check_choice,
    check_count,
    check_n_jobs,
    is_finite_number,
    parameter_error,
)
from bomkl.budget.config import kernel_name
from bomkl.combiners import Combiner, Hedge
from bomkl.kernels import KernelLike, paper_kernels
from bomkl.learners import Learner
from bomkl.tables.cells import check_kinds


def check_parameters(estimator: Any, learner: Any, combiner: Any, losses: tuple[str, ...]) -> None:
    """Check what all estimators have, given the learner, the combiner and the losses that it may have."""
    owner = type(estimator).__name__
    if not isinstance(learner, Learner):
        raise parameter_error(owner, "learner", "one of the classes of bomkl.learners", learner)
    if not isinstance(combiner, Combiner):
        raise parameter_error(owner, "combiner", "Uniform() or Hedge(...)", combiner)
    if isinstance(combiner, Hedge):
        check_choice(owner, "combiner.loss", combiner.loss, losses)
    _check_combination(owner, estimator.budget, estimator.kernels, learner)
    delta = estimator.selection_delta
    if not (delta is None or callable(delta) or (is_finite_number(delta) and 0 < delta < 1)):
        raise parameter_error(owner, "selection_delta", "None, a number in (0, 1) or a callable of the round", delta)
    check_choice(owner, "selection_scope", estimator.selection_scope, ("update", "combination", "both"))
    check_bool(owner, "normalize_step", estimator.normalize_step)
    if estimator.dtype not in (None, "float32", "float64"):
        raise parameter_error(owner, "dtype", "None, 'float32' or 'float64'", estimator.dtype)
    check_kinds(estimator.types)
    check_n_jobs(owner, estimator.n_jobs)


def _check_combination(owner: str, budget: Any, kernels: Any, learner: Learner) -> None:
    name = type(learner).__name__
    if budget is not None:
        check_count(owner, "budget", budget)
        if not learner.takes_budget:
            raise parameter_error(owner, "budget", f"None for {name}, which stores no rows", budget)
    elif learner.needs_budget:
        raise parameter_error(owner, "budget", f"an int >= 1 for {name}", None)
    for kernel in kernel_list(owner, kernels) if learner.needs_fourier_transform else []:
        if not getattr(kernel, "has_fourier_transform", False):
            raise ValueError(
                f"The 'kernels' parameter of {owner} must hold kernels with a Fourier transform, because {name} "
                f"computes its features from it. Got {kernel_name(kernel)} instead. Use Gaussian, Exponential, "
                "Cauchy or Laplacian kernels, such as bomkl.kernels.paper_gaussians()."
            )


def kernel_list(owner: str, kernels: Any) -> list[KernelLike]:
    """Return the kernels that a parameter stands for."""
    if isinstance(kernels, str):
        check_choice(owner, "kernels", kernels, ("paper",))
        return paper_kernels()
    found = list(kernels) if isinstance(kernels, Iterable) else []
    if not found or not all(callable(kernel) for kernel in found):
        rule = "'paper' or a list of kernels or callables k(X, Z), not empty"
        raise parameter_error(owner, "kernels", rule, kernels)
    return found

"""What the estimators of `bomkl.budget` ask of their parameters, and of numbers that come with each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._support.validation import (
    check_all_finite,
    check_bool,
    check_choice,
    check_count,
    check_n_jobs,
    is_finite_number,
    parameter_error,
    weights_as_numbers,
)
from bomkl.budget.config import kernel_name
from bomkl.combiners import Combiner, Hedge
from bomkl.kernels import KernelLike, paper_kernels
from bomkl.learners import Learner
from bomkl.tables.cells import check_kinds

Float = NDArray[np.float64]

LARGEST_WEIGHT = 1e6  # with larger weights steps could leave the range of single precision


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


def checked_weights(owner: str, n: int, sample_weight: Any) -> Float:
    """Check the weights of n rows; all of them may be zero, as they may in a block of one row."""
    if sample_weight is None:
        return np.ones(n)
    weights: Float = weights_as_numbers(owner, sample_weight)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise parameter_error(owner, "sample_weight", f"of shape {(n,)}", weights.shape)
    check_all_finite("sample_weight", weights)
    if (weights < 0).any():
        raise parameter_error(owner, "sample_weight", "not negative", float(weights.min()))
    if (weights > LARGEST_WEIGHT).any():
        raise parameter_error(owner, "sample_weight", f"at most {LARGEST_WEIGHT:g}", float(weights.max()))
    return weights


def selection_deltas(
    owner: str, delta: float | Callable[[int], float] | None, seen: int, weights: Float | None, n: int
) -> Float | None:
    """Return the selection delta of each of n rows, before which `seen` were learned from."""
    if delta is None:
        return None
    if not callable(delta):
        return np.full(n, float(delta))
    # rows of weight zero are not learned and take no round: they see that of the next row
    learned = np.ones(n, dtype=np.int64) if weights is None else (weights > 0).astype(np.int64)
    rounds = seen + 1 + np.cumsum(learned) - learned
    values = [delta(int(t)) for t in rounds]
    for t, value in zip(rounds, values, strict=True):
        if not (is_finite_number(value) and 0 < value < 1):
            raise ValueError(
                f"The 'selection_delta' parameter of {owner} must return a number in (0, 1). "
                f"Got {value!r} for round {t} instead."
            )
    return np.array(values, dtype=np.float64)

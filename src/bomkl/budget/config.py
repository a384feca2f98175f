"""From what a user configures to what the compiled engine reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bomkl import combiners, learners
from bomkl.kernels import Kernel, KernelLike

TASKS = ("binary", "multiclass", "regression")

_LOSSES = ("hinge", "zero_one", "epsilon_insensitive", "squared")


def kernel_name(kernel: KernelLike) -> str:
    """Return how messages and plots call a kernel."""
    name = getattr(kernel, "__name__", None)
    return repr(kernel) if name is None else str(name)


def kernel_record(kernel: KernelLike) -> dict[str, Any]:
    """Describe a kernel to the engine: its name there (None for a Python function), its label, its numbers."""
    label = kernel_name(kernel)
    if not isinstance(kernel, Kernel):
        return {"name": None, "label": label}
    return {"name": type(kernel).__name__, "label": label, **kernel.numbers()}


def learner_record(learner: learners.Learner) -> dict[str, Any]:
    """Describe a learner to the engine: its name and its parameters, by their names."""
    return {"name": type(learner).__name__, **{name: float(value) for name, value in vars(learner).items()}}


def combiner_record(combiner: combiners.Combiner) -> dict[str, Any]:
    if isinstance(combiner, combiners.Uniform):
        return {"hedge": False, "loss": 0, "log_gamma": 0.0, "share": 0.0, "discount_selected_only": False}
    return {
        "hedge": True,
        "loss": _LOSSES.index(combiner.loss),
        "log_gamma": math.log(combiner.gamma),
        "share": float(combiner.share),
        "discount_selected_only": combiner.discount == "selected",
    }


class KernelCalls:
    """Calls the Python callables among the kernels for the engine and checks what they return."""

    def __init__(self, kernels: Sequence[KernelLike]) -> None:
        self._kernels = list(kernels)

    def __call__(self, index: int, X: Any, Z: Any) -> Any:
        """Return the kernel matrix of callable number `index` in the precision of X."""
        kernel = self._kernels[index]
        owner = f"The kernel {kernel_name(kernel)}"
        returned = kernel(X, Z)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.asarray(returned, dtype=X.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{owner} must return an array of numbers. Got {type(returned).__name__} instead."
            ) from error
        if values.shape != (len(X), len(Z)):
            raise ValueError(
                f"{owner} must return a matrix of shape {(len(X), len(Z))}. Got shape {values.shape} instead."
            )
        if not np.isfinite(values).all():
            bad = values[~np.isfinite(values)][0]
            raise ValueError(f"{owner} must return finite numbers in {X.dtype}. Got {bad} instead.")
        return np.ascontiguousarray(values)

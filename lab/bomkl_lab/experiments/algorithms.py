"""What can be run: the paper's algorithms by name, and those a researcher registers.

A *factory* is called as ``factory(budget=None, random_state=0)``, with the cell's changed parameters as further
keywords, and returns a fresh estimator: anything with ``score_and_learn(X, y)``, or a scikit-learn classifier with
``partial_fit``.
"""

from __future__ import annotations

import dataclasses
import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bomkl_lab.experiments.datasets import DatasetSpec, load_dataset
from bomkl_lab.experiments.names import resolve_name
from bomkl_lab.experiments.published import published_table

Factory = Callable[..., Any]


class PluginError(ValueError):
    """A file of algorithms that cannot be run."""


FEATURE_ALGORITHMS = ("OMKC(FOGD)", "OMKC(NOGD)")
"""Algorithms that the paper does not have; they run where they are asked for."""

GAUSSIAN_SPA = "BOMKC(SPA), Gaussian kernels"
KERNEL_CHOICE_SEED = 0
_registered: dict[str, Factory] = {}


def register_algorithm(name: str, factory: Factory) -> None:
    """Add an algorithm to the tables of this process, or replace one of the same name.

    Parameters
    ----------
    name : str
        Name of its row; not one of the paper's.
    factory : callable
        ``factory(budget=None, random_state=0)`` returns a new estimator with ``score_and_learn(X, y)``, or a
        scikit-learn classifier with ``partial_fit``. `budget` is that of Table 2 for each kernel; you may ignore it.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> register_algorithm("linear SGD", lambda budget=None, random_state=0: SGDClassifier(random_state=random_state))
    >>> "linear SGD" in known_algorithms()
    True
    >>> unregister_algorithm("linear SGD")
    """
    if name in paper_algorithms() + FEATURE_ALGORITHMS or not name or "," in name:
        rule = "a new name without a comma"
        raise ValueError(f"The 'name' parameter of register_algorithm must be {rule}. Got {name!r} instead.")
    if not callable(factory):
        raise ValueError(f"The 'factory' parameter of register_algorithm must be callable. Got {factory!r} instead.")
    _registered[name] = factory


def unregister_algorithm(name: str) -> None:
    """Remove an algorithm that `register_algorithm` added."""
    del _registered[name]


def registered_algorithms() -> tuple[str, ...]:
    """Return the names that `register_algorithm` added, in order."""
    return tuple(_registered)


@functools.cache
def paper_algorithms() -> tuple[str, ...]:
    """Return the nine names of the paper's tables, in their order."""
    rows = [*published_table(1)["german"], *published_table(2)["a9a"]]
    return tuple(dict.fromkeys(rows))


def known_algorithms() -> tuple[str, ...]:
    """Return every name that a cell may have."""
    return (*paper_algorithms(), *FEATURE_ALGORITHMS, *_registered)


def resolve_algorithm(name: str) -> str:
    """Return the full name of an algorithm; Table 2's short names ("RBP") are accepted too.

    Examples
    --------
    >>> resolve_algorithm("spa")
    'BOMKC(SPA)'
    """
    known = known_algorithms()
    short = {full[len("BOMKC(") : -1].lower(): full for full in known if full.startswith("BOMKC(")}
    return short.get(name.strip().lower()) or resolve_name("algorithm", name, known)


def factory_of(name: str) -> Factory:
    """Return the factory of a known algorithm; it can be sent to another process."""
    if name == GAUSSIAN_SPA:
        return gaussian_spa
    if name in _registered:
        return _registered[name]
    return functools.partial(paper_estimator, resolve_algorithm(name))


def paper_estimator(name: str, budget: int | None = None, random_state: int = 0, **parameters: float) -> Any:
    """Make one of the paper's algorithms; `parameters` change fields of its learner, such as alpha and beta."""
    from bomkl import paper

    estimator: Any = paper.algorithm(name, budget=budget)
    if parameters:
        estimator.set_params(learner=dataclasses.replace(estimator.learner, **parameters))
    return estimator.set_params(random_state=random_state)


@functools.cache
def best_kernel(spec: DatasetSpec, dtype: str) -> Any:
    """Return the kernel of Perceptron(*): the one with the fewest mistakes on one permutation of the whole data set.

    The paper chooses it once and then runs every permutation with it.
    """
    from bomkl.paper import BestKernelPerceptron

    data = load_dataset(spec, dtype)
    return BestKernelPerceptron(random_state=KERNEL_CHOICE_SEED).fit(data.X, data.y, shuffle=False).kernels_[0]


def with_foresight(estimator: Any, spec: DatasetSpec, dtype: str) -> Any:
    """Give Perceptron(*) the kernel it knows beforehand; every other estimator is returned as it is."""
    from bomkl.paper import BestKernelPerceptron

    if isinstance(estimator, BestKernelPerceptron):
        estimator.set_params(kernels=[best_kernel(spec, dtype)])
    return estimator


def gaussian_spa(budget: int | None = None, random_state: int = 0, delta: float = 0.001) -> Any:
    """Make BOMKC(SPA) on the paper's Gaussian kernels only: there k(x, x) = 1, as its theorems assume."""
    from bomkl.kernels import paper_gaussians

    selection = None if delta == 1 else delta
    estimator = paper_estimator("BOMKC(SPA)", budget, random_state)
    return estimator.set_params(kernels=paper_gaussians(), selection_delta=selection)


def load_plugin(path: Path) -> None:
    """Run a Python file that registers algorithms.

    Its functions are not importable by name, so that worker processes receive them by value. Whatever it raises becomes
    a `PluginError`.
    """
    try:
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
        exec(code, {"__name__": "bomkl_plugin", "__file__": str(path)})
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else str(path)
        raise PluginError(f"{place}: the plugin cannot be run: {type(error).__name__}: {error}") from error

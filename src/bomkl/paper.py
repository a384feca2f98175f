"""Every algorithm of the paper, by its name in the tables and with the settings that reproduce them.

The algorithms that vote always compute in float64, because the sign of a tiny number can decide a vote.

The paper learns from a stream and counts the mistakes on the way: use `score_and_learn`, which never changes the order
of the rows. `fit` shuffles them unless you pass ``shuffle=False``.

Examples
--------
>>> from bomkl import paper
>>> paper.algorithm("OMKC(DD)").set_params(random_state=0).combination
'vote'
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bomkl._support.validation import did_you_mean
from bomkl.budget import BudgetMKLClassifier
from bomkl.combiners import Combiner, Hedge, Uniform
from bomkl.kernels import KernelLike, paper_gaussians
from bomkl.learners import BOGD, BPAS, FOGD, NOGD, RBP, SPA, Forgetron, Perceptron

ALGORITHMS = (
    "Perceptron(*)",
    "OMKC(U)",
    "OMKC(DD)",
    "OMKC(SD)",
    "BOMKC(SPA)",
    "BOMKC(RBP)",
    "BOMKC(Forgetron)",
    "BOMKC(BOGD)",
    "BOMKC(BPAS)",
)
"""The rows of Tables 1 and 2."""

STOCHASTIC_COMBINATIONS = ("OMKC(DS)", "OMKC(SS)")
"""The other two variants of Hoi et al. (2013): the prediction, too, uses only the kernels that were selected."""

FEATURE_ALGORITHMS = ("OMKC(FOGD)", "OMKC(NOGD)")
"""Not in the paper, to compare with it: the learners of Lu et al. (2016), combined as the other budget algorithms are.

A budget B means B support rows per kernel for NOGD, and B frequencies for FOGD, which take as much memory as B rows.
FOGD has the 13 Gaussian kernels only.
"""

BUDGET_ALGORITHMS = ALGORITHMS[4:]
"""The rows of Table 2, which prints them without the prefix."""

DEFAULT_BUDGET = 254
"""Budget per kernel of the algorithms that need one: Table 2's on magic04."""


class BestKernelPerceptron(BudgetMKLClassifier):
    """Perceptron(*): a Perceptron with the kernel that makes the fewest mistakes on one random permutation of the rows.

    The rows of the first call decide the kernel, so pass all rows in one call. No real stream could choose it in this
    way; the paper uses it as a baseline.

    Parameters
    ----------
    kernels : "paper" or list of kernels, default="paper"
        The kernels to choose from.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores.
    random_state : int, RandomState or None, default=None
        Source of the random permutation.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl.paper import BestKernelPerceptron
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> BestKernelPerceptron(random_state=0).fit(X, y, shuffle=False).kernels_
    [Gaussian(sigma=0.5)]
    """

    learner = Perceptron()
    combiner: Combiner = Uniform()
    combination = "vote"
    selection_delta = None
    selection_scope = "update"
    normalize_step = False
    budget = None
    class_weight = None
    dtype = "float64"
    verbose = 0
    types = None

    def __init__(self, kernels: Any = "paper", n_jobs: int | None = None, random_state: Any = None) -> None:
        self.kernels = kernels
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _choose_kernels(self, X: Any, targets: Any) -> list[KernelLike]:
        kernels = self._kernel_list()
        if len(kernels) == 1:
            return kernels
        order = check_random_state(self.random_state).permutation(X.shape[0])
        trial = BudgetMKLClassifier(
            kernels=kernels,
            learner=Perceptron(),
            combiner=Uniform(),
            selection_delta=None,
            dtype=self.dtype,
            n_jobs=self.n_jobs,
        )
        trial.partial_fit(X[order], self.classes_[targets[order]], self.classes_)
        mistakes = np.atleast_2d(trial.kernel_mistakes_).sum(axis=0)
        return [kernels[int(mistakes.argmin())]]


def algorithm(name: str, budget: int | None = None) -> BudgetMKLClassifier:
    """Return a fresh estimator for an algorithm of the paper.

    Parameters
    ----------
    name : str
        One of `ALGORITHMS`, `STOCHASTIC_COMBINATIONS` or `FEATURE_ALGORITHMS`. You may leave out "BOMKC", as in Table
        2: "SPA" is "BOMKC(SPA)".
    budget : int or None, default=None
        Support vectors of each kernel, for the algorithms of Table 2 and `FEATURE_ALGORITHMS`. With None, BOMKC(SPA)
        has no limit, as in the paper, and the others use `DEFAULT_BUDGET`.

    Returns
    -------
    estimator : BudgetMKLClassifier
        Give it a seed with ``set_params(random_state=...)``.

    Examples
    --------
    >>> from bomkl import paper
    >>> paper.algorithm("BOMKC(RBP)", budget=100).budget
    100
    """
    full_name = f"BOMKC({name})" if f"BOMKC({name})" in ALGORITHMS else name
    known = ALGORITHMS + STOCHASTIC_COMBINATIONS + FEATURE_ALGORITHMS
    if full_name not in known:
        hint = did_you_mean(str(name), known)
        raise ValueError(f"There is no algorithm {name!r} in the paper.{hint} Known: {', '.join(known)}.")
    if budget is not None and full_name not in BUDGET_ALGORITHMS + FEATURE_ALGORITHMS:
        raise ValueError(f"{full_name} takes no budget: it keeps every mistake. Got budget={budget!r}.")
    if full_name == "Perceptron(*)":
        return BestKernelPerceptron()
    if full_name == "BOMKC(SPA)":
        return BudgetMKLClassifier(learner=SPA(), budget=budget)
    by_vote: dict[str, Any] = {
        "combination": "vote",
        "combiner": Hedge(loss="zero_one"),
        "selection_delta": None,
        "dtype": "float64",
    }
    sampled = {"selection_delta": 0.001, "combiner": Hedge(loss="zero_one", discount="selected")}
    settings: dict[str, dict[str, Any]] = {
        "OMKC(U)": {"learner": Perceptron(), "combiner": Uniform()},
        "OMKC(DD)": {"learner": Perceptron()},
        "OMKC(SD)": {"learner": Perceptron(), **sampled},
        "OMKC(DS)": {"learner": Perceptron(), "selection_delta": 0.001, "selection_scope": "combination"},
        "OMKC(SS)": {"learner": Perceptron(), **sampled, "selection_scope": "both"},
        "BOMKC(RBP)": {"learner": RBP()},
        "BOMKC(Forgetron)": {"learner": Forgetron(may_grow=True)},
        "BOMKC(BOGD)": {"learner": BOGD(eta=0.1, regularization=0.1)},
        "BOMKC(BPAS)": {"learner": BPAS(C=0.1, unit_norm=True)},
    }
    size = DEFAULT_BUDGET if budget is None else budget
    settings["OMKC(FOGD)"] = {"learner": FOGD(n_frequencies=size), "kernels": paper_gaussians()}
    settings["OMKC(NOGD)"] = {"learner": NOGD(), "budget": size}
    if full_name in BUDGET_ALGORITHMS:
        by_vote["budget"] = size
    return BudgetMKLClassifier(**(by_vote | settings[full_name]))

"""Learners: the update rule of each kernel's function. The rules themselves are in the compiled core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bomkl._support.validation import (
    check_bool,
    check_count,
    check_not_negative,
    check_positive,
    is_finite_number,
    parameter_error,
)


@dataclass(frozen=True)
class Learner:
    """Base of the learners.

    A subclass is a frozen dataclass of numbers and flags. ``cpp/learners`` holds its rule, under the same name and with
    the same parameters.
    """

    needs_budget: ClassVar[bool] = False  # it is defined by what it does when the budget is full
    takes_budget: ClassVar[bool] = True  # it has support rows, which a budget bounds
    needs_fourier_transform: ClassVar[bool] = False  # of every kernel
    can_regress: ClassVar[bool] = False  # its loss has a counterpart for numbers


@dataclass(frozen=True)
class Perceptron(Learner):
    """Add every row that is misclassified, with coefficient y (Rosenblatt, 1958).

    Examples
    --------
    >>> from bomkl.learners import Perceptron
    >>> Perceptron()
    Perceptron()
    """


@dataclass(frozen=True)
class PA(Learner):
    """Passive-aggressive learning, PA-I (Crammer et al., 2006).

    Parameters
    ----------
    C : float, default=1.0
        Largest step, > 0.

    Examples
    --------
    >>> from bomkl.learners import PA
    >>> PA(C=0.5)
    PA(C=0.5)
    """

    can_regress: ClassVar[bool] = True

    C: float = 1.0

    def __post_init__(self) -> None:
        check_positive("PA", "C", self.C)


@dataclass(frozen=True)
class SPA(Learner):
    """Sparse passive-aggressive learning: the paper's own rule.

    A row with loss l is stored with probability min(alpha, l) / beta.

    Parameters
    ----------
    eta : float, default=0.1
        Step size, > 0.
    alpha : float, default=1.0
        A row with a loss above this is stored with the same probability as one at this loss, > 0.
    beta : float, default=3.0
        Sparsity, >= alpha: on average at most alpha / beta of all rows are stored.

    Examples
    --------
    >>> from bomkl.learners import SPA
    >>> SPA(beta=0.5)
    Traceback (most recent call last):
    ...
    ValueError: The 'beta' parameter of SPA must be a finite number >= alpha (1.0). Got 0.5 instead.
    """

    can_regress: ClassVar[bool] = True

    eta: float = 0.1
    alpha: float = 1.0
    beta: float = 3.0

    def __post_init__(self) -> None:
        check_positive("SPA", "eta", self.eta)
        check_positive("SPA", "alpha", self.alpha)
        if not (is_finite_number(self.beta) and self.beta >= self.alpha):
            raise parameter_error("SPA", "beta", f"a finite number >= alpha ({self.alpha})", self.beta)


@dataclass(frozen=True)
class RBP(Learner):
    """Random budget perceptron: over the budget, drop a random row (Cavallanti et al., 2007).

    Examples
    --------
    >>> from bomkl.learners import RBP
    >>> RBP()
    RBP()
    """

    needs_budget: ClassVar[bool] = True


@dataclass(frozen=True)
class Forgetron(Learner):
    """Self-tuned Forgetron: over the budget, shrink all coefficients and drop the oldest row (Dekel et al., 2005).

    Parameters
    ----------
    may_grow : bool, default=False
        Whether coefficients may grow. If the rule allows a factor below 1 and one above 1, the larger one is used, as
        in the paper's tables. The authors of the Forgetron always use the smaller one.

    Examples
    --------
    >>> from bomkl.learners import Forgetron
    >>> Forgetron()
    Forgetron(may_grow=False)
    """

    needs_budget: ClassVar[bool] = True

    may_grow: bool = False

    def __post_init__(self) -> None:
        check_bool("Forgetron", "may_grow", self.may_grow)


@dataclass(frozen=True)
class BOGD(Learner):
    """Bounded online gradient descent that drops the oldest row (Zhao et al., 2012).

    Parameters
    ----------
    eta : float, default=0.1
        Step size, > 0.
    regularization : float, default=0.1
        Factor of the squared norm in the objective, >= 0; eta * regularization < 1.

    Examples
    --------
    >>> from bomkl.learners import BOGD
    >>> BOGD(eta=0.2)
    BOGD(eta=0.2, regularization=0.1)
    """

    needs_budget: ClassVar[bool] = True
    can_regress: ClassVar[bool] = True

    eta: float = 0.1
    regularization: float = 0.1

    def __post_init__(self) -> None:
        check_positive("BOGD", "eta", self.eta)
        check_not_negative("BOGD", "regularization", self.regularization)
        if self.eta * self.regularization >= 1:
            raise parameter_error("BOGD", "regularization", f"< 1 / eta ({1 / self.eta:g})", self.regularization)


@dataclass(frozen=True)
class BPAS(Learner):
    """Budget passive-aggressive learning, simple variant (Wang and Vucetic, 2010).

    When the budget is full, the row whose removal changes the function least is dropped, and its projection on the new
    row is kept.

    Parameters
    ----------
    C : float, default=0.1
        Largest step, > 0.
    unit_norm : bool, default=False
        Whether to compute as if k(x, x) were 1 for every kernel when a row is replaced, as in the paper's tables. For
        other kernels, such as polynomials, the projection is then wrong and coefficients grow, up to 10^6.

    Examples
    --------
    >>> from bomkl.learners import BPAS
    >>> BPAS()
    BPAS(C=0.1, unit_norm=False)
    """

    needs_budget: ClassVar[bool] = True
    can_regress: ClassVar[bool] = True

    C: float = 0.1
    unit_norm: bool = False

    def __post_init__(self) -> None:
        check_positive("BPAS", "C", self.C)
        check_bool("BPAS", "unit_norm", self.unit_norm)


@dataclass(frozen=True)
class Projectron(Learner):
    """Project a misclassified row onto the stored rows, or store it if it is too far from them (Orabona et al., 2009).

    Parameters
    ----------
    threshold : float, default=0.1
        A row is stored if its distance to the span of the stored rows is above this, > 0. When the budget is full,
        every row is projected.
    margin_updates : bool, default=False
        Whether to learn also from rows that are right, but inside the margin: Projectron++.

    Examples
    --------
    >>> from bomkl.learners import Projectron
    >>> Projectron(margin_updates=True)
    Projectron(threshold=0.1, margin_updates=True)
    """

    threshold: float = 0.1
    margin_updates: bool = False

    def __post_init__(self) -> None:
        check_positive("Projectron", "threshold", self.threshold)
        check_bool("Projectron", "margin_updates", self.margin_updates)


@dataclass(frozen=True)
class FOGD(Learner):
    """Online gradient descent on random Fourier features of each kernel (Lu et al., 2016).

    The function of a kernel is a weighted sum of cosines and sines of the row at random frequencies. No row is stored,
    and memory never grows. The loss is the hinge loss for classes and the squared loss for regression. All kernels must
    have a Fourier transform: take those of `bomkl.kernels` that depend on a distance.

    Parameters
    ----------
    n_frequencies : int, default=256
        Number of random frequencies, 1 to 1000000. Each gives two features for every kernel.
    eta : float, default=0.2
        Step size, > 0.

    Examples
    --------
    >>> from bomkl import BudgetMKLClassifier
    >>> from bomkl.kernels import paper_gaussians
    >>> from bomkl.learners import FOGD
    >>> model = BudgetMKLClassifier(paper_gaussians(), FOGD(n_frequencies=64), random_state=0)
    >>> model.fit([[0.0], [1.0], [0.1], [0.9]], [0, 1, 0, 1]).predict([[0.0], [1.0]])
    array([0, 1])
    """

    takes_budget: ClassVar[bool] = False
    needs_fourier_transform: ClassVar[bool] = True
    can_regress: ClassVar[bool] = True

    n_frequencies: int = 256
    eta: float = 0.2

    def __post_init__(self) -> None:
        check_count("FOGD", "n_frequencies", self.n_frequencies, largest=1_000_000)
        check_positive("FOGD", "eta", self.eta)


@dataclass(frozen=True)
class NOGD(Learner):
    """Online gradient descent on Nystrom features of each kernel (Lu et al., 2016).

    The first `budget` rows with a loss become support vectors, by kernel gradient descent. After that no row is stored
    or dropped: only the weights of the largest eigenvectors of their kernel matrix change. The loss is the hinge loss
    for classes and the squared loss for regression.

    Parameters
    ----------
    rank : float, default=0.2
        Number of eigenvectors as a share of the budget: above 0, at most 1.
    eta : float, default=0.2
        Step size, > 0.

    Examples
    --------
    >>> from bomkl.learners import NOGD
    >>> NOGD(rank=0.5)
    NOGD(rank=0.5, eta=0.2)
    """

    needs_budget: ClassVar[bool] = True
    can_regress: ClassVar[bool] = True

    rank: float = 0.2
    eta: float = 0.2

    def __post_init__(self) -> None:
        if not (is_finite_number(self.rank) and 0 < self.rank <= 1):
            raise parameter_error("NOGD", "rank", "a number above 0 and at most 1", self.rank)
        check_positive("NOGD", "eta", self.eta)

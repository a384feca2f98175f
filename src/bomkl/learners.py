"""Update rules of one kernel's classifier: what a user configures; the rules themselves are in the compiled core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bomkl._validation import (
    check_bool,
    check_count,
    check_not_negative,
    check_positive,
    is_finite_number,
    parameter_error,
)


@dataclass(frozen=True)
class Learner:
    """What all learners are: parameters that check themselves, for the compiled rule of the same name.

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

    A row of loss l becomes support with probability min(alpha, l) / beta.

    Parameters
    ----------
    eta : float, default=0.1
        Aggressiveness, > 0.
    alpha : float, default=1.0
        Loss above which a row is no likelier to be kept, > 0.
    beta : float, default=3.0
        Sparsity: at most alpha / beta of all rows are kept in expectation; >= alpha.

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
    """Random budget perceptron: over budget, drop a random old row (Cavallanti et al., 2007).

    Examples
    --------
    >>> from bomkl.learners import RBP
    >>> RBP()
    RBP()
    """

    needs_budget: ClassVar[bool] = True


@dataclass(frozen=True)
class Forgetron(Learner):
    """Self-tuned Forgetron: over budget, shrink all coefficients and drop the oldest row (Dekel et al., 2005).

    Parameters
    ----------
    may_grow : bool, default=False
        Where the rule allows either a factor below 1 or one above some number larger than 1, take the latter, as the
        paper's tables do. The coefficients then grow at times, against the algorithm's definition.

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

    Over budget, the new row takes over the projection of the row that costs least to drop.

    Parameters
    ----------
    C : float, default=0.1
        Largest step, > 0.
    unit_norm : bool, default=False
        Take k(x, x) as 1 for every kernel when a row replaces another, as the paper's tables do. For kernels where it
        is not 1, such as polynomials, the projection is then wrong and the coefficients grow; they stop at 10^6.

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
    """Project a misclassified row on the support unless that loses too much (Orabona et al., 2009).

    Parameters
    ----------
    threshold : float, default=0.1
        A row whose distance to the span of the support is above this becomes support, > 0. At the budget every row is
        projected.
    margin_updates : bool, default=False
        Also update on rows that are right but inside the margin: Projectron++.

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

    A kernel's function is a weighted sum of cosines and sines of the row at random frequencies, so that no row is
    stored and memory never grows. Classification has the hinge loss, regression the squared loss. All kernels need a
    Fourier transform: those of `bomkl.kernels` that are functions of a distance.

    Parameters
    ----------
    n_frequencies : int, default=256
        Number of random frequencies, 1 to 1000000; each makes two features of every kernel.
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

    The first `budget` rows with a loss become support, by kernel gradient descent. From then on a kernel's function
    moves in the span of the largest eigenvectors of their kernel matrix only, and no row comes or goes. Classification
    has the hinge loss, regression the squared loss.

    Parameters
    ----------
    rank : float, default=0.2
        Number of eigenvectors, as a part of the budget: above 0, at most 1.
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

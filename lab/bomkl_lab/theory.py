"""The paper's bounds as functions, and the parameters they suggest.

All of them assume k(x, x) = 1 and the hinge loss. A comparator f is any fixed function in the space of one kernel, such
as the best one in hindsight: `norm` is its norm there and `loss` the sum of its hinge losses over the T rows. The
bounds hold in expectation over the draws of SPA. A bound is "tuned" when eta has the value that balances its terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bomkl._support.validation import (
    check_count,
    check_not_negative,
    check_open_unit,
    check_positive,
    is_finite_number,
    parameter_error,
)


def tuned_eta(norm: float, T: int, alpha: float, beta: float) -> float:
    """Aggressiveness eta that balances the two terms of Lemma 1.

    Parameters
    ----------
    norm : float
        Norm of the comparator, > 0.
    T : int
        Number of rows.
    alpha, beta : float
        Parameters of SPA.

    Returns
    -------
    float
        norm * sqrt(alpha / (2 beta T)).

    Examples
    --------
    >>> tuned_eta(norm=4.0, T=200, alpha=0.25, beta=0.5)
    0.1414213562373095
    """
    _check_spa("tuned_eta", T, alpha, beta)
    check_positive("tuned_eta", "norm", norm)
    return norm * math.sqrt(alpha / (2 * beta * T))


def regret_bound(norm: float, T: int, eta: float, alpha: float, beta: float) -> float:
    """Lemma 1: how much more one kernel's SPA loses than a comparator.

    Parameters
    ----------
    norm : float
        Norm of the comparator, >= 0.
    T : int
        Number of rows.
    eta, alpha, beta : float
        Parameters of SPA.

    Returns
    -------
    float
        norm^2 / (2 eta) + eta beta T / min(alpha, sqrt(beta eta)).

    Examples
    --------
    >>> regret_bound(norm=2.0, T=100, eta=0.5, alpha=1.0, beta=2.0)
    104.0
    """
    return _regret("regret_bound", norm, T, eta, alpha, beta)


def tuned_regret_bound(norm: float, T: int, alpha: float, beta: float) -> float:
    """Lemma 1 at eta = `tuned_eta`; it needs alpha^3 <= beta norm^2 / (2 T).

    Parameters
    ----------
    norm : float
        Norm of the comparator, > 0.
    T : int
        Number of rows.
    alpha, beta : float
        Parameters of SPA.

    Returns
    -------
    float
        norm * sqrt(2 beta T / alpha).

    Examples
    --------
    >>> tuned_regret_bound(norm=4.0, T=100, alpha=0.25, beta=0.5)
    80.0
    >>> tuned_regret_bound(norm=4.0, T=100, alpha=1.0, beta=2.0)
    Traceback (most recent call last):
    ...
    ValueError: The 'alpha' parameter of tuned_regret_bound must be <= 0.542884 (Lemma 1). Got 1.0 instead.
    """
    return _tuned_regret("tuned_regret_bound", norm, T, alpha, beta)


def hedge_mu(gamma: float, loss_bound: float) -> float:
    """Theorem 1's constant mu: the slope that keeps gamma^l under a line for every loss l up to a bound.

    Parameters
    ----------
    gamma : float
        Discount of Hedge, in (0, 1).
    loss_bound : float
        Largest hinge loss of any kernel on any row, >= 1 (the first row's is 1).

    Returns
    -------
    float
        The mu with gamma^L = 1 - (1 - gamma) L / mu for L = loss_bound.

    Examples
    --------
    >>> hedge_mu(gamma=0.5, loss_bound=1.0)
    1.0
    >>> round(hedge_mu(gamma=0.5, loss_bound=2.0), 6)
    1.333333
    """
    check_open_unit("hedge_mu", "gamma", gamma)
    if not (is_finite_number(loss_bound) and loss_bound >= 1):
        raise parameter_error("hedge_mu", "loss_bound", "a finite number >= 1", loss_bound)
    return (1 - gamma) * loss_bound / -math.expm1(loss_bound * math.log(gamma))


def mkl_loss_bound(
    losses: Sequence[float],
    norms: Sequence[float],
    T: int,
    eta: float,
    alpha: float,
    beta: float,
    gamma: float,
    delta: float,
    loss_bound: float,
) -> float:
    """Theorem 1: the cumulative hinge loss of the combination of m kernels.

    Parameters
    ----------
    losses, norms : sequence of float
        Per kernel: cumulative loss and norm of its comparator.
    T : int
        Number of rows.
    eta, alpha, beta : float
        Parameters of SPA.
    gamma : float
        Discount of Hedge, in (0, 1).
    delta : float
        Smallest probability with which a kernel is selected, in (0, 1]; 1 if every kernel always is.
    loss_bound : float
        Largest hinge loss of any kernel on any row, >= 1.

    Returns
    -------
    float
        mu / (1 - gamma) * (ln m + ln(1 / gamma) * min_i(loss_i + regret_i / delta)), where regret_i is Lemma 1's bound.

    Notes
    -----
    For delta < 1 the proof bounds sum_t p_t (l_t(f_t) - l_t(f)) from below by delta times the same sum without p_t,
    which is only sure where no term is negative; with delta = 1 nothing is left open.

    Examples
    --------
    >>> round(mkl_loss_bound([20.0, 9.0], [2.0, 2.0], T=100, eta=0.5, alpha=1.0, beta=2.0, gamma=0.5, delta=1.0,
    ...                      loss_bound=1.0), 4)
    158.0376
    """
    owner = "mkl_loss_bound"
    _check_comparators(owner, losses, norms)
    regrets = [_regret(owner, norm, T, eta, alpha, beta) for norm in norms]
    return _hedged(owner, losses, regrets, gamma, delta, loss_bound)


def tuned_mkl_loss_bound(
    losses: Sequence[float],
    norms: Sequence[float],
    T: int,
    alpha: float,
    beta: float,
    gamma: float,
    delta: float,
    loss_bound: float,
) -> float:
    """Theorem 1 with eta tuned to the kernel that attains the minimum; every kernel must meet Lemma 1's condition.

    Parameters
    ----------
    losses, norms : sequence of float
        Per kernel: cumulative loss and norm of its comparator.
    T : int
        Number of rows.
    alpha, beta : float
        Parameters of SPA; alpha^3 <= beta norm^2 / (2 T) for every norm.
    gamma : float
        Discount of Hedge, in (0, 1).
    delta : float
        Smallest probability with which a kernel is selected, in (0, 1].
    loss_bound : float
        Largest hinge loss of any kernel on any row, >= 1.

    Returns
    -------
    float
        mu / (1 - gamma) * (ln m + ln(1 / gamma) * min_i(loss_i + norm_i sqrt(2 beta T / alpha) / delta)).

    Examples
    --------
    >>> round(tuned_mkl_loss_bound([0.0], [4.0], T=100, alpha=0.25, beta=0.5, gamma=0.5, delta=1.0, loss_bound=1.0), 4)
    110.9035
    """
    owner = "tuned_mkl_loss_bound"
    _check_comparators(owner, losses, norms)
    regrets = [_tuned_regret(owner, norm, T, alpha, beta) for norm in norms]
    return _hedged(owner, losses, regrets, gamma, delta, loss_bound)


def support_bound(loss: float, norm: float, T: int, eta: float, alpha: float, beta: float) -> float:
    """Theorem 2: the expected number of support rows of one kernel.

    Parameters
    ----------
    loss, norm : float
        Cumulative loss and norm of the comparator, >= 0.
    T : int
        Number of rows.
    eta, alpha, beta : float
        Parameters of SPA.

    Returns
    -------
    float
        min(alpha T / beta, (loss + regret) / beta), where regret is Lemma 1's bound.

    Notes
    -----
    It holds with selection too: there E[Z] = p rho, and Lemma 1's proof bounds the losses and regrets weighted by p.

    Examples
    --------
    >>> support_bound(loss=50.0, norm=2.0, T=200, eta=0.5, alpha=1.0, beta=2.0)
    100.0
    >>> support_bound(loss=50.0, norm=2.0, T=200, eta=0.0625, alpha=1.0, beta=4.0)
    45.5
    """
    check_not_negative("support_bound", "loss", loss)
    regret = _regret("support_bound", norm, T, eta, alpha, beta)
    return min(alpha / beta * T, (loss + regret) / beta)


def tuned_support_bound(loss: float, norm: float, T: int, alpha: float, beta: float) -> float:
    """Theorem 2 at eta = `tuned_eta`, under the same condition as `tuned_regret_bound`.

    Parameters
    ----------
    loss, norm : float
        Cumulative loss and norm of the comparator.
    T : int
        Number of rows.
    alpha, beta : float
        Parameters of SPA.

    Returns
    -------
    float
        min(alpha T / beta, (loss + norm sqrt(2 beta T / alpha)) / beta).

    Examples
    --------
    >>> tuned_support_bound(loss=20.0, norm=4.0, T=100, alpha=0.25, beta=0.5)
    50.0
    """
    check_not_negative("tuned_support_bound", "loss", loss)
    regret = _tuned_regret("tuned_support_bound", norm, T, alpha, beta)
    return min(alpha / beta * T, (loss + regret) / beta)


def beta_for_budget(B: int, T: int, alpha: float = 1.0) -> float:
    """Smallest beta with which SPA keeps at most B of T rows per kernel in expectation (Theorem 2).

    Parameters
    ----------
    B : int
        Support rows wanted per kernel, 1 <= B <= T.
    T : int
        Number of rows.
    alpha : float, default=1.0
        SPA's alpha.

    Returns
    -------
    float
        alpha T / B, never below alpha.

    Examples
    --------
    >>> beta_for_budget(B=250, T=1000)
    4.0
    """
    owner = "beta_for_budget"
    check_count(owner, "B", B)
    check_count(owner, "T", T)
    check_positive(owner, "alpha", alpha)
    if B > T:
        raise parameter_error(owner, "B", f"<= T ({T})", B)
    return max(alpha, alpha * T / B)


def _regret(owner: str, norm: float, T: int, eta: float, alpha: float, beta: float) -> float:
    _check_spa(owner, T, alpha, beta)
    check_positive(owner, "eta", eta)
    check_not_negative(owner, "norm", norm)
    return norm**2 / (2 * eta) + eta * beta / min(alpha, math.sqrt(beta * eta)) * T


def _tuned_regret(owner: str, norm: float, T: int, alpha: float, beta: float) -> float:
    _check_spa(owner, T, alpha, beta)
    check_positive(owner, "norm", norm)
    # The condition says that alpha <= sqrt(beta eta) at the tuned eta, so that alpha is the smaller of the two.
    if alpha**3 > beta / (2 * T) * norm**2:
        limit = math.cbrt(beta / (2 * T) * norm**2)
        raise parameter_error(owner, "alpha", f"<= {limit:g} (Lemma 1)", alpha)
    return norm * math.sqrt(2 * beta * T / alpha)


def _hedged(
    owner: str, losses: Sequence[float], regrets: Sequence[float], gamma: float, delta: float, loss_bound: float
) -> float:
    if not (is_finite_number(delta) and 0 < delta <= 1):
        raise parameter_error(owner, "delta", "a number in (0, 1]", delta)
    best = min(loss + regret / delta for loss, regret in zip(losses, regrets, strict=True))
    return hedge_mu(gamma, loss_bound) / (1 - gamma) * (math.log(len(losses)) - math.log(gamma) * best)


def _check_spa(owner: str, T: int, alpha: float, beta: float) -> None:
    check_count(owner, "T", T)
    check_positive(owner, "alpha", alpha)
    if not (is_finite_number(beta) and beta >= alpha):
        raise parameter_error(owner, "beta", f"a finite number >= alpha ({alpha})", beta)


def _check_comparators(owner: str, losses: Sequence[float], norms: Sequence[float]) -> None:
    if not 0 < len(losses) == len(norms):
        raise parameter_error(owner, "norms", f"one per loss ({len(losses)}, at least one)", norms)
    for loss in losses:
        check_not_negative(owner, "losses", loss)

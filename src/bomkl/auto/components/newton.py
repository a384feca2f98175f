"""Online Newton regression on fixed features, in blocks of 64 rows; the core owns what it has learned.

Posterior mean and covariance are those of the start of the open block. Its rows are held apart, so that their scores
are the same bits in however many calls they come, and so that a fork shares everything until a block is full.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from bomkl._core import BLOCK, NewtonRegression, linear_scores
from bomkl._support.tiles import packed, unpacked
from bomkl.auto.blas import one_blas_thread
from bomkl.auto.features.geometry import Float, Single
from bomkl.auto.saved import Saved

UNCHECKED = 16384.0
MARGIN = 64 * float(np.finfo(np.float32).eps)  # least eigenvalue after a repair, as a share of the largest variance


def fitted_regression(w: Float, covariance: Float, width: int, ridge: float) -> NewtonRegression:
    """Start from a posterior mean (r, outputs) and covariance (r, r), which a prior of 1 / ridge has led to."""
    rank, outputs = w.shape
    means = np.zeros((outputs, width))
    means[:, :rank] = w.T
    P = packed(covariance)
    return NewtonRegression.of(means, P, np.array([rank / ridge, _trace(P)]))


def _trace(P: Single) -> float:
    return float(np.trace(unpacked(P), dtype=np.float64))


def repair(regression: NewtonRegression) -> None:
    """Keep the covariance positive definite in single precision; called between blocks, at absolute row counts.

    Learning maps P to (P^-1 + H)^-1, where the largest eigenvalue of H is at most W |x|^2 after rows of weight W. If P
    has no eigenvalue below m, then after learning it has none below m / (1 + m W |x|^2). Rounding changes each block by
    a symmetric error that learning shrinks as it shrinks P (see `close_block`). Between two looks lie at most 256
    blocks, whose errors add up to about 16 times that of one; m has room for 128 roundings of the largest variance. So
    it is enough to look from time to time whether P - m I has a Cholesky factor and, where it has none, to add to the
    diagonal of P: a loss of certainty that single precision could hardly have told from none.
    """
    if regression.unchecked < UNCHECKED or regression.open:
        return
    regression.set_checked()
    single = unpacked(regression.P)[:, : regression.rank]
    P = single.astype(np.float64)
    margin = MARGIN * float(P.diagonal().max())
    diagonal, added = P.diagonal() - margin, 0.0
    with one_blas_thread:
        while True:
            np.fill_diagonal(P, diagonal + added)
            if dpotrf(P, lower=1)[1] == 0:
                break
            added = 4 * added or margin
    if added:
        single = single.copy()
        np.fill_diagonal(single, diagonal + margin + added)
        repaired = packed(single)
        regression.set_covariance(repaired, _trace(repaired))


def feature_scores(F: Single, means: Float, rank: int) -> Float:
    """Score rows of features with a posterior mean (outputs, width)."""
    out = np.empty((len(F), len(means)))
    linear_scores(F, means, rank, out)
    return out


def regression_from_state(saved: Saved, rank: int, outputs: int, most_open: int) -> NewtonRegression:
    """Go on where the `state` of a regression was taken, whose open block has at most so many rows."""
    tiles = -(-rank // BLOCK)
    P = np.zeros((tiles, rank, BLOCK), dtype=np.float32)
    regression = NewtonRegression.of(np.zeros((outputs, tiles * BLOCK)), P, np.zeros(2))
    saved.load(regression)
    if regression.open > most_open:
        raise saved.wrong("rows", f"at most {most_open} rows, those of the open block", regression.open)
    return regression

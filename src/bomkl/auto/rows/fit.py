"""The exact fit of one component on the kept rows."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from bomkl.auto.features.geometry import Float
from bomkl.auto.task import HUBER, Task

_MOST_ROUNDS = {Task.SQUARED: 1, Task.BINARY: 8, Task.MULTICLASS: 7, Task.HUBER: 30}
_SMALL_STEP = {Task.SQUARED: 0.0, Task.BINARY: 0.3, Task.MULTICLASS: 1e-2, Task.HUBER: 1e-3}  # after it comes the last
LEAST_CURVATURE = 1e-5
_SEARCH, _LONGEST, _CLOSE = 12, 8.0, 0.02  # of the length of a step: rounds, the largest, and a small relative change

T = TypeVar("T")
Steps = Generator[None, None, T]  # a piece of work that can be left off between two steps


def softmax(f: Float) -> Float:
    """Probabilities of the columns of each row."""
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def fitted_means(f: Float, task: Task) -> Float:
    """Turn scores into what they predict: probabilities, or themselves."""
    if task is Task.BINARY:
        return np.asarray(1 / (1 + np.exp(-np.clip(f, -500, 500))))
    return softmax(f) if task is Task.MULTICLASS else f


def finished(steps: Steps[T]) -> T:
    """Take all steps of a piece of work and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class FitRounds:
    """The rounds of a fit: iterating tells for each whether it needs the Hessian of where it is; `took` ends it.

    A Hessian takes most of the time of a round. For classes two do, of the first round and of the last: conjugate
    directions and a search along them make up for one that is off. The weights of Huber's loss change too much.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._close = False

    def __iter__(self) -> Iterator[bool]:
        most = _MOST_ROUNDS[self._task]
        for i in range(most):
            last = self._close or i == most - 1
            yield i == 0 or last or self._task is Task.HUBER
            if last:
                return

    def took(self, largest: float) -> None:
        """Take note of the largest number of a step."""
        self._close = largest < _SMALL_STEP[self._task]


class Directions:
    """Conjugate directions, by Polak and Ribiere's formula: each from a slope and the Newton step of some Hessian."""

    def __init__(self) -> None:
        self._before: tuple[Any, float, Any] | None = None  # the step, its part of the slope, and the direction

    def after(self, slope: Any, step: Any) -> Any:
        """Return the next direction, of arrays or tensors."""
        size, direction = float((slope * step).sum()), step
        if self._before is not None:
            last, last_size, last_direction = self._before
            share = (size - float((slope * last).sum())) / last_size if last_size > 0 else 0.0
            direction = step + max(share, 0.0) * last_direction
        self._before = step, size, direction
        return direction


def ridge_fit_steps(F: Float, y: Float, weight: Float, ridge: float, task: Task) -> Steps[tuple[Float, Float]]:
    """Posterior mean (r, outputs) and covariance (r, r) of ridge regression under the loss of a task.

    Examples
    --------
    >>> w, P = finished(ridge_fit_steps(np.ones((3, 1)), np.full((3, 1), 4.0), np.ones(3), 1.0, Task.SQUARED))
    >>> w[0, 0], P[0, 0]
    (np.float64(3.0), np.float64(0.25))
    """
    w, f = np.zeros((F.shape[1], y.shape[1])), np.zeros(y.shape)
    single, rounds = F.astype(np.float32), FitRounds(task)
    for anew in rounds:
        pull, curvature = _pull_and_curvature(y, fitted_means(f, task), task)
        if anew:
            factor, directions = _cholesky(F, single, weight * curvature, ridge), Directions()
        slope = F.T @ (weight[:, None] * pull) - ridge * w
        step = directions.after(slope, dpotrs(factor, slope, lower=1)[0])
        change = F @ step
        if not task.is_regression:
            penalty = ridge * float((w * step).sum()), ridge * float((step**2).sum())
            length = step_length(f, change, y, weight, *penalty, task)
            step, change = length * step, length * change
        w, f = w + step, f + change
        rounds.took(np.abs(step).max())
        yield
    lower, _ = dpotri(factor, lower=1)
    covariance = lower + lower.T  # what is above the diagonal of the factor is zero, and stays so
    np.fill_diagonal(covariance, lower.diagonal())
    return w, covariance


def step_length(f: Float, g: Float, y: Float, weight: Float, slope: float, curvature: float, task: Task) -> float:
    """How many steps long a step is best: where the loss of classes at the scores f + length g is least.

    The slope and the curvature are those of the penalty along the step. Where classes are nearly apart, scores go far
    from zero, and steps take them there by about one each. A search along a step costs next to nothing.
    """
    length, low, high = 1.0, 0.0, _LONGEST
    if not curvature > 0:  # a step of zero, as from rows that cancel each other out
        return length
    aim = (y * g).sum(axis=1)
    for _ in range(_SEARCH):
        p = fitted_means(f + length * g, task)
        mean = (p * g).sum(axis=1)
        rise = float(weight @ (mean - aim)) + slope + length * curvature
        low, high = (length, high) if rise < 0 else (low, length)
        before = length
        length -= rise / (float(weight @ ((p * g * g).sum(axis=1) - mean**2)) + curvature)
        if not low < length < high:
            length = (low + high) / 2
        if abs(length - before) < _CLOSE * length:
            break
    return length


def _pull_and_curvature(y: Float, p: Float, task: Task) -> tuple[Float, Float]:
    """Negative gradient of the loss by the scores, and one curvature a row."""
    residual = y - p
    if task is Task.SQUARED:
        return residual, np.ones(len(y))
    if task is Task.HUBER:
        inside = np.minimum(1.0, HUBER / np.maximum(np.abs(residual[:, 0]), HUBER))
        return np.clip(residual, -HUBER, HUBER), inside
    if task is Task.BINARY:
        return residual, np.maximum(p * (1 - p), LEAST_CURVATURE)[:, 0]
    # one curvature for all classes: twice the largest p (1 - p) bounds the Hessian of the softmax
    return residual, np.maximum(2 * (p * (1 - p)).max(axis=1), LEAST_CURVATURE)


def _cholesky(F: Float, single: NDArray[np.float32], h: Float, ridge: float) -> Float:
    """Lower Cholesky factor of F^T h F + ridge; in double precision where single precision is not enough."""
    roots = np.sqrt(h)[:, None]
    scaled: NDArray[Any] = single * roots.astype(np.float32)
    while True:
        hessian = (scaled.T @ scaled).astype(np.float64)  # of a matrix with itself, BLAS computes one half only
        hessian[np.diag_indices(len(hessian))] += ridge
        factor, failed = dpotrf(hessian, lower=1)
        if not failed:
            return np.asarray(factor)
        ridge = ridge if scaled.dtype == np.float32 else ridge + 1e-12 * float(hessian.trace())
        scaled = F * roots

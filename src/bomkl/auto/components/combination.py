"""The learned combination: two Newton stacks and a Hedge mixture of the components, and Hedge over those three."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import Combination as CoreCombination
from bomkl.auto.constants import SHARE, STACK_RIDGES
from bomkl.auto.features.geometry import Float
from bomkl.auto.limits import LOG_SHARES, SHARES, SUMS
from bomkl.auto.saved import Saved, State
from bomkl.auto.task import Task

_ARRAYS = ("stack_w", "stack_covariance", "weights", "log_final", "loss_sum", "error_sum")


def _array(name: str) -> Any:
    """Make a property that is an array of the core; setting it changes the numbers in place."""

    def get(self: Combination) -> Float:
        array: Float = getattr(self.core, name)
        return array

    def set_values(self: Combination, values: Float) -> None:
        get(self)[...] = values

    return property(get, set_values)


class Combination:
    """Weights of some components, and the losses they have had; `core` owns them."""

    stack_w = _array("stack_w")
    stack_covariance = _array("stack_covariance")
    weights = _array("weights")
    log_final = _array("log_final")
    loss_sum = _array("loss_sum")
    error_sum = _array("error_sum")

    def __init__(self, core: CoreCombination) -> None:
        self.core = core

    @classmethod
    def holding(
        cls,
        stack_w: Float,
        stack_covariance: Float,
        weights: Float,
        log_final: Float,
        loss_sum: Float,
        error_sum: Float,
    ) -> Self:
        """Copy arrays."""
        arrays = (stack_w, stack_covariance, weights, log_final, loss_sum, error_sum)
        return cls(CoreCombination.of(*(np.ascontiguousarray(each) for each in arrays), SHARE))

    @classmethod
    def of(cls, components: int) -> Self:
        """Weigh all components alike."""
        return cls.holding(
            stack_w=np.full((len(STACK_RIDGES), components), 1 / components),
            stack_covariance=np.stack([np.eye(components) / ridge for ridge in STACK_RIDGES]),
            weights=np.full(components, 1 / components),
            log_final=np.zeros(len(STACK_RIDGES) + 1),
            loss_sum=np.zeros(components),
            error_sum=np.zeros(components),
        )

    def scores(self, S: Float, task: Task) -> Float:
        """Combine component scores (n, components, outputs)."""
        return self.core.scores(np.ascontiguousarray(S), int(task))

    def score_and_learn(self, S: Float, y: Float, weight: Float, task: Task) -> Float:
        """Combine the scores of each row just before the weights learn from it."""
        return self.core.score_and_learn(np.ascontiguousarray(S), y, weight, int(task))

    def final_shares(self) -> Float:
        """Weights of the stacks and, last, of the mixture."""
        relative = np.exp(self.log_final - self.log_final.max())
        return np.asarray(relative / relative.sum())

    def slopes(self) -> Float:
        """How much the combined score changes with each component's, to first order."""
        shares = self.final_shares()
        return np.asarray(shares[:-1] @ self.stack_w + shares[-1] * self.weights)

    def influence(self) -> Float:
        """Part of each component in the combination: not negative, sum 1."""
        sizes = np.abs(self.stack_w)
        parts = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-300)
        shares = self.final_shares()
        total = shares[:-1] @ parts + shares[-1] * self.weights
        return np.asarray(total / total.sum())

    def without(self, dropped: NDArray[np.int64]) -> Self:
        """Return what is left when components go, conditioning the stacks on their weights being zero."""
        stack_w, covariance = self.stack_w.copy(), self.stack_covariance.copy()
        for i in dropped:
            for j in range(len(stack_w)):
                P = covariance[j]
                gain = P[:, i] / max(P[i, i], 1e-300)
                stack_w[j] -= gain * stack_w[j, i]
                covariance[j] = P - np.outer(gain, P[i])
        kept = np.setdiff1d(np.arange(len(self.weights)), dropped)
        weights = self.weights[kept]
        return self.holding(
            stack_w[:, kept],
            covariance[:, kept][:, :, kept],
            weights / weights.sum(),
            self.log_final,
            self.loss_sum[kept],
            self.error_sum[kept],
        )

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is."""
        return type(self)(self.core.fork())

    def __getstate__(self) -> State:
        return self.to_state()

    def __setstate__(self, state: State) -> None:
        self.core = self.holding(**state).core

    def to_state(self) -> State:
        """Everything it is, as arrays."""
        return {name: getattr(self.core, name).copy() for name in _ARRAYS}

    @classmethod
    def from_state(cls, saved: Saved, components: int) -> Self:
        """Go on where `to_state` was called."""
        stacks = len(STACK_RIDGES)
        combination = cls.holding(
            stack_w=saved.array("stack_w", (stacks, components)),
            stack_covariance=saved.array("stack_covariance", (stacks, components, components)),
            weights=saved.array("weights", (components,), np.float64, *SHARES),
            log_final=saved.array("log_final", (stacks + 1,), np.float64, *LOG_SHARES),
            loss_sum=saved.array("loss_sum", (components,), np.float64, *SUMS),
            error_sum=saved.array("error_sum", (components,), np.float64, *SUMS),
        )
        if abs(combination.weights.sum() - 1) > 1e-6:
            raise saved.wrong("weights", "numbers of sum 1", combination.weights)
        saved.end()
        return combination


def centred(S: Float, task: Task) -> Float:
    """Component scores as the core combines them: those of several classes have mean zero."""
    if task is not Task.MULTICLASS:
        return np.ascontiguousarray(S)
    total = np.zeros(S.shape[:2])  # summed class by class: an order that does not depend on the number of rows
    for k in range(S.shape[2]):
        total += S[:, :, k]
    return np.ascontiguousarray(S - (total / S.shape[2])[:, :, None])

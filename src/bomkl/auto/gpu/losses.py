"""Means, losses and errors of scores as the core defines them, for tensors whose last axis holds the outputs."""

from __future__ import annotations

from typing import Any

import torch

from bomkl.auto.task import HUBER, Task

_FARTHEST = 15.0  # log odds beyond it count as this
_TINY = 1e-12
_LARGEST_LOSS = 10.0


def means(f: Any, task: Task) -> Any:
    """Probabilities of the classes, or the prediction itself."""
    if task is Task.BINARY:
        return torch.sigmoid(f.clamp(-_FARTHEST, _FARTHEST))
    return torch.softmax(_below_top(f), dim=-1) if task is Task.MULTICLASS else f


def scores_of_means(p: Any, task: Task) -> Any:
    """Log odds, log probabilities, or the prediction itself: the inverse of `means`."""
    if task is Task.BINARY:
        return torch.log(p.clamp_min(_TINY) / (1 - p).clamp_min(_TINY))
    return torch.log(p.clamp_min(_TINY)) if task is Task.MULTICLASS else p


def losses(f: Any, y: Any, task: Task) -> Any:
    """Loss of each row."""
    if task.is_regression:
        r = (f - y).abs()[..., 0]
        loss = 0.5 * r * r
        if task is Task.HUBER:
            loss = torch.where(r > HUBER, HUBER * (r - 0.5 * HUBER), loss)
        return loss.clamp_max(_LARGEST_LOSS)
    if task is Task.BINARY:
        s = f.clamp(-_FARTHEST, _FARTHEST)[..., 0]
        return torch.log1p(torch.exp(torch.where(y[..., 0] > 0.5, -s, s)))
    relative = _below_top(f)
    return torch.logsumexp(relative, dim=-1) - (relative * y).sum(dim=-1)


def errors(f: Any, y: Any, task: Task) -> Any:
    """0 or 1 for classes (a score of zero is a mistake), the squared error for numbers."""
    if task.is_regression:
        return ((f - y) ** 2)[..., 0]
    if task is Task.BINARY:
        return (torch.where(y > 0.5, f, -f) <= 0)[..., 0].to(f.dtype)
    return (f.argmax(dim=-1) != y.argmax(dim=-1)).to(f.dtype)


def pulls_and_curvature(f: Any, y: Any, task: Task) -> tuple[Any, Any]:
    """Negative gradient of the loss by the scores, and one curvature a row."""
    p = means(f, task)
    pull = y - p
    if task is Task.SQUARED:
        return pull, torch.ones_like(pull[..., 0])
    if task is Task.HUBER:
        return pull.clamp(-HUBER, HUBER), HUBER / pull[..., 0].abs().clamp_min(HUBER)
    return pull, (p * (1 - p)).amax(dim=-1).clamp_min(1e-5)


def _below_top(f: Any) -> Any:
    return (f - f.amax(dim=-1, keepdim=True)).clamp_min(-_FARTHEST)

"""Scores, predictive means, and their learned combination, as operators."""

from __future__ import annotations

from bomkl.auto.components.combination import Combination
from bomkl.auto.task import Task
from bomkl.onnx.graph import Result

# As in cpp/auto/components/combination.hpp and cpp/auto/components/losses.hpp.
_STACK_CLIP, _SCORE_CLIP, _TINY = 6.0, 15.0, 1e-12


def means(scores: Result, task: Task) -> Result:
    """Predictive means: probabilities of the classes on the last axis, or the prediction itself."""
    if task is Task.BINARY:
        return scores.clip(-_SCORE_CLIP, _SCORE_CLIP).add("Sigmoid")
    if task is Task.MULTICLASS:
        return (scores - scores.largest(axis=-1)).at_least(-_SCORE_CLIP).add("Softmax", axis=-1)
    return scores


def scores_of_means(means: Result, task: Task) -> Result:
    """Log odds, log probabilities, or the prediction itself."""
    if task is Task.BINARY:
        return (means.at_least(_TINY) / (1.0 - means).at_least(_TINY)).add("Log")
    return means.at_least(_TINY).add("Log") if task is Task.MULTICLASS else means


def stacked(parts: list[Result]) -> Result:
    """Scores (n, outputs) of several parts as (n, parts, outputs)."""
    first, *others = [part.unsqueeze() for part in parts]
    return first.add("Concat", *others, axis=1)


def combined(S: Result, parts: Combination, task: Task) -> Result:
    """Combine component scores (rows, components, outputs) to (rows, outputs)."""
    if task is Task.MULTICLASS:
        S -= S.mean(axis=2)
    stacks = parts.stack_w @ S.clip(-_STACK_CLIP, _STACK_CLIP)
    mixture = scores_of_means(parts.weights[None] @ means(S, task), task)
    candidates = stacks.add("Concat", mixture, axis=1)
    return scores_of_means(parts.final_shares()[None] @ means(candidates, task), task).squeeze()

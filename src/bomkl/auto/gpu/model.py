"""A learner's numbers on a device: views of the columns, features, the combination, and losses as the core has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bomkl._support.limits import LARGEST
from bomkl.auto.components.combination import Combination
from bomkl.auto.features.features import Features, LinearFeatures
from bomkl.auto.features.geometry import CLIP, FAR, ROOT_HALF, Geometry, bases_of, view_width
from bomkl.auto.gpu.kernels import kernel_values
from bomkl.auto.gpu.products import whitened
from bomkl.auto.task import HUBER, Task

_STACK_CLIP = 6.0  # component scores beyond it say no more to a stack; the core has the same
_FARTHEST = 15.0  # log odds beyond it count as this
_TINY = 1e-12
_LARGEST_LOSS = 10.0
_LARGEST_ERROR = 1e140  # so that sums of squares are numbers


def tensor(array: Any, device: Any, dtype: Any = None) -> Any:
    """Copy an array to a device."""
    return torch.as_tensor(np.ascontiguousarray(array), device=device, dtype=dtype)


def fetched(tensor: Any) -> Any:
    """Copy a tensor to an array; from a GPU to memory that it writes by itself."""
    if tensor.device.type != "cuda":
        return tensor.numpy()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor).numpy()


class DeviceViews:
    """`Geometry.views` for tensors."""

    def __init__(self, geometry: Geometry, names: set[str], device: Any) -> None:
        self._names = names
        self._bases = bases_of(names)
        self._common = geometry.common
        double = ("mean", "deviation", "middle", "sorted_columns", "score_table", "normal_mean", "normal_deviation")
        self._of = {name: tensor(getattr(geometry, name), device) for name in double}
        self._square_means = tensor(geometry.square_means(), device)
        self._axes = tensor(geometry.axes[0], device)
        self._relevance = {name: tensor(scale, device, torch.float32) for name, scale in geometry.relevance.items()}

    def __call__(self, X: Any) -> dict[str, Any]:
        """Rows (n, columns) of float64 in the views that were asked for."""
        X, of, views = X.clamp(-LARGEST, LARGEST), self._of, {}
        if "standard" in self._bases:
            views["standard"] = ((X - of["mean"]) / of["deviation"]).clamp(-CLIP, CLIP).float()
        if "normal" in self._bases:
            columns = X.T.contiguous()
            low = torch.searchsorted(of["sorted_columns"], columns)
            high = torch.searchsorted(of["sorted_columns"], columns, right=True)
            scores = of["score_table"][low + high].T
            views["normal"] = ((scores - of["normal_mean"]) / of["normal_deviation"]).float()
        if "common" in self._bases:
            views["common"] = ((X - of["middle"]) / self._common).clamp(-FAR, FAR).float()
        if "leading" in self._names:
            views["leading"] = (views["common"] @ self._axes)[:, : view_width("leading", X.shape[1])].contiguous()
        for base, scale in self._relevance.items():
            if "relevant " + base in self._names:
                views["relevant " + base] = views[base] * scale
        if "squares" in self._names:
            views["squares"] = (views["normal"].square() - self._square_means) * ROOT_HALF
        return views


class DeviceFeatures:
    """`Features.__call__` for tensors: features (width, rows), filled up with zeros to a width that products like."""

    def __init__(self, features: Features, device: Any) -> None:
        self.rank, self.width = features.rank, features.width
        self._kernel: str | None = None
        if isinstance(features, LinearFeatures):
            self._both, self._squares = features.both, features.squares
        else:
            self._kernel, self._scale, self._view = features.kernel, features.scale, features.geometry
            landmarks = features.landmarks.transpose(1, 0, 2).reshape(features.landmarks.shape[1], -1)
            whiten = np.zeros((self.width, landmarks.shape[1]), dtype=np.float32)
            whiten[: self.rank, : self.rank] = features.whitening().T
            self._landmarks, self._norms = tensor(landmarks, device), tensor(features.norms, device)
            self._whiten = tensor(whiten, device)

    def __call__(self, views: dict[str, Any]) -> Any:
        """Map rows, given in their views."""
        if self._kernel is not None:
            values = kernel_values(self._kernel, views[self._view], self._landmarks, self._norms, self._scale)
            return whitened(values, self._whiten, self.rank)
        x = views["standard"].T
        out, columns = torch.zeros((self.width, x.shape[1]), dtype=torch.float32, device=x.device), len(x)
        out[:columns] = x
        if self._both:
            out[columns : 2 * columns] = views["normal"].T
        if self._squares:
            out[2 * columns : self.rank] = views["squares"].T
        out[self.rank] = 1
        return out


class DeviceCombination:
    """The combination at fixed weights: scores of rows, and what they say to the stacks."""

    def __init__(self, combination: Combination, device: Any) -> None:
        self.stack_w = tensor(combination.stack_w, device)
        self._weights = tensor(combination.weights, device)
        self._shares = tensor(combination.final_shares(), device)

    def copied(self) -> DeviceCombination:
        """Copy it."""
        copied = object.__new__(DeviceCombination)
        copied.stack_w, copied._weights, copied._shares = (each.clone() for each in self._numbers())
        return copied

    def take(self, other: DeviceCombination) -> None:
        """Become another one of the same size, in the memory that is there."""
        for mine, its in zip(self._numbers(), other._numbers(), strict=True):
            mine.copy_(its)

    def _numbers(self) -> tuple[Any, Any, Any]:
        return self.stack_w, self._weights, self._shares

    def __call__(self, S: Any, task: Task) -> tuple[Any, Any, Any]:
        """Return combined scores (n, outputs), candidates (n, stacks + 1, outputs) and S (n, m, outputs) clipped."""
        clipped = S.clamp(-_STACK_CLIP, _STACK_CLIP)
        stacks = torch.einsum("jm,nmk->njk", self.stack_w, clipped)
        mixture = scores_of_means(torch.einsum("m,nmk->nk", self._weights, means(S, task)), task)
        candidates = torch.cat([stacks, mixture[:, None]], dim=1)
        combined = scores_of_means(torch.einsum("j,njk->nk", self._shares, means(candidates, task)), task)
        return combined, candidates, clipped

    @staticmethod
    def stack_terms(f: Any, clipped: Any, y: Any, weight: Any, task: Task) -> tuple[Any, Any, Any]:
        """Pull of each row on a stack's weights (n, m), and its curvature: sum over k of h[n, k] x x', x (n, k, m)."""
        p = means(f, task)
        residual = (y - p).clamp(-HUBER, HUBER) if task is Task.HUBER else y - p
        x = clipped.transpose(1, 2)
        pull = weight[:, None] * torch.einsum("nk,nkm->nm", residual, x)
        h = weight[:, None].expand_as(p)
        if task is Task.BINARY:
            h = h * (p * (1 - p)).clamp_min(1e-4)
        elif task is Task.MULTICLASS:
            h = h * p
            x = x - torch.einsum("nk,nkm->nm", p, x)[:, None]
        elif task is Task.HUBER:
            h = h * (HUBER / (y - p).abs().clamp_min(HUBER))
        return pull, h, x


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
        return ((f - y).abs().clamp_max(_LARGEST_ERROR) ** 2)[..., 0]
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

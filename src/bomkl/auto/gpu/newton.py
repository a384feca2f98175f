"""Newton regressions of several components on a device, learned together in blocks of 64 rows.

A `Regressions` never changes. A `Workspace` has buffers of its own, which learning changes in place: it takes one in,
learns, and gives the next one out. So a model that was there before a call is there after it, whatever happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from bomkl._core import BLOCK, NewtonRegression
from bomkl._support.tiles import packed, unpacked
from bomkl.auto.components.component import NewtonComponent
from bomkl.auto.components.newton import MARGIN, UNCHECKED
from bomkl.auto.constants import CHUNK
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.auto.gpu.model import DeviceFeatures, DeviceViews, tensor
from bomkl.auto.gpu.recursion import Block, learn_block
from bomkl.auto.task import Task

ROWS = 4 * CHUNK  # mapped to features together: one shape for all calls, because another one may give other bits
_OF_BLOCK = ("M", "c", "a", "trace")  # what a block says of rows after it
_WIDE = 512  # widths up to here are padded to one, for one product instead of many


@dataclass(frozen=True)
class Regressions:
    """What m regressions know, and the rows of the open block; one tensor for each width of features."""

    places: list[list[int]]  # of each width, the numbers of its regressions
    ranks: list[int]
    w: list[Any]  # (m, width, outputs) of double precision
    P: list[Any]  # (m, width, width)
    rows: list[Any]  # (m, 64, width)
    M: Any
    c: Any
    a: Any
    trace: Any
    open: int
    unchecked: tuple[float, ...]
    _found: dict[int, Any] = field(default_factory=dict)  # what was asked for before

    @classmethod
    def of(cls, regressions: list[NewtonRegression], device: Any) -> Regressions:
        """Copy regressions to a device."""
        ranks = [each.rank for each in regressions]
        widths, outputs = _padded_widths(ranks), len(regressions[0].w)
        places = [[i for i, each in enumerate(widths) if each == width] for width in sorted(set(widths))]
        n, states = regressions[0].open, [each.state() for each in regressions]
        block = Block.zeros(len(ranks), outputs, device)
        w, P, rows = [], [], []
        for group in places:
            m, width = len(group), widths[group[0]]
            w.append(torch.zeros((m, width, outputs), dtype=torch.float64, device=device))
            P.append(torch.zeros((m, width, width), dtype=torch.float32, device=device))
            rows.append(torch.zeros((m, BLOCK, width), dtype=torch.float32, device=device))
            for k, i in enumerate(group):
                w[-1][k, : ranks[i]] = tensor(states[i]["w"][:, : ranks[i]].T, device)
                P[-1][k, : ranks[i], : ranks[i]] = tensor(unpacked(states[i]["P"])[:, : ranks[i]], device)
                rows[-1][k, :n, : ranks[i]] = tensor(states[i]["rows"][:, : ranks[i]], device)
        for i in range(len(regressions)):
            for name in ("M", "c", "a"):
                getattr(block, name)[i][tuple(slice(size) for size in states[i][name].shape)] = tensor(
                    states[i][name], device
                )
            block.trace[i] = tensor(states[i]["trace"], device)
        unchecked = tuple(each.unchecked for each in regressions)
        return cls(places, ranks, w, P, rows, block.M, block.c, block.a, block.trace, n, unchecked)

    @property
    def outputs(self) -> int:
        """Scores a row."""
        return int(self.a.shape[2])

    def place(self, i: int) -> tuple[int, int]:
        """Width and number there of a regression."""
        return next((g, group.index(i)) for g, group in enumerate(self.places) if i in group)

    def means(self) -> list[Any]:
        """Posterior means with every row learned, as `w` has them."""
        if -1 not in self._found:
            with torch.inference_mode():
                n, out = self.open, []
                L = torch.eye(BLOCK, dtype=torch.float64, device=self.M.device) + self.M.transpose(1, 2)
                for group, w, P, rows in zip(self.places, self.w, self.P, self.rows, strict=True):
                    if n == 0:
                        out.append(w)
                        continue
                    b = torch.linalg.solve_triangular(L[group, :n, :n].transpose(1, 2), self.a[group, :n], upper=True)
                    out.append(w + torch.bmm(torch.bmm(rows, P)[:, :n].double().transpose(1, 2), b))
                self._found[-1] = out
        means: list[Any] = self._found[-1]
        return means

    def on_host(self, i: int) -> NewtonRegression:
        """Copy a regression to the processor; nobody must change it."""
        if i not in self._found:
            with torch.inference_mode():
                self._found[i] = self._copied(i)
        copied: NewtonRegression = self._found[i]
        return copied

    def _copied(self, i: int) -> NewtonRegression:
        (g, k), n, rank = self.place(i), self.open, self.ranks[i]
        P, rows = self.P[g][k], self.rows[g]
        means = np.zeros((self.outputs, -(-rank // BLOCK) * BLOCK))
        means[:, :rank] = self.w[g][k, :rank].T.cpu().numpy()
        U = np.zeros((n, means.shape[1]), dtype=np.float32)
        U[:, :rank] = torch.bmm(rows, self.P[g])[k, :n, :rank].cpu().numpy()
        features = np.zeros_like(U)
        features[:, :rank] = rows[k, :n, :rank].cpu().numpy()
        M = self.M[i, :n, :n].triu(1).cpu().numpy()
        V = U.copy()
        for u in range(1, n):
            V[u] -= M[:u, u].astype(np.float32) @ V[:u]
        block = {"rows": features, "U": U, "M": M, "V": packed(V)}
        block |= {"c": self.c[i, :n].cpu().numpy(), "a": self.a[i, :n].cpu().numpy()}
        regression = NewtonRegression.of(means, packed(P[:rank, :rank].cpu().numpy()), self.trace[i].cpu().numpy())
        regression.restore(regression.state() | block | {"unchecked": self.unchecked[i]}, "regression")
        return regression


def _padded_widths(ranks: list[int]) -> list[int]:
    """Widths of the tensors: one for all up to 512, multiples of it beyond.

    Examples
    --------
    >>> _padded_widths([30, 250]), _padded_widths([250, 700])
    ([256, 256], [512, 1024])
    """
    least = min(-(-max(ranks) // BLOCK) * BLOCK, _WIDE)
    return [max(least, -(-rank // _WIDE) * _WIDE if rank > _WIDE else 0) for rank in ranks]


def _chosen(groups: list[list[int]], device: Any) -> list[Any]:
    """Index of each group of regressions among all; where there is one group, that of a view."""
    return [slice(None)] if len(groups) == 1 else [torch.tensor(group, device=device) for group in groups]


def _trace(P: Any) -> Any:
    return P.diagonal(dim1=1, dim2=2).sum(dim=1, dtype=torch.float64)


class Workspace:
    """Buffers for some components that learn on a device, and the graphs of what is done again and again."""

    def __init__(
        self, geometry: Geometry, parts: list[NewtonComponent], start: Regressions, task: Task, forget: float
    ) -> None:
        device, outputs = start.M.device, start.outputs
        self._geometry, self._of, self._settings = geometry, [each.features for each in parts], (outputs, task, forget)
        self._task, self._forgets = task, forget < 1
        self._views = DeviceViews(geometry, {name for each in parts for name in each.geometries()}, device)
        self._features = [DeviceFeatures(each.features, device) for each in parts]
        self._places, self._ranks = start.places, start.ranks
        self._chosen = _chosen(start.places, device)  # on the device: graphs copy nothing from the processor
        self._w, self._P, self._rows = (
            [torch.zeros_like(each) for each in of] for of in (start.w, start.P, start.rows)
        )
        self._U = [torch.zeros_like(each) for each in start.rows]
        self._F = [each.new_zeros((len(each), ROWS, each.shape[2])) for each in start.rows]
        self._block = Block.zeros(len(parts), outputs, device)
        self._block.loosen.copy_(tensor([(1 - forget) * rank for rank in start.ranks], device))
        self._spans = tensor(
            [[[first, last] for last in range(BLOCK + 1)] for first in range(BLOCK)], device, torch.int32
        )
        self._X = torch.zeros((ROWS, len(geometry.mean)), dtype=torch.float64, device=device)
        self._y = torch.zeros((ROWS, outputs), dtype=torch.float64, device=device)
        self._weight = torch.ones(ROWS, dtype=torch.float64, device=device)
        self._scores = torch.zeros((ROWS, len(parts), outputs), dtype=torch.float64, device=device)
        self._open, self._unchecked = 0, np.zeros(len(parts))
        self._held: Regressions | None = None
        self._closed = False
        self._graphs: dict[str, Any] = {}

    def fits(self, geometry: Geometry, parts: list[NewtonComponent], outputs: int, task: Task, forget: float) -> bool:
        """Whether it was made for these components."""
        return (
            geometry is self._geometry
            and len(parts) == len(self._of)
            and all(each.features is mine for each, mine in zip(parts, self._of, strict=True))
            and (outputs, task, forget) == self._settings
        )

    # ------------------------------------------------------------ in and out

    def take(self, state: Regressions) -> None:
        """Go on from a state."""
        if self._held is not state:
            for mine, its in zip(self._w + self._P + self._rows, state.w + state.P + state.rows, strict=True):
                mine.copy_(its)
            for name in _OF_BLOCK:
                getattr(self._block, name).copy_(getattr(state, name))
        self._held, self._open, self._unchecked, self._closed = state, state.open, np.array(state.unchecked), False

    def state(self) -> Regressions:
        """Return what was learned."""
        before, block = self._held, self._block
        assert before is not None
        w, P = before.w, before.P
        if self._closed:
            w, P = [each.clone() for each in self._w], [each.clone() for each in self._P]
            if not self._forgets:
                for group, each in zip(self._places, P, strict=True):
                    block.trace[group, 1] = _trace(each)
        self._held = replace(
            before,
            w=w,
            P=P,
            rows=[each.clone() for each in self._rows],
            **{name: getattr(block, name).clone() for name in _OF_BLOCK},
            open=self._open,
            unchecked=tuple(self._unchecked.tolist()),
            _found={},
        )
        self._closed = False
        return self._held

    def lose(self) -> None:
        """Forget what the buffers hold, after an error."""
        self._held = None

    # ------------------------------------------------------------ learning

    def learn(self, X: Any, y: Any, weight: Any, total: Float, seen: int) -> Any:
        """Score rows up to the next multiple of `ROWS`, each just before it is learned from.

        X (n, columns), y (n, outputs) and weight (n) are on the device; `total` (n) are their weights, on the host.
        """
        at, n = seen % ROWS, len(X)
        self._X[at : at + n].copy_(X)
        self._y[at : at + n].copy_(y)
        self._weight[at : at + n].copy_(weight)
        if n == ROWS and self._open == 0:
            self._replay("chunk", self._whole_chunk)
            self._closed = True
        else:
            self._replay("features", self._map_rows)
            begin = at
            while begin < at + n:
                end = min(begin + BLOCK - begin % BLOCK, at + n)
                self._part(begin, end)
                begin = end
        # one after another, so that calls may be split anywhere
        counted = np.broadcast_to(np.maximum(total, 1.0)[:, None], (n, len(self._unchecked)))
        self._unchecked = np.add.accumulate(np.vstack([self._unchecked, counted]), axis=0)[-1]
        if (seen + n) % ROWS == 0:
            self._mirror()
            self._repair()
        return self._scores[at : at + n]

    def features(self, X: Any) -> list[Any]:
        """Features of at most `ROWS` rows on the device, one tensor (m, n, width) for each width."""
        self._X[: len(X)].copy_(X)
        self._replay("features", self._map_rows)
        return [each[:, : len(X)] for each in self._F]

    def _replay(self, name: str, work: Callable[[], None]) -> None:
        """Do what is always the same; on a GPU from a graph, because starting its many small steps takes longer."""
        if self._X.device.type != "cuda":
            work()
            return
        if name not in self._graphs:
            kept = [each.clone() for each in self._buffers()]
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                work()  # loads and compiles what it needs
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                work()
            for buffer, before in zip(self._buffers(), kept, strict=True):
                buffer.copy_(before)
            self._graphs[name] = graph
        self._graphs[name].replay()

    def _buffers(self) -> list[Any]:
        return [*self._w, *self._P, *self._rows, *(getattr(self._block, name) for name in _OF_BLOCK)]

    def _map_rows(self) -> None:
        views = self._views(self._X)
        for group, out in zip(self._places, self._F, strict=True):
            for k, i in enumerate(group):
                features = self._features[i](views)
                width = min(len(features), out.shape[2])
                out[k, :, :width] = features[:width].T

    def _whole_chunk(self) -> None:
        self._map_rows()
        self._block.span.copy_(self._spans[0, BLOCK])
        for begin in range(0, ROWS, BLOCK):
            self._learn_rows(begin, begin + BLOCK, 0)
            self._close()

    def _part(self, begin: int, end: int) -> None:
        """Learn rows of one block; those before them may have come in other calls."""
        self._block.span.copy_(self._spans[self._open, self._open + end - begin])
        self._learn_rows(begin, end, self._open)
        self._open += end - begin
        if end % BLOCK == 0:
            self._close()
            self._open, self._closed = 0, True

    def _learn_rows(self, begin: int, end: int, first: int) -> None:
        block, last = self._block, first + end - begin
        block.y[first:last].copy_(self._y[begin:end])
        block.weight[first:last].copy_(self._weight[begin:end])
        for of, F, rows, U, P, w in zip(self._chosen, self._F, self._rows, self._U, self._P, self._w, strict=True):
            rows[:, first:last].copy_(F[:, begin:end])
            torch.bmm(rows, P, out=U)
            block.G[of] = torch.bmm(U, rows.transpose(1, 2))
            block.f[of] = torch.bmm(rows.double(), w)
            if self._forgets:
                double = U.double()
                block.lengths[of] = torch.bmm(double, double.transpose(1, 2))
        learn_block(block, self._task, self._forgets)
        self._scores[begin:end].copy_(block.f[:, first:last].transpose(0, 1))

    def _close(self) -> None:
        """Make the block part of w and P: with V = E U, w += V' a and P -= V' c V.

        Rows of E beyond those of the block are zero, whatever a and c hold there.
        """
        block = self._block
        b = torch.bmm(block.E.transpose(1, 2), block.a)
        for of, U, P, w in zip(self._chosen, self._U, self._P, self._w, strict=True):
            w.baddbmm_(U.double().transpose(1, 2), b[of])
            V = torch.bmm(block.D[of], U)  # both factors of the change are the same, so P stays symmetric
            signed = V * block.c[of].sign().float()[:, :, None] if self._forgets else V
            P.baddbmm_(signed.transpose(1, 2), V, alpha=-1)
            if self._forgets:
                block.trace[of, 1] = _trace(P)

    def _mirror(self) -> None:
        """Make the covariances symmetric to the bit: learning does not shrink what is not symmetric about an error."""
        for P in self._P:
            P.add_(P.transpose(1, 2).clone()).mul_(0.5)

    def _repair(self) -> None:
        """Keep the covariances positive definite, as `repair` of the processor does, at multiples of `ROWS`."""
        for i, rank in enumerate(self._ranks):
            if self._unchecked[i] < UNCHECKED:
                continue
            self._unchecked[i] = 0.0
            g, k = next((g, group.index(i)) for g, group in enumerate(self._places) if i in group)
            P = self._P[g][k, :rank, :rank]
            diagonal = P.diagonal().double()
            margin = MARGIN * diagonal.max()
            added = margin * 0
            while True:
                double = P.double()
                double.diagonal().copy_(diagonal - margin + added)
                if int(torch.linalg.cholesky_ex(double)[1]) == 0:
                    break
                added = torch.where(added > 0, 4 * added, margin)
            if float(added) > 0:
                P.diagonal().copy_(diagonal + added)
                self._block.trace[i, 1] = P.diagonal().double().sum()

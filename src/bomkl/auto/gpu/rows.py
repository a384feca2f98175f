"""Learning row by row on a device of PyTorch: all regressions at once, while the processor combines and grows trees."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch

from bomkl._core import BLOCK, NewtonRegression
from bomkl.auto.components.component import NewtonComponent
from bomkl.auto.features.geometry import Float
from bomkl.auto.gpu.arrays import DeviceRows
from bomkl.auto.gpu.errors import on_device
from bomkl.auto.gpu.fit import DeviceFitting
from bomkl.auto.gpu.newton import ROWS, Regressions, Workspace
from bomkl.auto.rows.fitting import Fitting

_WORKSPACES = 4  # kept for the next call: under drift, three learners take turns


class DeviceRegression:
    """One of the regressions on a device, with the methods of `NewtonRegression` that do not change it."""

    def __init__(self, among: Regressions, number: int) -> None:
        self.among, self.number = among, number

    def __deepcopy__(self, memo: Any) -> DeviceRegression:
        return self  # it never changes

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""
        return self.among.ranks[self.number]

    @property
    def nbytes(self) -> int:
        """Memory it takes on the device."""
        g, _ = self.among.place(self.number)
        return sum(int(each[g].nbytes) // len(each[g]) for each in (self.among.w, self.among.P, self.among.rows))

    def fork(self) -> DeviceRegression:
        """Return it: it never changes."""
        return self

    def to_processor(self) -> NewtonRegression:
        """Copy it to the processor, to be changed there."""
        return self.among.on_host(self.number).fork()

    def means(self) -> Float:
        """Posterior mean with every row learned, (outputs, width)."""
        g, k = self.among.place(self.number)
        means = np.zeros((self.among.outputs, -(-self.rank // BLOCK) * BLOCK))
        means[:, : self.rank] = self.among.means()[g][k, : self.rank].T.cpu().numpy()
        return means


class TorchRows:
    """`RowEngine` on a device."""

    rows_at_once = 16 * ROWS

    def __init__(self, device: Any) -> None:
        self._device = device
        self._lock = threading.RLock()  # buffers are used by one thread at a time
        self._workspaces: list[Workspace] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: copies of a learner learn on the same device."""
        return self

    def fitting(self, budget: int) -> Fitting:
        """Return what fits components to kept rows."""
        return DeviceFitting(self._device, NewtonComponent, budget)

    def learn(self, learner: Any, X: Float, targets: Float, weight: Float) -> Iterator[tuple[int, int, Float]]:
        """Score rows, each just before the regressions learn from it; yields (n, m, outputs) for a few rows at a time.

        While the caller works with what was yielded, the device goes on.
        """
        parts = regression_parts(learner)
        with self._lock, on_device(learner.settings.budget):
            space, state = self._workspace(learner, parts)
            space.take(state)
            try:
                sent = [self._sent(each) for each in (X, targets, weight)]
                begin, coming = 0, None
                while begin < len(X):
                    end = min(begin + ROWS - (learner.seen + begin) % ROWS, len(X))
                    rows, seen = slice(begin, end), learner.seen + begin
                    scores = space.learn(sent[0][rows], sent[1][rows], sent[2][rows], weight[rows], seen)
                    ready = begin, end, *self._fetched(scores)
                    if coming is not None:
                        yield self._waited(*coming)
                    coming, begin = ready, end
                if coming is not None:
                    yield self._waited(*coming)
                after = space.state()
            except BaseException:
                space.lose()
                raise
            for i, part in enumerate(parts):
                part.regression = DeviceRegression(after, i)

    def scores(self, learner: Any, X: Float) -> Float:
        """Scores (n, m, outputs) of rows by what the regressions know now."""
        parts = regression_parts(learner)
        out = np.empty((len(X), len(parts), learner.outputs))
        with self._lock, on_device(learner.settings.budget):
            space, state = self._workspace(learner, parts)
            rows = self._sent(X)
            for begin in range(0, len(X), ROWS):
                features = space.features(rows[begin : begin + ROWS])
                for group, F, means in zip(state.places, features, state.means(), strict=True):
                    scores = torch.bmm(F.double(), means)
                    out[begin : begin + ROWS, group] = scores.transpose(0, 1).cpu().numpy()
        return out

    def _workspace(self, learner: Any, parts: list[NewtonComponent]) -> tuple[Workspace, Regressions]:
        """Buffers that fit the learner, and what it knows."""
        state = self._state(parts)
        for space in self._workspaces:
            if space.fits(learner.geometry, parts, state.outputs, learner.task, learner.settings.forget):
                break
        else:
            self._workspaces = self._workspaces[: _WORKSPACES - 1]
            space = Workspace(learner.geometry, parts, state, learner.task, learner.settings.forget)
        self._workspaces = [space, *(each for each in self._workspaces if each is not space)]
        return space, state

    def _state(self, parts: list[NewtonComponent]) -> Regressions:
        first = parts[0].regression
        if isinstance(first, DeviceRegression) and len(first.among.ranks) == len(parts):
            among = first.among
            if all(
                isinstance(each.regression, DeviceRegression)
                and each.regression.among is among
                and each.regression.number == i
                for i, each in enumerate(parts)
            ):
                return among
        return Regressions.of([each.copied_to_processor() for each in parts], self._device)

    def _sent(self, array: Any) -> Any:
        if isinstance(array, DeviceRows):
            return array.tensor
        given = torch.from_numpy(np.ascontiguousarray(array))
        if self._device.type == "cuda":
            given = given.pin_memory()
        return given.to(self._device, non_blocking=True)

    def _fetched(self, scores: Any) -> tuple[Any, Any]:
        if self._device.type != "cuda":
            return scores.clone(), None
        host = torch.empty(scores.shape, dtype=scores.dtype, pin_memory=True)
        host.copy_(scores, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return host, done

    @staticmethod
    def _waited(begin: int, end: int, scores: Any, done: Any) -> tuple[int, int, Float]:
        if done is not None:
            done.synchronize()
        return begin, end, scores.numpy()


def regression_parts(learner: Any) -> list[NewtonComponent]:
    """Components of a learner that are regressions on features; the others are trees."""
    return [each for each in learner.components if isinstance(each, NewtonComponent)]

"""`SumEngine` on a device of PyTorch.

Rows are worked on in chunks of one fixed shape, the last one padded with rows of weight zero. The same products then
run on every call, and a row gets the same bits however a stream is cut. Blocks are rounded to whole units one by one,
as in the core, so that sums of a device, of the core and of other machines can be added.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from bomkl._core import ROUND_BLOCK, round_units
from bomkl.auto.components.component import Component, RoundsComponent
from bomkl.auto.components.information import Information
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.auto.features.pool_kernels import KERNELS
from bomkl.auto.gpu.arrays import DeviceRows, as_tensor
from bomkl.auto.gpu.errors import chunk_blocks, on_device
from bomkl.auto.gpu.model import (
    DeviceCombination,
    DeviceFeatures,
    DeviceViews,
    errors,
    losses,
    pulls_and_curvature,
    tensor,
)
from bomkl.auto.gpu.products import scores_and_lengths
from bomkl.auto.gpu.rows import TorchRows
from bomkl.auto.gpu.sums import DeviceInformation, DeviceSums, Totals, matrix_on_device, solutions, square_of, symmetric
from bomkl.auto.parallel import Mapper
from bomkl.auto.rounds.engine import newton_parts
from bomkl.auto.rounds.sums import Sums
from bomkl.auto.rows.engine import RowEngine
from bomkl.auto.rows.row_learner import RowLearner
from bomkl.auto.task import LearnerSettings, Task

_MOST_INFORMATION = 65536.0  # of one row; the core has the same


class TorchEngine:
    """Scores and sums of rows on one device.

    `device`: a device of PyTorch: "cuda", "cuda:1", or "cpu" for tests.
    """

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        # PyTorch loads its solvers when they are first used, and fails where two threads do that at once
        torch.linalg.cholesky_ex(torch.eye(1, dtype=torch.float64, device=self.device))
        self.rows: RowEngine | None = TorchRows(self.device)
        self._lock = threading.RLock()  # workers of a cluster have several threads and one GPU
        self._held: dict[str, tuple[Any, Any]] = {}
        self._adder: _Adder | None = None

    def rows_held(self, X: Any) -> DeviceRows | None:
        """Rows of an array of another library that is on the device; None for one that is elsewhere."""
        tensor = as_tensor(X)
        return DeviceRows(tensor.to(self.device)) if tensor.device.type == self.device.type else None

    def scores(self, learner: RowLearner, X: Any, run: Mapper) -> Float:
        """Score rows."""
        with self._lock, on_device(learner.settings.budget):
            model = self._model(learner)
            chunks = self._chunks(_chunk_rows(learner), X)
            parts = [model.scores(rows.double())[:n] for n, (rows,) in chunks]
            return _to_host(parts, learner.outputs)

    def sums(
        self, learner: RowLearner, X: Any, targets: Float, weight: Float, log_rows: int, run: Mapper
    ) -> tuple[Float, Sums]:
        """Score rows, and add them up."""
        with self._lock, on_device(learner.settings.budget):
            model = self._model(learner)
            if self._adder is None or not self._adder.fits(learner):
                self._adder = None  # its memory goes before the next one's comes
                self._adder = _Adder(learner, model, X.shape[1], self.device)
            adder = self._adder
            adder.begin(model, log_rows)
            chunks = self._chunks(adder.rows, X, targets, weight)
            parts = [adder.add(n, chunk) for n, chunk in chunks]
            sums = adder.sums.taken(len(targets))
            return _to_host(parts, learner.outputs), sums

    def learned(self, regressions: list[Information], sums: Sums, run: Mapper) -> list[Information]:
        """Take the sums of a round in by one Newton step of each component."""
        unit, pulls = round_units(sums.log_rows)[0], sums.component_pulls()
        with torch.inference_mode():
            matrices = [
                matrix_on_device(before, self.device) + symmetric(square.double() / unit)
                for before, square in zip(regressions, self._squares(sums), strict=True)
            ]
            steps = solutions(matrices, [tensor(pull.T, self.device) for pull in pulls])
        after: list[Information] = []
        for before, matrix, step in zip(regressions, matrices, steps, strict=True):
            w = before.w.copy()
            w[:, : before.rank] += step.T
            after.append(DeviceInformation(w, matrix))
        return after

    def _squares(self, sums: Sums) -> list[Any]:
        if isinstance(sums, DeviceSums):
            return sums.squares
        parts = zip(sums.information, sums.shape.ranks, strict=True)
        return [square_of(tensor(triangle, self.device), rank) for triangle, rank in parts]

    def build(
        self, X: Float, targets: Float, weight: Float, settings: LearnerSettings, task: Task, run: Mapper
    ) -> tuple[Geometry, list[Component]]:
        """Make the views of the columns and the components, fitted to the first rows of a stream."""
        from bomkl.auto.gpu.fit import DeviceFitting
        from bomkl.auto.rows.rebuild import Rebuild

        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(KERNELS))) as pool, on_device(settings.budget):
            fitting = DeviceFitting(self.device, RoundsComponent, settings.budget)
            return Rebuild(X, targets, weight, settings, task, fitting).finish(pool.map)

    def _chunks(self, size: int, *arrays: Any) -> Iterator[tuple[int, list[Any]]]:
        """Chunks of arrays on the device, and how many of their rows are real; the next is sent while one is in use."""

        def send(begin: int) -> tuple[int, list[Any]]:
            parts = [each[begin : begin + size] for each in arrays]
            return parts[0].shape[0], [self._padded(each, size) for each in parts]

        begins = range(0, arrays[0].shape[0], size)
        with ThreadPoolExecutor(1) as pool:
            coming = deque(pool.submit(send, begin) for begin in begins[:2])
            for begin in (*begins[2:], None, None)[: len(begins)]:
                chunk = coming.popleft().result()
                if begin is not None:
                    coming.append(pool.submit(send, begin))
                yield chunk

    def _padded(self, array: Any, size: int) -> Any:
        """Copy rows to the device behind the work that goes on there, and add rows of zeros up to a whole chunk."""
        if isinstance(array, DeviceRows):
            given = array.tensor
        else:
            given = torch.from_numpy(np.ascontiguousarray(array.toarray() if hasattr(array, "toarray") else array))
            given = given.pin_memory() if self.device.type == "cuda" else given
        out = torch.zeros((size, *given.shape[1:]), dtype=given.dtype, device=self.device)
        out[: len(given)].copy_(given, non_blocking=True)
        return out

    def _model(self, learner: RowLearner) -> _DeviceModel:
        """Numbers of the learner on the device; those that are there already stay."""
        parts, geometry = newton_parts(learner), learner.geometry
        assert geometry is not None
        names = {name for each in parts for name in each.geometries()}
        before, held = self._held, {}

        def keep(key: str, source: Any, make: Any) -> Any:
            found = before.get(key)
            held[key] = found if found is not None and found[0] is source else (source, make())
            return held[key][1]

        views = keep(f"views {sorted(names)}", geometry, lambda: DeviceViews(geometry, names, self.device))
        features = [
            keep(
                f"features of {each.name}", each.features, lambda each=each: DeviceFeatures(each.features, self.device)
            )
            for each in parts
        ]
        w = [
            keep(
                f"means of {each.name}",
                each.regression,
                lambda each=each: tensor(each.regression.means().T, self.device),
            )
            for each in parts
        ]
        combination = keep(
            "combination", learner.combination, lambda: DeviceCombination(learner.combination, self.device)
        )
        self._held = held
        return _DeviceModel(views, features, w, combination, learner.task)


class _DeviceModel:
    """One learner at the means of the open round."""

    def __init__(self, views: Any, features: list[Any], w: list[Any], combination: Any, task: Task) -> None:
        self._views, self._features, self._w = views, features, w
        self._combination, self._task = combination, task

    def copied(self) -> _DeviceModel:
        """Copy what changes from round to round."""
        w = [each.clone() for each in self._w]
        return _DeviceModel(self._views, self._features, w, self._combination.copied(), self._task)

    def take(self, other: _DeviceModel) -> None:
        """Go on with the means and the combination of another round, in the memory that is there."""
        for mine, its in zip(self._w, other._w, strict=True):
            mine.copy_(its)
        self._combination.take(other._combination)

    def scores(self, X: Any) -> Any:
        """Score rows."""
        views = self._views(X)
        parts = [scores_and_lengths(features(views), w)[0] for features, w in zip(self._features, self._w, strict=True)]
        return self._combination(self._centred(torch.stack(parts, dim=1)), self._task)[0]

    def add(self, X: Any, y: Any, weight: Any, real: Any, sums: Totals) -> Any:
        """Score rows, and add them to sums."""
        views = self._views(X)
        features = [each(views) for each in self._features]
        parts = [scores_and_lengths(F, w) for F, w in zip(features, self._w, strict=True)]
        f, lengths = (torch.stack(each, dim=1) for each in zip(*parts, strict=True))
        pull, h = pulls_and_curvature(f, y[:, None], self._task)
        most = _MOST_INFORMATION / (1.01 * h * lengths.double().clamp_min(1e-6))
        counted = torch.minimum(weight[:, None], most)
        S = self._centred(f)
        combined, candidates, clipped = self._combination(S, self._task)
        sums.add(
            features,
            (counted[:, :, None] * pull).float().permute(1, 2, 0).contiguous(),
            (counted * h).float().T.contiguous(),
            self._numbers(S, combined, candidates, clipped, y, weight, real),
        )
        return combined

    def _centred(self, S: Any) -> Any:
        return S - S.mean(dim=2, keepdim=True) if self._task is Task.MULTICLASS else S

    def _numbers(self, S: Any, combined: Any, candidates: Any, clipped: Any, y: Any, weight: Any, real: Any) -> Any:
        """Add up what each block says to the combination, in the order of `Sums.combination`."""
        task, blocks = self._task, len(S) // ROUND_BLOCK

        def per_block(values: Any) -> Any:
            return values.reshape(blocks, ROUND_BLOCK, -1).sum(dim=1)

        curvatures, pulls = [], []
        for j in range(len(self._combination.stack_w)):
            pull, h, x = self._combination.stack_terms(candidates[:, j], clipped, y, weight, task)
            x, h = x.reshape(blocks, -1, x.shape[2]), h.reshape(blocks, -1, 1)
            curvatures.append(torch.bmm(x.transpose(1, 2), h * x).reshape(blocks, -1))
            pulls.append(per_block(pull))
        counted = real.double()[:, None]
        every = y[:, None]
        return torch.cat(
            [
                *curvatures,
                *pulls,
                per_block(weight[:, None] * losses(S, every, task)),
                per_block(weight[:, None] * losses(candidates, every, task)),
                per_block(counted * errors(S, every, task)),
                per_block(weight * losses(combined, y, task)),
                per_block(counted[:, 0] * errors(combined, y, task)),
            ],
            dim=1,
        )


class _Adder:
    """Sums of chunks of rows, always in the same memory: from the second chunk on a GPU does it from a graph.

    Starting its hundreds of steps singly takes longer than the steps.
    """

    def __init__(self, learner: RowLearner, model: _DeviceModel, columns: int, device: Any) -> None:
        self.rows = _chunk_rows(learner)
        self._of, self._shape = _identity(learner), (self.rows, learner.outputs, learner.task)
        self._model = model.copied()
        double = {"dtype": torch.float64, "device": device}
        self._X = torch.zeros((self.rows, columns), **double)
        self._y = torch.zeros((self.rows, learner.outputs), **double)
        self._weight = torch.zeros(self.rows, **double)
        self._numbers = torch.arange(self.rows, device=device)
        self._real = torch.zeros(self.rows, dtype=torch.bool, device=device)
        self._scores = torch.zeros((self.rows, learner.outputs), **double)
        self.sums = Totals(learner, device)
        self._used = False
        self._graph: Any = None

    def fits(self, learner: RowLearner) -> bool:
        """Whether it was made for the features of a learner."""
        same = all(mine is its for mine, its in zip(self._of, _identity(learner), strict=False))
        shape = (_chunk_rows(learner), learner.outputs, learner.task)
        return same and len(self._of) == len(_identity(learner)) and shape == self._shape

    def begin(self, model: _DeviceModel, log_rows: int) -> None:
        """Begin at zero with the means of a round."""
        self._model.take(model)
        self.sums.begin(log_rows)
        if self._used and self._graph is None and self._X.is_cuda:
            self._record()
            self.sums.begin(log_rows)

    def add(self, n: int, chunk: list[Any]) -> Any:
        """Score a chunk whose first n rows are real, and add it."""
        for mine, its in zip((self._X, self._y, self._weight), chunk, strict=True):
            mine.copy_(its)
        torch.lt(self._numbers, n, out=self._real)
        self._used = True
        if self._graph is None:
            self._work()
        else:
            self._graph.replay()
        return self._scores[:n].clone()

    def _work(self) -> None:
        self._scores.copy_(self._model.add(self._X, self._y, self._weight, self._real, self.sums))

    def _record(self) -> None:
        """Record the work of a chunk; it has run before, so all it needs is loaded and compiled."""
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._work()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._work()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = graph


def _identity(learner: RowLearner) -> list[Any]:
    return [learner.geometry, *(each.features for each in newton_parts(learner))]


def _chunk_rows(learner: RowLearner) -> int:
    return ROUND_BLOCK * chunk_blocks(max(each.features.width for each in newton_parts(learner)))


def _to_host(parts: list[Any], outputs: int) -> Float:
    return torch.cat(parts).cpu().numpy() if parts else np.empty((0, outputs))

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

from bomkl._core import BLOCK as TILE
from bomkl._core import ROUND_BLOCK, round_units
from bomkl.auto.component import Component, RoundsComponent
from bomkl.auto.constants import KERNELS
from bomkl.auto.features import Features
from bomkl.auto.geometry import Float, Geometry
from bomkl.auto.gpu.arrays import DeviceRows, as_tensor
from bomkl.auto.gpu.errors import chunk_blocks, on_device
from bomkl.auto.gpu.losses import errors, losses, pulls_and_curvature
from bomkl.auto.gpu.model import DeviceCombination, DeviceFeatures, DeviceViews, fetched, tensor
from bomkl.auto.gpu.products import add_information, pull_sums, scores_and_lengths
from bomkl.auto.gpu.rows import TorchRows
from bomkl.auto.information import Information
from bomkl.auto.parallel import Mapper
from bomkl.auto.row_engine import RowEngine
from bomkl.auto.rows import RowLearner
from bomkl.auto.sum_engine import newton_parts, sums_shape
from bomkl.auto.sums import Sums, SumsShape, Whole
from bomkl.auto.task import LearnerSettings, Task

_MOST_INFORMATION = 65536.0  # of one row; the core has the same


class TorchEngine:
    """Scores and sums of rows on one device.

    Parameters
    ----------
    device : str
        A device of PyTorch: "cuda", "cuda:1", or "cpu" for tests.
    """

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        # PyTorch loads its solvers when they are first used, and fails where two threads do that at once
        torch.linalg.cholesky_ex(torch.eye(1, dtype=torch.float64, device=self.device))
        self.rows: RowEngine | None = TorchRows(self.device)
        self._lock = threading.RLock()  # workers of a cluster have several threads and one GPU
        self._held: dict[str, tuple[Any, Any]] = {}
        self._adder: _Adder | None = None

    def rows_there(self, X: Any) -> DeviceRows | None:
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
                _on_device(before, self.device) + symmetric(square.double() / unit)
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
        return [_square(tensor(triangle, self.device), rank) for triangle, rank in parts]

    def build(
        self, X: Float, targets: Float, weight: Float, settings: LearnerSettings, task: Task, run: Mapper
    ) -> tuple[Geometry, list[Component]]:
        """Make the views of the columns and the components, fitted to the first rows of a stream."""
        from bomkl.auto.gpu.fit import DeviceFitting
        from bomkl.auto.rebuild import build

        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(KERNELS))) as pool, on_device(settings.budget):
            return build(
                X,
                targets,
                weight,
                settings,
                task,
                pool.map,
                DeviceFitting(self.device, RoundsComponent, settings.budget),
            )

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
            here = array.tensor
        else:
            here = torch.from_numpy(np.ascontiguousarray(array.toarray() if hasattr(array, "toarray") else array))
            here = here.pin_memory() if self.device.type == "cuda" else here
        out = torch.zeros((size, *here.shape[1:]), dtype=here.dtype, device=self.device)
        out[: len(here)].copy_(here, non_blocking=True)
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
        features = [_features(keep, each.name, each.features, self.device) for each in parts]
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


def _features(keep: Any, name: str, features: Features, device: Any) -> DeviceFeatures:
    made: DeviceFeatures = keep(f"features of {name}", features, lambda: DeviceFeatures(features, device))
    return made


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

    def add(self, X: Any, y: Any, weight: Any, real: Any, sums: _Totals) -> Any:
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
        self.sums = _Totals(learner, device)
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


class _Totals:
    """`Sums` while they grow on a device."""

    def __init__(self, learner: RowLearner, device: Any) -> None:
        self._shape, self._log_rows = sums_shape(learner), 0
        self._units = torch.zeros(3, dtype=torch.float64, device=device)
        whole = {"dtype": torch.int64, "device": device}
        widths = [each.features.width for each in newton_parts(learner)]
        self._information = [torch.zeros((width, width), **whole) for width in widths]
        size = sum(self._shape.pull_sizes()) + self._shape.combination_size()
        self._numbers = torch.zeros((2, size), **whole)

    def begin(self, log_rows: int) -> None:
        """Begin at zero, in the units of a round."""
        self._log_rows = log_rows
        self._units.copy_(torch.tensor(round_units(log_rows), dtype=torch.float64))
        for each in (*self._information, self._numbers):
            each.zero_()

    def add(self, features: list[Any], pulls: Any, curvature: Any, combination: Any) -> None:
        """Add a chunk: features (width, rows), pulls (m, outputs, rows), curvature (m, rows), numbers of each block."""
        shape = self._shape
        values = torch.empty((len(combination), self._numbers.shape[1]), dtype=torch.float64, device=pulls.device)
        ends = np.cumsum([0, *shape.pull_sizes()]).tolist()
        for i, (F, rank) in enumerate(zip(features, shape.ranks, strict=True)):
            add_information(F, curvature[i], self._units, ROUND_BLOCK, self._information[i])
            pull_sums(F, pulls[i], rank, ROUND_BLOCK, values[:, ends[i] : ends[i + 1]])
        values[:, ends[-1] :] = combination
        _, coarse, fine = self._units.unbind()
        values.clamp_(-(2.0**48), 2.0**48)
        whole = (values * coarse).round()
        self._numbers[0] += whole.long().sum(dim=0)
        self._numbers[1] += ((values - whole / coarse) * fine).round().long().sum(dim=0)

    def taken(self, rows: int) -> DeviceSums:
        """Give the sums of so many rows."""
        squares = [each[:rank, :rank].clone() for each, rank in zip(self._information, self._shape.ranks, strict=True)]
        return DeviceSums(self._shape, self._log_rows, rows, squares, *self._numbers.to("cpu", copy=True).numpy())


class DeviceSums(Sums):
    """`Sums` whose information is on a device, and comes to the processor when it is asked for."""

    def __init__(
        self, shape: SumsShape, log_rows: int, rows: int, squares: list[Any], coarse: Whole, fine: Whole
    ) -> None:
        self.shape, self.log_rows, self.rows = shape, log_rows, rows
        self.squares, self.coarse, self.fine = squares, coarse, fine
        self._fetched: list[Whole] | None = None

    @property
    def information(self) -> list[Whole]:  # type: ignore[override]
        """Lower block triangles, on the processor."""
        if self._fetched is None:
            with torch.inference_mode():
                self._fetched = [fetched(_triangle(each)) for each in self.squares]
        return self._fetched

    def __reduce__(self) -> Any:
        return Sums, (self.shape, self.log_rows, self.rows, self.information, self.coarse, self.fine)


class DeviceInformation(Information):
    """Information whose matrix is on a device, and comes to the processor when it is asked for."""

    def __init__(self, w: Float, on_device: Any) -> None:
        self.w, self.on_device = w, on_device
        self._fetched: Float | None = None

    @property
    def matrix(self) -> Float:  # type: ignore[override]
        """The matrix, on the processor."""
        if self._fetched is None:
            self._fetched = self.on_device.cpu().numpy()
        return self._fetched

    @property
    def rank(self) -> int:
        """Features in use, the constant included."""
        return len(self.on_device)


def _chunk_rows(learner: RowLearner) -> int:
    return ROUND_BLOCK * chunk_blocks(max(each.features.width for each in newton_parts(learner)))


def _triangle(square: Any) -> Any:
    """Lower block triangle, as `Sums.information` has it, of a square."""
    return torch.cat([_columns(square, first).flatten() for first in range(0, len(square), TILE)])


def _columns(square: Any, first: int) -> Any:
    """One tile of columns from the diagonal on; the last one is filled up with zeros."""
    part = square[first:, first : first + TILE]
    return torch.nn.functional.pad(part, (0, TILE - part.shape[1]))


def _square(triangle: Any, rank: int) -> Any:
    """Square of which the lower triangle counts, of a lower block triangle."""
    out = torch.zeros((rank, rank), dtype=torch.int64, device=triangle.device)
    at = 0
    for first in range(0, rank, TILE):
        block = triangle[at : at + (rank - first) * TILE].reshape(rank - first, TILE)
        out[first:, first : first + TILE] = block[:, : rank - first]
        at += block.numel()
    return out


def _on_device(information: Information, device: Any) -> Any:
    """Matrix of an information on a device."""
    return information.on_device if isinstance(information, DeviceInformation) else tensor(information.matrix, device)


def symmetric(lower: Any) -> Any:
    """Symmetric matrix of its lower triangle."""
    return torch.tril(lower) + torch.tril(lower, -1).T


def solutions(matrices: list[Any], rights: list[Any]) -> list[Float]:
    """Solve symmetric equations; all of them are on their way before the first answer is waited for."""
    factors = [torch.linalg.cholesky_ex(matrix) for matrix in matrices]
    solved = [torch.cholesky_solve(b, factor) for (factor, _), b in zip(factors, rights, strict=True)]
    failed = torch.stack([each for _, each in factors]).tolist()
    found = torch.cat([each.flatten() for each in solved]).cpu().numpy()
    parts = np.split(found, np.cumsum([b.numel() for b in rights])[:-1])
    return [
        (solution(matrix, b).cpu().numpy() if wrong else part.reshape(tuple(b.shape)))
        for matrix, b, part, wrong in zip(matrices, rights, parts, failed, strict=True)
    ]


def solution(matrix: Any, b: Any) -> Any:
    """Solve a symmetric equation; what rounding has made indefinite gets a little more on its diagonal."""
    more = 1e-12 * max(float(torch.trace(matrix)) / len(matrix), 1e-300)
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    for _ in range(40):
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not int(failed):
            return torch.cholesky_solve(b, factor)
        matrix = matrix + more * eye
        more *= 10
    raise ValueError("The information of a model is not that of a covariance.")


def _to_host(parts: list[Any], outputs: int) -> Float:
    return torch.cat(parts).cpu().numpy() if parts else np.empty((0, outputs))

"""Sums of a round and what is known of regressions, as a device has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bomkl._core import BLOCK as TILE
from bomkl._core import ROUND_BLOCK, round_units
from bomkl.auto.components.information import Information
from bomkl.auto.features.geometry import Float
from bomkl.auto.gpu.model import fetched, tensor
from bomkl.auto.gpu.products import add_information, pull_sums
from bomkl.auto.rounds.engine import newton_parts, sums_shape
from bomkl.auto.rounds.sums import Sums, SumsShape, Whole
from bomkl.auto.rows.row_learner import RowLearner


class Totals:
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
                self._fetched = [fetched(triangle_of(each)) for each in self.squares]
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


def triangle_of(square: Any) -> Any:
    """Lower block triangle, as `Sums.information` has it, of a square."""
    return torch.cat([_columns(square, first).flatten() for first in range(0, len(square), TILE)])


def _columns(square: Any, first: int) -> Any:
    """One tile of columns from the diagonal on; the last one is filled up with zeros."""
    part = square[first:, first : first + TILE]
    return torch.nn.functional.pad(part, (0, TILE - part.shape[1]))


def square_of(triangle: Any, rank: int) -> Any:
    """Square of which the lower triangle counts, of a lower block triangle."""
    out = torch.zeros((rank, rank), dtype=torch.int64, device=triangle.device)
    at = 0
    for first in range(0, rank, TILE):
        block = triangle[at : at + (rank - first) * TILE].reshape(rank - first, TILE)
        out[first:, first : first + TILE] = block[:, : rank - first]
        at += block.numel()
    return out


def matrix_on_device(information: Information, device: Any) -> Any:
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

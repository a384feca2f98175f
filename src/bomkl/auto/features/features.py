"""Feature maps of the components: whitened kernel values at landmarks, and the columns themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf, dtrtri

from bomkl._core import BLOCK, FeatureMap
from bomkl._support.tiles import on_cache_lines, packed, unpacked
from bomkl.auto.features.geometry import (
    VIEWS,
    Float,
    Single,
    Views,
    view_width,
)
from bomkl.auto.features.pool_kernels import POOL_KERNELS
from bomkl.auto.limits import SUMS
from bomkl.auto.saved import Saved, State

_SMALLEST = 1e-5  # what is left of a kernel matrix below this share of its largest eigenvalue is noise
_WIDEST = 300  # features that components of the columns themselves may have


def chosen_and_whitening(kernel: str, scale: float, landmarks: Float) -> tuple[NDArray[np.signedinteger], Float]:
    """Choose the landmarks that no others stand for; return their numbers and what whitens their kernel values."""
    # Landmarks that others stand for are left out; a triangular whitening costs the core half of what a full one does.
    gram = POOL_KERNELS[kernel].matrix(scale, landmarks, landmarks)
    factor, order, rank, _ = dpstrf(gram, lower=1, tol=least_pivot(gram.sum(), len(gram)))
    return order[:rank] - 1, np.tril(dtrtri(factor[:rank, :rank], lower=1)[0]).T


def least_pivot(total: float, n: int) -> float:
    """Smallest pivot that is no noise, for n landmarks and the sum of their kernel matrix."""
    # No entry is negative, so the mean of the row sums is close to the largest eigenvalue
    return float(_SMALLEST * total / n)


@dataclass
class KernelFeatures:
    """Nystrom features: ``kernel(x, landmarks) @ whiten``, then a constant 1."""

    kind: ClassVar[str] = "kernel"
    geometry: str
    kernel: str
    scale: float
    landmarks: Single
    norms: Single
    whiten: Single
    rank: int
    support: NDArray[np.int64]
    _core: FeatureMap | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        geometry: str,
        kernel: str,
        width: float,
        rows: Single,
        support: NDArray[np.int64],
        choose: Callable[[str, float, Float], tuple[NDArray[np.int64], Any]] = chosen_and_whitening,
    ) -> Self:
        """Build the map from kept rows in their view; `support` numbers the rows that are landmarks."""
        double = rows.astype(np.float64)
        landmarks = double[support]
        scale = POOL_KERNELS[kernel].scale(width, double)
        chosen, whitening = choose(kernel, scale, landmarks)
        rank = len(chosen)
        landmarks, support = landmarks[chosen], support[chosen]
        tiles = packed(landmarks.T)
        norms = np.zeros(tiles.shape[0] * BLOCK, dtype=np.float32)
        norms[: len(landmarks)] = (landmarks**2).sum(axis=1)
        whiten = np.zeros((rank, rank + 1), dtype=np.float32)
        whiten[:, :rank] = whitening
        return cls(geometry, kernel, scale, tiles, norms, packed(whiten), int(rank), support)

    @property
    def width(self) -> int:
        """Columns of the features, of which those after ``rank`` + 1 are zero."""
        return int(self.whiten.shape[0]) * BLOCK

    def __call__(self, views: Views) -> Single:
        """Map rows, given in their views."""
        x = views[self.geometry]
        out = np.empty((len(x), self.width), dtype=np.float32)
        self.core().make(x, out)
        return out

    def core(self) -> FeatureMap:
        """Return the map as the core has it."""
        if self._core is None:
            arrays = {"landmarks": self.landmarks, "norms": self.norms, "whiten": self.whiten, "rank": self.rank}
            view = VIEWS.index(self.geometry) if self.geometry in VIEWS else 0
            self._core = FeatureMap.of_kernel(view, self.kernel, self.scale, arrays)
        return self._core

    def __getstate__(self) -> State:
        return vars(self) | {"_core": None}  # the core does not know pickles

    def landmark_rows(self) -> Single:
        """Landmarks in their view, one a row."""
        return unpacked(self.landmarks)[:, : len(self.support)].T

    def whitening(self) -> Single:
        """Matrix from kernel values at the landmarks to features."""
        return unpacked(self.whiten)[:, : self.rank]

    def values(self, views: Views) -> Float:
        """Kernel values of rows at the landmarks."""
        x, landmarks = views[self.geometry].astype(np.float64), self.landmark_rows().astype(np.float64)
        return POOL_KERNELS[self.kernel].matrix(self.scale, x, landmarks)

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""
        return (self.geometry,)

    def to_state(self) -> State:
        """Everything it is, as plain values and arrays."""
        names = ("kind", "geometry", "kernel", "scale", "landmarks", "norms", "whiten", "support")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, saved: Saved, columns: int, stored_rows: int) -> Self:
        """Go on where `to_state` was called."""
        geometry = saved.text("geometry", VIEWS)
        kernel = saved.text("kernel", POOL_KERNELS)
        support = saved.array("support", (None,), np.int64, 0, stored_rows - 1)
        rank = len(support)
        tiles = -(-rank // BLOCK)
        return cls(
            geometry,
            kernel,
            saved.number("scale", *SUMS),
            on_cache_lines(saved.array("landmarks", (tiles, view_width(geometry, columns), BLOCK), np.float32)),
            saved.array("norms", (tiles * BLOCK,), np.float32, *SUMS),
            on_cache_lines(saved.array("whiten", (-(-(rank + 1) // BLOCK), rank, BLOCK), np.float32)),
            rank,
            support,
        )


@dataclass
class LinearFeatures:
    """Standardised columns, their normal scores beside them while that stays small, then a constant 1.

    With squares beside these, each column can have a curve of its own: an additive model.
    """

    kind: ClassVar[str] = "columns"
    support: ClassVar[None] = None  # it needs no stored rows
    columns: int
    both: bool
    squares: bool = False

    @classmethod
    def of(cls, columns: int) -> Self:
        """Choose for a number of columns."""
        return cls(columns, 2 * columns <= _WIDEST)

    @classmethod
    def with_squares(cls, columns: int) -> Self:
        """Add the squares."""
        return cls(columns, both=True, squares=True)

    @staticmethod
    def has_room_for_squares(columns: int) -> bool:
        """Tell whether so few columns stay small with their squares."""
        return 3 * columns <= _WIDEST

    @property
    def rank(self) -> int:
        """Features before the constant."""
        return (1 + self.both + self.squares) * self.columns

    @property
    def width(self) -> int:
        """Columns of the features, of which those after ``rank`` + 1 are zero."""
        return -(-(self.rank + 1) // BLOCK) * BLOCK

    def __call__(self, views: Views) -> Single:
        """Map rows, given in their views."""
        out = np.zeros((len(views["standard"]), self.width), dtype=np.float32)
        out[:, : self.columns] = views["standard"]
        if self.both:
            out[:, self.columns : 2 * self.columns] = views["normal"]
        if self.squares:
            out[:, 2 * self.columns : self.rank] = views["squares"]
        out[:, self.rank] = 1
        return out

    def core(self) -> FeatureMap:
        """Return the map as the core has it."""
        return FeatureMap.of_columns(self.columns, self.both, self.squares)

    def geometries(self) -> tuple[str, ...]:
        """Name the views it needs."""
        return ("standard", *(["normal"] if self.both else []), *(["squares"] if self.squares else []))

    def to_state(self) -> State:
        """Everything it is, as plain values."""
        return {"kind": self.kind, "both": self.both, "squares": self.squares}

    @classmethod
    def from_state(cls, saved: Saved, columns: int, stored_rows: int) -> Self:
        """Go on where `to_state` was called."""
        features = cls(columns, saved.flag("both"), saved.flag("squares", missing=False))
        if features.squares and not features.both:
            raise saved.wrong("squares", "False where both is False", True)
        return features


Features = KernelFeatures | LinearFeatures
_KINDS: dict[str, type[Features]] = {each.kind: each for each in (KernelFeatures, LinearFeatures)}


def features_from_state(saved: Saved, columns: int, stored_rows: int) -> Features:
    """Bring features of any kind back."""
    features = _KINDS[saved.text("kind", _KINDS)].from_state(saved, columns, stored_rows)
    saved.end()
    return features

"""Kernel values of rows at landmarks in one pass over memory; Triton compiles the loops where there is a GPU.

With ``TRITON_INTERPRET=1`` in the environment Triton interprets its loops, and they run on any processor.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
from __future__ import annotations

import os
from typing import Any

import torch

from bomkl.auto.features.pool_kernels import POOL_KERNELS

try:
    import triton
    import triton.language as tl
except ImportError:  # a build of PyTorch for the CPU alone
    triton = tl = None

__all__ = ["kernel_values", "runs_triton", "tl", "triton"]

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_TILE = 64
_COLUMNS = 32  # of a row that are worked on at a time

if triton is not None:

    @triton.jit
    def _city_block(x, z, out, rows, landmarks, columns, scale, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        j = tl.program_id(1) * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), tl.float32)
        c = 0
        while c < columns:  # not `range`, which the interpreter of Triton does not take with some versions of NumPy
            a = tl.load(x + i * columns + c, mask=i < rows, other=0.0)
            b = tl.load(z + c * landmarks + j, mask=j < landmarks, other=0.0)
            total += tl.abs(a[:, None] - b[None, :])
            c += 1
        inside = (i[:, None] < rows) & (j[None, :] < landmarks)
        tl.store(out + i[:, None].to(tl.int64) * landmarks + j[None, :], tl.exp(-scale * total), mask=inside)

    @triton.jit
    def _of_products(
        x,
        z,
        norms,
        out,
        rows,
        landmarks,
        columns,
        scale,
        SQUARED: tl.constexpr,
        TILE: tl.constexpr,
        COLUMNS: tl.constexpr,
    ):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        j = tl.program_id(1) * TILE + tl.arange(0, TILE)
        product = tl.zeros((TILE, TILE), tl.float32)
        length = tl.zeros((TILE,), tl.float32)
        first = 0
        while first < columns:
            c = first + tl.arange(0, COLUMNS)
            a = tl.load(
                x + i[:, None] * columns + c[None, :], mask=(i[:, None] < rows) & (c[None, :] < columns), other=0.0
            )
            b = tl.load(
                z + c[:, None] * landmarks + j[None, :],
                mask=(c[:, None] < columns) & (j[None, :] < landmarks),
                other=0.0,
            )
            product += tl.dot(a, b, input_precision="ieee")
            length += tl.sum(a * a, axis=1)
            first += COLUMNS
        if SQUARED:
            value = 1.0 + scale * product
            value = value * value
        else:
            norm = tl.load(norms + j, mask=j < landmarks, other=0.0)
            value = tl.exp(-scale * tl.maximum(norm[None, :] + length[:, None] - 2.0 * product, 0.0))
        inside = (i[:, None] < rows) & (j[None, :] < landmarks)
        tl.store(out + i[:, None].to(tl.int64) * landmarks + j[None, :], value, mask=inside)


def runs_triton(x: Any) -> bool:
    """Whether Triton's loops run where a tensor is."""
    return triton is not None and (x.is_cuda or _INTERPRETED)


def kernel_values(kernel: str, x: Any, landmarks: Any, norms: Any, scale: float) -> Any:
    """Values of a kernel of rows x (n, columns) at landmarks (columns, landmarks) of squared lengths `norms`."""
    fused = POOL_KERNELS[kernel].fused
    if fused is None or not runs_triton(x):
        return POOL_KERNELS[kernel].tensor_values(scale, x, landmarks, norms)
    out = torch.empty((len(x), landmarks.shape[1]), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(out.shape[0], _TILE), triton.cdiv(out.shape[1], _TILE))
    sizes = (*out.shape, x.shape[1], scale)
    if fused == "city block":
        _city_block[grid](x.contiguous(), landmarks, out, *sizes, TILE=_TILE)
    else:
        squared = {"gaussian": False, "polynomial": True}[fused]
        _of_products[grid](x.contiguous(), landmarks, norms, out, *sizes, SQUARED=squared, TILE=_TILE, COLUMNS=_COLUMNS)
    return out

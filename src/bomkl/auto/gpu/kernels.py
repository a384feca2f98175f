"""Two loops that no operator of PyTorch does in one pass over memory; Triton compiles them where there is a GPU.

With ``TRITON_INTERPRET=1`` in the environment Triton interprets its loops, and they run on any processor.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
from __future__ import annotations

import os
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # a build of PyTorch for the CPU alone
    triton = None

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_TILE = 64
_ENTRIES = 1024

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
    def _add_fixed(values, unit, sums, blocks, size, ENTRIES: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
        inside = at < size
        total = tl.load(sums + at, mask=inside, other=0)
        scale = tl.load(unit)
        values += at
        block = 0
        while block < blocks:
            value = tl.load(values, mask=inside, other=0.0).to(tl.float64) * scale
            # adding and taking away 1.5 * 2^52 rounds to the nearest whole number, halves to even ones
            total += ((value + 6755399441055744.0) - 6755399441055744.0).to(tl.int64)
            values += size
            block += 1
        tl.store(sums + at, total, mask=inside)


def runs_triton(x: Any) -> bool:
    """Whether Triton's loops run where a tensor is."""
    return triton is not None and (x.is_cuda or _INTERPRETED)


def laplacian_values(x: Any, landmarks: Any, scale: float) -> Any:
    """Values ``exp(-scale * |x - z|_1)`` of rows x (n, columns) at landmarks (columns, landmarks)."""
    out = torch.empty((len(x), landmarks.shape[1]), dtype=torch.float32, device=x.device)
    if runs_triton(x):
        grid = (triton.cdiv(out.shape[0], _TILE), triton.cdiv(out.shape[1], _TILE))
        _city_block[grid](x.contiguous(), landmarks, out, *out.shape, x.shape[1], scale, TILE=_TILE)
        return out
    out.zero_()
    for column, place in zip(x.T, landmarks, strict=True):
        out += (column[:, None] - place[None, :]).abs()
    return out.mul_(-scale).exp_()


def add_fixed(values: Any, unit: Any, sums: Any) -> None:
    """Add blocks of float32 numbers (blocks, ...) to int64 sums of their shape, each rounded to whole units.

    `unit` is on the device: units in one, the first of the tensor.
    """
    if runs_triton(values):
        grid = (triton.cdiv(sums.numel(), _ENTRIES),)
        _add_fixed[grid](values.contiguous(), unit, sums, len(values), sums.numel(), ENTRIES=_ENTRIES)
        return
    for block in values:
        sums += (block.double() * unit[0]).round_().long()

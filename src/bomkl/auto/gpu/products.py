"""The products of a round: whitening, scores, and what rows add to the sums. Features are (width, rows) throughout.

On a GPU, Triton compiles loops that multiply on the tensor cores. A factor is split into two numbers of 11 bits, and
three products of these make up the one of single precision ("tf32x3"). A tensor core cuts off what it adds up, so no
more than 32 products are added there; what is beyond is added in single precision, which rounds. Only what differs
from zero (whitening is triangular) or from what is known already (information is symmetric) is computed.

The numbers of a row do not depend on the rows beside it.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
from __future__ import annotations

from typing import Any

import torch

from bomkl.auto.gpu.kernels import runs_triton, tl, triton

_DEPTH = 32  # products that a tensor core adds up
_ROWS, _COLUMNS = 128, 64  # of a tile
_STAGES = 3  # tiles on their way from memory
_WIDE = 512  # features beyond it keep a GPU busy with fewer threads to a tile, which then wait less for each other
_PROGRAMS = 1024  # that share the information of a chunk, at least: a GPU runs hundreds at a time
_SCORED = 32  # rows scored by one program
_FEATURES = 64  # that it works on at a time
_PULLED = 16  # features whose pulls one program adds up

if triton is not None:

    @triton.jit
    def _whitened(
        values,
        whiten,
        out,
        rows,
        landmarks,
        width,
        rank,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        DEPTH: tl.constexpr,
    ):
        tile = tl.num_programs(1) - 1 - tl.program_id(1)  # those with most to do begin
        i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        j = tile * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, tl.minimum(landmarks, (tile + 1) * COLUMNS), DEPTH):
            k = first + tl.arange(0, DEPTH)
            a = tl.load(
                values + i[:, None].to(tl.int64) * landmarks + k[None, :],
                mask=(i[:, None] < rows) & (k[None, :] < landmarks),
                other=0.0,
            )
            b = tl.load(
                whiten + j[:, None].to(tl.int64) * landmarks + k[None, :],
                mask=(j[:, None] < width) & (k[None, :] < landmarks),
                other=0.0,
            )
            total += tl.dot(a, tl.trans(b), input_precision="tf32x3")
        total = tl.where(j[None, :] == rank, 1.0, total)
        inside = (i[:, None] < rows) & (j[None, :] < width)
        tl.store(out + j[None, :].to(tl.int64) * rows + i[:, None], total, mask=inside)

    @triton.jit
    def _score(F, w, scores, lengths, rows, width, outputs, ROWS: tl.constexpr, FEATURES: tl.constexpr):
        i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        output = 0
        while output < outputs:
            score = tl.zeros((ROWS,), tl.float64)
            length = tl.zeros((ROWS,), tl.float32)
            first = 0
            while first < width:
                j = first + tl.arange(0, FEATURES)
                x = tl.load(F + j[:, None].to(tl.int64) * rows + i[None, :], mask=i[None, :] < rows, other=0.0)
                mean = tl.load(w + j * outputs + output)
                score += tl.sum(x.to(tl.float64) * mean[:, None], axis=0)
                length += tl.sum(x * x, axis=0)
                first += FEATURES
            tl.store(scores + i * outputs + output, score, mask=i < rows)
            tl.store(lengths + i, length, mask=i < rows)
            output += 1

    @triton.jit
    def _pull(
        F, pulls, out, rows, rank, outputs, stride, BLOCK: tl.constexpr, FEATURES: tl.constexpr, ROWS: tl.constexpr
    ):
        block = tl.program_id(0)
        j = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
        output = 0
        while output < outputs:
            total = tl.zeros((FEATURES,), tl.float64)
            for first in range(0, BLOCK, ROWS):
                i = block * BLOCK + first + tl.arange(0, ROWS)
                x = tl.load(F + j[:, None].to(tl.int64) * rows + i[None, :], mask=j[:, None] < rank, other=0.0)
                pull = tl.load(pulls + output * rows + i)
                total += tl.sum(x.to(tl.float64) * pull[None, :], axis=1)
            tl.store(out + block.to(tl.int64) * stride + output * rank + j, total, mask=j < rank)
            output += 1

    @triton.jit
    def _add_information(
        F,
        curvature,
        unit,
        sums,
        rows,
        width,
        blocks,
        BLOCK: tl.constexpr,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        DEPTH: tl.constexpr,
    ):
        # tiles of the lower triangle are numbered row by row: WIDE tall (tall + 1) / 2 of them are before row `tall`
        WIDE: tl.constexpr = ROWS // COLUMNS
        number = tl.program_id(0) // WIDE
        tall = ((tl.sqrt((8 * number + 1).to(tl.float32)) - 1) / 2).to(tl.int32)
        tall = tl.where((tall + 1) * (tall + 2) // 2 <= number, tall + 1, tall)
        tall = tl.where(tall * (tall + 1) // 2 > number, tall - 1, tall)
        i = tall * ROWS + tl.arange(0, ROWS)
        j = (tl.program_id(0) - WIDE * (tall * (tall + 1) // 2)) * COLUMNS + tl.arange(0, COLUMNS)
        left = F + i[:, None].to(tl.int64) * rows
        right = F + j[:, None].to(tl.int64) * rows
        scale = tl.load(unit)
        total = tl.zeros((ROWS, COLUMNS), tl.int64)
        for block in range(tl.program_id(1) * blocks, tl.minimum((tl.program_id(1) + 1) * blocks, rows // BLOCK)):
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
            for first in range(0, BLOCK, DEPTH):
                k = block * BLOCK + first + tl.arange(0, DEPTH)
                h = tl.load(curvature + k)
                a = tl.load(left + k[None, :], mask=i[:, None] < width, other=0.0) * h[None, :]
                b = tl.load(right + k[None, :], mask=j[:, None] < width, other=0.0)
                product += tl.dot(a, tl.trans(b), input_precision="tf32x3")
            # adding and taking away 1.5 * 2^52 rounds to the nearest whole number, halves to even ones
            total += ((product.to(tl.float64) * scale + 6755399441055744.0) - 6755399441055744.0).to(tl.int64)
        inside = (i[:, None] < width) & (j[None, :] < width)
        # whole numbers: the order in which programs add does not matter
        tl.atomic_add(sums + i[:, None].to(tl.int64) * width + j[None, :], total, mask=inside, sem="relaxed")


def whitened(values: Any, whiten: Any, rank: int) -> Any:
    """Features (width, rows) of kernel values (rows, landmarks); `whiten` (width, landmarks) is lower triangular.

    Feature number `rank` is the constant 1.
    """
    (rows, landmarks), width = values.shape, len(whiten)
    if not runs_triton(values):
        out = whiten @ values.T
        out[rank] = 1
        return out
    out = torch.empty((width, rows), dtype=torch.float32, device=values.device)
    grid = (triton.cdiv(rows, _ROWS), triton.cdiv(width, _COLUMNS))
    sizes = {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "DEPTH": _DEPTH}
    _whitened[grid](values, whiten, out, rows, landmarks, width, rank, **sizes, num_warps=4, num_stages=_STAGES)
    return out


def scores_and_lengths(F: Any, w: Any) -> tuple[Any, Any]:
    """Scores (rows, outputs) of features at means w (width, outputs), and the squared lengths of the rows."""
    width, rows = F.shape
    if not runs_triton(F):
        return F.T.double() @ w, (F * F).sum(dim=0)
    scores = torch.empty((rows, w.shape[1]), dtype=torch.float64, device=F.device)
    lengths = torch.empty(rows, dtype=torch.float32, device=F.device)
    grid = (triton.cdiv(rows, _SCORED),)
    _score[grid](F, w, scores, lengths, rows, width, w.shape[1], ROWS=_SCORED, FEATURES=_FEATURES)
    return scores, lengths


def pull_sums(F: Any, pulls: Any, rank: int, block: int, out: Any) -> None:
    """Write the sum of x pull over each block of rows, pulls (outputs, rows), to out (blocks, outputs * rank)."""
    (outputs, rows), blocks = pulls.shape, len(out)
    if not runs_triton(F):
        parts = F[:rank].double().reshape(rank, blocks, block), pulls.double().reshape(outputs, blocks, block)
        out.copy_(torch.einsum("jbi,obi->boj", *parts).reshape(blocks, -1))
        return
    grid = (blocks, triton.cdiv(rank, _PULLED))
    sizes = {"BLOCK": block, "FEATURES": _PULLED, "ROWS": min(128, block)}
    _pull[grid](F, pulls, out, rows, rank, outputs, out.stride(0), **sizes)


def add_information(F: Any, curvature: Any, unit: Any, block: int, sums: Any) -> None:
    """Add the sum of h x x' over each block of rows to int64 sums (width, width), rounded to whole units.

    `unit` is on the device: units in one, the first of the tensor. Only the lower triangle of the sums counts.
    """
    width, rows = F.shape
    if not runs_triton(F):
        for first in range(0, rows, block):
            x = F[:, first : first + block]
            sums += ((x * curvature[first : first + block]) @ x.T).double().mul_(unit[0]).round_().long()
        return
    tall = triton.cdiv(width, _ROWS)
    tiles, blocks = tall * (tall + 1) // 2 * (_ROWS // _COLUMNS), rows // block
    shared = max(1, min(blocks, blocks * tiles // _PROGRAMS))  # blocks that one program adds up
    sizes = {"BLOCK": block, "ROWS": _ROWS, "COLUMNS": _COLUMNS, "DEPTH": min(_DEPTH, block)}
    grid = (tiles, triton.cdiv(blocks, shared))
    warps = 8 if width <= _WIDE else 4
    _add_information[grid](F, curvature, unit, sums, rows, width, shared, **sizes, num_warps=warps, num_stages=_STAGES)

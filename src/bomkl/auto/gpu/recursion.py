"""One block of online Newton regression on a device: rows that depend on each other, for all components at once.

Everything is as in the core's `newton.hpp`, and the names are those of its comments: M[s][u] = c[s] (x_s P_s x_u),
L = I + (strict lower part of M^T), V = L^-1 U. What is computed here is E = L^-1, row by row. Triton holds G and E in
registers and takes each row out of the later ones as elimination does, so a row waits for no sum over rows. It does
so in single precision, as P and the products G are; scores and variances add up in double precision.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bomkl._core import BLOCK
from bomkl.auto.gpu.kernels import runs_triton, tl, triton
from bomkl.auto.task import HUBER, Task

_ROUNDS = 12
_SMALL = 1e-6
_LEAST_VARIANCE = 1e-12
_LEAST_CURVATURE = 1e-5
_MOST_FORGETTING = 0.5
_WARPS = 2  # with more, they wait for each other; with one, each has too much to do


@dataclass
class Block:
    """The open block of m components, as `learn_block` reads and writes it.

    G (m, 64, 64) are the rows times P times the rows, lengths (m, 64, 64) the inner products of the rows times P (used
    only while forgetting), f (m, 64, outputs) the scores at the start of the block, then those just before each row was
    learned. Rows from ``span[0]`` up to ``span[1]`` are learned; what M, c, a and trace say of those before stays. D is
    E with the root of |c| before each row: D U are the directions along which P changes by one.
    """

    G: Any
    lengths: Any
    f: Any
    y: Any
    weight: Any
    span: Any
    loosen: Any
    M: Any
    c: Any
    a: Any
    trace: Any
    E: Any
    D: Any

    @classmethod
    def zeros(cls, components: int, outputs: int, device: Any) -> Block:
        """Make one without rows."""

        def new(*shape: int, dtype: Any = torch.float64) -> Any:
            return torch.zeros(shape, dtype=dtype, device=device)

        m, n = components, BLOCK
        return cls(
            G=new(m, n, n, dtype=torch.float32),
            lengths=new(m, n, n),
            f=new(m, n, outputs),
            y=new(n, outputs),
            weight=new(n),
            span=new(2, dtype=torch.int32),
            loosen=new(m),
            M=new(m, n, n),
            c=new(m, n),
            a=new(m, n, outputs),
            trace=new(m, 2),
            E=new(m, n, n),
            D=new(m, n, n, dtype=torch.float32),
        )


if triton is not None:

    @triton.jit
    def _learn_block(
        G,
        lengths,
        f,
        y,
        weight,
        span,
        loosen,
        M,
        c,
        a,
        trace,
        E,
        D,
        outputs,
        N: tl.constexpr,
        K: tl.constexpr,
        TASK: tl.constexpr,
        FORGETS: tl.constexpr,
    ):
        m = tl.program_id(0)
        i, j, k = tl.arange(0, N), tl.arange(0, N), tl.arange(0, K)
        used = k < outputs
        square, rows = m * N * N, m * N
        place = square + i[:, None] * N + j[None, :]
        first, last = tl.load(span), tl.load(span + 1)
        done = i < first
        left = tl.load(G + place)  # row u is x_u P_u x_v of all v once the rows before it are learned
        e = tl.where(i[:, None] == j[None, :], 1.0, 0.0)
        variances = tl.load(G + square + i * N + i).to(tl.float64)
        at = (rows + i[:, None]) * outputs + k[None, :]
        scores = tl.load(f + at, mask=used[None, :], other=0.0)
        changes = tl.load(c + rows + i, mask=done, other=0.0)
        steps = tl.load(a + at, mask=done[:, None] & used[None, :], other=0.0)
        loose = tl.load(loosen + m)
        most, size = tl.load(trace + 2 * m), tl.load(trace + 2 * m + 1)
        u = first * 0
        target = tl.load(y + k, mask=used, other=0.0)
        counted = tl.load(weight)
        while u < last:
            more = u + 1 < last  # what the next row needs comes while this one is learned
            following_target = tl.load(y + (u + 1) * outputs + k, mask=used & more, other=0.0)
            following_counted = tl.load(weight + u + 1, mask=more, other=0.0)
            this = i[:, None] == u
            row = tl.sum(tl.where(this, left, 0.0), axis=0)
            own = tl.sum(tl.where(this, e, 0.0), axis=0)
            if u < first:
                step = tl.sum(tl.where(this, steps, 0.0), axis=0)
                change = tl.sum(tl.where(i == u, changes, 0.0))
            else:
                score = tl.sum(tl.where(this, scores, 0.0), axis=0)
                variance = tl.sum(tl.where(i == u, variances, 0.0))
                q = tl.maximum(variance, 1e-12)
                if TASK >= 2:
                    residual = (target - score) / (1 + counted * q)
                    step = counted * residual
                    h = counted
                    if TASK == 3:  # Huber's loss is linear from 1 on
                        far = tl.sum(tl.where(used, tl.abs(residual), 0.0))
                        h = tl.where(
                            far > 1.0,
                            counted / tl.maximum(far * (1 + counted * q) - q * counted, 1.0),
                            counted,
                        )
                        step = tl.where(tl.abs(residual) > 1.0, tl.where(residual > 0, counted, -counted), step)
                    change = h / (1 + h * q) - tl.minimum(loose * h, 0.5) / q
                elif TASK == 0:
                    # With s = 1 or -1 for the label: z = s score + q weight (1 - p(z)). In single precision, because
                    # 1 - p comes without a difference of close numbers.
                    side = tl.where(target > 0.5, 1.0, -1.0)
                    low, reach = (side * score).to(tl.float32), (q * counted).to(tl.float32)
                    z = low
                    moved = low * 0.0 + 1.0
                    turns = 0
                    while (tl.max(moved) >= 3e-4) & (turns < 12):  # what is left then is of the order of its square
                        missing = 1 / (1 + tl.exp(z))
                        following = z - (z - low - reach * missing) / (1 + reach * missing * (1 - missing))
                        following = tl.minimum(tl.maximum(following, low), low + reach)
                        moved = tl.abs(following - z)
                        z = following
                        turns += 1
                    missing = 1 / (1 + tl.exp(z))
                    step = counted * side * missing
                    least = tl.max(missing)
                    heavy = counted.to(tl.float32) * tl.maximum(least * (1 - least), 1e-5)
                    narrow = q.to(tl.float32)
                    forgotten = tl.minimum(4 * loose.to(tl.float32) * heavy, 0.5) / narrow
                    change = (heavy / (1 + heavy * narrow) - forgotten).to(tl.float64)
                else:
                    # z = score + q weight (y - p(z))
                    reach = q * counted
                    low = score - reach * (1 - target)
                    z = score
                    p = score * 0.0
                    turns = 0
                    change_of_z = q * 0.0 + 1.0
                    while (change_of_z >= 1e-6) & (turns < 12):
                        p = tl.where(used, tl.exp(z - tl.max(tl.where(used, z, -float("inf")))), 0.0)
                        p = p / tl.sum(p)
                        before = z
                        z = z - (z - score - reach * (target - p)) / (1 + reach * p * (1 - p))
                        z = tl.minimum(tl.maximum(z, low), low + reach)
                        change_of_z = tl.max(tl.where(used, tl.abs(z - before), 0.0))
                        turns += 1
                    step = counted * (target - p)
                    h = counted * tl.maximum(tl.max(tl.where(used, p * (1 - p), 0.0)), 1e-5)
                    change = h / (1 + h * q) - tl.minimum(4 * loose * h, 0.5) / q
                change = tl.where(variance > 0, change, 0.0)
                if FORGETS:
                    products = tl.load(lengths + place)
                    direction = own.to(tl.float64)
                    length = tl.sum(tl.sum(products * direction[None, :], axis=1) * direction)
                    bound = -tl.maximum(most - size, 0.0) / tl.maximum(length, 1e-300)
                    change = tl.where((change >= 0) | (size - change * length <= most), change, bound)
                    size -= change * length
                steps = tl.where(this, step[None, :], steps)
                changes = tl.where(i == u, change, changes)
            # take the row out of the later ones, as elimination does
            factors = tl.where(i > u, change.to(tl.float32) * row, 0.0)
            left -= factors[:, None] * row[None, :]
            e -= factors[:, None] * own[None, :]
            later = tl.where(i > u, row, 0.0).to(tl.float64)
            variances -= change * later * later
            scores += later[:, None] * step[None, :]
            target, counted = following_target, following_counted
            u += 1
        inside = i < last
        learned = (i >= first) & inside
        tl.store(f + at, scores, mask=learned[:, None] & used[None, :])
        tl.store(c + rows + i, changes, mask=learned)
        tl.store(a + at, steps, mask=learned[:, None] & used[None, :])
        pairs = (i[:, None] < j[None, :]) & (j[None, :] < last)
        tl.store(M + place, tl.where(pairs, changes.to(tl.float32)[:, None] * left, 0.0).to(tl.float64))
        e = tl.where(inside[:, None], e, 0.0)
        tl.store(E + place, e.to(tl.float64))
        tl.store(D + place, tl.sqrt(tl.abs(changes)).to(tl.float32)[:, None] * e)
        if FORGETS:
            tl.store(trace + 2 * m + 1, size)


def learn_block(block: Block, task: Task, forgets: bool) -> None:
    """Learn the rows of a block one after the other."""
    if not runs_triton(block.G):
        _learn_block_by_pytorch(block, task, forgets)
        return
    m, _, outputs = block.f.shape
    _learn_block[(m,)](
        *(getattr(block, name) for name in Block.__dataclass_fields__),
        outputs,
        N=BLOCK,
        K=triton.next_power_of_2(outputs),
        TASK=int(task),
        FORGETS=forgets,
        num_warps=_WARPS,
    )


def _learn_block_by_pytorch(block: Block, task: Task, forgets: bool) -> None:
    """Do the same where Triton does not run."""
    b, (first, last) = block, block.span.tolist()
    b.E.zero_()
    for u in range(last):
        column = (b.E[:, :u] @ b.G[:, u, :, None].double())[:, :, 0]  # x_s P_s x_u of s < u
        if u >= first:
            b.M[:, :u, u] = b.c[:, :u] * column
        factors = b.M[:, :u, u]
        b.E[:, u] = -(factors[:, None] @ b.E[:, :u])[:, 0]
        b.E[:, u, u] += 1
        if u < first:
            continue
        b.f[:, u] += (column[:, None] @ b.a[:, :u])[:, 0]
        variance = b.G[:, u, u].double() - (factors * column).sum(dim=1)
        q = variance.clamp_min(_LEAST_VARIANCE)[:, None]
        b.a[:, u], h = _step(b.f[:, u], b.y[u], b.weight[u], q, task)
        forgotten = h if task.is_regression else 4 * h
        change = h / (1 + h * q) - (b.loosen[:, None] * forgotten).clamp_max(_MOST_FORGETTING) / q
        b.c[:, u] = torch.where(variance > 0, change[:, 0], 0.0)
        if forgets:
            length = (b.E[:, u, None] @ b.lengths @ b.E[:, u, :, None])[:, 0, 0]
            most, size = b.trace.unbind(dim=1)
            fits = (b.c[:, u] >= 0) | (size - b.c[:, u] * length <= most)
            b.c[:, u] = torch.where(fits, b.c[:, u], -(most - size).clamp_min(0) / length.clamp_min(1e-300))
            b.trace[:, 1] -= b.c[:, u] * length
    b.D.copy_(b.c.abs().sqrt()[:, :, None] * b.E)


def _step(f: Any, y: Any, weight: Any, q: Any, task: Task) -> tuple[Any, Any]:
    """Implicit step (m, outputs) of one row, and its curvature (m, 1)."""
    if task.is_regression:
        residual = (y - f) / (1 + weight * q)
        h = weight.expand_as(q)
        if task is Task.SQUARED:
            return weight * residual, h
        far = weight * HUBER / ((y - f).abs() - q * weight * HUBER).clamp_min(HUBER)
        outside = residual.abs() > HUBER
        return torch.where(outside, weight * HUBER * residual.sign(), weight * residual), torch.where(outside, far, h)
    reach, z, p = q * weight, f, f
    moving = torch.ones_like(q, dtype=torch.bool)
    for _ in range(_ROUNDS):  # z = f + q weight (y - p(z))
        p = torch.where(moving, torch.sigmoid(z) if task is Task.BINARY else torch.softmax(z, dim=1), p)
        low = f - reach * (1 - y)
        following = z - (z - f - reach * (y - p)) / (1 + reach * p * (1 - p))
        following = torch.minimum(torch.maximum(following, low), low + reach)
        moved = (following - z).abs().amax(dim=1, keepdim=True)
        z, moving = torch.where(moving, following, z), moving & (moved >= _SMALL)
        if not bool(moving.any()):
            break
    h = (p * (1 - p)).amax(dim=1, keepdim=True).clamp_min(_LEAST_CURVATURE)
    return weight * (y - p), weight * h

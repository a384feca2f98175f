"""Cholesky factors with pivots on a device: which landmarks stand for the others.

One pivot after another, always the row of which most is left, as LAPACK's `dpstrf` takes them. A panel of pivots is
found by one loop, compiled by Triton; then one product takes the panel out of the whole matrix.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
from __future__ import annotations

from typing import Any

import torch

from bomkl.auto.gpu.kernels import runs_triton, tl, triton

_PANEL = 32  # pivots
_LEAST = 4096  # rows that a program is compiled for: one program for most budgets
_MOST = 32768  # rows whose diagonal fits into the registers of one program

if triton is not None:

    @triton.jit
    def _find_pivots(A, diagonal, panel, order, tolerance, n, N: tl.constexpr, PANEL: tl.constexpr):
        i = tl.arange(0, N)
        inside = i < n
        left = tl.load(diagonal + i, mask=inside, other=-float("inf"))
        k = 0
        going = tl.max(left) > tolerance
        while (k < PANEL) & going:
            pivot = tl.argmax(left, axis=0)
            root = tl.sqrt(tl.max(left))
            row = tl.load(A + pivot.to(tl.int64) * n + i, mask=inside, other=0.0)
            s = 0
            while s < k:
                row -= tl.load(panel + s * n + i, mask=inside, other=0.0) * tl.load(panel + s * n + pivot)
                s += 1
            row = tl.where(left > -float("inf"), row / root, 0.0)  # of pivots before it nothing is left
            row = tl.where(i == pivot, root, row)
            left = tl.where(i == pivot, -float("inf"), left - row * row)
            tl.store(panel + k * n + i, row, mask=inside)
            tl.store(order + k, pivot)
            tl.debug_barrier()  # other threads read what this one has stored
            k += 1
            going = tl.max(left) > tolerance
        tl.store(diagonal + i, left, mask=inside)
        tl.store(order + PANEL, k)


def pivoted_cholesky(A: Any, tolerance: float) -> tuple[Any, Any]:
    """Pivots in their order while more than `tolerance` is left, and the lower factor of their rows.

    A (n, n) of double precision is overwritten.
    """
    diagonal, panels, orders = A.diagonal().clone(), [], []
    while True:
        panel = torch.empty((_PANEL, len(A)), dtype=A.dtype, device=A.device)
        order = torch.zeros(_PANEL + 1, dtype=torch.int64, device=A.device)
        if runs_triton(A) and len(A) <= _MOST:
            N = max(triton.next_power_of_2(len(A)), _LEAST)
            warps = min(N // 256, 32)
            _find_pivots[(1,)](A, diagonal, panel, order, tolerance, len(A), N=N, PANEL=_PANEL, num_warps=warps)
        else:
            _find_by_pytorch(A, diagonal, panel, order, tolerance)
        found = int(order[_PANEL])
        panels.append(panel[:found])
        orders.append(order[:found])
        if found < _PANEL:
            break
        A.addmm_(panel.T, panel, alpha=-1)
    chosen = torch.cat(orders)
    return chosen, torch.cat(panels)[:, chosen].T


def _find_by_pytorch(A: Any, diagonal: Any, panel: Any, order: Any, tolerance: float) -> None:
    """Do the same where Triton does not run."""
    for k in range(_PANEL):
        pivot = int(diagonal.argmax())
        most = float(diagonal[pivot])
        if not most > tolerance:
            return
        row = A[pivot] - panel[:k, pivot] @ panel[:k]
        row = torch.where(diagonal > -torch.inf, row / most**0.5, 0.0)
        row[pivot] = most**0.5
        diagonal -= row * row
        diagonal[pivot] = -torch.inf
        panel[k], order[k], order[_PANEL] = row, pivot, k + 1

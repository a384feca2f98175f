"""What surrounds all work on a device: full precision, and errors that say what to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bomkl._core import ROUND_BLOCK
from bomkl.auto.features.pool_kernels import KERNELS

CHUNK_BLOCKS = 64  # blocks worked on together: with fewer, products are too small for a GPU
_WIDE = 1024  # features beyond it make enough work of a quarter of that


def chunk_blocks(width: int) -> int:
    """Blocks of rows worked on together, for features of some width: a call with fewer rows takes as long.

    Examples
    --------
    >>> chunk_blocks(512), chunk_blocks(4096)
    (64, 16)
    """
    return CHUNK_BLOCKS if width <= _WIDE else max(CHUNK_BLOCKS // 4, 1)


def bytes_needed(budget: int) -> int:
    """Estimate the memory that a learner with some budget takes on a device.

    Examples
    --------
    >>> round(bytes_needed(1000) / 2**30, 1), round(bytes_needed(16000) / 2**30, 1)
    (1.1, 12.8)
    """
    ranks = [choice.share * budget for choice in KERNELS]
    held = sum(36 * rank * rank for rank in ranks)  # whitening, information before and after, sums and a copy of them
    chunk = chunk_blocks(int(max(ranks))) * ROUND_BLOCK
    return int(held + chunk * (4 * sum(ranks) + 8 * max(ranks)) + (1 << 29))


def budget_that_fits(free: int) -> int:
    """Largest power of two whose learner takes at most some bytes; 0 if none does.

    Examples
    --------
    >>> budget_that_fits(4 << 30), budget_that_fits(1 << 20)
    (4096, 0)
    """
    budget = 1
    while bytes_needed(budget) <= free:
        budget *= 2
    return budget // 2


class _FullPrecision:
    """Products in full single precision while any thread is within; then what the program has set again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._before = False

    def __enter__(self) -> None:
        with self._lock:
            if self._threads == 0:
                self._before = torch.backends.cuda.matmul.allow_tf32
                torch.backends.cuda.matmul.allow_tf32 = False
            self._threads += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                torch.backends.cuda.matmul.allow_tf32 = self._before


_FULL_PRECISION = _FullPrecision()


@contextmanager
def on_device(budget: int) -> Iterator[None]:
    """Use products in full single precision, whatever the program has set, and say what to do without memory."""
    try:
        with _FULL_PRECISION, torch.inference_mode():
            yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        fits = budget_that_fits(free)
        raise MemoryError(
            f"The device has too little memory for budget={budget}: {free / 2**30:.1f} GiB are free. "
            + (f"A budget of {fits} would fit." if fits else "Free some of it first, or use device='cpu'.")
        ) from error

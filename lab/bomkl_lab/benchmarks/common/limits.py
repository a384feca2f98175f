"""What one core can do at best: multiply matrices, take exponentials, read memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bomkl import _core
from bomkl_lab.benchmarks.common.measure import Work, best_in_turn

SIZE = 512  # large enough for BLAS's best, short enough to fall between interruptions
SGEMM_FLOPS = 2 * SIZE**3
EXPS_AT_ONCE = 8192  # stay in a near cache
EXPS = 100 * EXPS_AT_ONCE
READ_BYTES = 1 << 27  # fit in none


def sgemm(dtype: str = "float32") -> Work:
    """Multiply two matrices, which BLAS does near the peak of the core; `SGEMM_FLOPS` operations. In float64: dgemm."""
    a, b = np.random.default_rng(0).normal(size=(2, SIZE, SIZE)).astype(dtype)
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)


def exps(dtype: str = "float32") -> tuple[Work, Work]:
    """Take `EXPS` exponentials with the engine's own vector function, and what of that is not exponentials.

    The function works in place, so its numbers are copied in again each time; the second work is only that.
    """
    x = -np.random.default_rng(0).uniform(0, 20, EXPS_AT_ONCE).astype(dtype)
    y = np.empty_like(x)

    def copy() -> None:
        for _ in range(EXPS // EXPS_AT_ONCE):
            np.copyto(y, x)

    def copy_and_exp() -> None:
        for _ in range(EXPS // EXPS_AT_ONCE):
            np.copyto(y, x)
            _core.exp_many(y)

    return copy_and_exp, copy


def read() -> Work:
    """Read `READ_BYTES` from memory."""
    a = np.ones(READ_BYTES // 4, dtype=np.float32)
    return lambda: a @ a


@dataclass(frozen=True)
class Limits:
    """Rates per second that one core reaches."""

    flops: float
    exps: float
    bytes: float

    def least_seconds(self, flops: float, exps: float, bytes: float) -> dict[str, float]:
        """Time that each kind of work needs at least; they can overlap, so the longest of them is the limit."""
        return {"sgemm": flops / self.flops, "exp": exps / self.exps, "memory": bytes / self.bytes}


def work_at_limits(dtype: str = "float32") -> tuple[Work, Work, Work]:
    """Return the work whose times `limits_from` takes, to be measured beside other work."""
    return sgemm(dtype), *exps(dtype)


def limits_from(times: Sequence[float], bytes_per_second: float) -> Limits:
    """Rates from the times of `work_at_limits`."""
    of_sgemm, of_exps, of_copy = times
    return Limits(SGEMM_FLOPS / of_sgemm, EXPS / (of_exps - of_copy), bytes_per_second)


def measure_limits(seconds: float = 1.0, dtype: str = "float32") -> Limits:
    """Measure the three limits of this core."""
    *times, of_read = best_in_turn(*work_at_limits(dtype), read(), seconds=seconds, rounds=5)
    return limits_from(times, READ_BYTES / of_read)

"""Where a model learns: on the processor, or on a GPU through PyTorch."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from bomkl._support.extras import install_hint
from bomkl.auto.rounds.engine import CoreEngine, SumEngine
from bomkl.auto.rows.engine import RowEngine

DEVICES = ("cpu", "cuda", "auto")
_PROCESSOR = CoreEngine()
_HOST = (1, 3)  # kinds of memory that the processor reads, as DLPack numbers them


def engine_for(device: str) -> SumEngine:
    """Return the engine of a device; "auto" takes a GPU where there is one."""
    if device == "cpu" or (device == "auto" and not _has_gpu()):
        return _PROCESSOR
    if find_spec("torch") is None:
        raise ImportError(f"device='cuda' needs PyTorch. {install_hint('gpu')}")
    if not _has_gpu():
        raise ValueError("device='cuda' needs a GPU, but PyTorch finds none. Use device='cpu' or device='auto'.")
    return _gpu_engine()


def row_engine_for(device: str) -> RowEngine | None:
    """Return what learns row by row on a device; None on the processor."""
    return engine_for(device).rows


def rows_on_device(X: Any, device: str) -> Any:
    """Rows that are where a model learns, to be left there; None for those that the processor holds."""
    if not _is_foreign(X):
        return None
    engine = engine_for(device)
    rows = engine.rows_held(X)
    if rows is None and not _is_on_host(X):
        raise ValueError(
            f"X is in the memory of a GPU, but device={device!r} learns on the processor. Use device='cuda', or copy X "
            "to the processor first: X.cpu() with PyTorch, X.get() with CuPy."
        )
    return rows


def on_host(array: Any) -> Any:
    """Rows, labels, targets or weights in memory of the processor, of a type that NumPy has."""
    if not _is_foreign(array):
        return array
    if _is_on_host(array):
        has_numpy_type = str(getattr(array, "dtype", "")) != "torch.bfloat16"  # an array of Arrow has none
        return array if has_numpy_type else array.float()
    from bomkl.auto.gpu.arrays import DeviceRows, as_tensor

    return DeviceRows(as_tensor(array)).toarray()


def _is_foreign(array: Any) -> bool:
    return hasattr(array, "__dlpack_device__") and not isinstance(array, np.ndarray | np.generic)


def _is_on_host(array: Any) -> bool:
    try:
        return bool(array.__dlpack_device__()[0] in _HOST)
    except TypeError:  # some versions of Arrow say nothing of strings, which no GPU holds
        return True


@cache
def _gpu_engine() -> SumEngine:
    from bomkl.auto.gpu.engine import TorchEngine

    return TorchEngine("cuda")


@cache
def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())

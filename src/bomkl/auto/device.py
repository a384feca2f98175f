"""Where a model learns: on the processor, or on a GPU through PyTorch."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from bomkl.auto.rows import RowEngine
from bomkl.auto.sum_engine import CoreEngine, SumEngine

DEVICES = ("cpu", "cuda", "auto")


def engine_for(device: str) -> SumEngine:
    """Return the engine of a device; "auto" takes a GPU where there is one."""
    if device == "cpu" or (device == "auto" and not _has_gpu()):
        return CoreEngine()
    if find_spec("torch") is None:
        raise ImportError("device='cuda' needs PyTorch. Install it with: pip install 'bomkl[gpu]'")
    if not _has_gpu():
        raise ValueError("device='cuda' needs a GPU, but PyTorch finds none. Use device='cpu' or device='auto'.")
    return _gpu_engine()


def row_engine_for(device: str) -> RowEngine | None:
    """Return what learns row by row on a device; None on the processor."""
    return engine_for(device).rows


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

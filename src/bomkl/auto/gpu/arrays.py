"""Arrays of other libraries that are on the device already: PyTorch, CuPy, JAX and whatever else speaks DLPack."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch


class DeviceRows:
    """Rows on a device; to all that works on the processor they look like a sparse matrix."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.shape = tuple(tensor.shape)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Self:
        if isinstance(rows, np.ndarray):
            rows = torch.from_numpy(rows).to(self.tensor.device)
        return type(self)(self.tensor[rows])

    def toarray(self) -> Any:
        """Copy them to the processor."""
        tensor = self.tensor
        return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).cpu().numpy()

    def in_floats(self) -> Self:
        """Rows in single or double precision."""
        kept = self.tensor.dtype in (torch.float32, torch.float64)
        return self if kept else type(self)(self.tensor.double())

    def first_not_finite(self) -> int | None:
        """Find the first row with a cell that is no finite number."""
        wrong = ~torch.isfinite(self.tensor).all(dim=1)
        return int(wrong.int().argmax()) if bool(wrong.any()) else None


def as_tensor(array: Any) -> Any:
    """Take an array as a tensor, without a copy."""
    return array.detach() if isinstance(array, torch.Tensor) else torch.from_dlpack(array)

"""Tables with strings and missing values, and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas")


def mixed(n: int = 60, seed: int = 0, gaps: float = 0.2) -> Any:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "city": rng.choice(["Oslo", "Bonn", "Lima", "Kyiv"], n),
            "user": [f"u{rng.integers(30)}" for _ in range(n)],
            "paid": rng.choice([True, False], n),
            "when": pd.Timestamp("2024-02-27T22:30:00") + pd.to_timedelta(rng.integers(0, 400, n), unit="h"),
        }
    )
    return frame.astype({"paid": object}).mask(rng.random(frame.shape) < gaps)


def targets(n: int, kind: str) -> Any:
    rng = np.random.default_rng(1)
    return rng.choice(["a", "b", "c", "d", "e"], n) if kind == "class" else rng.normal(size=n)

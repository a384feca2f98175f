"""Figures of another version of bomkl, installed for another Python, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

_READ = """
import json, sys
import numpy as np
from time import perf_counter, process_time
from bomkl import AutoMKLClassifier
X, y = np.load(sys.argv[1]), np.load(sys.argv[2])
"""


def figures(python: Path, script: str, X: Any, y: Any) -> dict[str, float]:
    """Run a script that finds rows in X and y, and prints a JSON object at last."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = [os.path.join(scratch, name) for name in ("X.npy", "y.npy")]
        np.save(paths[0], X)
        np.save(paths[1], y)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(python.absolute()), "-c", _READ + script, *paths],
            cwd=scratch,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found

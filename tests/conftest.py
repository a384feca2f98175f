import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# no test depends on how fast the machine is, nor on chance
settings.register_profile("bomkl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bomkl")


@pytest.fixture
def paper_data():
    """Loader of the paper's data sets; skips where they are not there."""
    places = [Path(os.environ["BOMKL_DATA"])] if "BOMKL_DATA" in os.environ else []
    places.append(Path(__file__).resolve().parents[2] / "shared" / "data")

    def load(name):
        for place in places:
            if (place / f"{name}.npz").exists():
                with np.load(place / f"{name}.npz") as data:
                    return data["X"], data["y"]
        pytest.skip(f"{name}.npz is not in BOMKL_DATA or ../shared/data")

    return load


@pytest.fixture
def svm(tmp_path):
    """A file of 500 rows."""
    from tests.command_line import svm_text

    path = tmp_path / "rows.svm"
    path.write_text(svm_text(500))
    return path

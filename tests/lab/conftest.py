import pytest

pytest.importorskip("bomkl_lab", reason="bomkl-lab is not installed")

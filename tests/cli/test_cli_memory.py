"""What a command needs in memory: no more than its rows ask for."""

import subprocess
import sys

import pytest

RUN = """
import sys
from bomkl.__main__ import main
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")), "pandas" in sys.modules)
"""


def memory_of(*args):
    """Kilobytes that a command has had at most, and whether it imported pandas."""
    run = subprocess.run([sys.executable, "-c", RUN, *map(str, args)], capture_output=True, text=True, check=True)
    kilobytes, pandas = run.stdout.split()[-2:]
    return int(kilobytes), pandas == "True"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_small_svmlight_file_with_the_largest_column_number(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 2147483647:1\n-1 1:1\n" * 20)
    kilobytes, pandas = memory_of("train", path, "-o", tmp_path / "m.bomkl", "-q")
    assert kilobytes < 200_000
    assert not pandas

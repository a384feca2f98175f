"""`bomkl bench same`: this version beside an older one: the same bits in random cases.

``--baseline PYTHON`` is the interpreter of an environment with the older version. Both run the same random cases (see
`same_cases.py`), and models of the older version that were saved on the way are loaded by both. Numbers of
different processors or of different versions of NumPy may differ, so both must run on one machine with one NumPy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bomkl_lab.benchmarks.common.rows import Row, parser, report

BATCH = 20  # cases a process


def lines(python: Path, role: str, first: int, last: int, folder: str) -> list[Row]:
    """Run cases with one interpreter; cases that it did not end are left out."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = Path(__file__).with_name("same_cases.py")
    command = [str(python.absolute()), str(script), str(first), str(last), role, folder]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compared(baseline: Path, first: int, last: int) -> Iterator[Row]:
    """Compare cases one by one; those that are the same are only counted, in the last row."""
    same = wrong = 0
    for begin in range(first, last, BATCH):
        end = min(begin + BATCH, last)
        with tempfile.TemporaryDirectory() as folder:
            older = lines(baseline, "older", begin, end, folder)
            newer = {each["number"]: each for each in lines(Path(sys.executable), "newer", begin, end, folder)}
        if len(older) < end - begin:
            raise SystemExit(f"The older version ended at case {begin + len(older)}.")
        for each in older:
            found = newer.get(each["number"], {"error": "the process ended"})
            differing = [name for name in ("said", "state", "error") if found.get(name) != each[name]]
            same, wrong = same + (not differing), wrong + bool(differing)
            if differing:
                why = found.get("error") if "error" in differing else ", ".join(differing)
                yield {"case": each["number"], "about": each["about"], "differs": why}
    yield {"case": "all", "same": same, "different": wrong}


def show(row: Row) -> str:
    """Return the line of a row."""
    if row["case"] == "all":
        return f"{row['same']} cases with the same bits, {row['different']} with others"
    return f"case {row['case']}: {row['about']}: {row['differs']}"


def main() -> None:
    """Compare from the command line; exit status 1 where a case differs."""
    options = parser(__doc__)
    options.add_argument("--baseline", type=Path, required=True, metavar="PYTHON", help="Python of the older version")
    options.add_argument("--cases", type=int, default=300, metavar="N", help="number of cases (default: 300)")
    options.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default: 0)")
    given = options.parse_args()
    rows = report("same", compared(given.baseline, given.first, given.first + given.cases), show, given.out)
    sys.exit(rows[-1]["different"] > 0)

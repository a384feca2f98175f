"""`bomkl bench all`: all benchmarks of speed, one after another; writes the pages on speed."""

from __future__ import annotations

from pathlib import Path

from benchmarks import document, end_to_end, growth, guard, roofline, speed, speed_peers, targets
from benchmarks.common.measure import one_thread
from benchmarks.common.rows import parser, report

BENCHMARKS = {
    "targets": targets,
    "roofline": roofline,
    "growth": growth,
    "speed": speed,
    "speed_peers": speed_peers,
    "end_to_end": end_to_end,
    "guard": guard,
}


def main() -> None:
    options = parser(__doc__)
    options.set_defaults(out=document.FOLDER)
    options.add_argument("--page", type=Path, default=document.PAGE, help="where to write the page for users")
    options.add_argument("--checks-page", type=Path, default=document.CHECKS_PAGE, help="that of targets and guard")
    chosen = options.parse_args()
    one_thread()
    for name, benchmark in BENCHMARKS.items():
        print(f"\n# {name}", flush=True)
        report(name, benchmark.measure(), benchmark.show, chosen.out)
    document.write(chosen.out, chosen.page, chosen.checks_page)


if __name__ == "__main__":
    main()

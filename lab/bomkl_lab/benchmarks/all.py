"""`bomkl bench all`: all benchmarks of speed, one after another; writes a report on speed."""

from __future__ import annotations

from bomkl_lab.benchmarks import document, end_to_end, growth, guard, roofline, speed, speed_peers, targets
from bomkl_lab.benchmarks.common.measure import one_thread
from bomkl_lab.benchmarks.common.rows import add_into, parser, report

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
    add_into(options)
    chosen = options.parse_args()
    one_thread()
    for name, benchmark in BENCHMARKS.items():
        print(f"\n# {name}", flush=True)
        report(name, benchmark.measure(), benchmark.show, chosen.out)
    document.write(chosen.out, chosen.into)

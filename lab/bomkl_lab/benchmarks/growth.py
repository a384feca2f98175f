"""`bomkl bench growth`: how time grows with rows, support, budget and columns, with fitted exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bomkl import AutoMKLClassifier, paper
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.generated import susy_like
from bomkl_lab.benchmarks.common.measure import exponent, one_thread, timed
from bomkl_lab.benchmarks.common.rows import Row, parser, report

COLUMNS = 18
REPEATS = 2


def algorithm(name: str, budget: int | None = None) -> Any:
    return paper.algorithm(name, budget).set_params(random_state=0)


@dataclass(frozen=True)
class Series:
    """Sizes to run at, what they are sizes of, and what the time is then set against."""

    name: str
    along: str
    sizes: Sequence[int]
    estimator: Callable[[int], Any]
    rows: int | None = None  # none: as many as the size says
    against: str = "rows x support"


def doubled(first: int, last: int) -> list[int]:
    return [first << step for step in range(20) if first << step <= last]


def series(scale: int = 1) -> list[Series]:
    """All series; their largest sizes are divided by `scale`."""

    def along_rows(name: str, estimator: Callable[[], Any], last: int, **more: Any) -> Series:
        return Series(name, "rows", doubled(last // scale // 16, last // scale), lambda size: estimator(), **more)

    budgets = doubled(64 // scale, 1024 // scale)
    columns = doubled(32, max(64, 1024 // scale))
    return [
        along_rows("BOMKC(SPA), beta = 3", lambda: algorithm("BOMKC(SPA)"), 64_000),
        along_rows("BOMKC(SPA), budget of 64", lambda: algorithm("BOMKC(SPA)", 64), 32_000),
        along_rows("OMKC(DD)", lambda: algorithm("OMKC(DD)"), 8_000),
        along_rows("AutoMKL", lambda: AutoMKLClassifier(random_state=0), 64_000, against="rows"),
        *(
            Series(name, "budget", budgets, partial(algorithm, name), rows=8_000 // scale)
            for name in paper.BUDGET_ALGORITHMS
        ),
        *(
            Series(name, "columns", columns, lambda size, name=name: algorithm(name), 4_000 // scale, "columns")
            for name in ("BOMKC(SPA)", "OMKC(DD)")
        ),
    ]


def run(chosen: Series) -> Iterator[Row]:
    """Measure a series; its last row has the fit.

    Each row must meet the support, so time is set against rows times support at the end; AutoMKL's is bounded.
    """
    x, y = [], []
    for size in chosen.sizes:
        X, labels = susy_like(chosen.rows or size, size if chosen.along == "columns" else COLUMNS)
        seconds = []
        for _ in range(REPEATS):
            estimator = chosen.estimator(size)
            seconds.append(timed(lambda e=estimator, X=X, labels=labels: e.score_and_learn(X, labels))[0])
        support = int(estimator.n_support_.sum())
        x.append(len(labels) * support if chosen.against == "rows x support" else size)
        y.append(min(seconds))
        yield {
            "series": chosen.name,
            "along": chosen.along,
            "size": size,
            "rows": len(labels),
            "d": X.shape[1],
            "support": support,
            "seconds": y[-1],
        }
    yield {
        "series": chosen.name,
        "along": chosen.along,
        "against": chosen.against,
        "exponent": exponent(x, y),
        "last_exponent": exponent(x[-2:], y[-2:]) if x[-1] > 1.5 * x[-2] else None,
    }


def measure(scale: int = 1) -> Iterator[Row]:
    """All rows."""
    chosen = series(scale)
    with progress_bar(len(chosen), "series", "series") as bar:
        for each in chosen:
            yield from run(each)
            bar.update()


def show(row: Row) -> str:
    if "exponent" in row:
        last = "" if row["last_exponent"] is None else f", {row['last_exponent']:.2f} at the largest two sizes"
        return f"{row['series']:25} time ~ ({row['against']})^{row['exponent']:.2f}{last}\n"
    return (
        f"{row['series']:25} {row['rows']:>7,} rows d = {row['d']:>4} {row['support']:>9,} SVs {row['seconds']:8.4f} s"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="a quarter of the sizes")
    chosen = options.parse_args()
    one_thread()
    report("growth", measure(4 if chosen.quick else 1), show, chosen.out)

"""`bomkl bench growth`: how time grows with rows, support, budget and columns, with fitted exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common.generated import susy_like
from benchmarks.common.measure import exponent, one_thread, timed
from benchmarks.common.rows import Row, parser, report
from bomkl import AutoMKLClassifier, paper
from bomkl.progress import progress_bar

COLUMNS = 18
REPEATS = 2


def algorithm(name: str, budget: int | None = None) -> Any:
    return paper.algorithm(name, budget).set_params(random_state=0)


@dataclass(frozen=True)
class Series:
    """Sizes to run at, and what the time is then set against."""

    name: str
    along: str
    sizes: Sequence[int]
    estimator: Callable[[int], Any]
    rows: Callable[[int], int]
    columns: Callable[[int], int] = lambda size: COLUMNS


def doubled(first: int, last: int) -> list[int]:
    return [first << step for step in range(20) if first << step <= last]


def series(scale: int = 1) -> list[Series]:
    """All series; their largest sizes are divided by `scale`."""
    along_rows: dict[str, tuple[Callable[[int], Any], int]] = {
        "BOMKC(SPA), beta = 3": (lambda size: algorithm("BOMKC(SPA)"), 64_000),
        "BOMKC(SPA), budget of 64": (lambda size: algorithm("BOMKC(SPA)", 64), 32_000),
        "OMKC(DD)": (lambda size: algorithm("OMKC(DD)"), 8_000),
        "AutoMKL": (lambda size: AutoMKLClassifier(random_state=0), 32_000),
    }
    found = [
        Series(name, "rows", doubled(last // scale // 16, last // scale), estimator, lambda size: size)
        for name, (estimator, last) in along_rows.items()
    ]
    for name in paper.BUDGET_ALGORITHMS:
        sizes = doubled(max(4, 64 // scale), 1024 // scale)
        found.append(
            Series(name, "budget", sizes, lambda size, name=name: algorithm(name, size), lambda size: 8_000 // scale)
        )
    for name in ("BOMKC(SPA)", "OMKC(DD)"):
        sizes = doubled(32, 1024 // scale)
        found.append(
            Series(name, "columns", sizes, lambda size, name=name: algorithm(name), lambda size: 4_000 // scale,
                   lambda size: size)
        )  # fmt: skip
    return found


def run(chosen: Series) -> Iterator[Row]:
    """Measure a series; its last row has the fit.

    Time is set against rows times support at the end, as each row must meet the support, or against columns.
    """
    x, y = [], []
    for size in chosen.sizes:
        X, labels = susy_like(chosen.rows(size), chosen.columns(size))
        seconds = []
        for _ in range(REPEATS):
            estimator = chosen.estimator(size)
            seconds.append(timed(lambda e=estimator, X=X, labels=labels: e.score_and_learn(X, labels))[0])
        support = int(estimator.n_support_.sum()) if hasattr(estimator, "n_support_") else None
        x.append(size if support is None or chosen.along == "columns" else len(labels) * support)
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
        "against": chosen.along if support is None or chosen.along == "columns" else "rows x support",
        "exponent": exponent(x, y),
        "last_exponent": exponent(x[-2:], y[-2:]),
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
        return (
            f"{row['series']:25} time ~ ({row['against']})^{row['exponent']:.2f}, "
            f"{row['last_exponent']:.2f} at the largest two sizes\n"
        )
    support = "" if row["support"] is None else f"{row['support']:>9,} SVs"
    return f"{row['series']:25} {row['rows']:>7,} rows d = {row['d']:>4} {support:13} {row['seconds']:8.4f} s"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="a quarter of the sizes")
    chosen = options.parse_args()
    one_thread()
    report("growth", measure(4 if chosen.quick else 1), show, chosen.out)


if __name__ == "__main__":
    main()

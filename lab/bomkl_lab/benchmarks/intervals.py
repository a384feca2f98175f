"""`bomkl bench intervals`: how often targets lie in the 90 % intervals of AutoMKLRegressor, and how wide these are.

Every row gets its interval before the model learns from it; the first 50 rows are not judged. Intervals of constant
width are given the width that covers as many targets of the whole stream, which no stream could know. Where errors fall
as the model learns, they cover too few targets at first and too many later, and can be narrower for it. Two more widths
are for that: of intervals that stay the same for a tenth of the stream and cover as many targets of every tenth, and of
intervals of constant width that cover as many targets of their worst quarter. And the first 350 rows are shown apart:
how many targets both cover there, and how many times as wide as the constant the intervals are. So are the rows from
1,000 on, beside the constant width of these.

The settings of the intervals were chosen on other streams: ``--streams others``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bomkl import AutoMKLRegressor
from bomkl._support.progress import progress_bar
from bomkl.auto.estimators.uncertainty import LEVELS, ErrorModel
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.interval_streams import CHOSEN_ON, JUDGED

FIRST, BLOCK = 50, 1000
EARLY = 350  # rows after the first in which most models still learn quickly
LATER = 1000 - FIRST
COVERAGE = 0.9


def intervals(X: Any, y: Any, drift: str | None) -> Any:
    """Interval of every row after the first 50, made before the row was learned from."""
    model = AutoMKLRegressor(drift=drift, random_state=0)
    found = []
    with progress_bar(len(y), "intervals", "row") as bar:
        for begin in range(0, len(y), BLOCK):
            rows = slice(begin, begin + BLOCK)
            errors = model._errors.fork() if begin else None
            predicted = model.score_and_learn(X[rows], y[rows])
            if errors is None:
                errors = ErrorModel(model._learner.settings, X.shape[1], drift is not None)
            # what the model itself has just learned, step by step
            reaches = errors.learn(X[rows], y[rows] - predicted, np.ones(len(predicted)))[:, LEVELS == COVERAGE][:, 0]
            found.append(np.column_stack([predicted - reaches, predicted + reaches]))
            bar.update(len(predicted))
    return np.vstack(found)[FIRST:]


def judged(found: Any, y: Any) -> Row:
    """Coverage, also of the worst quarter of the stream, and widths."""
    inside = (found[:, 0] <= y) & (y <= found[:, 1])
    quarters = [100 * float(part.mean()) for part in np.array_split(inside, 4)]
    widths = found[:, 1] - found[:, 0]
    errors, covered = np.abs(y - found.mean(axis=1)), inside.mean()
    constant = 2 * float(np.quantile(errors, covered))
    tenths = 2 * float(np.mean([np.quantile(part, covered) for part in np.array_split(errors, 10)]))
    worst = 2 * max(float(np.quantile(part, min(quarters) / 100)) for part in np.array_split(errors, 4))
    return {
        "coverage": 100 * float(inside.mean()),
        "quarters": [round(each, 1) for each in quarters],
        "width": float(widths.mean()),
        "constant": constant,
        "constant_quarters": [
            round(100 * float((part <= constant / 2).mean()), 1) for part in np.array_split(errors, 4)
        ],
        "tenths": tenths,
        "worst": worst,
        "early": [
            round(100 * float(inside[:EARLY].mean()), 1),
            round(100 * float((errors[:EARLY] <= constant / 2).mean()), 1),
            round(float(widths[:EARLY].mean()) / constant, 2),
        ],
        "later": _relative_width(errors[LATER:], inside[LATER:], widths[LATER:]),
    }


def _relative_width(errors: Any, inside: Any, widths: Any) -> float | None:
    """Mean width in units of the constant that covers as many; None of a stream that has ended."""
    return float(widths.mean() / (2 * np.quantile(errors, inside.mean()))) if len(errors) else None


def measure(names: list[str], rows: int | None) -> Iterator[Row]:
    for name in names:
        load, drift = (JUDGED | CHOSEN_ON)[name]
        X, y = (each[:rows] for each in load())
        yield {"data": name, "rows": len(y), "drift": str(drift), **judged(intervals(X, y, drift), y[FIRST:])}


def main() -> None:
    options = parser(__doc__)
    known = [*JUDGED, *CHOSEN_ON]
    options.add_argument("--streams", nargs="+", choices=[*known, "others"], default=list(JUDGED), metavar="NAME")
    options.add_argument("--rows", type=int, default=None, help="of each stream (default: all)")
    given = options.parse_args()
    names = [name for each in given.streams for name in (CHOSEN_ON if each == "others" else [each])]
    report(
        "intervals",
        measure(names, given.rows),
        lambda row: (
            f"{row['data']:<20}{row['rows']:>7} rows  coverage {row['coverage']:5.1f} % (quarters {row['quarters']})  "
            f"mean width {row['width']:.4g}, constant {row['constant']:.4g} (quarters {row['constant_quarters']}), "
            f"ratio {row['width'] / row['constant']:.3f}; by tenths {row['tenths']:.4g}, "
            f"ratio {row['width'] / row['tenths']:.3f}; by the worst quarter {row['worst']:.4g}, "
            f"ratio {row['width'] / row['worst']:.3f}; first {EARLY} rows: coverage {row['early'][0]} %, "
            f"of the constant {row['early'][1]} %, ratio {row['early'][2]}"
            + (f"; from row 1,000 on ratio {row['later']:.3f}" if row["later"] else "")
        ),
        given.out,
    )

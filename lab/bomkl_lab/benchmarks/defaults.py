"""`bomkl bench defaults`: the defaults against `drift=None` and `drift="adapt"`, which a user would have to choose.

The streams are those of `bomkl bench drift`, `bomkl bench peers` and `bomkl bench unseen`. The default is held against
the better of the two others in hindsight, of this version, or with ``--baseline PYTHON`` of the version that this
interpreter has. A stream is an exception where the default is more than 1 % worse. Whether that is chance, a sign test
of the rows tells: of those that only one of the two gets wrong, of the log loss and of numbers those on which it is
lower.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy.stats import binomtest

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl_lab.benchmarks import drift_streams, peers_streams, unseen_streams
from bomkl_lab.benchmarks.common.baseline import figures
from bomkl_lab.benchmarks.common.pages import show_tables
from bomkl_lab.benchmarks.common.rows import Row, keeping_parser, markdown, read_rows, write_rows
from bomkl_lab.benchmarks.peers_streams import Stream
from bomkl_lab.experiments.datasets import MissingDataError

OTHERS: dict[str, str | None] = {"none": None, "adapt": "adapt"}
WORSE, CHANCE = 1.01, 0.01
STILL = "no drift"  # in the names of streams that stand among those that change


def row_losses(scores: Any, y: Any, classes: int) -> tuple[Any, Any]:
    """Of every row: whether it was wrong, and the log loss. Of numbers the squared error, without the first row's."""
    if not classes:
        squares = (scores - y)[1:] ** 2
        return squares, squares
    if classes == 2:
        return (scores > 0) != (y == 1), np.logaddexp(0, np.where(y == 1, -scores, scores))
    total = np.logaddexp.reduce(scores, axis=1)
    return scores.argmax(axis=1) != y, total - scores[np.arange(len(y)), y]


_OLDER = """
from bomkl import AutoMKLRegressor
from typing import Any
{row_losses}
classes, found = {classes}, {{}}
for name, drift in {others}.items():
    model = (AutoMKLClassifier if classes else AutoMKLRegressor)(drift=drift, random_state=0)
    start = process_time()
    scores = model.score_and_learn(X, y, **({{"classes": range(classes)}} if classes else {{}}))
    seconds = process_time() - start
    found[name] = [seconds, *(each.astype(float).tolist() for each in row_losses(scores, y, classes))]
print(json.dumps(found))
"""


def others(data: Stream, python: Path) -> dict[str, Any]:
    """Return seconds and losses of what the default is held against."""
    script = _OLDER.format(row_losses=inspect.getsource(row_losses), classes=data.classes, others=OTHERS)
    return figures(python, script, data.X, data.y)


def default(data: Stream) -> tuple[float, Any, Any]:
    """Return seconds and losses of the default."""
    made: Any = AutoMKLClassifier if data.classes else AutoMKLRegressor
    start = process_time()
    scores = made(random_state=0).score_and_learn(
        data.X, data.y, **({"classes": range(data.classes)} if data.classes else {})
    )
    return process_time() - start, *row_losses(scores, data.y, data.classes)


def compared(data: Stream, ours: Any, theirs: dict[str, Any]) -> Row:
    """Return the figures of all, and of each measure on how many rows the default is worse and better than the best."""
    row: Row = {"rows": len(data.y), "columns": data.X.shape[1], "classes": data.classes, "in_time": data.in_time}
    for at, measure in enumerate(("error", "log_loss") if data.classes else ("error",), 1):
        each = {name: np.asarray(found[at], dtype=np.float64) for name, found in (("default", ours), *theirs.items())}
        best = min(OTHERS, key=lambda name, each=each: each[name].mean())
        row[measure] = {name: _figure(data, measure, losses) for name, losses in each.items()}
        row[measure] |= {
            "worse": int((each["default"] > each[best]).sum()),
            "better": int((each["default"] < each[best]).sum()),
        }
    return row | {"cpu_seconds": {name: round(found[0], 3) for name, found in (("default", ours), *theirs.items())}}


def _figure(data: Stream, measure: str, losses: Any) -> float:
    if measure == "log_loss":
        return round(float(losses.mean()), 5)
    return round(100 * float(losses.mean() if data.classes else np.sqrt(losses.mean())), 4)


# What the rows say


def ratio(figures: Row) -> float:
    """Figure of the default in the best of the others."""
    return float(max(figures["default"], 1e-9) / max(min(figures[name] for name in OTHERS), 1e-9))


def by_chance(figures: Row) -> float:
    """Probability of such a difference, or a larger one, by chance."""
    rows = figures["worse"] + figures["better"]
    return float(binomtest(figures["worse"], rows).pvalue) if rows else 1.0


def exceptions(rows: list[Row]) -> str:
    """Return a table with a line for each stream on which the default is more than 1 % worse."""
    lines = []
    for row, measure in itertools.product(rows, ("error", "log_loss")):
        if measure in row and ratio(row[measure]) > WORSE:
            of = row[measure]
            digits = 2 if measure == "error" else 4
            p = by_chance(of)
            verdict = "yes" if p > CHANCE else "no" if of["worse"] > of["better"] else "better on more rows"
            said = [f"{of[name]:.{digits}f}" for name in ("default", *OTHERS)]
            counts = f"{of['worse']} / {of['better']}"
            lines.append([row["stream"], measure.replace("_", " "), *said, counts, f"{p:.2g}", verdict])
    head = ["stream on which the default is worse", "by", "default", "`drift=None`", '`drift="adapt"`']
    return markdown([*head, "rows worse / better", "p", "chance"], lines)


def summary(rows: list[Row]) -> str:
    """Return a table of geometric means of the errors, in those of the others, and of the seconds."""
    lines = []
    changing = [row for row in rows if row["in_time"]]
    for name, some in (("streams that change", changing), ("others", [row for row in rows if not row["in_time"]])):
        cells = [
            _mean([row[by]["default"] / max(row[by][other], 1e-9) for row in some if row[by]["default"] > 0])
            for by in ("error", "cpu_seconds")
            for other in OTHERS
        ]
        lines.append([name, str(len(some)), *cells])
    head = ["geometric mean of the default's", "streams", "error in that of `drift=None`", 'of `drift="adapt"`']
    return markdown([*head, "seconds in those of `drift=None`", 'of `drift="adapt"`'], lines)


def _mean(ratios: list[float]) -> str:
    return f"{np.exp(np.mean(np.log(ratios))):.3f}" if ratios else ""


def streams() -> dict[str, Any]:
    """Return functions that read each stream."""

    def changing(name: str) -> Any:
        def read() -> Stream:
            X, y = drift_streams.STREAMS[name][0]()
            return Stream(X, y, int(y.max()) + 1, STILL not in name)

        return read

    known = {name: changing(name) for name in drift_streams.STREAMS}
    for name in peers_streams.DATASETS:
        if name not in ("elec-late", "flights"):  # which are among those that change
            known[f"peers: {name}"] = lambda name=name: peers_streams.stream_of(name, 0)
    for name, read in unseen_streams.STREAMS.items():
        known[f"unseen: {name}"] = lambda read=read: read(0)
    return known


def main() -> None:
    known = streams()
    parser = keeping_parser(__doc__)
    parser.add_argument("--streams", nargs="*", default=list(known), choices=known, metavar="NAME", help="none: show")
    parser.add_argument("--baseline", type=Path, default=Path(sys.executable), metavar="PYTHON")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    have = {row["stream"] for row in rows}
    for name in (name for name in options.streams if name not in have):
        try:
            data = known[name]()
            rows.append({"stream": name} | compared(data, default(data), others(data, options.baseline)))
        except MissingDataError as error:
            print(f"not run: {name}: {error}", file=sys.stderr)
        write_rows(options.rows, rows)
    show_tables(options, [summary(rows), exceptions(rows)])

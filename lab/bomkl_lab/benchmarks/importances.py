"""`bomkl bench importances`: whether columns that matter are told from noise, and at what cost.

For each seed the rows come in another order, and noise is drawn anew. A line tells in how many seeds every informative
column had a larger importance than every column of noise, how many columns of noise were within two deviations of 0,
and how much processor time measuring took, in percent of learning.

* friedman1: 5 informative columns and 10 of noise, 5,000 rows.
* madelon: 2,000 rows of 500 columns. 20 of them are relevant: they are correlated with each other (0.69 and more), the
  480 others with nothing (below 0.1). The 20 have 5 dimensions, so that no model needs all of them. "used" are those
  that the model does use: with their values shuffled in all rows, its scores change more than with any of the noise.
* made madelon: the recipe of madelon with other seeds. 5 columns are informative, 15 are combinations of them.
* churn: 5,000 rows, with a shuffled copy of the minutes by day, a random date and an id. The charges are the minutes
  times a price, and there are messages only with a voice mail plan: copies share what they are worth, so these columns
  are left out. Of the rest, 8 are informative: if one is shuffled, the log loss of boosted trees in tenfold
  cross-validation rises by more than 8 standard errors. Of no other column does it rise by more than one.
* churn with copies: the same with all columns. Of a column and its copy, the larger importance counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_friedman1

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.auto.insight.columns import MeasuredColumns
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.peers_methods import peer
from bomkl_lab.benchmarks.peers_streams import stream
from bomkl_lab.benchmarks.tables import raw

COPIES = {
    "total_day_charge": "total_day_minutes",
    "total_eve_charge": "total_eve_minutes",
    "total_night_charge": "total_night_minutes",
    "total_intl_charge": "total_intl_minutes",
    "number_vmail_messages": "voice_mail_plan",
}
CHURN = [
    "total_day_minutes",
    "international_plan",
    "number_customer_service_calls",
    "total_eve_minutes",
    "total_intl_calls",
    "total_intl_minutes",
    "voice_mail_plan",
    "total_night_minutes",
]
NOISE = ["shuffled", "random_date", "id"]


@dataclass
class Stream:
    """Rows, and what is known of their columns."""

    X: Any
    y: Any
    informative: list[Any]
    noise: list[Any]
    copies: dict[Any, Any]


def friedman1(seed: int) -> Stream:
    X, y = make_friedman1(5000, n_features=15, noise=1.0, random_state=seed)
    return Stream(X, y, list(range(5)), list(range(5, 15)), {})


def madelon(seed: int) -> Stream:
    X, y = stream("madelon", seed)
    alike = np.abs(np.corrcoef(X.T)) - np.eye(X.shape[1])
    relevant = alike.max(axis=0) > 0.5
    return Stream(X, y, np.flatnonzero(relevant).tolist(), np.flatnonzero(~relevant).tolist(), {})


def made_madelon(seed: int) -> Stream:
    X, y = make_classification(
        2000, 500, n_informative=5, n_redundant=15, n_clusters_per_class=16, flip_y=0.01, class_sep=2.0, shift=None,
        scale=None, shuffle=False, random_state=1000 + seed,
    )  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(y))
    return Stream(X[order], y[order], list(range(20)), list(range(20, 500)), {})


def churn(seed: int, copies: bool = False) -> Stream:
    X, y = raw("churn", seed)
    random, n = np.random.default_rng(1000 + seed), len(y)
    days = random.integers(0, 1000, n).astype("timedelta64[D]")
    X = X.assign(
        shuffled=random.permutation(X["total_day_minutes"]),
        random_date=(np.datetime64("2021-01-01") + days).astype(str),
        id=[f"C{number:06d}" for number in random.permutation(n)],
    )
    return Stream(X if copies else X.drop(columns=list(COPIES)), y, CHURN, NOISE, COPIES if copies else {})


STREAMS = {
    "friedman1": friedman1,
    "madelon": madelon,
    "made madelon": made_madelon,
    "churn": churn,
    "churn with copies": lambda seed: churn(seed, copies=True),
}


class Timed:
    """Measures what measuring takes."""

    def __enter__(self) -> Timed:
        self.seconds, self.original = 0.0, MeasuredColumns._measure

        def measure(model: Any, *arguments: Any, **named: Any) -> Any:
            begin = process_time()
            try:
                return self.original(model, *arguments, **named)
            finally:
                self.seconds += process_time() - begin

        MeasuredColumns._measure = measure  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *error: object) -> None:
        MeasuredColumns._measure = self.original  # type: ignore[method-assign]


def used(model: Any, data: Stream) -> list[Any]:
    """Give the informative columns of a matrix that change scores more than any column of noise does."""
    rows = data.X[-64:]
    scores, change = model.decision_function(rows), {}
    for column in (*data.informative, *data.noise):
        changed = rows.copy()
        changed[:, column] = np.roll(changed[:, column], 7)
        change[column] = float(np.mean((model.decision_function(changed) - scores) ** 2))
    least = max(change[column] for column in data.noise)
    return [column for column in data.informative if change[column] > least]


def judged(name: str, seed: int) -> Row:
    """Learn from a stream once, and compare the importances with what is known."""
    data = STREAMS[name](seed)
    kind = AutoMKLRegressor if name == "friedman1" else AutoMKLClassifier
    model = kind(random_state=seed)
    begin = process_time()
    with Timed() as timed:
        model.partial_fit(data.X, data.y)
    total = process_time() - begin
    columns = list(getattr(data.X, "columns", range(data.X.shape[1])))
    importances = dict(zip(columns, model.feature_importances_.tolist(), strict=True))
    deviations = dict(zip(columns, model.feature_importances_std_.tolist(), strict=True))
    for copy, column in data.copies.items():
        importances[column] = max(importances[column], importances[copy])
    most = max(importances[column] for column in data.noise)
    missed = [str(column) for column in data.informative if importances[column] <= most]
    inside = [importances[c] <= 2 * deviations[c] for c in data.noise if not np.isnan(deviations[c])]
    row = {
        "stream": name,
        "seed": seed,
        "above": len(data.informative) - len(missed),
        "of": len(data.informative),
        "missed": missed,
        "noise_inside": sum(inside),
        "noise": len(inside),
        "cost": 100 * timed.seconds / (total - timed.seconds),
    }
    if "madelon" in name:
        relied = used(model, data)
        row |= {"used": len(relied), "used_missed": sum(str(column) in missed for column in relied)}
    return row


def rows(names: list[str], seeds: int) -> Iterator[Row]:
    for name in names:
        found = []
        for seed in range(seeds):
            found.append(judged(name, seed))
            yield found[-1]
        yield {
            "stream": name,
            "seeds": seeds,
            "all above": sum(not row["missed"] for row in found),
            "all used above": sum(not row["used_missed"] for row in found) if "used" in found[0] else None,
            "noise inside": 100 * sum(row["noise_inside"] for row in found) / sum(row["noise"] for row in found),
            "cost": float(np.mean([row["cost"] for row in found])),
        }


def shown(row: Row) -> str:
    if "seed" in row:
        use = f", of {row['used']} used all but {row['used_missed']}" if "used" in row else ""
        return (
            f"  {row['stream']}, seed {row['seed']}: {row['above']} of {row['of']} informative columns above all noise"
            f"{use}; below: {', '.join(row['missed']) or 'none'}; {row['noise_inside']} of {row['noise']} columns of "
            f"noise within two deviations of 0; cost {row['cost']:.1f} %"
        )
    use = f", all that are used in {row['all used above']}" if row["all used above"] is not None else ""
    return (
        f"{row['stream']}: all informative columns above all noise in {row['all above']} of {row['seeds']} seeds{use}; "
        f"{row['noise inside']:.1f} % of noise within two deviations of 0; cost {row['cost']:.1f} % of learning"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--streams", nargs="+", choices=list(STREAMS), default=list(STREAMS), metavar="NAME")
    options.add_argument("--seeds", type=int, default=20)
    given = options.parse_args()
    peer("pandas")
    for name in given.streams:
        data = STREAMS[name](0)
        print(f"{name}: informative are {', '.join(map(str, data.informative))}", end="")
        print(
            f"; noise: {', '.join(map(str, data.noise))}"
            if len(data.noise) < 20
            else f"; noise: {len(data.noise)} others"
        )
    report("importances", rows(given.streams, given.seeds), shown, given.out)

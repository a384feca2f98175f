"""`bomkl bench refit`: batch models that are fitted again after every ten rows of a short stream.

They keep every row and take many passes, which no stream allows, and the setting of each is the best in hindsight: a
yardstick for what can be reached on a stream of a thousand rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.experiments.datasets import load_dataset

EVERY = 10
LEARNERS: dict[str, list[Callable[[], Any]]] = {
    "logistic regression": [lambda C=C: LogisticRegression(C=C) for C in (0.03, 0.1, 0.3, 1.0)],
    "SVM, Gaussian kernel": [lambda C=C: SVC(C=C, gamma=0.01) for C in (1.0, 2.0, 4.0, 8.0)],
    "random forest": [
        lambda leaf=leaf: RandomForestClassifier(100, min_samples_leaf=leaf, random_state=0) for leaf in (1, 3)
    ],
}


def mistakes_percent(make: Callable[[], Any], X: Any, y: Any, seed: int) -> float:
    """Progressive mistakes on one permutation; until two classes are seen, the positive one is predicted."""
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    mistakes = 0
    for start in range(0, len(y), EVERY):
        seen, rows = slice(0, start), slice(start, start + EVERY)
        if len(np.unique(y[seen])) < 2:
            mistakes += int(np.sum(y[rows] != 1))
            continue
        model = make_pipeline(StandardScaler(), make()).fit(X[seen], y[seen])
        mistakes += int(np.sum(model.predict(X[rows]) != y[rows]))
    return 100 * mistakes / len(y)


def measure(dataset: str, seeds: int) -> Iterator[Row]:
    data = load_dataset(dataset)
    with progress_bar(seeds * sum(map(len, LEARNERS.values())), "streams", "stream") as bar:
        for name, settings in LEARNERS.items():
            means = []
            for make in settings:
                rates = []
                for seed in range(seeds):
                    rates.append(mistakes_percent(make, data.X, data.y, seed))
                    bar.update()
                means.append(float(np.mean(rates)))
            yield {"data": dataset, "learner": name, "settings": len(settings), "seeds": seeds, "mistakes": min(means)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--dataset", default="german", help="a short one (default: german)")
    options.add_argument("--seeds", type=int, default=5, help="permutations, from seed 0 (default: 5)")
    given = options.parse_args()
    report(
        "refit",
        measure(given.dataset, given.seeds),
        lambda row: f"{row['learner']:<24}{row['mistakes']:6.2f} %",
        given.out,
    )

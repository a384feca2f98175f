"""`bomkl bench river_stream`: bomkl.river.AutoMKLClassifier compared with River's forest, row by row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.peers_methods import peer


def measure() -> Iterator[Row]:
    from bomkl.river import AutoMKLClassifier

    rows = list(peer("river.datasets").Phishing())
    models: dict[str, Any] = {
        "AutoMKL": AutoMKLClassifier(seed=0),
        "AutoMKL, budget 1000": AutoMKLClassifier(budget=1000, seed=0),
        "ARF, 10 trees": peer("river.forest").ARFClassifier(n_models=10, seed=0),
    }
    for name, model in models.items():
        right = 0
        began = time.process_time()
        for x, y in rows:
            right += model.predict_one(x) == y
            model.learn_one(x, y)
        seconds = time.process_time() - began
        yield {"learner": name, "accuracy": 100 * right / len(rows), "ms": 1000 * seconds / len(rows)}


def main() -> None:
    given = parser(__doc__).parse_args()
    report(
        "river_stream",
        measure(),
        lambda row: f"{row['learner']:<24}{row['accuracy']:6.2f} % right{row['ms']:8.2f} ms CPU a row",
        given.out,
    )

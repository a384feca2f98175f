"""`bomkl bench wide`: very wide rows: AutoMKL compared with scikit-learn's linear models.

The text stream has 30,000 lines of 20 classes (``debian_text.tsv.gz`` in ``BOMKL_DATA`` or ``../shared/data``), hashed
to 2^12 and 2^18 columns. All learners predict blocks of 100 rows, then learn from them: with single rows the peers
would take hours. Each learner runs in a process of its own, so that its peak memory is its own. Last come dense rows of
16,384 columns.
"""

from __future__ import annotations

import gzip
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import PassiveAggressiveClassifier, SGDClassifier

from bomkl import AutoMKLClassifier
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.experiments.datasets import MissingDataError, data_folders

BLOCK = 100
TEXT = "debian_text.tsv.gz"
LEARNERS = ("AutoMKL", "PassiveAggressive C=0.1", "SGD log_loss alpha=1e-6")
MIB = 2**20 if sys.platform == "darwin" else 2**10  # of what getrusage counts in


def text_lines() -> tuple[list[str], list[str]]:
    """Labels and texts."""
    for folder in data_folders():
        if (path := Path(folder) / TEXT).exists():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                pairs = [line.rstrip("\n").split("\t", 1) for line in file]
            return [label for label, _ in pairs], [text for _, text in pairs]
    raise MissingDataError(f"{TEXT} is in none of {', '.join(map(str, data_folders()))}.")


def peak_memory() -> float:
    """Largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB


def mistakes(learner: str, X: Any, y: Any, classes: Any) -> int:
    """Mistakes on rows that are predicted before they are learned."""
    model: Any = {
        "AutoMKL": lambda: AutoMKLClassifier(random_state=0),
        "PassiveAggressive C=0.1": lambda: PassiveAggressiveClassifier(C=0.1, random_state=0),
        "SGD log_loss alpha=1e-6": lambda: SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0),
    }[learner]()
    wrong = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the name of PassiveAggressiveClassifier is on its way out
        for begin in range(0, len(y), BLOCK):
            rows = slice(begin, begin + BLOCK)
            predicted = model.predict(X[rows]) if begin else np.repeat(classes[:1], len(y[rows]))
            wrong += int(np.sum(predicted != y[rows]))
            model.partial_fit(X[rows], y[rows], classes=classes)
    return wrong


def text_row(learner: str, bits: int, lines: int | None) -> Row:
    """Run one learner on the text stream."""
    labels, texts = text_lines()
    X = HashingVectorizer(n_features=2**bits).transform(texts[:lines])
    y = np.array(labels[:lines])
    began = time.perf_counter()
    wrong = mistakes(learner, X, y, np.unique(labels))
    return {
        "data": f"text, 2^{bits} columns",
        "learner": learner,
        "mistakes": 100 * wrong / len(y),
        "seconds": time.perf_counter() - began,
        "MiB": peak_memory(),
    }


def dense_row(columns: int = 16_384, rows: int = 2000) -> Row:
    """Run AutoMKL on dense rows of which a tenth of the columns tell the label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    y = X[:, : columns // 10].sum(axis=1) > 0
    began = time.perf_counter()
    wrong = mistakes("AutoMKL", X, y, np.array([False, True]))
    seconds = time.perf_counter() - began
    name = f"dense, {columns} columns, {rows} rows"
    return {
        "data": name,
        "learner": "AutoMKL",
        "mistakes": 100 * wrong / rows,
        "seconds": seconds,
        "MiB": peak_memory(),
    }


def measure(lines: int | None) -> Iterator[Row]:
    runs: list[tuple[Any, ...]] = [(text_row, learner, bits, lines) for bits in (12, 18) for learner in LEARNERS]
    runs.append((dense_row,))
    with progress_bar(len(runs), "learners", "learner") as bar:
        for function, *arguments in runs:
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                yield process.submit(function, *arguments).result()
            bar.update()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--lines", type=int, default=None, help="of the text stream (default: all)")
    given = options.parse_args()
    report(
        "wide",
        measure(given.lines),
        lambda row: (
            f"{row['data']:<34}{row['learner']:<26}{row['mistakes']:6.2f} %{row['seconds']:8.1f} s{row['MiB']:7.0f} MiB"
        ),
        given.out,
    )

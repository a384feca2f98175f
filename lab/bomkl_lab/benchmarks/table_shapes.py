"""Shapes that tables have: free text, names with typos, identifiers, many classes, embeddings; and judges for each.

Every row is predicted before its label is used; errors are mistakes in percent, of all rows. Batch methods are fitted
anew to all rows so far ten times. skrub's TableVectorizer takes part where it is installed.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bomkl import AutoMKLClassifier
from bomkl_lab.benchmarks.peers_methods import peer

TEXT_ROWS = 10_000
REFITS = 10


@cache
def _descriptions(path: Path) -> tuple[list[str], list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file][:TEXT_ROWS]
    return [label for label, _ in rows], [text for _, text in rows]


def text(folder: Path, seed: int) -> tuple[Any, Any]:
    """Package descriptions of 20 classes, and a column of noise."""
    labels, texts = _descriptions(folder / "debian_text.tsv.gz")
    noise = np.random.default_rng(seed).normal(size=len(texts))
    return peer("pandas").DataFrame({"text": texts, "noise": noise}), np.array(labels)


def names(wrong: float) -> Callable[[Path, int], tuple[Any, Any]]:
    """60 made-up names of towns with an effect each; a share of the rows has one or two typos."""

    def made(folder: Path, seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        n, parts = (
            10_000,
            [
                "ba",
                "ren",
                "dor",
                "mil",
                "ta",
                "lin",
                "gos",
                "ha",
                "vel",
                "kir",
                "son",
                "ur",
                "pe",
                "mon",
                "tal",
                "bri",
                "ford",
                "ston",
                "wick",
                "ham",
                "ley",
            ],
        )
        towns: list[str] = []
        while len(towns) < 60:
            name = "".join(rng.choice(parts, size=rng.integers(2, 5))).capitalize()
            towns += [] if name in towns else [name]
        effect, x, town = 9 * rng.normal(size=60), rng.normal(size=(n, 2)), rng.integers(60, size=n)
        y = rng.random(n) < 1 / (1 + np.exp(-(effect[town] + x @ [1.4, -1.0])))

        def typed(name: str) -> str:
            letters = list(name)
            for _ in range(rng.integers(1, 3) if rng.random() < wrong else 0):
                at, new = int(rng.integers(len(letters))), "abcdefghijklmnopqrstuvwxyz"[rng.integers(26)]
                swapped = letters[at : at + 2][::-1]
                letters[at : at + 1] = [[new], [] if len(letters) > 2 else [new], [letters[at], new], swapped][
                    rng.integers(4)
                ]
            return "".join(letters)

        towns_typed = [typed(towns[each]) for each in town]
        return peer("pandas").DataFrame({"town": towns_typed, "a": x[:, 0], "b": x[:, 1]}), y.astype(int)

    return made


def users(folder: Path, seed: int) -> tuple[Any, Any]:
    """20,000 users with an effect each, three rows of each on average."""
    rng = np.random.default_rng(seed)
    n = 60_000
    effect, x, user = 4 * rng.normal(size=20_000), rng.normal(size=(n, 3)), rng.integers(20_000, size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-(effect[user] + x @ [1, -0.5, 0])))
    columns = {"user": [f"u{each:05d}" for each in user], "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}
    return peer("pandas").DataFrame(columns), y.astype(int)


def clouds(classes: int, n: int) -> Callable[[Path, int], tuple[Any, Any]]:
    """Gaussian clouds in 20 columns."""

    def made(folder: Path, seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        centres, y = 1.1 * rng.normal(size=(classes, 20)), rng.integers(classes, size=n)
        return centres[y] + rng.normal(size=(n, 20)), y

    return made


def embeddings(width: int) -> Callable[[Path, int], tuple[Any, Any]]:
    """Package descriptions as vectors of latent semantic analysis, fitted to all of them."""

    def made(folder: Path, seed: int) -> tuple[Any, Any]:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        labels, texts = _descriptions(folder / "debian_text.tsv.gz")
        words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
        return TruncatedSVD(width, random_state=seed).fit_transform(words), np.array(labels)

    return made


SHAPES: dict[str, Callable[[Path, int], tuple[Any, Any]]] = {
    "text": text,
    "typos": names(0.45),
    "no typos": names(0.0),
    "users": users,
    "20 clouds": clouds(20, 4000),
    "100 clouds": clouds(100, 4000),
    "500 clouds": clouds(500, 8000),
    "500 LSA columns": embeddings(500),
    "768 LSA columns": embeddings(768),
    "1536 LSA columns": embeddings(1536),
}


def auto(X: Any, y: Any, seed: int) -> float:
    model = AutoMKLClassifier(random_state=seed)
    model.partial_fit(X, y)
    return 100 * model.mistakes_ / len(y)


def nearest_class_mean(X: Any, y: Any, seed: int) -> float:
    if not isinstance(X, np.ndarray):
        return float("nan")
    labels, codes = np.unique(y, return_inverse=True)
    sums, counts, wrong = np.zeros((len(labels), X.shape[1])), np.zeros(len(labels)), 0
    for x, code in zip(X, codes, strict=True):
        distance = ((sums / np.maximum(counts, 1)[:, None] - x) ** 2).sum(axis=1)
        wrong += int(counts[code] == 0 or np.where(counts > 0, distance, np.inf).argmin() != code)
        sums[code] += x
        counts[code] += 1
    return 100 * wrong / len(y)


def vowpal_wabbit(X: Any, y: Any, seed: int) -> float:
    """Logistic regression with step size 2; words of texts are features, too."""
    labels, codes = np.unique(y, return_inverse=True)
    several = f"--oaa {len(labels)}" if len(labels) > 2 else ""
    workspace = peer("vowpalwabbit").Workspace(f"--quiet --loss_function logistic -l 2 -b 22 {several}")
    rows = X.to_dict("records") if hasattr(X, "to_dict") else (dict(enumerate(row)) for row in X.tolist())
    wrong = 0
    for row, code in zip(rows, codes.tolist(), strict=True):
        cells = []
        for name, value in row.items():
            words = value.replace(":", "-").replace("|", "-").split() if isinstance(value, str) else []
            cells += [f"{name}={word}" for word in words] if words else [f"{name}:{value}"]
        target = code + 1 if several else 2 * code - 1
        example = workspace.parse(f"{target} | {' '.join(cells)}")
        found = workspace.predict(example)
        wrong += found != target if several else (found > 0) != (code == 1)
        workspace.learn(example)
        workspace.finish_example(example)
    workspace.finish()
    return 100 * float(wrong) / len(y)


def refitted_skrub(trees: bool) -> Callable[[Any, Any, int], float]:
    """Skrub's TableVectorizer before a linear model or boosted trees, fitted anew to all rows so far."""

    def run(X: Any, y: Any, seed: int) -> float:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        try:
            from skrub import TableVectorizer
        except ImportError:
            return float("nan")
        table = X if hasattr(X, "to_dict") else peer("pandas").DataFrame(X).add_prefix("c")
        step, wrong = len(y) // REFITS, 0
        for begin in range(0, len(y), step):
            rest = slice(begin, begin + step)
            if begin == 0:
                wrong += int((y[rest] != y[0]).sum())
                continue
            last = (
                [HistGradientBoostingClassifier(random_state=seed)]
                if trees
                else [StandardScaler(), LogisticRegression()]
            )
            model = make_pipeline(TableVectorizer(), *last).fit(table.iloc[:begin], y[:begin])
            wrong += int((model.predict(table.iloc[rest]) != y[rest]).sum())
        return 100 * wrong / len(y)

    return run


JUDGES: dict[str, Callable[[Any, Any, int], float]] = {
    "AutoMKL": auto,
    "nearest class mean": nearest_class_mean,
    "Vowpal Wabbit -l 2": vowpal_wabbit,
    "skrub, linear": refitted_skrub(False),
    "skrub, boosted trees": refitted_skrub(True),
}


def shape_errors(folder: Path, shapes: list[str], seed: int) -> list[list[str]]:
    """Give a line for each shape: its name, and the error of each judge; "-" where it does not take part."""
    lines = []
    for name in shapes:
        X, y = SHAPES[name](folder, seed)
        found = [judge(X, y, seed) for judge in JUDGES.values()]
        lines.append([name, *("-" if each != each else f"{each:.1f}" for each in found)])
        print(" ".join(lines[-1]), flush=True)
    return lines

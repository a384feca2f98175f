"""What `bomkl bench long` compares: generators of predictions for rows, each made before its label is used.

They yield arrays, of the probability of class 1 or of numbers, for some rows at a time; an empty one stands for work
that the next row has to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl_lab.benchmarks.long_streams import LongStream
from bomkl_lab.benchmarks.peers_methods import NotForThisError, moa, peer
from bomkl_lab.benchmarks.peers_streams import Stream

CALL = 5000  # rows a call
FIRST_FIT, LARGE = 1000, 50_000  # rows of the first fit, and from which fits are large
Method = Callable[[LongStream], Iterator[Any]]


def probability(scores: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(np.ravel(scores), -30, 30)))


def auto(call: int = CALL, **settings: Any) -> Method:
    def run(data: LongStream) -> Iterator[Any]:
        model: Any = (AutoMKLRegressor if data.numbers else AutoMKLClassifier)(random_state=0, **settings)
        more = {} if data.numbers else {"classes": [0, 1]}
        for s in range(0, len(data.y), call):
            scores = model.score_and_learn(data.rows(s, s + call), data.y[s : s + call], **more)
            yield np.ravel(scores) if data.numbers else probability(scores)

    return run


def with_categories(X: Any) -> Any:
    """Give the texts of a table pandas' type for categories."""
    if not isinstance(X, pd.DataFrame):
        return X
    return X.astype({name: "category" for name in X.columns if X[name].dtype.kind not in "iuf"})


def lightgbm_refitted(data: LongStream) -> Iterator[Any]:
    """Boosted trees of all rows so far, fitted anew whenever they have grown by half."""
    lightgbm = peer("lightgbm")
    data = LongStream(with_categories(data.X), data.y, data.numbers)
    objective, nothing = ("regression", 0.0) if data.numbers else ("binary", 0.5)
    end = min(FIRST_FIT, len(data.y))
    yield np.full(end, nothing)
    while end < len(data.y):
        settings = {"objective": objective, "num_leaves": 127 if end >= LARGE else 31, "learning_rate": 0.1}
        rows = lightgbm.Dataset(data.rows(0, end), data.y[:end])
        rounds = 300 if end >= LARGE else 100
        model = lightgbm.train({**settings, "verbose": -1, "num_threads": 1}, rows, rounds)
        yield np.empty(0)
        begin, end = end, min(3 * end // 2, len(data.y))
        yield model.predict(data.rows(begin, end), num_threads=1)


def vowpal_wabbit(options: str) -> Method:
    def run(data: LongStream) -> Iterator[Any]:
        loss = "" if data.numbers else "--loss_function logistic"
        learner = peer("vowpalwabbit").Workspace(f"{loss} --quiet -b 22 {options}")
        table = isinstance(data.X, pd.DataFrame)
        names = list(data.X.columns) if table else list(range(data.X.shape[1]))
        mean, deviation = (0.0, 1.0) if table else (data.X.mean(axis=0), data.X.std(axis=0))
        for s in range(0, len(data.y), CALL):
            rows, labels = data.rows(s, s + CALL), data.y[s : s + CALL]
            values = rows.to_numpy() if table else (rows - mean) / deviation
            said = np.empty(len(labels))
            for i, (row, y) in enumerate(zip(values, labels, strict=True)):
                pairs = zip(names, row, strict=True)
                cells = " ".join(f"{k}={v}" if isinstance(v, str) else f"{k}:{v:.6g}" for k, v in pairs)
                example = learner.parse(f"{y if data.numbers else 2 * y - 1} | {cells}")
                learner.learn(example)  # the prediction in the example is the one before the update
                said[i] = example.get_simplelabel_prediction()
                learner.finish_example(example)
            yield said if data.numbers else probability(said)

    return run


def moa_boosting(data: LongStream) -> Iterator[Any]:
    """MOA's streaming gradient boosted trees, by CapyMOA; texts are numbers to them."""
    if data.numbers:
        raise NotForThisError("it is run for classes only")
    X = with_categories(data.X)
    if isinstance(X, pd.DataFrame):
        X = X.apply(lambda column: column.cat.codes if column.dtype == "category" else column)
    said = moa("StreamingGradientBoostedTrees")(Stream(np.asarray(X, dtype=np.float64), data.y, 2, True), 1)
    yield said[:, 1]


METHODS: dict[str, Method] = {
    "AutoMKL": auto(),
    "AutoMKL, single rows": auto(call=1),
    "AutoMKL, rounds": auto(update="rounds"),
    "LightGBM refitted": lightgbm_refitted,
    "VW -q :: --nn 10": vowpal_wabbit("-q :: --nn 10"),
    "MOA SGBT": moa_boosting,
}

"""`bomkl bench speed_peers`: BOMKC(SPA) and AutoMKL compared with other libraries: time and error.

Online methods are judged by what they said of each row before they saw its label. LIBSVM (scikit-learn's SVC) is
no online method: it is fitted to the first rows and judged by the next, as a reference of what a batch costs and gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bomkl import paper
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.measure import one_thread, timed
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.peers_methods import METHODS
from bomkl_lab.benchmarks.peers_streams import Stream, stream
from bomkl_lab.experiments.datasets import MissingDataError

DATASETS = ("magic04", "a9a", "ijcnn1")
PEERS = ("AutoMKL", "Nystroem+SGD", "VW logistic", "River LogReg")
SVC_ROWS = 10_000  # fitted; as many, or all that are left, are judged


def spa(X: Any, y: Any, n_jobs: int) -> Any:
    model = paper.algorithm("BOMKC(SPA)").set_params(random_state=0, n_jobs=n_jobs)
    return model.score_and_learn(X.astype(np.float32), y, classes=[0, 1])


def peer_scores(name: str) -> Callable[[Any, Any, int], Any]:
    return lambda X, y, n_jobs: METHODS[name](Stream(X, y, 2, False), n_jobs)[:, 1] - 0.5


ONLINE = {"BOMKC(SPA)": spa} | {name: peer_scores(name) for name in PEERS}


def run_online(method: str, X: Any, y: Any) -> Row:
    """Learn a stream; a peer that is not installed gives a row that says so."""
    try:
        seconds, scores = timed(lambda: ONLINE[method](X, y, 1))
    except SystemExit as error:
        return {"not_run": str(error)}
    wrong = (scores > 0) != y
    return {"rows": len(y), "seconds": seconds, "rows_per_second": len(y) / seconds, "mistakes": wrong.mean()}


def run_svc(X: Any, y: Any, most_rows: int = SVC_ROWS) -> Row:
    """Fit at most half of the rows, predict as many of the others."""
    n = min(most_rows, len(y) // 2)
    model = make_pipeline(StandardScaler(), SVC(cache_size=500))
    fitting, _ = timed(lambda: model.fit(X[:n], y[:n]))
    predicting, predicted = timed(lambda: model.predict(X[n : 2 * n]))
    return {
        "rows": n,
        "seconds": fitting,
        "rows_per_second": n / fitting,
        "predict_seconds": predicting,
        "mistakes": (predicted != y[n : 2 * n]).mean(),
    }


def measure(datasets: Sequence[str] = DATASETS, rows: int | None = None) -> Iterator[Row]:
    """All rows, data set by data set."""
    with progress_bar(len(datasets) * (len(ONLINE) + 1), "methods", "method") as bar:
        for dataset in datasets:
            try:
                X, y = stream(dataset, seed=0)
            except MissingDataError as error:
                yield {"dataset": dataset, "method": "all", "not_run": str(error)}
                continue
            X, y = X[:rows], y[:rows]
            for method in (*ONLINE, "SVC"):
                measured = run_svc(X, y) if method == "SVC" else run_online(method, X, y)
                yield {"dataset": dataset, "method": method, "of_rows": len(y), **measured}
                bar.update()


def show(row: Row) -> str:
    start = f"{row['dataset']:12} {row['method']:14}"
    if "not_run" in row:
        return f"{start} not run: {row['not_run']}"
    batch = f" fitting {row['rows']:,} rows" if "predict_seconds" in row else ""
    speed = f"{row['rows_per_second']:>10,.0f} rows/s"
    return f"{start} {100 * row['mistakes']:6.2f} % mistakes {row['seconds']:8.2f} s {speed}{batch}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--datasets", nargs="+", default=DATASETS)
    options.add_argument("--rows", type=int, help="learn at most so many rows of each stream")
    chosen = options.parse_args()
    one_thread()
    report("speed_peers", measure(chosen.datasets, chosen.rows), show, chosen.out)

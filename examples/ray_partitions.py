"""AutoMKL on Ray: workers read Parquet files and return sums; the model stays here.

Needs ray and pyarrow. Files, not a data frame of the engine, are the partitions: they can be read again by any worker.
"""

import logging
import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

from bomkl import AutoMKLClassifier
from bomkl.partitions import Job, drawn_rows, piece_sums, summary


def read(path):
    """Rows and labels of one file."""
    table = pq.read_table(path)
    names = [name for name in table.column_names if name != "y"]
    return np.column_stack([table[name].to_numpy() for name in names]), table["y"].to_numpy()


@ray.remote
def count(path):
    """Tell what a partition holds."""
    return summary(*read(path))


@ray.remote
def take(path, piece):
    """Rows of the head."""
    return drawn_rows(piece, *read(path))


@ray.remote
def add_up(path, piece, static, means):
    """Add up rows of a round."""
    return piece_sums(static, means, piece, *read(path))


def learn(paths):
    """Learn from files."""
    job = Job(AutoMKLClassifier(budget=50, update="rounds", random_state=0), ray.get([count.remote(p) for p in paths]))
    job.learn_head(ray.get([take.remote(paths[piece.partition], piece) for piece in job.head_pieces()]))
    static = ray.put(job.static())
    while pieces := job.next_round():
        means = ray.put(job.means())
        waiting = [add_up.remote(paths[piece.partition], piece, static, means) for piece in pieces]
        while waiting:  # sums may come in any order
            ready, waiting = ray.wait(waiting)
            job.add(ray.get(ready[0]))
        job.end_round()
    return job.model


with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(0)
    paths = []
    for number in range(4):
        X = rng.normal(size=(1000, 2))
        paths.append(os.path.join(folder, f"{number}.parquet"))
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1] > 0}), paths[-1])
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    model = learn(paths)
    ray.shutdown()
    X = rng.normal(size=(1000, 2))
    print(f"{model.n_seen_} rows, accuracy {model.score(X, X[:, 0] * X[:, 1] > 0):.3f}")

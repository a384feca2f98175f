"""AutoMKL on Spark: tasks read Parquet files and return sums; the model stays with the driver.

Needs pyspark, Java and pyarrow. Files, not a data frame of the engine, are the partitions.
"""

import os
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bomkl import AutoMKLClassifier
from bomkl.partitions import Job, drawn_rows, piece_sums, summary


def read(path):
    """Rows and labels of one file."""
    table = pq.read_table(path)
    names = [name for name in table.column_names if name != "y"]
    return np.column_stack([table[name].to_numpy() for name in names]), table["y"].to_numpy()


def learn(context, paths):
    """Learn from files."""

    def each(function, items):
        return context.parallelize(items, max(len(items), 1)).map(function)

    job = Job(
        AutoMKLClassifier(budget=50, update="rounds", random_state=0),
        each(lambda path: summary(*read(path)), paths).collect(),
    )
    job.learn_head(each(lambda piece: drawn_rows(piece, *read(paths[piece.partition])), job.head_pieces()).collect())
    static = context.broadcast(job.static())
    while pieces := job.next_round():
        means = job.means()
        sums = each(lambda piece: piece_sums(static.value, means, piece, *read(paths[piece.partition])), pieces)  # noqa: B023
        for part in sums.toLocalIterator():
            job.add(part)
        job.end_round()
    return job.model


with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(0)
    paths = []
    for number in range(4):
        X = rng.normal(size=(1000, 2))
        paths.append(os.path.join(folder, f"{number}.parquet"))
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1] > 0}), paths[-1])
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers use the same packages
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    model = learn(spark.sparkContext, paths)
    spark.stop()
    X = rng.normal(size=(1000, 2))
    print(f"{model.n_seen_} rows, accuracy {model.score(X, X[:, 0] * X[:, 1] > 0):.3f}")

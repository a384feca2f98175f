"""Learn from a table in many partitions, with any engine that can call a function on each of them.

A `Job` holds the model and plans the work. Workers call `summary`, `drawn_rows` and `piece_sums`, which need the rows
of one partition only. The model first learns from rows that are drawn from many partitions. Each round then takes rows
from partitions in a random order, so that sorted tables do no harm. The sums are whole numbers, so neither the number
of workers nor the order in which sums arrive changes a bit.

>>> import numpy as np
>>> from bomkl import AutoMKLClassifier
>>> from bomkl.partitions import Job, drawn_rows, piece_sums, summary
>>> rng = np.random.default_rng(0)
>>> tables = [(X := rng.normal(size=(500, 2)), X[:, 0] * X[:, 1] > 0) for _ in range(4)]
>>> job = Job(AutoMKLClassifier(budget=50, update="rounds", random_state=0), [summary(*table) for table in tables])
>>> job.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
>>> while pieces := job.next_round():
...     static, means = job.static(), job.means()
...     for piece in pieces:
...         job.add(piece_sums(static, means, piece, *tables[piece.partition]))
...     job.end_round()
>>> job.model.n_seen_, job.model.score(*tables[0]) > 0.9
(2000, True)
"""

from bomkl.partitions.job import GROUP, Job
from bomkl.partitions.pieces import Gains, Means, PartitionError, Piece, Static, Summary, named, total
from bomkl.partitions.rows import Rows, drawn_rows, features, piece_sums, summary
from bomkl.partitions.runner import Call, Runner, learn_partitions

__all__ = [
    "GROUP",
    "Call",
    "Gains",
    "Job",
    "Means",
    "PartitionError",
    "Piece",
    "Rows",
    "Runner",
    "Static",
    "Summary",
    "drawn_rows",
    "features",
    "learn_partitions",
    "named",
    "piece_sums",
    "summary",
    "total",
]

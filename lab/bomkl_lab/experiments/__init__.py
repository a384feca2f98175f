"""The paper's experiments: data sets, cells, a resumable runner, tables, figures and the report.

A *cell* is one data set, one algorithm with its parameters, and one permutation seed. The runner turns cells into rows
of one JSON-lines file; tables, figures and the report only read those rows.

Examples
--------
>>> from bomkl_lab.experiments import Cell
>>> Cell("german", "BOMKC(SPA)", seed=0).key()
'{"algorithm":"BOMKC(SPA)","budget":null,"dataset":"german","dtype":"float32","parameters":{},"seed":0}'
"""

from bomkl_lab.experiments.algorithms import register_algorithm
from bomkl_lab.experiments.datasets import Dataset, DatasetSpec, load_dataset, register_dataset
from bomkl_lab.experiments.pipeline import Request, reproduce
from bomkl_lab.experiments.protocol import Cell

__all__ = [
    "Cell",
    "Dataset",
    "DatasetSpec",
    "Request",
    "load_dataset",
    "register_algorithm",
    "register_dataset",
    "reproduce",
]
